// A shared page (workbench/widgets/sharing): its data are in it, and nothing else is asked for.
import player from "./player.js";
import { Plots } from "./plots.js";

const textOf = (/** @type {string} */ id) => document.getElementById(id)?.textContent ?? "";

/** @param {string} text @returns {ArrayBuffer} */
const decoded = text => Uint8Array.from(atob(text), letter => letter.charCodeAt(0)).buffer;

/** The player takes this for its kernel, which has one episode. @param {string} label @param {any} message @param {ArrayBuffer[]} buffers */
function kernelOf(label, message, buffers) {
  /** @type {(content: any, buffers: ArrayBuffer[]) => void} */
  let receive = () => {};
  const traits = /** @type {Record<string, any>} */ ({ mode: "shared", label });
  return {
    get: (/** @type {string} */ name) => traits[name], set: () => {}, save_changes: () => {}, off: () => {},
    on: (/** @type {string} */ _, /** @type {typeof receive} */ call) => (receive = call),
    send: (/** @type {any} */ { type, view }) => {
      if (type === "hello") queueMicrotask(() => receive({ type: "episode", view, index: 0, count: 1, ...message }, buffers));
    },
  };
}

const charts = document.getElementById("charts"), place = document.getElementById("player");
if (charts) new Plots(charts, JSON.parse(textOf("charts-data")));
if (place && document.getElementById("film")) {
  const { buffers, ...message } = JSON.parse(textOf("film"));
  const parts = Array.from({ length: buffers }, (_, at) => decoded(textOf(`film-${at}`)));
  player.render({ model: kernelOf(message.header.title, message, parts), el: place });
}
