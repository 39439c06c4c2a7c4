// The wall: many environments live, each a button with its picture, return and action. Python is
// workbench/widgets/episodes/wall_view.py.
import { cleared, ink } from "./canvas.js";
import { bytes, inflated, rows } from "./columns.js";
import { Contact, Queue } from "./contact.js";
import { element } from "./elements.js";
import { asPicture } from "./frames.js";
import { drawSketch, ratioOf } from "./sketch.js";
import { bars, extent } from "./scales.js";
import { look, watchTheme } from "./theme.js";

const WIDTH = 132; // CSS pixels of a picture
const MOST_BARS = 12;

/** @typedef {{env: number, return: string, step: number, action: string}} Facts */
/** @typedef {{picture: any, pose: any, shape: number[], facts: Facts}} Step */

class Tile {
  /** @param {number} env @param {() => void} open */
  constructor(env, open) {
    this.env = env;
    /** @type {Step | null} */
    this.step = null;
    this.canvas = element("canvas", { class: "wb-tile-picture", role: "presentation" });
    this.words = element("span", { class: "wb-tile-words" }, `${env}`);
    this.action = element("span", { class: "wb-tile-action" }, "…");
    this.el = element("button", { type: "button", class: "wb-tile", "data-env": `${env}`, onclick: open },
      this.canvas, this.words, this.action);
    this.named();
  }

  named() {
    const facts = this.step?.facts;
    const now = facts ? `return ${facts.return}, action ${facts.action}` : "nothing seen yet";
    this.el.setAttribute("aria-label", `Environment ${this.env}: ${now}. Show it alone.`);
    this.words.textContent = facts ? `${this.env} · ${facts.return}` : `${this.env}`;
    this.action.textContent = facts ? facts.action : "…";
    this.el.title = facts ? `environment ${this.env}, step ${facts.step} of its episode` : "";
  }

  /**
   * @param {import("./canvas.js").Ink} colours
   * @param {import("./sketch.js").Sketch | null} sketch
   * @param {[number, number][]} ranges
   */
  draw(colours, sketch, ranges) {
    if (!this.step) return;
    const { picture, pose, shape } = this.step;
    if (shape.length === 3) {
      Object.assign(this.canvas, { width: shape[2], height: shape[1] });
      Object.assign(this.canvas.style, { width: `${WIDTH}px`, height: `${(WIDTH * shape[1]) / shape[2]}px` });
      this.canvas.getContext("2d")?.putImageData(asPicture(picture, shape), 0, 0);
    } else if (sketch) {
      drawSketch(cleared(this.canvas, WIDTH, WIDTH * ratioOf(sketch)), colours, sketch, pose, WIDTH);
    } else {
      this.#bars(colours, picture, ranges);
    }
  }

  /** @param {import("./canvas.js").Ink} colours @param {ArrayLike<number>} values @param {[number, number][]} ranges */
  #bars(colours, values, ranges) {
    const number = Math.min(MOST_BARS, values.length), row = 8, context = cleared(this.canvas, WIDTH, row * number);
    context.fillStyle = colours.data;
    for (let at = 0; at < number; at++) {
      const [{ from, to }] = bars([values[at]], ranges[at]);
      context.fillRect(from * WIDTH, at * row + 1, Math.max(1, (to - from) * WIDTH), row - 2);
    }
  }
}

class Wall {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    /** @type {Map<number, Tile>} */
    this.tiles = new Map();
    /** @type {import("./sketch.js").Sketch | null} */
    this.sketch = null;
    /** @type {[number, number][]} */
    this.ranges = [];
    this.contact = new Contact(model, this.id, text => this.#say(text));
    this.over = this.closed = false;
    this.queue = new Queue(text => this.#say(text));
    this.title = element("div", { class: "wb-title" });
    this.grid = element("div", { class: "wb-wall-grid", role: "group", "aria-label": "environments" });
    this.note = element("div", { class: "wb-note", role: "status" }, "Waiting for the first step …");
    this.root = element("div", { class: "wb-wall", role: "group", "aria-label": model.get("label"), "data-lm-suppress-shortcuts": "true" },
      this.title, this.grid, this.note);
    el.append(this.root);
    const receive = (/** @type {any} */ content, /** @type {any[]} */ buffers) => {
      this.queue.add(() => this.receive(content, buffers.map(bytes)));
    };
    model.on("msg:custom", receive);
    const unwatch = watchTheme(() => this.draw([...this.tiles.values()]));
    const ask = setInterval(() => this.contact.ask(this.over), 1000);
    this.cleanUp = () => {
      this.closed = true;
      model.off("msg:custom", receive);
      unwatch();
      clearInterval(ask);
    };
    this.contact.tell({ type: "hello", view: this.id });
  }

  /** @param {string} text */
  #say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
  }

  /** @param {any} content @param {ArrayBuffer[]} buffers */
  async receive(content, [packed]) {
    if (content.type !== "wall" || (content.view && content.view !== this.id)) return;
    this.contact.hear();
    this.over = content.over;
    this.#lay(content.envs);
    this.title.textContent = content.title;
    for (const tile of this.tiles.values()) tile.el.setAttribute("aria-pressed", String(tile.env === content.opened));
    if (content.cells.length) {
      const columns = rows(content.columns, await inflated(packed));
      if (this.closed) return;
      this.sketch = content.sketch;
      const shape = content.columns[0].shape.slice(1);
      const news = content.cells.flatMap((/** @type {Facts} */ facts, /** @type {number} */ at) => {
        const tile = this.tiles.get(facts.env);
        if (!tile) return [];
        tile.step = { picture: columns.picture[at], pose: columns.pose?.[at], shape, facts };
        tile.named();
        return [tile];
      });
      this.#widen(columns.picture, shape);
      this.draw(news);
    }
    const waiting = [...this.tiles.values()].some(tile => tile.step) ? "" : "Waiting for the first step …";
    this.#say(content.note || waiting);
  }

  /** Bars of one entry have the same ends in all tiles. @param {ArrayLike<number>[]} pictures @param {number[]} shape */
  #widen(pictures, shape) {
    if (shape.length === 3 || this.sketch) return;
    for (let at = 0; at < Math.min(MOST_BARS, shape[0]); at++) {
      this.ranges[at] = extent([...(this.ranges[at] ?? []), ...pictures.map(picture => picture[at])], true);
    }
  }

  /** @param {number[]} envs */
  #lay(envs) {
    if (envs.length === this.tiles.size && envs.every(env => this.tiles.has(env))) return;
    this.tiles = new Map(envs.map(env => [env, this.tiles.get(env) ?? new Tile(env, () => this.contact.tell({ type: "open", env }))]));
    this.grid.replaceChildren(...[...this.tiles.values()].map(tile => tile.el));
  }

  /** @param {Tile[]} tiles */
  draw(tiles) {
    if (!this.root.isConnected) return;
    const colours = ink(look(this.root));
    for (const tile of tiles) tile.draw(colours, this.sketch, this.ranges);
  }
}

export default {
  /** @param {{model: any, el: HTMLElement}} context */
  render({ model, el }) {
    const wall = new Wall(model, el);
    return () => wall.cleanUp();
  },
};
