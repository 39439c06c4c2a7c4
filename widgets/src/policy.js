// What a policy said of its choices, switches or numbers at one step, and what was done: as rows, and in words. No DOM.
import { bars, linear, shown } from "./scales.js";

const MOST_ROWS = 400; // of one choice
const MOST_SAID = 4; // parts of an action with what was said of them; of more, only what was done

/** @typedef {{title: string, names: string[]}} Group */
/**
 * @typedef {object} Policy
 * @property {string} actions  categorical, multi_discrete, bernoulli or tanh_normal
 * @property {Group[]} groups  the bars of each choice; of all switches; of all numbers
 * @property {string} kind  of the scores: probability, q_value or mean
 */
/**
 * A heading (`title`), what the marks on the axes below mean (`legend`) and the axes' ends (`ends`), a bar (`place`), or
 * an axis from -1 to 1 with the middle and what was done (shares of the width; NaN: nothing).
 * @typedef {{title: string} | {legend: true} | {ends: true} | {name: string, text: string, place: {from: number, to: number}, marked: boolean}
 *   | {name: string, text: string, middle: number, taken: number}} Row
 */

/**
 * What was done, one number per part; null where nothing is done any more.
 * @param {string} actions
 * @param {number | ArrayLike<number> | undefined} action
 */
export function done(actions, action) {
  const parts = typeof action === "number" ? [action] : Array.from(action ?? []);
  const missing = parts.some(one => (actions === "tanh_normal" ? Number.isNaN(one) : one < 0));
  return parts.length && !missing ? parts : null;
}

/**
 * @param {Policy} policy
 * @param {ArrayLike<number>} scores
 * @param {number | ArrayLike<number> | undefined} action
 * @param {[number, number]} domain  of the scores
 * @param {(value: number) => string} number
 * @returns {Row[]}
 */
export function rowsOf({ actions, groups, kind }, scores, action, domain, number) {
  const parts = done(actions, action);
  if (actions === "tanh_normal") return axes(groups[0], scores, parts, number);
  const places = bars(scores, domain);
  const said = (/** @type {number} */ score) => !Number.isFinite(score) ? "" : kind === "probability" ? percent(score) : number(score);
  if (actions === "bernoulli") {
    return groups[0].names.map((name, at) => {
      const on = parts?.[at] === 1, text = said(scores[at]);
      return { name, text: text && parts ? `${text} ${on ? "on" : "off"}` : text, place: places[at], marked: on };
    });
  }
  let first = 0;
  return groups.flatMap(({ title, names }, part) => {
    const own = Array.from(names, (_, choice) => scores[first + choice]), chosen = parts?.[part] ?? -1, from = first;
    first += names.length;
    return [...(title ? [{ title }] : []), ...shown(own, chosen, MOST_ROWS).map(choice => ({
      name: names[choice], text: said(own[choice]), place: places[from + choice], marked: choice === chosen,
    }))];
  });
}

/**
 * @param {Group} group
 * @param {ArrayLike<number>} middles
 * @param {number[] | null} parts
 * @param {(value: number) => string} number
 * @returns {Row[]}
 */
function axes({ names }, middles, parts, number) {
  const place = linear([-1, 1], 0, 1);
  return [{ legend: true }, { ends: true }, ...names.map((name, at) => ({
    name, text: parts ? number(rounded(parts[at])) : "", middle: place(middles[at]), taken: place(parts?.[at] ?? NaN),
  }))];
}

/**
 * What was done and what was said of it, in words; "" where nothing is done.
 * @param {Policy} policy
 * @param {ArrayLike<number> | undefined} scores
 * @param {number | ArrayLike<number> | undefined} action
 * @param {(value: number) => string} number
 */
export function inWords({ actions, groups, kind }, scores, action, number) {
  const parts = done(actions, action);
  if (!parts) return "";
  const brief = parts.length > MOST_SAID;
  const how = (/** @type {number} */ at) => {
    if (!scores || brief) return "";
    return kind === "probability" ? ` (${Math.round(100 * scores[at])} %)` : kind === "mean"
      ? ` (middle ${number(rounded(scores[at]))})` : ` (Q ${number(scores[at])})`;
  };
  if (actions === "tanh_normal") {
    return parts.map((one, at) => `${brief ? "" : `${groups[0].names[at]} `}${number(rounded(one))}${how(at)}`).join(", ");
  }
  if (actions === "bernoulli") {
    const { names } = groups[0];
    if (brief) return names.filter((_, at) => parts[at]).join(", ") || "all off";
    return parts.map((one, at) => `${names[at]} ${one ? "on" : "off"}${how(at)}`).join(", ");
  }
  let first = 0;
  return parts.map((chosen, part) => {
    const { title, names } = groups[part], at = first + chosen;
    first += names.length;
    return `${title && !brief ? `${title}: ` : ""}${names[chosen] ?? chosen}${how(at)}`;
  }).join(", ");
}

/** @param {number} share */
const percent = share => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

/** To two places, without a sign of nothing. @param {number} value */
const rounded = value => Math.round(100 * value) / 100 + 0;
