// Time and steps: which frame a moment shows, where the next reward is, how a live view follows. No DOM.
import { lastUpTo } from "./history.js";

export const SPEEDS = ["0.25", "0.5", "1", "2", "4", "max"];
const FASTEST_PER_SECOND = 240; // frames: four at every refresh of a screen

/**
 * Index of the last of the ascending `times` that is not after `time`; 0 before the first.
 * @param {number[]} times
 * @param {number} time
 */
export const frameAt = (times, time) => Math.max(0, lastUpTo(times, time));

/**
 * How much faster than life a choice of speed is, for an environment of so many steps per second.
 * @param {string} choice  of SPEEDS
 * @param {number} fps
 */
export const factor = (choice, fps) => choice === "max" ? FASTEST_PER_SECOND / fps : Number(choice);

/**
 * The nearest frame after (direction 1) or before (-1) `from` at which a reward came; null if there is none.
 * @param {number[]} rewards
 * @param {number} from
 * @param {1 | -1} direction
 */
export function nextReward(rewards, from, direction) {
  for (let at = from + direction; at >= 0 && at < rewards.length; at += direction) {
    if (rewards[at] !== 0 && !Number.isNaN(rewards[at])) return at;
  }
  return null;
}

/**
 * Steps per second of the newest second or so; 15 where there is too little to tell.
 * @param {number[]} times
 */
export function rate(times) {
  const last = times.length - 1, first = Math.max(0, last - 60);
  const seconds = times[last] - times[first];
  return seconds > 0 ? (last - first) / seconds : 15;
}

/**
 * Where a live view's playhead goes next. It follows the newest step at a distance that bridges the gaps between
 * arrivals, a little faster or slower than life to keep that distance, and jumps where it is far off.
 * @param {object} now
 * @param {number} now.at  the playhead, seconds on the learner's clock
 * @param {number} now.passed  seconds since the last call
 * @param {number} now.oldest  time of the oldest step at hand
 * @param {number} now.newest  time of the newest
 * @param {number} now.arrived  seconds since the newest came
 * @param {number} now.gap  seconds between the arrivals lately
 */
export function follow({ at, passed, oldest, newest, arrived, gap }) {
  const delay = 1.5 * gap + 0.1;
  const target = newest + arrived - delay;
  const behind = target - (at + passed);
  const next = Math.abs(behind) > 2 * delay + 0.5 ? target : at + passed * (1 + Math.max(-0.3, Math.min(0.3, behind)));
  return Math.max(oldest, Math.min(newest, next));
}

/**
 * The typical gap of the last arrivals (seconds on this page's clock): the longest of the last few, within bounds.
 * @param {number[]} arrivals
 */
export function gapOf(arrivals) {
  const gaps = arrivals.slice(1).map((one, i) => one - arrivals[i]).slice(-5);
  return gaps.length ? Math.max(0.2, Math.min(4, Math.max(...gaps))) : 1;
}
