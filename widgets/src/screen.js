// One episode on the page: its picture, the scores of its actions beside it, and strip charts below.
import { inflated } from "./columns.js";
import { drawnOf, drawPolicy, drawVector } from "./bars.js";
import { drawCursor, drawStrips, PLOT_LEFT, plotWidth, STRIPS } from "./draw.js";
import { element } from "./elements.js";
import { asPicture, Pictures } from "./frames.js";
import { number } from "./numbers.js";
import { heat } from "./pixels.js";
import { rowsOf } from "./policy.js";
import { extent, fitted, stepAt } from "./scales.js";
import { said } from "./track.js";

const TALLEST = 420; // CSS pixels of a picture, and of the policy beside it, which scrolls where it is taller
const SCROLLBAR = 16;
const SIDE_BY_SIDE = 460; // width from which the scores stand beside the picture

/** @typedef {import("./track.js").Track} Track */
/**
 * @typedef {object} Header
 * @property {string} title
 * @property {string} label  for screen readers
 * @property {string} actions  their kind
 * @property {import("./policy.js").Group[]} groups  of bars
 * @property {string} kind  of the scores
 * @property {number} fps
 * @property {{mime: string, width: number, height: number} | null} picture  of files; null: observations are drawn
 * @property {number[]} shape  of the observations, where they are sent: without pictures, or with a saliency that is
 *   of numbers, or of another view than the pictures'
 * @property {string[]} entries  names of a vector's numbers
 * @property {number[] | null} saliency  its shape
 * @property {string} note
 * @property {string} [key]  name of the episode; "": of none that is kept
 * @property {string} [why]  why no other future of it can be played; "": one can
 * @property {{parent: string, at: number, change: string} | null} [branch]  where it left its parent
 */

export class Screen {
  /**
   * @param {Header} header
   * @param {Track} track
   * @param {object} given
   * @param {ArrayBuffer} [given.pictures]
   * @param {ArrayBuffer} [given.saliency]  compressed
   * @param {(step: number) => void} given.seek
   * @param {() => void} given.redraw
   */
  constructor(header, track, { pictures, saliency, seek, redraw }) {
    this.header = header;
    this.track = track;
    this.overlay = { on: false, opacity: 0.7 };
    this.packedSaliency = saliency;
    this.vector = header.shape.length === 1;
    this.image = Boolean(header.picture) || !this.vector;
    this.pictures = header.picture && pictures
      ? new Pictures(pictures, track.columns.picture_end, header.picture.mime, redraw) : null;
    /** @type {Uint8Array | null} */
    this.saliency = null;
    this.redraw = redraw;
    this.scrolls = false;
    /** @type {{track: Track, at: number} | null} */
    this.other = null;
    this.charts = STRIPS;
    /** @type {[number, number]} */
    this.domain = [0, 1];
    /** @type {[number, number][]} */
    this.domains = [];
    this.stripsFor = "";
    this.stale = true;
    this.canvas = element("canvas", { class: "wb-picture", role: "img", "aria-label": header.label });
    this.values = element("canvas", { class: "wb-values", role: "img", "aria-label": "observation" });
    this.scores = element("canvas", { class: "wb-scores", role: "img", "aria-label": "scores of the actions" });
    this.policy = element("div", { class: "wb-policy", role: "group", "aria-label": "policy" }, this.scores);
    this.strips = element("canvas", { class: "wb-strips", role: "img", "aria-label": "value, reward and return by step" });
    this.drawn = document.createElement("canvas");
    this.words = element("div", { class: "wb-said" });
    this.legend = element("div", { class: "wb-parting", hidden: true });
    this.top = element("div", { class: "wb-top" }, ...(this.image ? [this.canvas] : [this.values]), this.policy);
    const note = header.note ? [element("div", { class: "wb-remark" }, header.note)] : [];
    this.el = element("section", { class: "wb-screen", "aria-label": header.label },
      element("div", { class: "wb-title" }, header.title), ...note, this.top, ...(this.image && this.vector ? [this.values] : []),
      this.words, this.strips, this.legend);
    this.#seekBy(seek);
    this.changed();
  }

  /** The data are others, or more than before. */
  changed() {
    const { columns } = this.track;
    this.charts = STRIPS.filter(({ name }) => name === "reward" || this.track.column(name).length);
    const scores = [...(columns.scores ?? []), ...(this.other?.track.columns.scores ?? [])];
    this.domain = this.header.kind === "q_value" ? extent(scores.flatMap(row => Array.from(row))) : [0, 1];
    if (this.vector) {
      const entries = Array.from({ length: drawnOf(this.header.shape[0]) }, (_, i) => i);
      this.domains = entries.map(i => extent((columns.observation ?? []).map(row => row[i]), true));
    }
    this.stale = true;
  }

  /**
   * Another future of this episode, to be seen in the charts from where they part; null: none.
   * @param {{track: Track, at: number} | null} other
   */
  beside(other) {
    if (other?.track === this.other?.track) return;
    this.other = other;
    this.legend.hidden = !other;
    this.legend.textContent = other ? `Solid is this future, dashed the other one; they part at step ${other.at}.` : "";
    this.changed();
  }

