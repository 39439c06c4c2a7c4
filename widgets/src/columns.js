// Arrays that workbench/wire/columns.py packed into one string of bytes.

/** @typedef {Uint8Array | Int32Array | Uint32Array | Float32Array | Float64Array} Values */
/** @typedef {{name: string, dtype: string, shape: number[], offset: number}} Column */

/** @type {Record<string, any>} */
const TYPES = {
  uint8: Uint8Array, int32: Int32Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array,
};

/**
 * One list per column, with a row's values in each place: numbers for columns of one axis, else typed arrays.
 * @param {Column[]} table
 * @param {ArrayBuffer} buffer  aligned from its start
 * @returns {Record<string, any[]>}
 */
export function rows(table, buffer) {
  /** @type {Record<string, any[]>} */
  const found = {};
  for (const { name, dtype, shape, offset } of table) {
    const width = shape.slice(1).reduce((all, one) => all * one, 1);
    const values = new TYPES[dtype](buffer, offset, shape[0] * width);
    found[name] = shape.length === 1
      ? Array.from(values)
      : Array.from({ length: shape[0] }, (_, row) => values.subarray(row * width, (row + 1) * width));
  }
  return found;
}

/**
 * The bytes of a message's buffer, from an ArrayBuffer's start: what front ends hand over may begin anywhere.
 * @param {DataView | ArrayBuffer} buffer
 * @returns {ArrayBuffer}
 */
export function bytes(buffer) {
  return buffer instanceof DataView
    ? /** @type {ArrayBuffer} */ (buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength))
    : buffer;
}

/**
 * What zlib compressed.
 * @param {ArrayBuffer} packed
 * @returns {Promise<ArrayBuffer>}
 */
export function inflated(packed) {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}
