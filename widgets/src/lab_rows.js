// What the side panel makes of the server's rows, without a page: sentences, filters, and what has changed.
import { duration, number } from "./numbers.js";

/**
 * @typedef {object} Row  as workbench/widgets/side_panel/overview.py has it; a damaged one has name, state and problem
 * @property {string} name
 * @property {string} state
 * @property {string} problem
 * @property {string[]} actions
 * @property {number} [created]
 * @property {string} [environment]
 * @property {string} [sweep]
 * @property {string} [algorithm]
 * @property {number} [frames]
 * @property {number | null} [total_frames]
 * @property {number | null} [frames_per_second]
 * @property {number | null} [eta_s]
 * @property {number | null} [episode_return]
 * @property {number | null} [best_return]
 * @property {boolean} [waits_for_disk]
 * @property {boolean} [collapsed]
 * @property {{id: number, kind: string, message: string, time: number}[]} [events]
 * @property {string} [reason]
 * @property {[number, number | null][]} [curve]
 * @property {number} [trials]
 * @property {number | null} [over]
 * @property {number | null} [running]
 * @property {string} [metric]
 * @property {number | null} [best_value]
 * @property {string} [best_run]
 * @property {boolean} [busy]
 * @property {string} [failure]
 */
/** @typedef {{home: string, now: number, runs: Row[], sweeps: Row[], left_out: number}} Overview */
/** @typedef {{key: string, name: string, kind: string, title: string, body: string, bad: boolean}} Piece */

const GOING_ON = new Set(["starting", "training", "paused", "stopping", "running"]);
const ENDS = new Map([
  ["finished", "has finished"], ["failed", "has failed"], ["dead", "has died"], ["stopped", "has stopped"],
  ["damaged", "cannot be read any more"],
]);
const OF_TRIALS = new Set(["failed", "dead", "damaged", "disk"]);  // of a trial the rest is the sweep's own affair
const EVENTS = new Map([["collapse", "has collapsed"], ["recovered", "has recovered"]]);

export const FILTERS = new Map([
  ["all", "all"], ["going", "going on"], ["ended", "ended"], ["trouble", "in trouble"],
]);

/** @param {Row} row */
export function goesOn(row) {
  return GOING_ON.has(row.state);
}

/** @param {Row} row */
export function inTrouble(row) {
  return ["failed", "dead", "damaged"].includes(row.state) || Boolean(row.waits_for_disk || row.collapsed);
}

/** Whether a filter lets the row through. @param {Row} row @param {string} filter */
export function passes(row, filter) {
  if (filter === "going") return goesOn(row);
  if (filter === "ended") return !goesOn(row);
  return filter !== "trouble" || inTrouble(row);
}

/** The word of its badge. @param {Row} row */
export function stateOf(row) {
  if (row.waits_for_disk) return "waits for its disk";
  return row.collapsed && goesOn(row) ? `${row.state}, collapsed` : row.state;
}

/** How far it is, of 1; null: that is not known. @param {Row} row */
export function share(row) {
  const [done, all] = row.trials === undefined ? [row.frames, row.total_frames] : [row.over, row.trials];
  return done === null || done === undefined || !all ? null : Math.min(1, done / all);
}

/** How far it is, and how fast, in words. @param {Row} row */
export function progressOf(row) {
  if (row.problem) return "";
  if (row.trials !== undefined) {
    const running = row.running ? `${row.running} running` : "";
    return joined([row.over === null ? `${row.trials} trials` : `${row.over} of ${row.trials} trials`, running]);
  }
  const all = row.total_frames ? ` of ${number(row.total_frames)}` : "";
  return joined([
    `${number(row.frames ?? 0)}${all} frames`,
    isNumber(row.frames_per_second) ? `${number(Math.round(row.frames_per_second))} frames/s` : "",
    isNumber(row.eta_s) ? `${duration(row.eta_s)} left` : "",
  ]);
}

/** The result so far, in words. @param {Row} row */
export function resultOf(row) {
  if (row.trials !== undefined) {
    return isNumber(row.best_value) ? `best ${row.metric} ${number(row.best_value)} (${row.best_run})` : "";
  }
  const last = isNumber(row.episode_return) ? number(row.episode_return) : "";
  const best = isNumber(row.best_return) ? number(row.best_return) : "";
  return joined([last && `return ${last}`, best && best !== last ? `best ${best}` : ""]);
}

/** What it is a run of. @param {Row} row */
export function subjectOf(row) {
  return joined([row.environment ?? "", row.algorithm ?? ""]);
}

/**
 * What has happened between two looks, oldest first.
 * @param {Overview | null} before  null: nothing is news at the first look
 * @param {Overview} after
 * @param {ReadonlySet<string>} expected  keys of what a person has just stopped
 * @returns {Piece[]}
 */
export function changes(before, after, expected = new Set()) {
  if (!before) return [];
  return /** @type {["run" | "sweep", Row[], Row[]][]} */ ([
    ["run", before.runs, after.runs], ["sweep", before.sweeps, after.sweeps],
  ]).flatMap(([kind, old, rows]) => {
    const known = new Map(old.map((row) => [row.name, row]));
    return rows.flatMap((row) => changesOf(`${kind}/${row.name}`, known.get(row.name), row, before.now, expected));
  });
}

/** @param {string} key @param {Row | undefined} old @param {Row} row @param {number} since
 * @param {ReadonlySet<string>} expected @returns {Piece[]} */
function changesOf(key, old, row, since, expected) {
  const isNew = !old && (row.created ?? 0) >= since;  // launched, and over, between two looks
  if (!old && !isNew) return [];
  if (old && old.created !== row.created && row.created !== undefined && old.created !== undefined) return [];
  const last = Math.max(0, ...(old?.events ?? []).map((event) => event.id));
  /** @type {Piece[]} */
  const pieces = (row.events ?? []).filter((event) => event.id > last).map((event) => ({
    key, name: row.name, kind: event.kind, title: `${row.name} ${EVENTS.get(event.kind) ?? event.kind}`,
    body: event.message, bad: event.kind !== "recovered",
  }));
  const piece = (/** @type {string} */ kind, /** @type {string} */ what, /** @type {boolean} */ bad) => pieces.push({
    key, name: row.name, kind, title: `${row.name} ${what}`, bad,
    body: joined([row.problem || row.reason || "", resultOf(row)]),
  });
  if (row.waits_for_disk && !old?.waits_for_disk) piece("disk", "waits for its disk", true);
  const end = ENDS.get(row.state);
  if (end && (old ? goesOn(old) || (old.state !== "damaged" && row.state === "damaged") : true)
      && !(row.state === "stopped" && expected.has(key))) {
    piece(row.state, end, !["finished", "stopped"].includes(row.state));
  }
  return row.sweep ? pieces.filter(({ kind }) => OF_TRIALS.has(kind)) : pieces;
}

/** @param {readonly string[]} parts */
function joined(parts) {
  return parts.filter(Boolean).join(" · ");
}

/** @param {unknown} value @returns {value is number} */
function isNumber(value) {
  return typeof value === "number";
}
