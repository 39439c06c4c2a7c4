// Draws strip charts on canvases, in the colours of the page.
import { cleared } from "./canvas.js";
import { number } from "./numbers.js";
import { columnsOf, extent, linear, pixelOf } from "./scales.js";

/** @typedef {import("./track.js").Track} Track */
/** @typedef {import("./canvas.js").Ink} Ink */
/** @typedef {{name: string, title: string, stems?: boolean}} Strip */

const STRIP = 46, TITLE = 86;

/** @type {Strip[]} */
export const STRIPS = [
  { name: "value", title: "value" }, { name: "reward", title: "reward", stems: true },
  { name: "score", title: "score", stems: true }, { name: "episode_return", title: "return" },
  { name: "state_norm", title: "state norm" }, { name: "by_person", title: "by a person", stems: true },
];

/**
 * The strip charts without a cursor, on a canvas of their own that is drawn over again only when the data change.
 * @param {HTMLCanvasElement} canvas
 * @param {Ink} colours
 * @param {Track} track
 * @param {Strip[]} strips
 * @param {number} width
 * @param {number} length  of the time axis, in steps
 * @param {{track: Track, at: number} | null} [other]  another future, from the step `at` on
 */
export function drawStrips(canvas, colours, track, strips, width, length, other = null) {
  const context = cleared(canvas, width, strips.length * STRIP + 2);
  const room = plotWidth(width);
  strips.forEach(({ name, title, stems }, at) => {
    const values = track.columns[name], top = at * STRIP + 4, bottom = top + STRIP - 8;
    const theirs = other?.track.columns[name] ?? [];
    const domain = extent([...values, ...theirs], stems), place = linear(domain, bottom - 1, top + 1);
    context.fillStyle = colours.faint;
    context.fillRect(TITLE, stems && domain[0] < 0 ? Math.round(place(0)) : bottom, room, 1);
    context.fillStyle = colours.text;
    context.font = `12px ${colours.font}`;
    context.textBaseline = "top";
    context.fillText(title, 0, top);
    if (other) {
      context.setLineDash([5, 4]);
      line(context, colours.text, columnsOf(theirs.map((value, i) => (i < other.at ? NaN : value)), room, length), place);
      context.setLineDash([]);
    }
    const columns = columnsOf(values, room, length);
    if (stems) bars(context, colours.data, columns, room / length, place);
    else line(context, colours.data, columns, place);
  });
  if (!other) return;
  context.fillStyle = colours.text;
  const x = TITLE + pixelOf(other.at, room, length);
  for (let y = 2; y < strips.length * STRIP; y += 6) context.fillRect(x, y, 1, 3);
}

/** @typedef {([number, number] | null)[]} Columns  the least and the greatest value at each pixel, where there is one */

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} colour
 * @param {Columns} columns
 * @param {(value: number) => number} place
 */
function line(context, colour, columns, place) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  columns.forEach((column, x) => {
    if (!column) return;
    const [low, high] = column.map(place);
    context.lineTo(TITLE + x, low);
    if (low - high > 0.5) context.lineTo(TITLE + x, high);
  });
  context.stroke();
}

/**
 * Bars from 0, of 2 pixels, or 3 where steps lie so near that 2 would leave gaps.
 * @param {CanvasRenderingContext2D} context
 * @param {string} colour
 * @param {Columns} columns
 * @param {number} apart  pixels from step to step
 * @param {(value: number) => number} place
 */
function bars(context, colour, columns, apart, place) {
  const base = place(0), width = apart > 2 && apart < 3 ? 3 : 2;
  context.fillStyle = colour;
  columns.forEach((column, x) => {
    if (!column || (column[0] === 0 && column[1] === 0)) return;
    const [low, high] = column.map(place);
    const [from, to] = [Math.min(high, base), Math.max(low, base)];
    context.fillRect(TITLE + x - 1, from, width, Math.max(1, to - from));
  });
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
