// From values to places on a canvas. No DOM.

/**
 * Least and greatest of the finite values, widened where they are one; [0, 1] of none.
 * @param {Iterable<number>} values
 * @param {boolean} [withZero]
 * @returns {[number, number]}
 */
export function extent(values, withZero = false) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (withZero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/**
 * The place of a value in [start, end].
 * @param {[number, number]} domain
 * @param {number} start
 * @param {number} end
 * @returns {(value: number) => number}
 */
export function linear([low, high], start, end) {
  return value => start + ((value - low) / (high - low)) * (end - start);
}

/**
 * Where the bars of one step's scores begin and end, as shares of the width: from 0 (or the nearest end) to the value.
 * @param {ArrayLike<number>} scores
 * @param {[number, number]} domain
 */
export function bars(scores, domain) {
  const place = linear(domain, 0, 1);
  const zero = Math.max(0, Math.min(1, place(0)));
  return Array.from(scores, value => {
    const end = Math.max(0, Math.min(1, place(value)));
    return Number.isFinite(value) ? { from: Math.min(zero, end), to: Math.max(zero, end) } : { from: zero, to: zero };
  });
}

/**
 * Which actions to draw where there is room for `most`: all, or the best and the chosen one; in their own order.
 * @param {ArrayLike<number>} scores
 * @param {number} chosen
 * @param {number} most
 */
export function shown(scores, chosen, most) {
  const all = Array.from(scores, (_, action) => action);
  if (all.length <= most) return all;
  const best = [...all].sort((a, b) => scores[b] - scores[a]).slice(0, most);
  if (chosen >= 0 && !best.includes(chosen)) best[most - 1] = chosen;
  return best.sort((a, b) => a - b);
}

/**
 * Lowest and highest value in each of `width` pixel columns, or null where there is none: what a line of any length
 * looks like at that width.
 * @param {number[]} values
 * @param {number} width
 * @param {number} [length]  of the whole axis, where values end earlier
 * @returns {([number, number] | null)[]}
 */
export function columnsOf(values, width, length = values.length) {
  /** @type {([number, number] | null)[]} */
  const columns = new Array(width).fill(null);
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const at = pixelOf(i, width, length);
    const column = columns[at];
    columns[at] = column ? [Math.min(column[0], value), Math.max(column[1], value)] : [value, value];
  });
  return columns;
}

/**
 * The pixel column of step `index`.
 * @param {number} index
 * @param {number} width
 * @param {number} length
 */
export const pixelOf = (index, width, length) => Math.round((index / Math.max(1, length - 1)) * (width - 1));

/**
 * The step at pixel `x`: the inverse of pixelOf.
 * @param {number} x
 * @param {number} width
 * @param {number} length
 */
export function stepAt(x, width, length) {
  return Math.max(0, Math.min(length - 1, Math.round((x / Math.max(1, width - 1)) * (length - 1))));
}

/**
 * CSS size of a picture of w by h pixels: the largest whole multiple that fits, or smaller than itself if it must.
 * @param {number} w
 * @param {number} h
 * @param {number} roomW
 * @param {number} roomH
 */
export function fitted(w, h, roomW, roomH) {
  const scale = Math.min(roomW / w, roomH / h);
  const used = scale >= 1 ? Math.floor(scale) : scale;
  return { width: Math.round(w * used), height: Math.round(h * used) };
}
