// Tables as the kernel sends them: columns of float64 in one buffer, strings beside it.

/** @typedef {{length: number, numbers: string[], texts: Record<string, string[]>, buffer: number | null}} Packed */
/** @typedef {{length: number, columns: Record<string, ArrayLike<number | string>>}} Table */

/** @param {Packed} packed @param {DataView[]} buffers @returns {Table} */
export function unpack(packed, buffers) {
  /** @type {Table["columns"]} */
  const columns = { ...packed.texts };
  if (packed.buffer !== null) {
    const view = buffers[packed.buffer];
    const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength); // aligned, and our own
    const all = new Float64Array(bytes);
    packed.numbers.forEach((name, at) => {
      columns[name] = all.subarray(at * packed.length, (at + 1) * packed.length);
    });
  }
  return { length: packed.length, columns };
}

/** Whether both show the same. @param {Table} one @param {Table} other */
export function equal(one, other) {
  const names = Object.keys(one.columns);
  return one.length === other.length && names.length === Object.keys(other.columns).length
    && names.every((name) => {
      const [column, before] = [one.columns[name], other.columns[name]];
      return before !== undefined && Array.prototype.every.call(column, (value, at) => Object.is(value, before[at]));
    });
}

/** Rows as Vega wants them; what is not a finite number becomes null.
 * @param {Table} table @returns {Record<string, number | string | null>[]} */
export function rows({ length, columns }) {
  const names = Object.keys(columns);
  return Array.from({ length }, (_, at) => {
    /** @type {Record<string, number | string | null>} */
    const row = {};
    for (const name of names) {
      const value = columns[name][at];
      row[name] = typeof value === "number" && !Number.isFinite(value) ? null : value;
    }
    return row;
  });
}
