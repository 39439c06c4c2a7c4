// src/canvas.js
function ink({ text, font }) {
  const [red, green, blue] = (text.match(/[\d.]+/g) ?? ["0", "0", "0"]).map(Number);
  const dark = red + green + blue > 384;
  const faint = dark ? "rgba(255,255,255,.28)" : "rgba(0,0,0,.22)";
  return { text, font, faint, data: dark ? "#56b4e9" : "#0072b2", mark: dark ? "#e69f00" : "#d55e00" };
}
function cleared(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = (
    /** @type {CanvasRenderingContext2D} */
    canvas.getContext("2d")
  );
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// src/columns.js
var TYPES = {
  uint8: Uint8Array,
  int32: Int32Array,
  uint32: Uint32Array,
  float32: Float32Array,
  float64: Float64Array
};
function rows(table, buffer) {
  const found = {};
  for (const { name, dtype, shape, offset } of table) {
    const width = shape.slice(1).reduce((all, one) => all * one, 1);
    const values = new TYPES[dtype](buffer, offset, shape[0] * width);
    found[name] = shape.length === 1 ? Array.from(values) : Array.from({ length: shape[0] }, (_, row) => values.subarray(row * width, (row + 1) * width));
  }
  return found;
}
function bytes(buffer) {
  return buffer instanceof DataView ? (
    /** @type {ArrayBuffer} */
    buffer.buffer.slice(buffer.byteOffset, buffer.byteOffset + buffer.byteLength)
  ) : buffer;
}
function inflated(packed) {
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

// src/contact.js
var SILENCE_S = 4;
var LONGEST_SILENCE_S = 60;
var HEARD_S = 10;
var GONE = "This page's kernel has gone, and the view stands still. Run the cell again.";
var Contact = class {
  /**
   * @param {{send(content: object): void}} model
   * @param {string} view
   * @param {(text: string) => void} lost  shows why nothing moves
   */
  constructor(model, view, lost) {
    this.model = model;
    this.view = view;
    this.lost = lost;
    this.heard = this.told = performance.now();
    this.patience = SILENCE_S;
  }
  /** Whether it could be sent: a kernel that restarts or has gone takes nothing. @param {object} content */
  tell(content) {
    try {
      this.model.send(content);
      return true;
    } catch {
      this.lost(GONE);
      return false;
    }
  }
  /** News have come. */
  hear() {
    this.heard = performance.now();
    this.patience = SILENCE_S;
  }
  /**
   * Called once a second: asks for news where none came, and says now and then that somebody looks.
   * @param {boolean} over  whether no news are to be expected, until a run goes on
   * @param {object} [more]  of the question
   */
  ask(over, more = {}) {
    if (document.hidden) return;
    const now = performance.now();
    if (!over && now - this.heard > this.patience * 1e3) {
      this.heard = now;
      this.patience = Math.min(2 * this.patience, LONGEST_SILENCE_S);
      this.tell({ type: "pull", view: this.view, ...more });
    } else if (now - this.told > HEARD_S * 1e3) {
      this.told = now;
      this.tell({ type: "seen" });
    }
  }
};
var Queue = class {
  /** @param {(text: string) => void} failed */
  constructor(failed) {
    this.failed = failed;
    this.last = Promise.resolve();
  }
  /** @param {() => any} task */
  add(task) {
    this.last = this.last.then(task).catch((error) => this.failed(`Something that came could not be shown: ${error}`));
  }
};

// src/elements.js
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class" || name === "role" || name.includes("-")) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

// src/pixels.js
var BRIGHT = [
  [86, 180, 233],
  [230, 159, 0],
  [255, 255, 255],
  [240, 228, 66],
  [0, 158, 115],
  [213, 94, 0],
  [204, 121, 167],
  [0, 114, 178]
];
var PLANES = [
  ...BRIGHT,
  ...BRIGHT.map((one) => one.map((value) => Math.floor(55 * value / 100))),
  ...BRIGHT.filter((one) => one.some((value) => value < 255)).map((one) => one.map((value) => value + Math.floor((255 - value) / 2)))
];
function toRgba(values, [channels, height, width]) {
  const size = height * width, rgba = new Uint8ClampedArray(size * 4).fill(255);
  const lit = channels === 1 || channels === 3 ? null : counts(values, channels, size);
  for (let pixel = 0; pixel < size; pixel++) {
    for (let colour = 0; colour < 3; colour++) {
      rgba[pixel * 4 + colour] = channels === 1 ? values[pixel] : channels === 3 ? values[colour * size + pixel] : lit ? rarest(values, pixel, size, lit)[colour] : brightest(values, pixel, size, channels, colour);
    }
  }
  return rgba;
}
function counts(values, channels, size) {
  const found = new Array(channels).fill(0);
  for (let at = 0; at < channels * size; at++) {
    if (values[at] === 255) found[Math.floor(at / size)] += 1;
    else if (values[at] !== 0) return null;
  }
  return found;
}
function rarest(values, pixel, size, lit) {
  let best = -1;
  lit.forEach((count, plane) => {
    if (values[plane * size + pixel] && (best < 0 || count < lit[best])) best = plane;
  });
  return best < 0 ? [0, 0, 0] : PLANES[best % PLANES.length];
}
function brightest(values, pixel, size, channels, colour) {
  let light = 0;
  for (let plane = 0; plane < channels; plane++) {
    const value = values[plane * size + pixel];
    if (value) light = Math.max(light, PLANES[plane % PLANES.length][colour] * value / 255);
  }
  return light;
}

// src/frames.js
var asPicture = (values, shape) => new ImageData(toRgba(values, shape), shape[2], shape[1]);

// src/sketch.js
var ratioOf = ({ box: [left, bottom, right, top] }) => (top - bottom) / (right - left);
function drawSketch(context, ink2, { box: [left, , right, top], shapes }, pose, width) {
  const scale = width / (right - left), colours = { line: ink2.faint, data: ink2.data, mark: ink2.mark };
  shapes.forEach(({ role, points, width: stroke }, at) => {
    context.save();
    context.translate((pose[3 * at] - left) * scale, (top - pose[3 * at + 1]) * scale);
    context.rotate(-pose[3 * at + 2]);
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(x * scale, -y * scale));
    context.fillStyle = context.strokeStyle = colours[role];
    context.lineWidth = Math.max(1, stroke * scale);
    if (stroke) context.stroke();
    else context.fill();
    context.restore();
  });
}

// src/scales.js
function extent(values, withZero = false) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (withZero) [low, high] = [Math.min(0, low), Math.max(0, high)];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}
function linear([low, high], start, end) {
  return (value) => start + (value - low) / (high - low) * (end - start);
}
function bars(scores, domain) {
  const place = linear(domain, 0, 1);
  const zero = Math.max(0, Math.min(1, place(0)));
  return Array.from(scores, (value) => {
    const end = Math.max(0, Math.min(1, place(value)));
    return Number.isFinite(value) ? { from: Math.min(zero, end), to: Math.max(zero, end) } : { from: zero, to: zero };
  });
}

