// Vega, Vega-Lite and Vega-Embed: a plain module, which library.js loads.
export { default as embed } from "vega-embed";
export { changeset } from "vega";
