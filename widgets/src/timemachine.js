// The time machine of a run: its return over frames, with a cursor that checkpoint, hyperparameters and film follow.
// Python is workbench/widgets/inspector/time_machine.py. Everything but the film is drawn here, from one message.
import { cleared, ink } from "./canvas.js";
import { bytes, rows } from "./columns.js";
import { element, setText } from "./elements.js";
import { heightAt, nextSaved, savedAt, valueAt } from "./history.js";
import { duration, number } from "./numbers.js";
import { extent, linear } from "./scales.js";
import { look, watchTheme } from "./theme.js";

const HEIGHT = 190, LEFT = 56, RIGHT = 14, TOP = 10, BOTTOM = 26; // px
const SETTLE_MS = 300; // before the kernel is told where the cursor stands
const PAGE = 0.1; // of the run, by Page Up and Page Down
const TICKS = 5;

/** @typedef {{saved: import("./history.js").Saved[], fields: import("./history.js").Field[], curve: Record<string, any[]>, y: string}} Course */

class TimeMachine {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    /** @type {Course | null} */
    this.course = null;
    this.at = NaN; // frames
    this.told = "";
    this.settling = this.drawing = 0;
    this.canvas = element("canvas", { class: "wb-curve" });
    this.slider = element("div", {
      class: "wb-time", tabIndex: 0, role: "slider", "aria-label": "moment of the run", title: "drag, or arrows: by checkpoint; Page Up and Page Down: by a tenth; Home and End: to the ends",
    }, this.canvas);
    this.words = element("div", { class: "wb-moment" });
    const step = (/** @type {1 | -1} */ direction, /** @type {string} */ text, /** @type {string} */ title) => element("button", {
      type: "button", title, "aria-label": title, onclick: () => this.#step(direction),
    }, text);
    this.fields = element("div", { class: "wb-values", role: "group", "aria-label": "hyperparameters in force" });
    this.all = element("input", { type: "checkbox", onchange: () => this.draw() });
    this.heading = element("span", {});
    this.root = element("div", { class: "wb-timemachine", role: "group", "aria-label": model.get("label"), "data-lm-suppress-shortcuts": "true" },
      this.slider,
      element("div", { class: "wb-row" }, step(-1, "‹ checkpoint", "to the checkpoint before (left arrow)"),
        step(1, "checkpoint ›", "to the next checkpoint (right arrow)"), this.words),
      element("div", { class: "wb-row" }, this.heading, element("label", {}, this.all, " all hyperparameters")), this.fields);
    this.slider.addEventListener("keydown", event => this.#key(event));
    this.#drag();
    el.append(this.root);
    const receive = (/** @type {any} */ content, /** @type {any[]} */ buffers) => this.receive(content, buffers);
    model.on("msg:custom", receive);
    const resized = new ResizeObserver(() => this.draw());
    resized.observe(this.root);
    const unwatch = watchTheme(() => this.draw());
    this.close = () => {
      model.off("msg:custom", receive);
      resized.disconnect();
      unwatch();
      clearTimeout(this.settling);
      cancelAnimationFrame(this.drawing);
    };
    this.#tell({ type: "hello", view: this.id });
  }

