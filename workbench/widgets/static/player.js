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
function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  while (text && context.measureText(`${text}…`).width > width) text = text.slice(0, -1);
  return `${text}…`;
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
function setText(shown2, text) {
  if (shown2.textContent !== text) shown2.textContent = text;
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

// src/timeline.js
var SPEEDS = ["0.25", "0.5", "1", "2", "4", "max"];
var FASTEST_PER_SECOND = 240;
var frameAt = (times, time) => Math.max(0, lastUpTo(times, time));
var factor = (choice, fps) => choice === "max" ? FASTEST_PER_SECOND / fps : Number(choice);
function nextReward(rewards, from, direction) {
  for (let at = from + direction; at >= 0 && at < rewards.length; at += direction) {
    if (rewards[at] !== 0 && !Number.isNaN(rewards[at])) return at;
  }
  return null;
}
function rate(times) {
  const last = times.length - 1, first = Math.max(0, last - 60);
  const seconds = times[last] - times[first];
  return seconds > 0 ? (last - first) / seconds : 15;
}
function follow({ at, passed, oldest, newest, arrived, gap }) {
  const delay = 1.5 * gap + 0.1;
  const target = newest + arrived - delay;
  const behind = target - (at + passed);
  const next = Math.abs(behind) > 2 * delay + 0.5 ? target : at + passed * (1 + Math.max(-0.3, Math.min(0.3, behind)));
  return Math.max(oldest, Math.min(newest, next));
}
function gapOf(arrivals) {
  const gaps = arrivals.slice(1).map((one, i) => one - arrivals[i]).slice(-5);
  return gaps.length ? Math.max(0.2, Math.min(4, Math.max(...gaps))) : 1;
}

// src/controls.js
var KEYS = {
  " ": "play",
  k: "play",
  ArrowLeft: "back",
  ArrowRight: "forward",
  Home: "first",
  End: "last",
  n: "reward",
  p: "before"
};
var HELP = "Keys: space plays and pauses, arrows step, Home and End go to the ends, n and p to rewards.";
function controls({ command, seek, speed, overlay }, live) {
  const button = (name, text, title) => element("button", { type: "button", class: `wb-${name}`, title, "aria-label": title, onclick: () => command(name) }, text);
  const scrub = element("input", {
    type: "range",
    class: "wb-scrub",
    min: "0",
    max: "0",
    value: "0",
    "aria-label": "step",
    oninput: () => seek(Number(scrub.value))
  });
  const play = button("play", "Play", "play (space)");
  const where = element("output", { class: "wb-where" });
  const choice = element(
    "select",
    { class: "wb-speed", "aria-label": "speed", onchange: () => speed(choice.value) },
    ...SPEEDS.map((one) => element("option", { value: one, selected: one === "1" }, one === "max" ? "fastest" : `${one}×`))
  );
  const opacity = element("input", { type: "range", class: "wb-opacity", min: "0.1", max: "1", step: "0.05", value: "0.7", "aria-label": "opacity of the saliency" });
  const on = element("input", { type: "checkbox", class: "wb-overlay" });
  on.onchange = opacity.oninput = () => overlay(on.checked, Number(opacity.value));
  const saliency = element("span", { class: "wb-saliency", hidden: true }, element("label", {}, on, " saliency"), opacity);
  const el = element(
    "div",
    { class: "wb-controls", role: "toolbar", "aria-label": "playing", title: HELP },
    play,
    button("back", "‹ step", "one step back (left arrow)"),
    button("forward", "step ›", "one step forward (right arrow)"),
    button("before", "‹ reward", "to the reward before (p)"),
    button("reward", "reward ›", "to the next reward (n)"),
    ...live ? [button("live", "Live", "follow what happens now")] : [],
    choice,
    saliency,
    where
  );
  const label = (playing) => {
    play.textContent = playing ? "Pause" : "Play";
    play.setAttribute("aria-label", playing ? "pause (space)" : "play (space)");
  };
  return { el, scrub, play, where, saliency, choice, label, live: (
    /** @type {HTMLButtonElement | null} */
    el.querySelector(".wb-live")
  ) };
}
function commandOf(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const target = (
    /** @type {HTMLElement} */
    event.target
  );
  const own = target.closest("button, select, input, summary");
  if (own instanceof HTMLSelectElement || own && !(own instanceof HTMLInputElement) && event.key === " ") return null;
  if (own instanceof HTMLInputElement && (own.type === "checkbox" || !own.classList.contains("wb-scrub"))) return null;
  return KEYS[event.key] ?? null;
}

// src/numbers.js
function general(value, digits) {
  const [mantissa, exponent] = nearest(value, digits).toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const short2 = (text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  if (power < -4 || power >= digits) {
    return `${short2(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return short2(nearest(value, digits).toFixed(digits - 1 - power));
}
function number(value) {
  const size = Math.abs(value);
  if (size >= 1e12) return `${grouped(general(value / 1e12, 4))} T`;
  if (size >= 1e9) return `${grouped(general(value / 1e9, 4))} G`;
  if (size >= 1e6) return `${grouped(general(value / 1e6, 4))} M`;
  return size >= 100 || Number.isInteger(value) ? grouped(whole(value)) : general(value, 3);
}
function whole(value) {
  const below = Math.floor(value), rest = value - below;
  const rounded2 = rest < 0.5 || rest === 0.5 && below % 2 === 0 ? below : below + 1;
  return String(Object.is(rounded2, -0) ? 0 : rounded2);
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
function bars(scores, domain) {
  const place = linear(domain, 0, 1);
  const zero = Math.max(0, Math.min(1, place(0)));
  return Array.from(scores, (value) => {
    const end = Math.max(0, Math.min(1, place(value)));
    return Number.isFinite(value) ? { from: Math.min(zero, end), to: Math.max(zero, end) } : { from: zero, to: zero };
  });
}
function shown(scores, chosen, most) {
  const all = Array.from(scores, (_, action) => action);
  if (all.length <= most) return all;
  const best = [...all].sort((a, b) => scores[b] - scores[a]).slice(0, most);
  if (chosen >= 0 && !best.includes(chosen)) best[most - 1] = chosen;
  return best.sort((a, b) => a - b);
}
function columnsOf(values, width, length = values.length) {
  const columns = new Array(width).fill(null);
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const at = pixelOf(i, width, length);
    const column = columns[at];
    columns[at] = column ? [Math.min(column[0], value), Math.max(column[1], value)] : [value, value];
  });
  return columns;
}
var pixelOf = (index, width, length) => Math.round(index / Math.max(1, length - 1) * (width - 1));
function stepAt(x, width, length) {
  return Math.max(0, Math.min(length - 1, Math.round(x / Math.max(1, width - 1) * (length - 1))));
}
function fitted(w, h, roomW, roomH) {
  const scale = Math.min(roomW / w, roomH / h);
  const used = scale >= 1 ? Math.floor(scale) : scale;
  return { width: Math.round(w * used), height: Math.round(h * used) };
}

// src/bars.js
var ROW = 24;
var LEAST_ROW = 18;
var VECTOR_ROW = 16;
var LEAST_LABEL = 60;
var VALUE = 76;
var MARK = 16;
var LABEL_SHARE = 0.4;
var ENTRIES = 32;
function drawPolicy(canvas, colours, rows2, domain, width, most) {
  const row = Math.max(LEAST_ROW, Math.min(ROW, most / rows2.length)), height = Math.round(row * rows2.length) + 2;
  const context = cleared(canvas, width, height);
  const plot = plotOf(context, colours, rows2.flatMap((one) => "name" in one ? [one.name] : []), width);
  rows2.forEach((one, at) => {
    const line2 = { at, row, ...plot };
    if ("title" in one) heading(context, colours, line2, one.title);
    else if ("legend" in one) legend(context, colours, line2);
    else if ("ends" in one) ends(context, colours, line2);
    else if ("place" in one) bar(context, colours, line2, one);
    else axis(context, colours, line2, one);
  });
  if (domain && domain[0] <= 0 && domain[1] >= 0) {
    context.fillStyle = colours.faint;
    context.fillRect(plot.left + linear(domain, 0, plot.room)(0), 0, 1, height);
  }
  return height;
}
function drawVector(canvas, colours, values, names, domains, counts2, width) {
  const entries = Math.min(values.length, ENTRIES), row = entries > 12 ? VECTOR_ROW : ROW;
  const context = cleared(canvas, width, row * entries + 2);
  const labels = names.slice(0, entries).map((name, at) => `${name}  ${number(domains[at][0])} … ${number(domains[at][1])}`);
  const plot = plotOf(context, colours, labels, width);
  for (let at = 0; at < entries; at++) {
    const [place] = bars([values[at]], domains[at]);
    bar(context, colours, { at, row, ...plot }, { name: labels[at], text: number(values[at]), place, marked: false });
    if (counts2) {
      context.fillStyle = `rgba(230,60,200,${counts2[at] / 255})`;
      context.fillRect(0, at * row + 2, 8, row - 4);
    }
  }
}
var drawnOf = (length) => Math.min(length, ENTRIES);
function plotOf(context, colours, names, width) {
  context.font = `bold 13px ${colours.font}`;
  const widest = names.reduce((most, name) => Math.max(most, context.measureText(name).width), 0);
  const left = Math.round(Math.max(LEAST_LABEL, Math.min(width * LABEL_SHARE, widest + MARK + 8)));
  return { left, room: Math.max(20, width - left - VALUE) };
}
function named(context, colours, { at, row, left, room }, { name, text, marked = false }) {
  const top = at * row + 2, height = row - 4, middle = top + height / 2 + 1;
  context.font = `${marked ? "bold " : ""}${row < 20 ? 12 : 13}px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.fillText(clipped(context, name, left - MARK - 6), MARK, middle);
  context.textAlign = "right";
  context.fillText(text, left + room + VALUE - 2, middle);
  context.textAlign = "left";
  return { top, height, middle };
}
function bar(context, colours, line2, one) {
  const { left, room } = line2, { place, marked } = one;
  const { top, height, middle } = named(context, colours, line2, one);
  context.fillStyle = colours.data;
  context.fillRect(left + place.from * room, top, Math.max(1, (place.to - place.from) * room), height);
  if (!marked) return;
  context.strokeStyle = context.fillStyle = colours.mark;
  context.lineWidth = 2;
  context.strokeRect(left - 1, top, room + 2, height);
  context.beginPath();
  context.moveTo(3, middle - 6);
  context.lineTo(12, middle - 1);
  context.lineTo(3, middle + 4);
  context.fill();
}
function axis(context, colours, line2, one) {
  const { left, room } = line2;
  const { top, height, middle } = named(context, colours, line2, one), across = Math.round(middle) - 1;
  context.fillStyle = colours.faint;
  context.fillRect(left, across, room, 1);
  for (const share of [0, 0.5, 1]) context.fillRect(left + share * room - 0.5, top + height / 4, 1, height / 2);
  if (!Number.isFinite(one.taken)) return;
  context.fillStyle = colours.data;
  context.fillRect(left + one.middle * room - 1.5, top, 3, height);
  context.fillStyle = colours.mark;
  context.beginPath();
  context.arc(left + one.taken * room, across + 0.5, Math.min(5, height / 3), 0, 2 * Math.PI);
  context.fill();
}
function heading(context, colours, { at, row, left, room }, title) {
  context.font = `bold 12px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.fillText(clipped(context, title, left + room), 0, (at + 0.5) * row + 1);
}
function legend(context, colours, { at, row }) {
  const middle = (at + 0.5) * row + 1;
  context.font = `12px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  const first = "the policy's middle", second = MARK + context.measureText(first).width + 18;
  context.fillText(first, MARK, middle);
  context.fillText("action taken", second + 10, middle);
  context.fillStyle = colours.data;
  context.fillRect(6, middle - 7, 3, 12);
  context.fillStyle = colours.mark;
  context.beginPath();
  context.arc(second, middle - 1, 5, 0, 2 * Math.PI);
  context.fill();
}
function ends(context, colours, { at, row, left, room }) {
  const middle = (at + 0.5) * row + 1;
  context.font = `12px ${colours.font}`;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  context.textAlign = "center";
  ["−1", "0", "1"].forEach((text, place) => context.fillText(text, left + place / 2 * room, middle));
  context.textAlign = "left";
}

// src/draw.js
var STRIP = 46;
var TITLE = 86;
var STRIPS = [
  { name: "value", title: "value" },
  { name: "reward", title: "reward", stems: true },
  { name: "score", title: "score", stems: true },
  { name: "episode_return", title: "return" },
  { name: "state_norm", title: "state norm" },
  { name: "by_person", title: "by a person", stems: true }
];
function drawStrips(canvas, colours, track, strips, width, length, other = null) {
  const context = cleared(canvas, width, strips.length * STRIP + 2);
  const room = plotWidth(width);
  strips.forEach(({ name, title, stems }, at) => {
    const values = track.columns[name], top = at * STRIP + 4, bottom = top + STRIP - 8;
    const theirs = other?.track.columns[name] ?? [];
    const domain = extent([...values, ...theirs], stems), place = linear(domain, bottom - 1, top + 1);
    context.fillStyle = colours.faint;
    context.fillRect(TITLE, stems && domain[0] < 0 ? Math.round(place(0)) : bottom, room, 1);
    context.fillStyle = colours.text;
    context.font = `12px ${colours.font}`;
    context.textBaseline = "top";
    context.fillText(title, 0, top);
    if (other) {
      context.setLineDash([5, 4]);
      line(context, colours.text, columnsOf(theirs.map((value, i) => i < other.at ? NaN : value), room, length), place);
      context.setLineDash([]);
    }
    const columns = columnsOf(values, room, length);
    if (stems) bars2(context, colours.data, columns, room / length, place);
    else line(context, colours.data, columns, place);
  });
  if (!other) return;
  context.fillStyle = colours.text;
  const x = TITLE + pixelOf(other.at, room, length);
  for (let y = 2; y < strips.length * STRIP; y += 6) context.fillRect(x, y, 1, 3);
}
function line(context, colour, columns, place) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  columns.forEach((column, x) => {
    if (!column) return;
    const [low, high] = column.map(place);
    context.lineTo(TITLE + x, low);
    if (low - high > 0.5) context.lineTo(TITLE + x, high);
  });
  context.stroke();
}
function bars2(context, colour, columns, apart, place) {
  const base = place(0), width = apart > 2 && apart < 3 ? 3 : 2;
  context.fillStyle = colour;
  columns.forEach((column, x) => {
    if (!column || column[0] === 0 && column[1] === 0) return;
    const [low, high] = column.map(place);
    const [from, to] = [Math.min(high, base), Math.max(low, base)];
    context.fillRect(TITLE + x - 1, from, width, Math.max(1, to - from));
  });
}
function drawCursor(canvas, drawn, colours, track, strips, at, width, length) {
  const context = cleared(canvas, width, strips.length * STRIP + 2);
  context.drawImage(drawn, 0, 0, width, strips.length * STRIP + 2);
  context.fillStyle = colours.mark;
  context.fillRect(TITLE + pixelOf(at, plotWidth(width), length) - 1, 2, 2, strips.length * STRIP - 4);
  context.fillStyle = colours.text;
  context.font = `bold 13px ${colours.font}`;
  context.textBaseline = "top";
  strips.forEach(({ name }, row) => {
    const value = track.columns[name][at];
    if (Number.isFinite(value)) context.fillText(number(value), 0, row * STRIP + 20);
  });
}
var plotWidth = (width) => Math.max(20, Math.floor(width) - TITLE - 4);
var PLOT_LEFT = TITLE;

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
var HEAT = [230, 60, 200];
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
function heat(values, opacity) {
  const rgba = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) rgba.set([...HEAT, values[i] * opacity], i * 4);
  return rgba;
}

// src/frames.js
var AHEAD = 24;
var BEHIND = 6;
var Pictures = class {
  /**
   * @param {ArrayBuffer} data
   * @param {number[]} ends  offset behind each picture
   * @param {string} mime
   * @param {() => void} ready
   */
  constructor(data, ends2, mime, ready) {
    this.data = data;
    this.ends = ends2;
    this.mime = mime;
    this.ready = ready;
    this.decoded = /* @__PURE__ */ new Map();
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
};
var asPicture = (values, shape) => new ImageData(toRgba(values, shape), shape[2], shape[1]);

// src/policy.js
var MOST_ROWS = 400;
var MOST_SAID = 4;
function done(actions, action) {
  const parts = typeof action === "number" ? [action] : Array.from(action ?? []);
  const missing = parts.some((one) => withNumbers(actions) ? Number.isNaN(one) : one < 0);
  return parts.length && !missing ? parts : null;
}
var withNumbers = (actions) => actions === "tanh_normal" || actions === "mixed";
var columnsOf2 = ({ kind, names }) => kind === "choice" ? 1 : names.length;
function each(groups, parts, make) {
  let first = 0, column = 0;
  return groups.map((group) => {
    const made = make(group, first, parts && parts.slice(column, column + columnsOf2(group)));
    [first, column] = [first + group.names.length, column + columnsOf2(group)];
    return made;
  });
}
function rowsOf({ actions, groups, kind }, scores, action, domain, number2) {
  const places = bars(scores, domain);
  const said2 = (score) => !Number.isFinite(score) ? "" : kind === "probability" ? percent(score) : number2(score);
  return each(groups, done(actions, action), (group, first, parts) => {
    const own = Array.from(group.names, (_, at) => scores[first + at]), { title } = group;
    const rows2 = group.kind === "numbers" ? axes(group, own, parts, number2) : group.kind === "switches" ? switches(group, own.map(said2), places.slice(first), parts) : choices(group, own, said2, places.slice(first), parts?.[0] ?? -1);
    return [...title ? [{ title }] : [], ...rows2];
  }).flat();
}
function choices({ names }, scores, said2, places, chosen) {
  return shown(scores, chosen, MOST_ROWS).map((choice) => ({
    name: names[choice],
    text: said2(scores[choice]),
    place: places[choice],
    marked: choice === chosen
  }));
}
function switches({ names }, said2, places, parts) {
  return names.map((name, at) => {
    const on = parts?.[at] === 1, text = said2[at];
    return { name, text: text && parts ? `${text} ${on ? "on" : "off"}` : text, place: places[at], marked: on };
  });
}
function axes({ names }, middles, parts, number2) {
  const place = linear([-1, 1], 0, 1);
  return [{ legend: true }, { ends: true }, ...names.map((name, at) => ({
    name,
    text: parts ? number2(rounded(parts[at])) : "",
    middle: place(middles[at]),
    taken: place(parts?.[at] ?? NaN)
  }))];
}
function inWords({ actions, groups, kind }, scores, action, number2) {
  const parts = done(actions, action);
  if (!parts) return "";
  const brief = parts.length > MOST_SAID, mixed = actions === "mixed";
  const how = (of, at) => {
    if (!scores || brief) return "";
    return of === "numbers" ? ` (middle ${number2(rounded(scores[at]))})` : kind === "probability" ? ` (${Math.round(100 * scores[at])} %)` : ` (Q ${number2(scores[at])})`;
  };
  const words = each(groups, parts, ({ title, names, kind: of }, first, own) => {
    const [chosen] = own ?? [], named2 = !brief && !(mixed && names.length === 1);
    const text = of === "choice" ? `${names[chosen] ?? chosen}${how(of, first + chosen)}` : of === "switches" && brief ? names.filter((_, at) => own?.[at]).join(", ") || "all off" : (own ?? []).map((one, at) => `${named2 ? `${names[at]} ` : ""}${of === "numbers" ? number2(rounded(one)) : one ? "on" : "off"}${how(of, first + at)}`).join(", ");
    return `${title && (mixed || !brief) ? `${title}: ` : ""}${text}`;
  });
  return words.join(mixed && parts.length > groups.length ? "; " : ", ");
}
var percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
var rounded = (value) => Math.round(100 * value) / 100 + 0;

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

// src/track.js
var MOST_LIVE = 1500;
var MOST_LIVE_VALUES = 64e6;
var Track = class {
  constructor() {
    this.first = 0;
    this.life = "";
    this.columns = { time_s: [], reward: [] };
  }
  get length() {
    return this.columns.time_s.length;
  }
  get times() {
    return this.columns.time_s;
  }
  /**
   * Column `name`; [] if there is none, or nothing in it.
   * @param {string} name
   * @returns {any[]}
   */
  column(name) {
    const found = this.columns[name] ?? [];
    return found.some((value) => typeof value !== "number" || !Number.isNaN(value)) ? found : [];
  }
  /**
   * Add steps to the end; those that are there already are passed over. Steps of another life, or after a gap, begin
   * anew. Returns how many steps at the front were given up.
   * @param {{life: string, first: number}} header
   * @param {Rows} rows
   */
  append({ life, first }, rows2) {
    const before = this.length;
    const end = this.first + before;
    if (life !== this.life || first > end || !before) {
      Object.assign(this, { life, first, columns: { ...rows2 } });
      return before;
    }
    for (const [name, values] of Object.entries(rows2)) this.columns[name].push(...values.slice(end - first));
    return this.#forget();
  }
  #forget() {
    const size = this.columns.observation?.[0]?.length ?? 0;
    const most = Math.min(MOST_LIVE, Math.ceil(MOST_LIVE_VALUES / Math.max(1, size)));
    const extra = Math.max(0, this.length - most);
    for (const values of Object.values(this.columns)) values.splice(0, extra);
    this.first += extra;
    return extra;
  }
};
function said(track, at, policy, number2) {
  const get = (name) => track.columns[name]?.[at];
  const parts = [];
  const done2 = inWords(policy, get("scores"), get("action"), number2);
  if (done2) parts.push(`action ${done2}`);
  if (Number.isFinite(get("value"))) parts.push(`value ${number2(get("value"))}`);
  parts.push(`reward ${number2(get("reward"))}`);
  if (Number.isFinite(get("score"))) parts.push(`score ${number2(get("score"))}`);
  if (Number.isFinite(get("episode_return"))) parts.push(`return ${number2(get("episode_return"))}`);
  if (Number.isFinite(get("by_person"))) parts.push(get("by_person") ? "chosen by a person" : "chosen by the agent");
  if (get("forced") === 1) parts.push("this action was forced");
  if (get("edited") === 1) parts.push("the policy saw another observation");
  return parts.join(", ");
}

// src/screen.js
var TALLEST = 420;
var SCROLLBAR = 16;
var SIDE_BY_SIDE = 460;
var Screen = class {
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
    this.image = Boolean(header.picture || header.sketch) || !this.vector;
    this.pictures = header.picture && pictures ? new Pictures(pictures, track.columns.picture_end, header.picture.mime, redraw) : null;
    this.saliency = null;
    this.redraw = redraw;
    this.scrolls = false;
    this.other = null;
    this.charts = STRIPS;
    this.domain = [0, 1];
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
    this.top = element("div", { class: "wb-top" }, ...this.image ? [this.canvas] : [this.values], this.policy);
    const note = header.note ? [element("div", { class: "wb-remark" }, header.note)] : [];
    this.el = element(
      "section",
      { class: "wb-screen", "aria-label": header.label },
      element("div", { class: "wb-title" }, header.title),
      ...note,
      this.top,
      ...this.image && this.vector ? [this.values] : [],
      this.words,
      this.strips,
      this.legend
    );
    this.#seekBy(seek);
    this.changed();
  }
  /** The data are others, or more than before. */
  changed() {
    const { columns } = this.track;
    this.charts = STRIPS.filter(({ name }) => name === "reward" || this.track.column(name).length);
    const scores = [...columns.scores ?? [], ...this.other?.track.columns.scores ?? []];
    this.domain = this.header.kind === "q_value" ? extent(scores.flatMap((row) => Array.from(row))) : [0, 1];
    if (this.vector) {
      const entries = Array.from({ length: drawnOf(this.header.shape[0]) }, (_, i) => i);
      const known = (i) => this.header.ranges?.[i] ?? [];
      this.domains = entries.map((i) => extent([...known(i), ...(columns.observation ?? []).map((row) => row[i])], true));
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
  show(at, ink2, length) {
    if (!this.track.length) return;
    const width = Math.max(200, this.el.clientWidth);
    const beside = width >= SIDE_BY_SIDE && this.image;
    if (this.vector) this.#vector(at, ink2, width);
    if (this.image) {
      this.#size(beside ? width * 0.55 : width);
      if (this.header.sketch) this.#sketch(at, ink2, this.header.sketch);
      else this.#picture(at);
    }
    this.#scores(at, ink2, beside ? width - this.canvas.clientWidth - 16 : width);
    if (this.stale || this.stripsFor !== `${width} ${length} ${ink2.text}`) {
      drawStrips(this.drawn, ink2, this.track, this.charts, width, length, this.other);
      this.stripsFor = `${width} ${length} ${ink2.text}`;
      this.stale = false;
    }
    drawCursor(this.strips, this.drawn, ink2, this.track, this.charts, at, width, length);
    this.words.textContent = said(this.track, at, this.header, number);
  }
  /**
   * @param {number} at
   * @param {import("./draw.js").Ink} ink
   * @param {import("./sketch.js").Sketch} sketch
   */
  #sketch(at, ink2, sketch) {
    const width = parseFloat(this.canvas.style.width), height = parseFloat(this.canvas.style.height);
    drawSketch(cleared(this.canvas, width, height), ink2, sketch, this.track.columns.pose[at], width);
    this.canvas.dataset.step = String(this.track.first + at);
  }
  /** @param {number} room  CSS pixels for the picture */
  #size(room) {
    const { picture, shape, sketch } = this.header;
    if (sketch) {
      const css2 = fitted(1, ratioOf(sketch), room, TALLEST);
      return void Object.assign(this.canvas.style, { width: `${css2.width}px`, height: `${css2.height}px` });
    }
    const [width, height] = picture && !this.#explained() ? [picture.width, picture.height] : [shape[2], shape[1]];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const css = fitted(width, height, room, TALLEST);
    Object.assign(this.canvas.style, { width: `${css.width}px`, height: `${css.height}px` });
  }
  /** @param {number} at */
  #picture(at) {
    const context = (
      /** @type {CanvasRenderingContext2D} */
      this.canvas.getContext("2d")
    );
    if (this.pictures && !this.#explained()) {
      const picture = this.pictures.at(at);
      if (!picture) return;
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
    const [steps, height, width] = (
      /** @type {number[]} */
      this.header.saliency
    );
    if (at >= steps) return;
    const values = (
      /** @type {Uint8Array} */
      this.saliency.subarray(at * height * width, (at + 1) * height * width)
    );
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
  #vector(at, ink2, width) {
    const [steps, entries] = this.header.saliency ?? [0, 0];
    const counts2 = this.overlay.on && this.saliency && at < steps ? this.saliency.subarray(at * entries, (at + 1) * entries) : null;
    drawVector(this.values, ink2, this.track.columns.observation[at], this.header.entries, this.domains, counts2, width);
  }
  /**
   * @param {number} at
   * @param {import("./draw.js").Ink} ink
   * @param {number} width
   */
  #scores(at, ink2, width) {
    const { scores, action } = this.track.columns;
    const rows2 = rowsOf(this.header, scores[at], action[at], this.domain, number);
    const zero = this.header.kind === "q_value" ? this.domain : null;
    const height = drawPolicy(this.scores, ink2, rows2, zero, this.scrolls ? width - SCROLLBAR : width, TALLEST);
    if (height > TALLEST + 2 === this.scrolls) return;
    this.scrolls = height > TALLEST + 2;
    if (this.scrolls) this.policy.tabIndex = 0;
    this.#scores(at, ink2, width);
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
    const to = (event) => {
      const x = event.clientX - this.strips.getBoundingClientRect().left - PLOT_LEFT;
      const length = Number((this.stripsFor || "0 1").split(" ")[1]);
      seek(stepAt(x, plotWidth(this.el.clientWidth), length));
    };
    this.strips.onpointerdown = (event) => {
      this.strips.setPointerCapture(event.pointerId);
      to(event);
    };
    this.strips.onpointermove = (event) => void (event.buttons && to(event));
  }
  close() {
    this.pictures?.close();
  }
};

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

