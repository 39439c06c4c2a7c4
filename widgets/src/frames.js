// Pictures by step: files that the browser decodes shortly before they are shown, or observations as they are.
import { toRgba } from "./pixels.js";

const AHEAD = 24, BEHIND = 6; // decoded pictures kept around the one that is shown

/**
 * Pictures of one episode: PNG or JPEG files that lie one after the other in `data`; an empty one is that before it.
 * `at(i)` is the picture if it is decoded; if not, `ready` is called once it is.
 */
export class Pictures {
  /**
   * @param {ArrayBuffer} data
   * @param {number[]} ends  offset behind each picture
   * @param {string} mime
   * @param {() => void} ready
   */
  constructor(data, ends, mime, ready) {
    this.data = data;
    this.ends = ends;
    this.mime = mime;
    this.ready = ready;
    /** @type {Map<number, ImageBitmap | null>} */
    this.decoded = new Map();
    this.wanted = 0;
    this.closed = false;
  }

  /** @param {number} step @returns {ImageBitmap | null} */
  at(step) {
    const i = this.#shown(step);
    this.wanted = i;
    for (const [other, picture] of this.decoded) {
      if (other < i - BEHIND || other > i + AHEAD) this.#drop(other, picture);
    }
    for (let next = i; next <= Math.min(i + AHEAD, this.ends.length - 1); next++) {
      if (this.#shown(next) === next && !this.decoded.has(next)) this.#decode(next);
    }
    return this.decoded.get(i) ?? null;
  }

  /** The step whose picture stands for this one: itself, or where that has none, the last before it that has one.
   * @param {number} i */
  #shown(i) {
    while (i > 0 && this.ends[i] === this.ends[i - 1]) i -= 1;
    return i;
  }

  /** @param {number} i */
  async #decode(i) {
    this.decoded.set(i, null);
    const file = new Blob([this.data.slice(this.ends[i - 1] ?? 0, this.ends[i])], { type: this.mime });
    const picture = await createImageBitmap(file).catch(() => null);
    if (!picture || this.closed || !this.decoded.has(i)) return void picture?.close();
    this.decoded.set(i, picture);
    if (i === this.wanted) this.ready();
  }

  /** @param {number} i @param {ImageBitmap | null} picture */
  #drop(i, picture) {
    picture?.close();
    this.decoded.delete(i);
  }

  close() {
    this.closed = true;
    for (const [i, picture] of this.decoded) this.#drop(i, picture);
  }
}

/**
 * An observation [channels, height, width] as a picture.
 * @param {ArrayLike<number>} values
 * @param {number[]} shape
 */
export const asPicture = (values, shape) => new ImageData(toRgba(values, shape), shape[2], shape[1]);