  /** @param {object} content */
  #tell(content) {
    try {
      this.model.send(content);
    } catch { // the kernel has gone: what is here can still be looked at
    }
  }

  /** @param {any} content @param {any[]} buffers */
  receive(content, buffers) {
    if (content.view && content.view !== this.id) return;
    if (content.type === "course") {
      const { saved, fields, columns, y } = content;
      this.course = { saved, fields, y, curve: rows(columns, bytes(buffers[0])) };
      const [first, last] = this.ends;
      if (!(this.at >= first && this.at <= last)) this.#go(content.at ?? saved.at(-1)?.frames ?? last, true);
    } else if (content.type === "at" && content.by !== this.id) {
      this.#go(content.frames, true);
    }
    this.draw();
  }

  /** @returns {[number, number]} first and last frames of the run */
  get ends() {
    const { curve, saved } = /** @type {Course} */ (this.course);
    const [, last] = extent([0, ...curve.frames, ...saved.map(one => one.frames)]);
    return [0, Math.max(1, last)];
  }

  /** Move the cursor. @param {number} frames @param {boolean} [quietly]  without telling the kernel */
  #go(frames, quietly = false) {
    if (!this.course) return;
    const [first, last] = this.ends;
    this.at = Math.round(Math.max(first, Math.min(last, frames)));
    const name = this.course.saved[savedAt(this.course.saved, this.at)]?.name ?? "";
    clearTimeout(this.settling);
    if (quietly) this.told = name;
    else if (name !== this.told) {
      this.settling = window.setTimeout(() => {
        this.told = name;
        this.#tell({ type: "at", view: this.id, checkpoint: name, frames: this.at });
      }, SETTLE_MS);
    }
    this.draw();
  }

  /** @param {1 | -1} direction */
  #step(direction) {
    if (!this.course?.saved.length) return;
    this.#go(this.course.saved[nextSaved(this.course.saved, this.at, direction)].frames);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    event.stopPropagation(); // a notebook has shortcuts of its own
    if (event.ctrlKey || event.metaKey || event.altKey || !this.course) return;
    const [first, last] = this.ends, page = PAGE * (last - first);
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.#step(-1), ArrowDown: () => this.#step(-1), ArrowRight: () => this.#step(1), ArrowUp: () => this.#step(1),
      PageUp: () => this.#go(this.at + page), PageDown: () => this.#go(this.at - page),
      Home: () => this.#go(first), End: () => this.#go(last),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  #drag() {
    const to = (/** @type {PointerEvent} */ event) => {
      if (!this.course) return;
      const { left, width } = this.canvas.getBoundingClientRect(), [first, last] = this.ends;
      this.#go(linear([LEFT, width - RIGHT], first, last)(event.clientX - left));
    };
    this.slider.onpointerdown = event => {
      this.slider.setPointerCapture(event.pointerId);
      to(event);
    };
    this.slider.onpointermove = event => void (event.buttons && to(event));
  }

  /** Draw everything soon. */
  draw() {
    if (!this.drawing) {
      this.drawing = requestAnimationFrame(() => {
        this.drawing = 0;
        this.render();
      });
    }
  }

  render() {
    if (!this.course || !this.root.isConnected) return;
    this.#curve(this.course);
    this.#say(this.course);
    this.#values(this.course);
  }

  /** @param {Course} course */
  #curve({ curve, saved, fields }) {
    const colours = ink(look(this.root)), width = Math.max(200, this.slider.clientWidth);
    const context = cleared(this.canvas, width, HEIGHT), [first, last] = this.ends;
    const x = linear([first, last], LEFT, width - RIGHT);
    const heights = [...curve.value, ...saved.map(one => one.value ?? NaN)].filter(Number.isFinite);
    const domain = extent(heights), y = linear(domain, HEIGHT - BOTTOM, TOP);
    context.font = `12px ${colours.font}`;
    context.fillStyle = colours.text;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of heights.length ? domain : []) context.fillText(number(value), LEFT - 6, y(value));
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let tick = 0; tick < TICKS; tick++) {
      const frames = first + (tick / (TICKS - 1)) * (last - first);
      context.textAlign = tick === TICKS - 1 ? "right" : tick ? "center" : "left";
      context.fillText(`${number(Math.round(frames))}${tick ? "" : " frames"}`, x(frames), HEIGHT - BOTTOM + 8);
    }
    context.fillStyle = colours.faint;
    context.fillRect(LEFT, HEIGHT - BOTTOM, width - LEFT - RIGHT, 1);
    for (const frames of new Set(fields.flatMap(({ values }) => values.slice(1).map(([from]) => from)))) {
      for (let at = TOP; at < HEIGHT - BOTTOM; at += 6) context.fillRect(x(frames), at, 1, 3); // a change
    }
    context.strokeStyle = context.fillStyle = colours.data;
    context.lineWidth = 1.5;
    context.beginPath();
    curve.value.forEach((value, at) => Number.isFinite(value) && context.lineTo(x(curve.frames[at]), y(value)));
    context.stroke();
    const here = savedAt(saved, this.at);
    saved.forEach((one, at) => diamond(context, x(one.frames), y(one.value ?? domain[0]), at === here ? 7 : 5, at === here ? colours.mark : colours.data));
    context.fillStyle = colours.mark;
    context.fillRect(x(this.at) - 1, TOP - 4, 2, HEIGHT - BOTTOM - TOP + 8);
  }

  /** @param {Course} course */
  #say({ curve, saved, y }) {
    const height = heightAt(curve.frames, curve.value, this.at), time = heightAt(curve.frames, curve.time_s, this.at);
    const one = saved[savedAt(saved, this.at)];
    const parts = [`at ${this.at.toLocaleString("en")} frames`, ...(Number.isFinite(height) ? [`${y} ${number(height)}`] : []),
      ...(Number.isFinite(time) ? [`${duration(time)} of training`] : []),
      one ? `checkpoint of ${one.frames.toLocaleString("en")} frames` : "no checkpoint yet"];
    const words = parts.join(" · "), [first, last] = this.ends;
    setText(this.words, words);
    for (const [name, value] of Object.entries({ min: first, max: last, now: this.at, text: words })) {
      this.slider.setAttribute(`aria-value${name}`, String(value));
    }
  }

  /** @param {Course} course */
  #values({ fields }) {
    const now = fields.map(field => ({ ...field, ...valueAt(field, this.at) }));
    const changing = now.filter(({ values }) => values.length > 1), shown = this.all.checked ? now : changing;
    this.heading.textContent = changing.length ? `Hyperparameters that were changed (${changing.length} of ${fields.length}):`
      : "No hyperparameter was changed in this run.";
    this.fields.replaceChildren(...shown.map(({ name, help, text, changed, before, since }) => {
      const words = changed ? `changed from ${before} at ${since.toLocaleString("en")} frames` : "";
      return element("div", { class: `wb-value${changed ? " wb-changed" : ""}`, title: help },
        element("span", { class: "wb-name" }, name), element("b", {}, text), ...(words ? [element("span", { class: "wb-since" }, words)] : []));
    }));
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} size @param {string} colour */
function diamond(context, x, y, size, colour) {
  context.fillStyle = colour;
  context.beginPath();
  [[0, -size], [size, 0], [0, size], [-size, 0]].forEach(([right, down]) => context.lineTo(x + right, y + down));
  context.closePath();
  context.fill();
}

export default {
  /** @param {{model: any, el: HTMLElement}} given */
  render({ model, el }) {
    return new TimeMachine(model, el).close;
  },
};
