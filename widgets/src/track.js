// What is shown of one episode, or of the last steps of a watched environment: one list per column. No DOM.
import { inWords } from "./policy.js";

export const MOST_LIVE = 1500; // steps kept of a live view
const MOST_LIVE_VALUES = 64e6; // of observations

/** @typedef {Record<string, any[]>} Rows */

/**
 * Columns by step. `first` is the number of the first one: a live view forgets its oldest.
 * time_s, reward and score (that came with the frame), episode_return, value, state_norm: numbers; action: a number
 * (-1: none), or a typed array where it has parts; scores and observation, where they are drawn: typed arrays.
 */
export class Track {
  constructor() {
    this.first = 0;
    this.life = "";
    /** @type {Rows} */
    this.columns = { time_s: [], reward: [] };
  }

  get length() {
    return this.columns.time_s.length;
  }

  get times() {
    return this.columns.time_s;
  }

  /**
   * Column `name`; [] if there is none, or nothing in it.
   * @param {string} name
   * @returns {any[]}
   */
  column(name) {
    const found = this.columns[name] ?? [];
    return found.some(value => typeof value !== "number" || !Number.isNaN(value)) ? found : [];
  }

  /**
   * Add steps to the end; those that are there already are passed over. Steps of another life, or after a gap, begin
   * anew. Returns how many steps at the front were given up.
   * @param {{life: string, first: number}} header
   * @param {Rows} rows
   */
  append({ life, first }, rows) {
    const before = this.length;
    const end = this.first + before;
    if (life !== this.life || first > end || !before) {
      Object.assign(this, { life, first, columns: { ...rows } });
      return before;
    }
    for (const [name, values] of Object.entries(rows)) this.columns[name].push(...values.slice(end - first));
    return this.#forget();
  }

  #forget() {
    const size = this.columns.observation?.[0]?.length ?? 0;
    const most = Math.min(MOST_LIVE, Math.ceil(MOST_LIVE_VALUES / Math.max(1, size)));
    const extra = Math.max(0, this.length - most);
    for (const values of Object.values(this.columns)) values.splice(0, extra);
    this.first += extra;
    return extra;
  }
}

/**
 * Step `at` in words.
 * @param {Track} track
 * @param {number} at
 * @param {import("./policy.js").Policy} policy
 * @param {(value: number) => string} number
 */
export function said(track, at, policy, number) {
  const get = (/** @type {string} */ name) => track.columns[name]?.[at];
  const parts = [];
  const done = inWords(policy, get("scores"), get("action"), number);
  if (done) parts.push(`action ${done}`);
  if (Number.isFinite(get("value"))) parts.push(`value ${number(get("value"))}`);
  parts.push(`reward ${number(get("reward"))}`);
  if (Number.isFinite(get("score"))) parts.push(`score ${number(get("score"))}`);
  if (Number.isFinite(get("episode_return"))) parts.push(`return ${number(get("episode_return"))}`);
  if (Number.isFinite(get("by_person"))) parts.push(get("by_person") ? "chosen by a person" : "chosen by the agent");
  if (get("forced") === 1) parts.push("this action was forced");
  if (get("edited") === 1) parts.push("the policy saw another observation");
  return parts.join(", ");
}