  /**
   * Show step `at`.
   * @param {number} at
   * @param {import("./draw.js").Ink} ink
   * @param {number} length  of the time axis
   */
  show(at, ink, length) {
    if (!this.track.length) return;
    const width = Math.max(200, this.el.clientWidth);
    const beside = width >= SIDE_BY_SIDE && this.image;
    if (this.vector) this.#vector(at, ink, width);
    if (this.image) {
      this.#size(beside ? width * 0.55 : width);
      this.#picture(at);
    }
    this.#scores(at, ink, beside ? width - this.canvas.clientWidth - 16 : width);
    if (this.stale || this.stripsFor !== `${width} ${length} ${ink.text}`) {
      drawStrips(this.drawn, ink, this.track, this.charts, width, length, this.other);
      this.stripsFor = `${width} ${length} ${ink.text}`;
      this.stale = false;
    }
    drawCursor(this.strips, this.drawn, ink, this.track, this.charts, at, width, length);
    this.words.textContent = said(this.track, at, this.header, number);
  }

  /** @param {number} room  CSS pixels for the picture */
  #size(room) {
    const { picture, shape } = this.header;
    const [width, height] = picture && !this.#explained() ? [picture.width, picture.height] : [shape[2], shape[1]];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const css = fitted(width, height, room, TALLEST);
    Object.assign(this.canvas.style, { width: `${css.width}px`, height: `${css.height}px` });
  }

  /** @param {number} at */
  #picture(at) {
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    if (this.pictures && !this.#explained()) {
      const picture = this.pictures.at(at);
      if (!picture) return; // the one before stays until it is decoded
      context.imageSmoothingEnabled = false;
      context.drawImage(picture, 0, 0, this.canvas.width, this.canvas.height);
    } else {
      context.putImageData(asPicture(this.track.columns.observation[at], this.header.shape), 0, 0);
    }
    this.canvas.dataset.step = String(this.track.first + at);
    if (this.overlay.on && this.saliency && this.header.saliency?.length === 3) this.#heat(context, at);
  }

  /** Whether the observation stands in for the picture, since the saliency that is switched on is not of that. */
  #explained() {
    return this.overlay.on && this.header.shape.length === 3;
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} at
   */
  #heat(context, at) {
    const [steps, height, width] = /** @type {number[]} */ (this.header.saliency);
    if (at >= steps) return;
    const values = /** @type {Uint8Array} */ (this.saliency).subarray(at * height * width, (at + 1) * height * width);
    const canvas = element("canvas", { width, height });
    canvas.getContext("2d")?.putImageData(new ImageData(heat(values, this.overlay.opacity), width, height), 0, 0);
    context.imageSmoothingEnabled = true;
    context.drawImage(canvas, 0, 0, this.canvas.width, this.canvas.height);
  }

  /**
   * @param {number} at
   * @param {import("./draw.js").Ink} ink
   * @param {number} width
   */
  #vector(at, ink, width) {
    const [steps, entries] = this.header.saliency ?? [0, 0];
    const counts = this.overlay.on && this.saliency && at < steps
      ? this.saliency.subarray(at * entries, (at + 1) * entries) : null;
    drawVector(this.values, ink, this.track.columns.observation[at], this.header.entries, this.domains, counts, width);
  }

  /**
   * @param {number} at
   * @param {import("./draw.js").Ink} ink
   * @param {number} width
   */
  #scores(at, ink, width) {
    const { scores, action } = this.track.columns;
    const rows = rowsOf(this.header, scores[at], action[at], this.domain, number);
    const zero = this.header.kind === "q_value" ? this.domain : null;
    const height = drawPolicy(this.scores, ink, rows, zero, this.scrolls ? width - SCROLLBAR : width, TALLEST);
    if (height > TALLEST + 2 === this.scrolls) return;
    this.scrolls = height > TALLEST + 2;
    if (this.scrolls) this.policy.tabIndex = 0; // arrows up and down scroll
    this.#scores(at, ink, width);
  }

  /**
   * Switch the overlay.
   * @param {boolean} on
   * @param {number} opacity
   */
  async overlaid(on, opacity) {
    this.overlay = { on, opacity };
    if (on && !this.saliency && this.packedSaliency) {
      this.saliency = new Uint8Array(await inflated(this.packedSaliency));
    }
    this.redraw();
  }

  /** @param {(step: number) => void} seek */
  #seekBy(seek) {
    const to = (/** @type {PointerEvent} */ event) => {
      const x = event.clientX - this.strips.getBoundingClientRect().left - PLOT_LEFT;
      const length = Number((this.stripsFor || "0 1").split(" ")[1]);
      seek(stepAt(x, plotWidth(this.el.clientWidth), length));
    };
    this.strips.onpointerdown = event => {
      this.strips.setPointerCapture(event.pointerId);
      to(event);
    };
    this.strips.onpointermove = event => void (event.buttons && to(event));
  }

  close() {
    this.pictures?.close();
  }
}
