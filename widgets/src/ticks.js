// Round numbers on an axis, and ranges of it. No DOM.

/** @typedef {[number, number]} Range */

/** About so many round numbers in a range. @param {Range} range @param {number} count @returns {number[]} */
export function rounded([low, high], count) {
  if (!(high > low)) return [];
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough * 0.999) ?? rough;
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/** Powers of ten in a range, or where there are too few, round numbers. @param {Range} range */
export function decades([low, high]) {
  const powers = [];
  for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += 1) powers.push(10 ** power);
  const every = Math.ceil(powers.length / 7);
  return powers.length > 1 ? powers.filter((_, at) => at % every === 0) : rounded([low, high], 4);
}

/** A number on an axis: 950, 12.5k, 1.2M, 3e-5. @param {number} value */
export function label(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of /** @type {[number, string][]} */ ([[1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (size >= unit && size < 1e12) return `${Number((value / unit).toPrecision(4))}${letter}`;
  }
  return size && (size < 1e-3 || size >= 1e12) ? Number(value.toPrecision(3)).toExponential() : String(Number(value.toPrecision(4)));
}

/** A range moved and cut so that it lies in the whole. @param {Range} range @param {Range} whole @returns {Range} */
export function within([low, high], [first, last]) {
  const length = Math.min(high - low, last - first);
  const start = Math.max(first, Math.min(low, last - length));
  return [start, start + length];
}

/** A range made longer by a factor around a value, within the whole, and never shorter than a millionth of it.
 * @param {Range} range @param {number} value @param {number} factor @param {Range} whole @returns {Range} */
export function zoomed([low, high], value, factor, whole) {
  const length = Math.max((high - low) * factor, (whole[1] - whole[0]) / 1e6);
  if (length >= whole[1] - whole[0]) return whole;
  const start = value - ((value - low) / (high - low)) * length;
  return within([start, start + length], whole);
}

/** The index of the number that is nearest to a value; -1 of none. @param {number[]} sorted @param {number} value */
export function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle;
    else high = middle;
  }
  return high >= 0 && value - sorted[low] > sorted[high] - value ? high : Math.min(low, high);
}