// src/whatif.js
var SETTLE_MS = 250;
var LARGEST_PX = 252;
var MOST_STEPS = 1e3;
var labelled = (text, field) => element("label", {}, `${text} `, field);
var numberField = (name, more) => element("input", { type: "number", "aria-label": name, ...more });
var WhatIf = class {
  /**
   * @param {object} on
   * @param {(content: object) => boolean} on.tell  whether it could be sent
   * @param {() => void} on.redraw
   */
  constructor({ tell, redraw }) {
    this.tell = tell;
    this.redraw = redraw;
    this.screens = [];
    this.steps = [];
    this.shown = "";
    this.seen = null;
    this.numbers = /* @__PURE__ */ new Map();
    this.box = null;
    this.busy = false;
    this.since = this.settling = this.ticking = 0;
    this.which = element("select", { class: "wb-which", onchange: () => this.redraw() });
    this.at = element("div", { class: "wb-at" });
    this.force = element("input", { type: "checkbox", class: "wb-force" });
    this.actions = element("span", { class: "wb-fields" });
    this.repeat = numberField("for how many steps the action is taken", { class: "wb-repeat", min: "1", max: String(MOST_STEPS), value: "1" });
    this.edit = element("input", { type: "checkbox", class: "wb-edit" });
    this.sight = element("div", { class: "wb-fields wb-sight" });
    this.hold = numberField("for how many steps the observation is edited", { class: "wb-hold", min: "1", max: String(MOST_STEPS), value: "1" });
    this.canvas = element("canvas", { class: "wb-seen", role: "img", "aria-label": "what the policy sees at this step" });
    this.go = element("button", { type: "button", class: "wb-branch", onclick: () => this.#branch() }, "Play this future");
    this.told = element("span", { class: "wb-told", role: "status" });
    this.futures = element("select", { class: "wb-futures", onchange: () => this.#choose() });
    this.which.hidden = true;
    this.whichLabel = labelled("Of", this.which);
    this.futuresLabel = labelled("Futures", this.futures);
    this.whichLabel.hidden = this.futuresLabel.hidden = true;
    this.form = element(
      "div",
      {},
      element("div", { class: "wb-row" }, this.whichLabel, this.at),
      element(
        "fieldset",
        {},
        element("legend", {}, ticked(this.force, "take another action")),
        element("div", { class: "wb-row" }, this.actions, element("label", {}, "for ", this.repeat, " steps"))
      ),
      element(
        "fieldset",
        {},
        element("legend", {}, ticked(this.edit, "let the policy see something else")),
        this.sight,
        element("label", {}, "for ", this.hold, " steps")
      ),
      element("div", { class: "wb-row" }, this.go, this.told)
    );
    this.reason = element("div", { class: "wb-reason", hidden: true });
    this.el = element(
      "details",
      { class: "wb-whatif", ontoggle: () => this.#toggled() },
      element("summary", {}, "What if …"),
      this.reason,
      this.form,
      element("div", { class: "wb-row" }, this.futuresLabel)
    );
    this.canvas.onpointerdown = (event) => this.#drag(event);
  }
  get index() {
    return Math.min(Number(this.which.value) || 0, this.screens.length - 1);
  }
  #toggled() {
    this.shown = "";
    this.redraw();
  }
  /**
   * Show the fields of the step that each screen shows.
   * @param {Screen[]} screens
   * @param {number[]} steps
   * @param {boolean} playing
   */
  show(screens, steps, playing) {
    if (screens.length !== this.screens.length || screens.some((one, at) => one !== this.screens[at])) this.#among(screens);
    [this.screens, this.steps] = [screens, steps];
    const screen = screens[this.index];
    if (!this.el.open || !screen || playing) return;
    const step = steps[this.index], now = `${this.index} ${screen.header.key} ${step}`;
    if (now === this.shown) return;
    this.shown = now;
    const { why } = screen.header;
    this.reason.hidden = !why;
    this.reason.textContent = why ?? "";
    this.form.hidden = Boolean(why);
    if (!why) this.#stepped(screen, step);
  }
  /** @param {Screen[]} screens */
  #among(screens) {
    const before = this.index;
    const branched = screens.some((one) => one.header.branch), places = ["first", "second"];
    this.which.replaceChildren(...screens.map(({ header: { branch } }, at) => element(
      "option",
      { value: String(at) },
      branch ? `the branch at step ${branch.at}` : branched ? "the recorded episode" : `the ${places[at]} episode`
    )));
    this.which.value = String(before < screens.length ? Math.max(0, before) : 0);
    this.whichLabel.hidden = this.which.hidden = screens.length < 2;
    this.shown = "";
    if (this.seen) this.seen = { ...this.seen, step: NaN };
  }
  /** @param {Screen} screen @param {number} step */
  #stepped(screen, step) {
    const { scores, action, value } = screen.track.columns, { header } = screen;
    const chosen = inWords(header, scores[step], action[step], number);
    const last = step >= screen.track.length - 1;
    this.go.disabled = this.busy || last;
    this.at.textContent = last ? "No action is taken at the last step: go to an earlier one." : `At step ${step} the policy did ${chosen}${Number.isFinite(value[step]) ? `, value ${number(value[step])}` : ""}.`;
    if (!this.force.checked || !this.actions.children.length) this.#actionFields(header, action[step]);
    if (this.seen?.index !== this.index || this.seen.step !== step) this.#ask(step);
  }
  // --- another action -------------------------------------------------------------------------------------------
  /** @param {import("./screen.js").Header} header @param {any} action  that was taken */
  #actionFields({ groups }, action) {
    const parts = typeof action === "number" ? [action] : Array.from(action ?? []);
    const changed = () => void (this.force.checked = true);
    const choice = (name, options, taken) => {
      const field = element(
        "select",
        { class: "wb-action", "aria-label": name, onchange: changed },
        ...options.map((text, at) => element("option", { value: String(at) }, text))
      );
      field.value = String(Math.max(0, taken));
      return field;
    };
    let column = 0;
    const fields = groups.flatMap((group) => {
      const { title, names } = group, own = parts.slice(column, column += columnsOf2(group));
      if (group.kind === "choice") return title ? labelled(title, choice(title, names, own[0])) : choice("action", names, own[0]);
      return names.map((name, at) => {
        const words = title ? `${title}, ${name}` : name;
        return labelled(words, group.kind === "switches" ? choice(words, ["off", "on"], own[at]) : numberField(words, {
          class: "wb-action",
          min: "-1",
          max: "1",
          step: "any",
          value: String(own[at]),
          oninput: changed
        }));
      });
    });
    this.actions.replaceChildren(...fields);
  }
  /** The action in the fields, as often as it is asked for; null: the policy's own. */
  get action() {
    if (!this.force.checked) return null;
    const fields = (
      /** @type {any[]} */
      [...this.actions.querySelectorAll(".wb-action")]
    );
    const parts = fields.map((field) => Number(field.value));
    const one = this.screens[this.index].header.actions === "categorical" ? parts[0] : parts;
    return Array(Math.max(1, Math.min(MOST_STEPS, Number(this.repeat.value) || 1))).fill(one);
  }
  // --- another observation --------------------------------------------------------------------------------------
  /** Ask what the policy saw, once the step is looked at. @param {number} step */
  #ask(step) {
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.tell({ type: "look", index: this.index, step }), SETTLE_MS);
  }
  /** What it saw. @param {Seen} seen */
  looked(seen) {
    const kind = this.seen && [...this.seen.shape, this.seen.entries.length].join();
    this.seen = seen;
    if (kind !== [...seen.shape, seen.entries.length].join()) {
      this.numbers.clear();
      this.edit.checked = false;
      this.box = null;
    }
    if (seen.shape.length === 3) this.#picture(seen);
    else this.#vector(seen);
  }
  /** @param {Seen} seen */
  #vector({ entries, values }) {
    this.sight.replaceChildren(...entries.map((name, at) => {
      const field = numberField(name, { class: "wb-number", step: "any", value: String(this.numbers.get(at) ?? short(values[at])) });
      field.oninput = () => {
        if (field.value === "") this.numbers.delete(at);
        else this.numbers.set(at, Number(field.value));
        this.edit.checked = this.numbers.size > 0;
      };
      return labelled(name, field);
    }));
  }
  /** @param {Seen} seen */
  #picture({ shape }) {
    const [, height, width] = shape;
    if (!this.box) {
      const field = (name, value, most) => numberField(name, {
        class: "wb-box",
        min: "0",
        max: String(most),
        value: String(value),
        oninput: () => this.#boxed()
      });
      this.box = {
        left: field("left edge in pixels", Math.round(width / 3), width - 1),
        top: field("top edge in pixels", Math.round(height / 3), height - 1),
        width: field("width in pixels", Math.round(width / 3), width),
        height: field("height in pixels", Math.round(height / 3), height),
        shade: field("shade, 0 is black and 255 is white", 128, 255)
      };
      this.sight.replaceChildren(this.canvas, element(
        "div",
        { class: "wb-boxes" },
        element("div", {}, "A rectangle of what the policy sees, in one shade: drag it on the picture, or type it."),
        ...Object.entries(this.box).map(([name, one]) => labelled(name, one))
      ));
    }
    this.#drawSeen();
  }
  #boxed() {
    this.edit.checked = true;
    this.#drawSeen();
  }
  #drawSeen() {
    if (!this.seen || !this.box) return;
    const { shape, values } = this.seen, [, height, width] = shape, scale = Math.max(1, Math.floor(LARGEST_PX / Math.max(width, height)));
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    Object.assign(this.canvas.style, { width: `${width * scale}px`, height: `${height * scale}px` });
    const context = (
      /** @type {CanvasRenderingContext2D} */
      this.canvas.getContext("2d")
    );
    context.putImageData(asPicture(values, shape), 0, 0);
    if (!this.edit.checked) return;
    const [left, top, across, down] = this.occluded, shade = Number(this.box.shade.value);
    context.fillStyle = `rgb(${shade},${shade},${shade})`;
    context.fillRect(left, top, across, down);
  }
  /** Left, top, width and height of the rectangle. */
  get occluded() {
    const { left, top, width, height } = (
      /** @type {Record<string, HTMLInputElement>} */
      this.box
    );
    return [left, top, width, height].map((one) => Math.round(Number(one.value)) || 0);
  }
  /** @param {PointerEvent} event */
  #drag(event) {
    if (!this.box || !this.seen) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    const [, height, width] = this.seen.shape, { box } = this;
    const place = (now) => {
      const { left, top, width: across, height: down } = this.canvas.getBoundingClientRect();
      return [bounded((now.clientX - left) / across * width, width - 1), bounded((now.clientY - top) / down * height, height - 1)];
    };
    const from = place(event);
    this.canvas.onpointermove = (now) => {
      const to = place(now);
      const [left, top] = [0, 1].map((axis2) => Math.min(from[axis2], to[axis2]));
      const [across, down] = [0, 1].map((axis2) => Math.abs(from[axis2] - to[axis2]) + 1);
      Object.entries({ left, top, width: across, height: down }).forEach(([name, value]) => {
        box[
          /** @type {"left"} */
          name
        ].value = String(value);
      });
      this.#boxed();
    };
    this.canvas.onpointerup = this.canvas.onpointercancel = () => void (this.canvas.onpointermove = null);
  }
  /** What the policy is to see; null: what there is. */
  get observation() {
    if (!this.edit.checked || !this.seen) return null;
    if (this.box) return { occlude: this.occluded, shade: Number(this.box.shade.value) };
    return Object.fromEntries(this.numbers);
  }
  // --- the branch -----------------------------------------------------------------------------------------------
  #branch() {
    const { index } = this, step = this.steps[index], { action, observation } = this;
    if (!action && !observation) return this.say("Choose another action, or another observation, first.", true);
    const hold = Math.max(1, Math.min(MOST_STEPS, Number(this.hold.value) || 1));
    this.#wait(`playing to step ${step}, and from there the other future`);
    if (!this.tell({ type: "branch", index, step, action, observation, hold })) this.say("no branch: the kernel has gone", true);
  }
  /** @param {string} words */
  #wait(words) {
    this.busy = this.go.disabled = true;
    this.el.setAttribute("aria-busy", "true");
    this.since = performance.now();
    this.#tell(`${words} …`, false);
    clearInterval(this.ticking);
    this.ticking = window.setInterval(() => {
      this.#tell(`${words} … ${Math.round((performance.now() - this.since) / 1e3)} s`, false);
    }, 1e3);
  }
  /** How it ended. @param {string} text @param {boolean} error */
  say(text, error) {
    clearInterval(this.ticking);
    this.busy = this.go.disabled = false;
    this.el.setAttribute("aria-busy", "false");
    this.shown = "";
    this.#tell(text, error);
    this.redraw();
  }
  /** @param {string} text @param {boolean} error */
  #tell(text, error) {
    this.told.textContent = text;
    this.told.className = `wb-told${error ? " wb-error" : ""}`;
    this.told.setAttribute("role", error ? "alert" : "status");
  }
  /** The branches that there are. @param {Future[]} options @param {string} chosen */
  among(options, chosen) {
    this.futuresLabel.hidden = options.length < 2;
    this.futures.replaceChildren(...options.map(({ key, text }) => element("option", { value: key }, text)));
    this.futures.value = chosen;
  }
  #choose() {
    if (!this.tell({ type: "choose", name: this.futures.value })) this.say("the kernel has gone", true);
  }
  close() {
    clearInterval(this.ticking);
    clearTimeout(this.settling);
  }
};
function ticked(field, text) {
  return element("label", {}, field, ` ${text}`);
}
var bounded = (value, most) => Math.max(0, Math.min(most, Math.floor(value)));
var short = (value) => Number(value.toPrecision(5));

