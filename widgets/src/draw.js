// Draws bars and strip charts on canvases, in the colours of the page.
import { number } from "./numbers.js";
import { bars, columnsOf, extent, linear, pixelOf, shown } from "./scales.js";

/** @typedef {import("./track.js").Track} Track */
/** @typedef {{text: string, font: string, data: string, mark: string, faint: string}} Ink */
/** @typedef {{name: string, title: string, stems?: boolean}} Strip */

const ROW = 24, LEAST_ROW = 16, LABEL = 92, VALUE = 76, STRIP = 46, TITLE = 86;
const ENTRIES = 32; // of a vector, shown one below the other

/** @type {Strip[]} */
export const STRIPS = [
  { name: "value", title: "value" }, { name: "reward", title: "reward", stems: true },
  { name: "episode_return", title: "return" }, { name: "state_norm", title: "state norm" },
];

/**
 * Colours for canvases by what surrounds them. Data are blue and marks orange, of Okabe & Ito, darker on light ground.
 * @param {import("./theme.js").Look} look
 * @returns {Ink}
 */
export function ink({ text, font }) {
  const [red, green, blue] = (text.match(/[\d.]+/g) ?? ["0", "0", "0"]).map(Number);
  const dark = red + green + blue > 384; // light text
  const faint = dark ? "rgba(255,255,255,.28)" : "rgba(0,0,0,.22)";
  return { text, font, faint, data: dark ? "#56b4e9" : "#0072b2", mark: dark ? "#e69f00" : "#d55e00" };
}

/**
 * The canvas's context, in CSS pixels, cleared.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
function cleared(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * `text` cut to `width`.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} width
 */
function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  while (text && context.measureText(`${text}…`).width > width) text = text.slice(0, -1);
  return `${text}…`;
}

/**
 * One horizontal bar per action; the chosen one has an outline and a triangle before its name.
 * @param {HTMLCanvasElement} canvas
 * @param {Ink} colours
 * @param {object} what
 * @param {ArrayLike<number>} what.scores
 * @param {number} what.chosen
 * @param {string[]} what.names
 * @param {string} what.kind
 * @param {[number, number]} what.domain
 * @param {number} width
 * @param {number} most  pixels of height
 */
export function drawScores(canvas, colours, { scores, chosen, names, kind, domain }, width, most) {
  const actions = shown(scores, chosen, Math.floor(most / LEAST_ROW));
  const row = Math.max(LEAST_ROW, Math.min(ROW, most / actions.length));
  const context = cleared(canvas, width, Math.round(row * actions.length) + 2);
  const room = Math.max(20, width - LABEL - VALUE), places = bars(scores, domain);
  actions.forEach((action, at) => {
    const score = scores[action];
    const text = !Number.isFinite(score) ? "" : kind === "probability" ? `${(100 * score).toFixed(score < 0.0995 ? 1 : 0)} %` : number(score);
    bar(context, colours, { at, row, room, name: names[action] ?? String(action), text, place: places[action], marked: action === chosen });
  });
  if (kind !== "probability") zeroLine(context, colours, domain, room, row * actions.length);
}

/**
 * The entries of an observation that is a vector, each within its own range.
 * @param {HTMLCanvasElement} canvas
 * @param {Ink} colours
 * @param {ArrayLike<number>} values
 * @param {[number, number][]} domains
 * @param {ArrayLike<number> | null} counts  saliency of each entry, 0…255
 * @param {number} width
 */
