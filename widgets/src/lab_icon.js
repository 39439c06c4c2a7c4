// The icon of the sidebar: a learning curve. Its class lets JupyterLab's themes colour it.
export const ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
<g class="jp-icon3" fill="none" stroke="#616161" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">
<path class="wb-stroke" d="M4 3v17h17"/><path class="wb-stroke" d="M7 17c3 0 3-4 5-7s4-4 9-4"/></g></svg>`;
