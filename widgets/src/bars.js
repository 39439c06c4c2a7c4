// Draws the policy strip and observations that are vectors: rows with a name, a bar or an axis, and a number.
import { cleared, clipped } from "./canvas.js";
import { number } from "./numbers.js";
import { bars, linear } from "./scales.js";

/** @typedef {import("./canvas.js").Ink} Ink */
/** @typedef {import("./policy.js").Row} Row */

const ROW = 24, LEAST_ROW = 18, VECTOR_ROW = 16, LEAST_LABEL = 60, VALUE = 76, MARK = 16;
const LABEL_SHARE = 0.4; // of the width, at most
const ENTRIES = 32; // of a vector, shown one below the other

/**
 * Rows of a policy. What was chosen has an outline and a triangle before its name; of a number the middle is a line and
 * what was done a dot.
 * @param {HTMLCanvasElement} canvas
 * @param {Ink} colours
 * @param {Row[]} rows
 * @param {[number, number] | null} domain  whose zero is marked
 * @param {number} width
 * @param {number} most  pixels of height that are seen at once
 * @returns {number} its height
 */
export function drawPolicy(canvas, colours, rows, domain, width, most) {
  const row = Math.max(LEAST_ROW, Math.min(ROW, most / rows.length)), height = Math.round(row * rows.length) + 2;
  const context = cleared(canvas, width, height);
  const plot = plotOf(context, colours, rows.flatMap(one => ("name" in one ? [one.name] : [])), width);
  rows.forEach((one, at) => {
    const line = { at, row, ...plot };
    if ("title" in one) heading(context, colours, line, one.title);
    else if ("legend" in one) legend(context, colours, line);
    else if ("ends" in one) ends(context, colours, line);
    else if ("place" in one) bar(context, colours, line, one);
    else axis(context, colours, line, one);
  });
  if (domain && domain[0] <= 0 && domain[1] >= 0) {
    context.fillStyle = colours.faint;
    context.fillRect(plot.left + linear(domain, 0, plot.room)(0), 0, 1, height);
  }
  return height;
}

/**
 * The entries of an observation that is a vector, each within its own range, which its name is followed by.
 * @param {HTMLCanvasElement} canvas
 * @param {Ink} colours
 * @param {ArrayLike<number>} values
 * @param {string[]} names
 * @param {[number, number][]} domains
 * @param {ArrayLike<number> | null} counts  saliency of each entry, 0…255
 * @param {number} width
 */
export function drawVector(canvas, colours, values, names, domains, counts, width) {
  const entries = Math.min(values.length, ENTRIES), row = entries > 12 ? VECTOR_ROW : ROW;
  const context = cleared(canvas, width, row * entries + 2);
  const labels = names.slice(0, entries).map((name, at) => `${name}  ${number(domains[at][0])} … ${number(domains[at][1])}`);
  const plot = plotOf(context, colours, labels, width);
  for (let at = 0; at < entries; at++) {
    const [place] = bars([values[at]], domains[at]);
    bar(context, colours, { at, row, ...plot }, { name: labels[at], text: number(values[at]), place, marked: false });
    if (counts) {
      context.fillStyle = `rgba(230,60,200,${counts[at] / 255})`;
      context.fillRect(0, at * row + 2, 8, row - 4);
    }
  }
}

/** How many entries of a vector are drawn. @param {number} length */
export const drawnOf = length => Math.min(length, ENTRIES);

/** @typedef {{at: number, row: number, left: number, room: number}} Line */

/**
 * Where bars begin, so that names fit before them, and how long they are.
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {string[]} names
 * @param {number} width
 */
function plotOf(context, colours, names, width) {
  context.font = `bold 13px ${colours.font}`;
  const widest = names.reduce((most, name) => Math.max(most, context.measureText(name).width), 0);
  const left = Math.round(Math.max(LEAST_LABEL, Math.min(width * LABEL_SHARE, widest + MARK + 8)));
  return { left, room: Math.max(20, width - left - VALUE) };
}

/**
 * A row's name and number; returns its top, its height and its middle.
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Line} line
 * @param {{name: string, text: string, marked?: boolean}} one
 */
function named(context, colours, { at, row, left, room }, { name, text, marked = false }) {
  const top = at * row + 2, height = row - 4, middle = top + height / 2 + 1;
  context.font = `${marked ? "bold " : ""}${row < 20 ? 12 : 13}px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.fillText(clipped(context, name, left - MARK - 6), MARK, middle);
  context.textAlign = "right";
  context.fillText(text, left + room + VALUE - 2, middle);
  context.textAlign = "left";
  return { top, height, middle };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Line} line
 * @param {{name: string, text: string, place: {from: number, to: number}, marked: boolean}} one
 */
function bar(context, colours, line, one) {
  const { left, room } = line, { place, marked } = one;
  const { top, height, middle } = named(context, colours, line, one);
  context.fillStyle = colours.data;
  context.fillRect(left + place.from * room, top, Math.max(1, (place.to - place.from) * room), height);
  if (!marked) return;
  context.strokeStyle = context.fillStyle = colours.mark;
  context.lineWidth = 2;
  context.strokeRect(left - 1, top, room + 2, height);
  context.beginPath();
  context.moveTo(3, middle - 6);
  context.lineTo(12, middle - 1);
  context.lineTo(3, middle + 4);
  context.fill();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Line} line
 * @param {{name: string, text: string, middle: number, taken: number}} one
 */
function axis(context, colours, line, one) {
  const { left, room } = line;
  const { top, height, middle } = named(context, colours, line, one), across = Math.round(middle) - 1;
  context.fillStyle = colours.faint;
  context.fillRect(left, across, room, 1);
  for (const share of [0, 0.5, 1]) context.fillRect(left + share * room - 0.5, top + height / 4, 1, height / 2);
  if (!Number.isFinite(one.taken)) return;
  context.fillStyle = colours.data;
  context.fillRect(left + one.middle * room - 1.5, top, 3, height);
  context.fillStyle = colours.mark;
  context.beginPath();
  context.arc(left + one.taken * room, across + 0.5, Math.min(5, height / 3), 0, 2 * Math.PI);
  context.fill();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Line} line
 * @param {string} title
 */
function heading(context, colours, { at, row, left, room }, title) {
  context.font = `bold 12px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.fillText(clipped(context, title, left + room), 0, (at + 0.5) * row + 1);
}

/**
 * What the marks on the axes below mean.
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Line} line
 */
function legend(context, colours, { at, row }) {
  const middle = (at + 0.5) * row + 1;
  context.font = `12px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  const first = "the policy's middle", second = MARK + context.measureText(first).width + 18;
  context.fillText(first, MARK, middle);
  context.fillText("action taken", second + 10, middle);
  context.fillStyle = colours.data;
  context.fillRect(6, middle - 7, 3, 12);
  context.fillStyle = colours.mark;
  context.beginPath();
  context.arc(second, middle - 1, 5, 0, 2 * Math.PI);
  context.fill();
}

/**
 * The numbers at the ends of the axes below.
 * @param {CanvasRenderingContext2D} context
 * @param {Ink} colours
 * @param {Line} line
 */
function ends(context, colours, { at, row, left, room }) {
  const middle = (at + 0.5) * row + 1;
  context.font = `12px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.textAlign = "center";
  ["−1", "0", "1"].forEach((text, place) => context.fillText(text, left + (place / 2) * room, middle));
  context.textAlign = "left";
}
