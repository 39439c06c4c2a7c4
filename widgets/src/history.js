// What held at a moment of a run: its return, its checkpoint, its hyperparameters. No DOM.

/**
 * @typedef {{name: string, frames: number, value: number | null}} Saved  a checkpoint, ascending by frames
 * @typedef {{name: string, help: string, values: [number, string][]}} Field  each value with the frames from which on it
 *   held, ascending; the first from the beginning
 */

/** The index of the last of ascending numbers that is not after `at`; -1: all are. @param {ArrayLike<number>} numbers @param {number} at */
export function lastUpTo(numbers, at) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The checkpoint that held the weights at `frames`, or the first one before it; -1: there is none.
 * @param {Saved[]} saved @param {number} frames */
export const savedAt = (saved, frames) => saved.length ? Math.max(0, lastUpTo(saved.map(one => one.frames), frames)) : -1;

/** The next checkpoint in a direction; the nearest end where there is none.
 * @param {Saved[]} saved @param {number} frames @param {1 | -1} direction */
export function nextSaved(saved, frames, direction) {
  const places = saved.map(one => one.frames);
  return direction > 0 ? Math.min(places.length - 1, lastUpTo(places, frames) + 1)
    : Math.max(0, lastUpTo(places, frames - 0.5));
}

/** The curve's height there, between its points; NaN outside. @param {ArrayLike<number>} x @param {ArrayLike<number>} y @param {number} at */
export function heightAt(x, y, at) {
  const before = lastUpTo(x, at);
  if (before < 0 || (before === x.length - 1 && at > x[before])) return NaN;
  if (before === x.length - 1 || x[before] === at) return y[before];
  const share = (at - x[before]) / (x[before + 1] - x[before]);
  return y[before] + share * (y[before + 1] - y[before]);
}

/** The value of a field at `frames`, and since when; `changed`: whether that is not its first one.
 * @param {Field} field @param {number} frames */
export function valueAt({ values }, frames) {
  const at = Math.max(0, lastUpTo(values.map(([from]) => from), frames));
  const [since, text] = values[at];
  return { text, since, changed: at > 0, before: at > 0 ? values[at - 1][1] : "" };
}