// src/player.js
var LONGEST_JUMP_S = 0.25;
var SLOW_S = 2;
var Player = class {
  /**
   * @param {any} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.live = model.get("mode") === "live";
    this.id = Math.random().toString(36).slice(2);
    this.screens = [];
    this.clock = { at: 0, playing: this.live, following: this.live, speed: "1" };
    this.arrivals = [];
    this.queue = new Queue((text) => this.#say(text));
    this.closed = this.over = false;
    this.contact = new Contact(model, this.id, (text) => this.#say(text));
    this.drawing = 0;
    this.drawn = "";
    this.then = 0;
    this.slow = 0;
    this.controls = controls({
      command: (name) => this.command(name),
      seek: (index) => this.seek(index),
      speed: (choice) => this.#set({ speed: choice, ...choice === "1" ? {} : { following: false } }),
      overlay: (on, opacity) => this.screens.forEach((screen) => void screen.overlaid(on, opacity))
    }, this.live);
    this.tracks = element("div", { class: "wb-tracks" });
    this.whatif = model.get("mode") !== "rollouts" ? null : new WhatIf({
      // another future needs a kernel
      tell: (content) => this.contact.tell({ ...content, view: this.id }),
      redraw: () => this.draw()
    });
    this.note = element("div", { class: "wb-note", role: "status" }, "Waiting for the kernel …");
    this.root = element(
      "div",
      { class: "wb-player", tabIndex: 0, role: "group", "aria-label": model.get("label"), "data-lm-suppress-shortcuts": "true" },
      this.tracks,
      this.controls.scrub,
      this.controls.el,
      this.note,
      ...this.whatif ? [this.whatif.el] : []
    );
    this.root.addEventListener("keydown", (event) => this.#key(event));
    el.append(this.root);
    this.#listen();
    this.#set({});
  }
  #listen() {
    const receive = (content, buffers) => this.receive(content, buffers);
    this.model.on("msg:custom", receive);
    const resized = new ResizeObserver(() => this.draw());
    resized.observe(this.root);
    const unwatch = watchTheme(() => this.draw());
    const ask = this.live ? setInterval(() => this.contact.ask(this.over), 1e3) : 0;
    this.cleanUp = () => {
      this.closed = true;
      this.model.off("msg:custom", receive);
      resized.disconnect();
      unwatch();
      clearInterval(ask);
      clearTimeout(this.slow);
      cancelAnimationFrame(this.drawing);
      this.whatif?.close();
      this.screens.forEach((screen) => screen.close());
    };
    this.contact.tell({ type: "hello", view: this.id });
  }
  /**
   * @param {any} content
   * @param {any[]} buffers
   */
  receive(content, buffers) {
    if (content.view && content.view !== this.id) return;
    if (content.type === "episode") this.queue.add(() => this.#episode(content, buffers.map(bytes)));
    else if (content.type === "live") this.queue.add(() => this.#arrived(content, buffers.map(bytes)));
    else if (content.type === "saved") this.#saved(content);
    else if (content.type === "looked") this.#looked(content, bytes(buffers[0]));
    else if (content.type === "futures") this.whatif?.among(content.options, content.chosen);
    else if (content.type === "branched") this.queue.add(() => this.#branched(content));
  }
  /** @param {any} content @param {ArrayBuffer} data */
  #looked({ index, step, shape, entries }, data) {
    const values = shape.length === 3 ? new Uint8Array(data) : new Float32Array(data);
    this.whatif?.looked({ index, step, shape, entries, values });
  }
  /** A branch was played, or not: what is said of it, and where to look. @param {{text: string, error: boolean, at?: number}} content */
  #branched({ text, error, at }) {
    this.whatif?.say(text, error);
    if (at !== void 0) this.seek(at);
  }
  /**
   * @param {any} content
   * @param {ArrayBuffer[]} buffers  columns and saliency, compressed, with the pictures between them
   */
  async #episode({ index, count, header, columns }, [packed, pictures, saliency]) {
    const track = new Track(), unpacked = await inflated(packed);
    if (this.closed) return;
    track.append({ life: "", first: 0 }, rows(columns, unpacked));
    const screen = new Screen(header, track, {
      pictures,
      saliency,
      seek: (step) => this.seek(step),
      redraw: () => this.draw()
    });
    screen.el.append(this.#saveButtons(index));
    this.screens[index]?.close();
    this.screens[index] = screen;
    this.screens.splice(count).forEach((other) => other?.close());
    this.#pair();
    this.tracks.replaceChildren(...this.screens.filter(Boolean).map((one) => one.el));
    this.controls.saliency.hidden = !this.screens.some((one) => one?.header.saliency);
    if (this.screens.filter(Boolean).length === count) this.#say("");
    this.draw();
  }
  /** Two futures of one episode are drawn over each other from where they part. */
  #pair() {
    const [one, other] = this.screens, branch = other?.header.branch;
    const futures = one && other && branch && branch.parent === one.header.key;
    one?.beside(futures ? { track: other.track, at: branch.at } : null);
    other?.beside(futures ? { track: one.track, at: branch.at } : null);
  }
  /**
   * New steps of the watched environment, in one or several chunks.
   * @param {any} content
   * @param {ArrayBuffer[]} buffers
   */
  async #arrived({ header, chunks, note, over }, buffers) {
    this.contact.hear();
    this.over = over;
    if (!header) return this.#say(note || "Waiting for the first step …");
    if (!this.screens[0]) {
      this.screens[0] = new Screen(header, new Track(), { seek: (step) => this.seek(step), redraw: () => this.draw() });
      this.tracks.replaceChildren(this.screens[0].el);
    }
    const [screen] = this.screens, { track } = screen;
    for (const [at, chunk] of chunks.entries()) {
      const before = track.life;
      const unpacked = await inflated(buffers[at]);
      if (this.closed) return;
      track.append(chunk, rows(chunk.columns, unpacked));
      screen.header.kind = chunk.kind;
      if (track.life !== before) this.clock.at = track.times[0];
    }
    if (chunks.length) {
      this.arrivals = [...this.arrivals, performance.now() / 1e3].slice(-8);
      screen.changed();
    }
    this.#say(note);
    this.draw();
  }
  /** The track that ends last: steps, the scrub bar and jumps are those of this one. */
  get longest() {
    const tracks = this.screens.filter(Boolean).map((screen) => screen.track);
    return tracks.reduce((one, other) => other.times.at(-1) > one.times.at(-1) ? other : one, tracks[0] ?? new Track());
  }
  get index() {
    return frameAt(this.longest.times, this.clock.at);
  }
  /** @param {Command} name */
  command(name) {
    const track = this.longest, last = track.length - 1;
    if (!track.length) return;
    if (name === "play") return this.#play();
    if (name === "live") return this.#set({ playing: true, following: true, speed: "1" });
    const places = {
      back: this.index - 1,
      forward: this.index + 1,
      first: 0,
      last,
      reward: this.#reward(1) ?? this.index,
      before: this.#reward(-1) ?? this.index
    };
    this.seek(Math.max(0, Math.min(last, places[name])));
    if ((name === "reward" || name === "before") && this.#reward(name === "reward" ? 1 : -1) === null) {
      this.#say(name === "reward" ? "No reward after this step." : "No reward before this step.");
    }
  }
  /** @param {1 | -1} direction */
  #reward(direction) {
    const { times } = this.longest;
    const found = this.screens.filter(Boolean).map(({ track }) => {
      const at = nextReward(track.columns.reward, frameAt(track.times, this.clock.at), direction);
      return at === null ? null : frameAt(times, track.times[at]);
    }).filter((at) => at !== null);
    return found.length ? direction > 0 ? Math.min(...found) : Math.max(...found) : null;
  }
  #play() {
    const atEnd = !this.live && this.index === this.longest.length - 1;
    if (!this.clock.playing && atEnd) this.clock.at = this.longest.times[0];
    this.#set({ playing: !this.clock.playing, following: false });
  }
  /** @param {number} index */
  seek(index) {
    const { times } = this.longest;
    if (!times.length) return;
    if (!this.live) this.#say("");
    this.#set({ at: times[Math.min(index, times.length - 1)], playing: false, following: false });
  }
  /** @param {Partial<Player["clock"]>} changes */
  #set(changes) {
    Object.assign(this.clock, changes);
    this.controls.choice.value = this.clock.speed;
    this.controls.label(this.clock.playing);
    this.controls.live?.setAttribute("aria-pressed", String(this.clock.following));
    this.then = performance.now();
    this.draw();
  }
  /** @param {KeyboardEvent} event */
  #key(event) {
    event.stopPropagation();
    const command = commandOf(event);
    if (!command) return;
    event.preventDefault();
    this.command(command);
  }
  /** Draw everything soon. */
  draw() {
    this.drawn = "";
    this.#soon();
  }
  #soon() {
    if (!this.drawing && !this.closed) this.drawing = requestAnimationFrame((now) => this.#turn(now));
  }
  /** @param {number} now */
  #turn(now) {
    this.drawing = 0;
    const passed = Math.max(0, Math.min(LONGEST_JUMP_S, (now - this.then) / 1e3));
    this.then = now;
    if (this.clock.playing) this.#advance(passed);
    const shown2 = this.screens.map(({ track }) => track.first + frameAt(track.times, this.clock.at)).join();
    if (shown2 !== this.drawn) this.#render();
    this.drawn = shown2;
    if (this.clock.playing) this.#soon();
  }
  /** @param {number} passed  seconds */
  #advance(passed) {
    const { times } = this.longest;
    if (!times.length) return;
    const oldest = times[0], newest = times[times.length - 1], { clock } = this;
    if (this.over && clock.at >= newest) return this.#set({ playing: false, following: false });
    if (clock.following) {
      const arrived = performance.now() / 1e3 - (this.arrivals.at(-1) ?? 0);
      clock.at = follow({ at: clock.at, passed, oldest, newest, arrived, gap: gapOf(this.arrivals) });
      return;
    }
    clock.at += passed * factor(clock.speed, this.live ? rate(times) : this.screens.find(Boolean)?.header.fps ?? 15);
    if (this.live) {
      if (clock.at < oldest) clock.at = Math.max(oldest, newest - 2);
      clock.at = Math.min(clock.at, newest);
    } else if (clock.at >= newest) {
      this.#set({ at: newest, playing: false });
    }
  }
  #render() {
    const track = this.longest, { length } = track;
    if (!length || !this.root.isConnected) return;
    const colours = ink(look(this.root)), at = this.index, screens = this.screens.filter(Boolean);
    const steps = screens.map((screen) => frameAt(screen.track.times, this.clock.at));
    screens.forEach((screen, which) => screen.show(steps[which], colours, this.live ? screen.track.length : length));
    this.whatif?.show(screens, steps, this.clock.playing);
    const { scrub, where } = this.controls, seconds = (track.times[at] - track.times[0]).toFixed(1);
    scrub.max = String(length - 1);
    scrub.value = String(at);
    const words = this.live ? `step ${track.columns.episode_step[at]} of its episode` : `step ${at} of ${length - 1}, ${seconds} s`;
    setText(where, words);
    scrub.setAttribute("aria-valuetext", words);
  }
  /** @param {number} index  of the rollout */
  #saveButtons(index) {
    const told = element("span", { class: "wb-saved", role: "status" });
    const overlay = () => this.screens[index].overlay.on;
    const button = (format) => element("button", {
      type: "button",
      class: `wb-save-${format}`,
      title: `write an ${format} file into the notebook's folder`,
      onclick: () => this.#save({ index, format, overlay: overlay() }, told)
    }, `Save ${format}`);
    return element("div", { class: "wb-saves" }, button("mp4"), button("gif"), told);
  }
  /**
   * @param {{index: number, format: string, overlay: boolean}} what
   * @param {HTMLElement} told
   */
  #save(what, told) {
    told.className = "wb-saved";
    told.textContent = `writing the ${what.format} …`;
    clearTimeout(this.slow);
    this.slow = window.setTimeout(() => {
      told.textContent = `the kernel is busy; the ${what.format} is written as soon as it is free …`;
    }, SLOW_S * 1e3);
    if (this.contact.tell({ type: "save", view: this.id, ...what })) return;
    this.#saved({ index: what.index, text: "not saved: the kernel has gone", error: true });
  }
  /** @param {{index: number, text: string, error: boolean}} content */
  #saved({ index, text, error }) {
    clearTimeout(this.slow);
    const told = this.screens[index]?.el.querySelector(".wb-saved");
    if (!told) return;
    told.textContent = text;
    told.className = `wb-saved${error ? " wb-error" : ""}`;
    told.setAttribute("role", error ? "alert" : "status");
  }
  /** @param {string} text */
  #say(text) {
    setText(this.note, text);
    this.note.hidden = !text;
  }
};
var player_default = {
  /** @param {{model: any, el: HTMLElement}} given */
  render({ model, el }) {
    return new Player(model, el).cleanUp;
  }
};
export {
  player_default as default
};