export function drawVector(canvas, colours, values, domains, counts, width) {
  const entries = Math.min(values.length, ENTRIES), row = entries > 12 ? LEAST_ROW : ROW;
  const context = cleared(canvas, width, row * entries + 2);
  const room = Math.max(20, width - LABEL - VALUE);
  for (let at = 0; at < entries; at++) {
    const [place] = bars([values[at]], domains[at]);
    bar(context, colours, { at, row, room, name: `x[${at}]`, text: number(values[at]), place, marked: false });
    if (counts) {
      context.fillStyle = `rgba(230,60,200,${counts[at] / 255})`;
      context.fillRect(0, at * row + 2, 8, row - 4);
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {{at: number, row: number, room: number, name: string, text: string, place: {from: number, to: number}, marked: boolean}} one
 */
function bar(context, colours, { at, row, room, name, text, place, marked }) {
  const top = at * row + 2, height = row - 4, middle = top + height / 2 + 1;
  context.font = `${marked ? "bold " : ""}${row < 20 ? 12 : 13}px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.fillText(clipped(context, name, LABEL - 22), 16, middle);
  context.textAlign = "right";
  context.fillText(text, LABEL + room + VALUE - 2, middle);
  context.textAlign = "left";
  context.fillStyle = colours.data;
  context.fillRect(LABEL + place.from * room, top, Math.max(1, (place.to - place.from) * room), height);
  if (!marked) return;
  context.strokeStyle = context.fillStyle = colours.mark;
  context.lineWidth = 2;
  context.strokeRect(LABEL - 1, top, room + 2, height);
  context.beginPath();
  context.moveTo(3, middle - 6);
  context.lineTo(12, middle - 1);
  context.lineTo(3, middle + 4);
  context.fill();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {[number, number]} domain
 * @param {number} room
 * @param {number} height
 */
function zeroLine(context, colours, domain, room, height) {
  if (domain[0] > 0 || domain[1] < 0) return;
  context.fillStyle = colours.faint;
  context.fillRect(LABEL + linear(domain, 0, room)(0), 0, 1, height);
}

/**
 * The strip charts without a cursor, on a canvas of their own that is drawn over again only when the data change.
 * @param {HTMLCanvasElement} canvas
 * @param {Ink} colours
 * @param {Track} track
 * @param {Strip[]} strips
 * @param {number} width
 * @param {number} length  of the time axis, in steps
 */
export function drawStrips(canvas, colours, track, strips, width, length) {
  const context = cleared(canvas, width, strips.length * STRIP + 2);
  const room = plotWidth(width);
  strips.forEach(({ name, title, stems }, at) => {
    const values = track.columns[name], top = at * STRIP + 4, bottom = top + STRIP - 8;
    const domain = extent(values, stems), place = linear(domain, bottom - 1, top + 1);
    context.fillStyle = colours.faint;
    context.fillRect(TITLE, bottom, room, 1);
    context.fillStyle = colours.text;
    context.font = `12px ${colours.font}`;
    context.textBaseline = "top";
    context.fillText(title, 0, top);
    line(context, colours.data, columnsOf(values, room, length), stems ? place(0) : null, place);
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} colour
 * @param {([number, number] | null)[]} columns
 * @param {number | null} base  where stems begin; null: a line
 * @param {(value: number) => number} place
 */
function line(context, colour, columns, base, place) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  columns.forEach((column, x) => {
    if (!column) return;
    const [low, high] = column.map(place);
    if (base === null) {
      context.lineTo(TITLE + x, low);
      if (low - high > 0.5) context.lineTo(TITLE + x, high);
    } else if (column[0] !== 0 || column[1] !== 0) {
      const [from, to] = [Math.min(high, base), Math.max(low, base)];
      context.fillRect(TITLE + x - 1, from, 2, Math.max(1, to - from));
    }
  });
  if (base === null) context.stroke();
}

/**
 * What was drawn by drawStrips, with the cursor at a step and the values there.
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLCanvasElement} drawn
 * @param {Ink} colours
 * @param {Track} track
 * @param {Strip[]} strips
 * @param {number} at
 * @param {number} width
 * @param {number} length
 */
export function drawCursor(canvas, drawn, colours, track, strips, at, width, length) {
  const context = cleared(canvas, width, strips.length * STRIP + 2);
  context.drawImage(drawn, 0, 0, width, strips.length * STRIP + 2);
  context.fillStyle = colours.mark;
  context.fillRect(TITLE + pixelOf(at, plotWidth(width), length) - 1, 2, 2, strips.length * STRIP - 4);
  context.fillStyle = colours.text;
  context.font = `bold 13px ${colours.font}`;
  context.textBaseline = "top";
  strips.forEach(({ name }, row) => {
    const value = track.columns[name][at];
    if (Number.isFinite(value)) context.fillText(number(value), 0, row * STRIP + 20);
  });
}

/** @param {number} width  of the canvas */
export const plotWidth = width => Math.max(20, Math.floor(width) - TITLE - 4);

/** Where plots begin, in CSS pixels. */
export const PLOT_LEFT = TITLE;
