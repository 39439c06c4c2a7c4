// What a table of rows does without a page: the text of a cell, the order of rows, and the shape of a sparkline.
import { duration, number } from "./numbers.js";

/** @typedef {{name: string, title: string, kind: string, unit: string, help: string}} Column */
/** @typedef {{name: string, title: string, confirm: string | null, danger: boolean}} Action */
/** @typedef {{key: string, actions?: string[], note?: string, bad?: boolean, busy?: boolean,
 *            [cell: string]: any}} Row */
/** @typedef {{column: string, descending: boolean}} Sort */
/** @typedef {{path: string, x: number, y: number}} Sparkline */

const DESCENDING_FIRST = new Set(["number", "sparkline"]);
const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });  // pong-2 before pong-10

/**
 * The text of a cell; "" where there is nothing to say.
 * @param {any} value
 * @param {string} kind
 * @param {number} now unix time in s, by the clock that wrote the rows
 */
export function cellText(value, kind, now) {
  if (value === null || value === undefined) return kind === "number" ? "—" : "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number" || kind === "text") return String(value);
  if (kind === "ago") return `${duration(Math.max(0, now - value))} ago`;
  return number(value);
}

/**
 * Keys in the order in which they are shown: as given, or by a column; what has no value comes last either way.
 * @param {Map<string, Row>} rows
 * @param {readonly string[]} keys as given
 * @param {Sort | null} sort
 * @param {readonly Column[]} columns
 */
export function ordered(rows, keys, sort, columns) {
  const column = columns.find((one) => one.name === sort?.column);
  if (!sort || !column) return [...keys];
  const values = new Map(keys.map((key) => [key, rank(rows.get(key)?.[column.name], column.kind)]));
  return [...keys].sort((a, b) => {
    const left = values.get(a), right = values.get(b);
    if (left === null || right === null || left === undefined || right === undefined) {
      return Number(left === null) - Number(right === null);
    }
    const difference = typeof left === "number" && typeof right === "number"
      ? left - right : words.compare(String(left), String(right));
    return sort.descending ? -difference : difference;
  });
}

/**
 * `keys` in the order that they had on the screen, new ones at the end: for as long as a pointer is over the rows.
 * @param {readonly string[]} keys
 * @param {readonly string[]} shown
 */
export function unmoved(keys, shown) {
  const wanted = new Set(keys), there = new Set(shown);
  return [...shown.filter((key) => wanted.has(key)), ...keys.filter((key) => !there.has(key))];
}

/**
 * How the rows are sorted after a click on a header: one way, the other way, as given.
 * @param {Sort | null} sort
 * @param {Column} column
 * @returns {Sort | null}
 */
export function nextSort(sort, column) {
  const first = DESCENDING_FIRST.has(column.kind);
  if (sort?.column !== column.name) return { column: column.name, descending: first };
  return sort.descending === first ? { column: column.name, descending: !first } : null;
}

/**
 * A question such as "Stop {key}?" about a row.
 * @param {string} template
 * @param {Row} row
 */
export function question(template, row) {
  return template.replace(/\{(\w+)\}/g, (_, name) => String(row[name] ?? row.key));
}

/**
 * The line through the points of a cell, from edge to edge; gaps where there is no number.
 * @param {any} value a list of numbers, or of pairs (x, y)
 * @param {number} width
 * @param {number} height
 * @param {number} margin for half the line's width
 * @returns {Sparkline | null} null: nothing to draw
 */
export function sparkline(value, width, height, margin = 2) {
  const all = points(value), known = all.filter(isKnown);
  if (!known.length) return null;
  const [left, right] = extent(known.map(([x]) => x)), [low, high] = extent(known.map(([, y]) => y));
  const across = (/** @type {number} */ x) => place(x, left, right, margin, width - margin, width - margin);
  const up = (/** @type {number} */ y) => place(y, low, high, height - margin, margin, height / 2);
  let path = "", pen = "M";
  for (const point of all) {
    if (!isKnown(point)) {
      pen = "M";
      continue;
    }
    path += `${pen}${across(point[0])} ${up(point[1])}`;
    pen = "L";
  }
  const [x, y] = known[known.length - 1];
  return { path, x: across(x), y: up(y) };
}

/**
 * A sparkline in words: where it begins and ends, its bounds.
 * @param {any} value
 */
export function spoken(value) {
  const known = points(value).filter(isKnown).map(([, y]) => y);
  if (!known.length) return "no values yet";
  const [low, high] = extent(known);
  return `from ${number(known[0])} to ${number(known[known.length - 1])}, lowest ${number(low)}, `
    + `highest ${number(high)}`;
}

/** What a cell is sorted by; null: no value.
 * @param {any} value @param {string} kind @returns {number | string | null} */
function rank(value, kind) {
  if (kind === "sparkline") return points(value).filter(isKnown).at(-1)?.[1] ?? null;
  if (value === null || value === undefined || value === "" || Number.isNaN(value)) return null;
  if (kind === "ago") return typeof value === "number" ? -value : null;  // the longest ago is the largest
  return typeof value === "number" ? value : String(value);
}

/** Points of a cell, NaN where there is no number. @param {any} value @returns {[number, number][]} */
function points(value) {
  if (!Array.isArray(value)) return [];
  return value.map((one, at) => Array.isArray(one) ? [one[0] ?? NaN, one[1] ?? NaN] : [at, one ?? NaN]);
}

/** @param {[number, number]} point */
function isKnown([x, y]) {
  return Number.isFinite(x) && Number.isFinite(y);
}

/** @param {number[]} values @returns {[number, number]} */
function extent(values) {
  return [Math.min(...values), Math.max(...values)];
}

/** `value` of [low, high] on [from, to], to a tenth; `instead` where all are the same. @param {number} value
 * @param {number} low @param {number} high @param {number} from @param {number} to @param {number} instead */
function place(value, low, high, from, to, instead) {
  return high === low ? instead : Math.round((from + (to - from) * (value - low) / (high - low)) * 10) / 10;
}
