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
function setText(shown, text) {
  if (shown.textContent !== text) shown.textContent = text;
}

// src/history.js
function lastUpTo(numbers, at) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (numbers[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
var savedAt = (saved, frames) => saved.length ? Math.max(0, lastUpTo(saved.map((one) => one.frames), frames)) : -1;
function nextSaved(saved, frames, direction) {
  const places = saved.map((one) => one.frames);
  return direction > 0 ? Math.min(places.length - 1, lastUpTo(places, frames) + 1) : Math.max(0, lastUpTo(places, frames - 0.5));
}
function heightAt(x, y, at) {
  const before = lastUpTo(x, at);
  if (before < 0 || before === x.length - 1 && at > x[before]) return NaN;
  if (before === x.length - 1 || x[before] === at) return y[before];
  const share = (at - x[before]) / (x[before + 1] - x[before]);
  return y[before] + share * (y[before + 1] - y[before]);
}
function valueAt({ values }, frames) {
  const at = Math.max(0, lastUpTo(values.map(([from]) => from), frames));
  const [since, text] = values[at];
  return { text, since, changed: at > 0, before: at > 0 ? values[at - 1][1] : "" };
}

// src/numbers.js
function general(value, digits) {
  const [mantissa, exponent] = nearest(value, digits).toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const short = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  if (power < -4 || power >= digits) {
    return `${short(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return short(nearest(value, digits).toFixed(digits - 1 - power));
}
function number(value) {
  const size = Math.abs(value);
  if (size >= 1e12) return `${grouped(general(value / 1e12, 4))} T`;
  if (size >= 1e9) return `${grouped(general(value / 1e9, 4))} G`;
  if (size >= 1e6) return `${grouped(general(value / 1e6, 4))} M`;
  return size >= 100 || Number.isInteger(value) ? grouped(whole(value)) : general(value, 3);
}
function duration(seconds) {
  if (seconds < 60) return `${whole(seconds)} s`;
  const minutes = Number(whole(seconds / 60));
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
function whole(value) {
  const below = Math.floor(value), rest = value - below;
  const rounded = rest < 0.5 || rest === 0.5 && below % 2 === 0 ? below : below + 1;
  return String(Object.is(rounded, -0) ? 0 : rounded);
}
function nearest(value, digits) {
  const [mantissa, exponent] = value.toExponential(60).split("e");
  const cut = mantissa.indexOf(".") + digits;
  const even = Number(mantissa[cut - (digits === 1 ? 2 : 1)]) % 2 === 0;
  return even && /^50*$/.test(mantissa.slice(cut)) ? Number(`${mantissa.slice(0, cut)}e${exponent}`) : value;
}
function grouped(text) {
  const [before, ...after] = text.split(/(?=[.e])/);
  return [before.replace(/\B(?=(\d{3})+$)/g, ","), ...after].join("");
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

// src/timemachine.js
var HEIGHT = 190;
var LEFT = 56;
var RIGHT = 14;
var TOP = 10;
var BOTTOM = 26;
var SETTLE_MS = 300;
var PAGE = 0.1;
var TICKS = 5;
var TimeMachine = class {
  /** @param {any} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.course = null;
    this.at = NaN;
    this.told = "";
    this.settling = this.drawing = 0;
    this.canvas = element("canvas", { class: "wb-curve" });
    this.slider = element("div", {
      class: "wb-time",
      tabIndex: 0,
      role: "slider",
      "aria-label": "moment of the run",
      title: "drag, or arrows: by checkpoint; Page Up and Page Down: by a tenth; Home and End: to the ends"
    }, this.canvas);
    this.words = element("div", { class: "wb-moment" });
    const step = (direction, text, title) => element("button", {
      type: "button",
      title,
      "aria-label": title,
      onclick: () => this.#step(direction)
    }, text);
    this.fields = element("div", { class: "wb-values", role: "group", "aria-label": "hyperparameters in force" });
    this.all = element("input", { type: "checkbox", onchange: () => this.draw() });
    this.heading = element("span", {});
    this.root = element(
      "div",
      { class: "wb-timemachine", role: "group", "aria-label": model.get("label"), "data-lm-suppress-shortcuts": "true" },
      this.slider,
      element(
        "div",
        { class: "wb-row" },
        step(-1, "‹ checkpoint", "to the checkpoint before (left arrow)"),
        step(1, "checkpoint ›", "to the next checkpoint (right arrow)"),
        this.words
      ),
      element("div", { class: "wb-row" }, this.heading, element("label", {}, this.all, " all hyperparameters")),
      this.fields
    );
    this.slider.addEventListener("keydown", (event) => this.#key(event));
    this.#drag();
    el.append(this.root);
    const receive = (content, buffers) => this.receive(content, buffers);
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
    } catch {
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
    const { curve, saved } = (
      /** @type {Course} */
      this.course
    );
    const [, last] = extent([0, ...curve.frames, ...saved.map((one) => one.frames)]);
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
    event.stopPropagation();
    if (event.ctrlKey || event.metaKey || event.altKey || !this.course) return;
    const [first, last] = this.ends, page = PAGE * (last - first);
    const keys = {
      ArrowLeft: () => this.#step(-1),
      ArrowDown: () => this.#step(-1),
      ArrowRight: () => this.#step(1),
      ArrowUp: () => this.#step(1),
      PageUp: () => this.#go(this.at + page),
      PageDown: () => this.#go(this.at - page),
      Home: () => this.#go(first),
      End: () => this.#go(last)
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
  #drag() {
    const to = (event) => {
      if (!this.course) return;
      const { left, width } = this.canvas.getBoundingClientRect(), [first, last] = this.ends;
      this.#go(linear([LEFT, width - RIGHT], first, last)(event.clientX - left));
    };
    this.slider.onpointerdown = (event) => {
      this.slider.setPointerCapture(event.pointerId);
      to(event);
    };
    this.slider.onpointermove = (event) => void (event.buttons && to(event));
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
    const heights = [...curve.value, ...saved.map((one) => one.value ?? NaN)].filter(Number.isFinite);
    const domain = extent(heights), y = linear(domain, HEIGHT - BOTTOM, TOP);
    context.font = `12px ${colours.font}`;
    context.fillStyle = colours.text;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const value of heights.length ? domain : []) context.fillText(number(value), LEFT - 6, y(value));
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let tick = 0; tick < TICKS; tick++) {
      const frames = first + tick / (TICKS - 1) * (last - first);
      context.textAlign = tick === TICKS - 1 ? "right" : tick ? "center" : "left";
      context.fillText(`${number(Math.round(frames))}${tick ? "" : " frames"}`, x(frames), HEIGHT - BOTTOM + 8);
    }
    context.fillStyle = colours.faint;
    context.fillRect(LEFT, HEIGHT - BOTTOM, width - LEFT - RIGHT, 1);
    for (const frames of new Set(fields.flatMap(({ values }) => values.slice(1).map(([from]) => from)))) {
      for (let at = TOP; at < HEIGHT - BOTTOM; at += 6) context.fillRect(x(frames), at, 1, 3);
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
    const parts = [
      `at ${this.at.toLocaleString("en")} frames`,
      ...Number.isFinite(height) ? [`${y} ${number(height)}`] : [],
      ...Number.isFinite(time) ? [`${duration(time)} of training`] : [],
      one ? `checkpoint of ${one.frames.toLocaleString("en")} frames` : "no checkpoint yet"
    ];
    const words = parts.join(" · "), [first, last] = this.ends;
    setText(this.words, words);
    for (const [name, value] of Object.entries({ min: first, max: last, now: this.at, text: words })) {
      this.slider.setAttribute(`aria-value${name}`, String(value));
    }
  }
  /** @param {Course} course */
  #values({ fields }) {
    const now = fields.map((field) => ({ ...field, ...valueAt(field, this.at) }));
    const changing = now.filter(({ values }) => values.length > 1), shown = this.all.checked ? now : changing;
    this.heading.textContent = changing.length ? `Hyperparameters that were changed (${changing.length} of ${fields.length}):` : "No hyperparameter was changed in this run.";
    this.fields.replaceChildren(...shown.map(({ name, help, text, changed, before, since }) => {
      const words = changed ? `changed from ${before} at ${since.toLocaleString("en")} frames` : "";
      return element(
        "div",
        { class: `wb-value${changed ? " wb-changed" : ""}`, title: help },
        element("span", { class: "wb-name" }, name),
        element("b", {}, text),
        ...words ? [element("span", { class: "wb-since" }, words)] : []
      );
    }));
  }
};
function diamond(context, x, y, size, colour) {
  context.fillStyle = colour;
  context.beginPath();
  [[0, -size], [size, 0], [0, size], [-size, 0]].forEach(([right, down]) => context.lineTo(x + right, y + down));
  context.closePath();
  context.fill();
}
var timemachine_default = {
  /** @param {{model: any, el: HTMLElement}} given */
  render({ model, el }) {
    return new TimeMachine(model, el).close;
  }
};
export {
  timemachine_default as default
};