// src/theme.js
function look(el) {
  const style = getComputedStyle(el);
  const [text, background, font] = [style.color, style.backgroundColor, style.fontFamily];
  return { text, background, font, key: [text, background, font].join("|") };
}
function watchTheme(changed) {
  let timers = [];
  const observer = new MutationObserver(() => {
    timers.forEach(clearTimeout);
    timers = [0, 400].map((after) => setTimeout(changed, after));
  });
  const attributeFilter = ["data-jp-theme-name", "data-jp-theme-light", "class", "data-vscode-theme-kind", "theme"];
  observer.observe(document.body, { attributes: true, attributeFilter });
  observer.observe(document.documentElement, { attributes: true, attributeFilter });
  return () => {
    observer.disconnect();
    timers.forEach(clearTimeout);
  };
}

// src/wall.js
var WIDTH = 132;
var MOST_BARS = 12;
var Tile = class {
  /** @param {number} env @param {() => void} open */
  constructor(env, open) {
    this.env = env;
    this.step = null;
    this.canvas = element("canvas", { class: "wb-tile-picture", role: "presentation" });
    this.words = element("span", { class: "wb-tile-words" }, `${env}`);
    this.action = element("span", { class: "wb-tile-action" }, "…");
    this.el = element(
      "button",
      { type: "button", class: "wb-tile", "data-env": `${env}`, onclick: open },
      this.canvas,
      this.words,
      this.action
    );
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
      Object.assign(this.canvas.style, { width: `${WIDTH}px`, height: `${WIDTH * shape[1] / shape[2]}px` });
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
};
var Wall = class {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.tiles = /* @__PURE__ */ new Map();
    this.sketch = null;
    this.ranges = [];
    this.contact = new Contact(model, this.id, (text) => this.#say(text));
    this.over = this.closed = false;
    this.queue = new Queue((text) => this.#say(text));
    this.title = element("div", { class: "wb-title" });
    this.grid = element("div", { class: "wb-wall-grid", role: "group", "aria-label": "environments" });
    this.note = element("div", { class: "wb-note", role: "status" }, "Waiting for the first step …");
    this.root = element(
      "div",
      { class: "wb-wall", role: "group", "aria-label": model.get("label"), "data-lm-suppress-shortcuts": "true" },
      this.title,
      this.grid,
      this.note
    );
    el.append(this.root);
    const receive = (content, buffers) => {
      this.queue.add(() => this.receive(content, buffers.map(bytes)));
    };
    model.on("msg:custom", receive);
    const unwatch = watchTheme(() => this.draw([...this.tiles.values()]));
    const ask = setInterval(() => this.contact.ask(this.over), 1e3);
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
    if (content.type !== "wall" || content.view && content.view !== this.id) return;
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
      const news = content.cells.flatMap((facts, at) => {
        const tile = this.tiles.get(facts.env);
        if (!tile) return [];
        tile.step = { picture: columns.picture[at], pose: columns.pose?.[at], shape, facts };
        tile.named();
        return [tile];
      });
      this.#widen(columns.picture, shape);
      this.draw(news);
    }
    const waiting = [...this.tiles.values()].some((tile) => tile.step) ? "" : "Waiting for the first step …";
    this.#say(content.note || waiting);
  }
  /** Bars of one entry have the same ends in all tiles. @param {ArrayLike<number>[]} pictures @param {number[]} shape */
  #widen(pictures, shape) {
    if (shape.length === 3 || this.sketch) return;
    for (let at = 0; at < Math.min(MOST_BARS, shape[0]); at++) {
      this.ranges[at] = extent([...this.ranges[at] ?? [], ...pictures.map((picture) => picture[at])], true);
    }
  }
  /** @param {number[]} envs */
  #lay(envs) {
    if (envs.length === this.tiles.size && envs.every((env) => this.tiles.has(env))) return;
    this.tiles = new Map(envs.map((env) => [env, this.tiles.get(env) ?? new Tile(env, () => this.contact.tell({ type: "open", env }))]));
    this.grid.replaceChildren(...[...this.tiles.values()].map((tile) => tile.el));
  }
  /** @param {Tile[]} tiles */
  draw(tiles) {
    if (!this.root.isConnected) return;
    const colours = ink(look(this.root));
    for (const tile of tiles) tile.draw(colours, this.sketch, this.ranges);
  }
};
var wall_default = {
  /** @param {{model: any, el: HTMLElement}} context */
  render({ model, el }) {
    const wall = new Wall(model, el);
    return () => wall.cleanUp();
  }
};
export {
  wall_default as default
};
