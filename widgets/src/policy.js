// What a policy said of its choices, switches or numbers at one step, and what was done: as rows, and in words. No DOM.
import { bars, linear, shown } from "./scales.js";

const MOST_ROWS = 400; // of one choice
const MOST_SAID = 4; // parts of an action with what was said of them; of more, only what was done

/** @typedef {{title: string, names: string[], kind: string}} Group  kind: choice, switches or numbers */
/**
 * @typedef {object} Policy
 * @property {string} actions  categorical, multi_discrete, bernoulli, tanh_normal or mixed
 * @property {Group[]} groups  the bars of each choice; of all switches; of all numbers; of a mixed action, of each part
 * @property {string} kind  of the scores: probability, q_value or mean; of numbers always the mean
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
  const missing = parts.some(one => (withNumbers(actions) ? Number.isNaN(one) : one < 0));
  return parts.length && !missing ? parts : null;
}

/** Whether actions are floats. @param {string} actions */
export const withNumbers = actions => actions === "tanh_normal" || actions === "mixed";

/** The numbers of an action that a group has: one of a choice, else one for each name. @param {Group} group */
export const columnsOf = ({ kind, names }) => (kind === "choice" ? 1 : names.length);

/**
 * Calls `make` for each group with its own scores' first place, and its own columns of the action.
 * @template T
 * @param {Group[]} groups
 * @param {number[] | null} parts
 * @param {(group: Group, first: number, own: number[] | null) => T} make
 */
function each(groups, parts, make) {
  let first = 0, column = 0;
  return groups.map(group => {
    const made = make(group, first, parts && parts.slice(column, column + columnsOf(group)));
    [first, column] = [first + group.names.length, column + columnsOf(group)];
    return made;
  });
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
  const places = bars(scores, domain);
  const said = (/** @type {number} */ score) => !Number.isFinite(score) ? "" : kind === "probability" ? percent(score) : number(score);
  return each(groups, done(actions, action), (group, first, parts) => {
    const own = Array.from(group.names, (_, at) => scores[first + at]), { title } = group;
    const rows = group.kind === "numbers" ? axes(group, own, parts, number)
      : group.kind === "switches" ? switches(group, own.map(said), places.slice(first), parts)
        : choices(group, own, said, places.slice(first), parts?.[0] ?? -1);
    return [...(title ? [{ title }] : []), ...rows];
  }).flat();
}

/**
 * @param {Group} group
 * @param {number[]} scores
 * @param {(score: number) => string} said
 * @param {{from: number, to: number}[]} places
 * @param {number} chosen
 * @returns {Row[]}
 */
function choices({ names }, scores, said, places, chosen) {
  return shown(scores, chosen, MOST_ROWS).map(choice => ({
    name: names[choice], text: said(scores[choice]), place: places[choice], marked: choice === chosen,
  }));
}

/**
 * @param {Group} group
 * @param {string[]} said
 * @param {{from: number, to: number}[]} places
 * @param {number[] | null} parts
 * @returns {Row[]}
 */
function switches({ names }, said, places, parts) {
  return names.map((name, at) => {
    const on = parts?.[at] === 1, text = said[at];
    return { name, text: text && parts ? `${text} ${on ? "on" : "off"}` : text, place: places[at], marked: on };
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
  const brief = parts.length > MOST_SAID, mixed = actions === "mixed";
  const how = (/** @type {string} */ of, /** @type {number} */ at) => {
    if (!scores || brief) return "";
    return of === "numbers" ? ` (middle ${number(rounded(scores[at]))})`
      : kind === "probability" ? ` (${Math.round(100 * scores[at])} %)` : ` (Q ${number(scores[at])})`;
  };
  const words = each(groups, parts, ({ title, names, kind: of }, first, own) => {
    const [chosen] = own ?? [], named = !brief && !(mixed && names.length === 1);
    const text = of === "choice" ? `${names[chosen] ?? chosen}${how(of, first + chosen)}`
      : of === "switches" && brief ? names.filter((_, at) => own?.[at]).join(", ") || "all off"
        : (own ?? []).map((one, at) => `${named ? `${names[at]} ` : ""}${
          of === "numbers" ? number(rounded(one)) : one ? "on" : "off"}${how(of, first + at)}`).join(", ");
    return `${title && (mixed || !brief) ? `${title}: ` : ""}${text}`;
  });
  return words.join(mixed && parts.length > groups.length ? "; " : ", ");
}

/** @param {number} share */
const percent = share => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

/** To two places, without a sign of nothing. @param {number} value */
const rounded = value => Math.round(100 * value) / 100 + 0;
