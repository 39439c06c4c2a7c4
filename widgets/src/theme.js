// The look of the page that a widget stands in: JupyterLab's theme, or whatever the notebook has instead.

/** @typedef {{text: string, background: string, font: string, key: string}} Look */

/** What surrounds `el` looks like: its own computed colours, which its style sheet takes from the theme's variables.
 * @param {Element} el @returns {Look} */
export function look(el) {
  const style = getComputedStyle(el);
  const [text, background, font] = [style.color, style.backgroundColor, style.fontFamily];
  return { text, background, font, key: [text, background, font].join("|") };
}

/** Vega's config in that look, readable from the back of a classroom.
 * @param {Look} here */
export function vegaConfig({ text, background, font }) {
  const axis = {
    gridColor: text, gridOpacity: 0.14, domainColor: text, domainOpacity: 0.45, tickColor: text, tickOpacity: 0.45,
    labelColor: text, titleColor: text, titleFontWeight: "normal", labelFontSize: 13, titleFontSize: 13, labelFont: font,
    titleFont: font,
  };
  const legend = {
    labelColor: text, titleColor: text, labelFontSize: 13, labelFont: font, columnPadding: 10, labelLimit: 200,
    layout: { top: { direction: "vertical", anchor: "start" } },
  };
  return {
    background, font, axis, axisX: { titleAnchor: "end" }, legend, view: { stroke: null }, text: { color: text, fontSize: 13, font },
    title: { color: text, fontSize: 15, font, anchor: "start" },
  };
}

/** Calls `changed` when the page's theme may have changed; returns what ends that.
 * @param {() => void} changed @returns {() => void} */
export function watchTheme(changed) {
  /** @type {ReturnType<typeof setTimeout>[]} */
  let timers = [];
  const observer = new MutationObserver(() => {
    timers.forEach(clearTimeout);
    timers = [0, 400].map((after) => setTimeout(changed, after)); // the theme's style sheet may come after its name
  });
  const attributeFilter = ["data-jp-theme-name", "data-jp-theme-light", "class", "data-vscode-theme-kind", "theme"];
  observer.observe(document.body, { attributes: true, attributeFilter });
  observer.observe(document.documentElement, { attributes: true, attributeFilter });
  return () => {
    observer.disconnect();
    timers.forEach(clearTimeout);
  };
}
