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

// src/keys.js
var nameOf = (key) => key === " " ? "Space" : key.length === 1 ? key.toLowerCase() : key;
var Held = class {
  /** @param {string[]} known  keys that mean something */
  constructor(known) {
    this.known = new Set(known);
    this.keys = [];
  }
  /** Whether the key means something. @param {string} key */
  down(key) {
    if (!this.known.has(key)) return false;
    if (!this.keys.includes(key)) this.keys = [...this.keys, key];
    return true;
  }
  /** Whether it was held. @param {string} key */
  up(key) {
    const before = this.keys.length;
    this.keys = this.keys.filter((one) => one !== key);
    return this.keys.length < before;
  }
  /** Whether any was held. */
  release() {
    const any = this.keys.length > 0;
    this.keys = [];
    return any;
  }
};
var ARROWS = /* @__PURE__ */ new Map([["ArrowUp", "↑"], ["ArrowDown", "↓"], ["ArrowLeft", "←"], ["ArrowRight", "→"]]);
var caps = (keys) => keys.split(", ").map((one) => ARROWS.get(one) ?? (one.length === 1 ? one.toUpperCase() : one));

// src/moments.js
function add(track, state, { scores, none, fps }) {
  const { step, advice } = state, life = String(state.episode), end = track.first + track.length;
  if (life === track.life && track.length && step < end) return;
  if (life === track.life && step === end && track.length) {
    track.columns.action[track.length - 1] = state.action;
    track.columns.by_person[track.length - 1] = Number(state.by === "person");
  }
  track.append({ life, first: step }, {
    time_s: [step / fps],
    reward: [state.reward],
    episode_return: [state.episode_return],
    by_person: [NaN],
    value: [advice?.value ?? NaN],
    scores: [advice?.scores ?? Array(scores).fill(NaN)],
    action: [advice?.action ?? none],
    ...state.score === null ? {} : { score: [state.score] },
    ...state.observation ? { observation: [state.observation] } : {}
  });
}
function standing(state, number2, perStep) {
  const frames = perStep > 1 ? `, ${state.frames.toLocaleString("en")} frames` : "";
  const score = state.episode_score === null ? "" : ` · score ${number2(state.episode_score)}`;
  return `step ${state.step.toLocaleString("en")}${frames} · reward ${number2(state.reward)} · return ${number2(state.episode_return)}${score}`;
}
function clock(state, perStep) {
  const rate = `${round(state.rate)} steps/s${perStep > 1 ? ` (${round(state.rate * perStep)} frames/s)` : ""}`;
  if (state.over) return `episode over: ${state.over}`;
  if (state.playing === "agent") return state.running ? `the agent plays, ${rate}` : "the agent has the controls; time stands";
  if (state.turns) return "you play; a step for each key";
  return state.running ? `you play, ${rate}` : "you play; time stands";
}
var round = (rate) => Math.round(10 * rate) / 10;

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
    const rows = group.kind === "numbers" ? axes(group, own, parts, number2) : group.kind === "switches" ? switches(group, own.map(said2), places.slice(first), parts) : choices(group, own, said2, places.slice(first), parts?.[0] ?? -1);
    return [...title ? [{ title }] : [], ...rows];
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

// src/bars.js
var ROW = 24;
var LEAST_ROW = 18;
var VECTOR_ROW = 16;
var LEAST_LABEL = 60;
var VALUE = 76;
var MARK = 16;
var LABEL_SHARE = 0.4;
var ENTRIES = 32;
function drawPolicy(canvas, colours, rows, domain, width, most) {
  const row = Math.max(LEAST_ROW, Math.min(ROW, most / rows.length)), height = Math.round(row * rows.length) + 2;
  const context = cleared(canvas, width, height);
  const plot = plotOf(context, colours, rows.flatMap((one) => "name" in one ? [one.name] : []), width);
  rows.forEach((one, at) => {
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
  append({ life, first }, rows) {
    const before = this.length;
    const end = this.first + before;
    if (life !== this.life || first > end || !before) {
      Object.assign(this, { life, first, columns: { ...rows } });
      return before;
    }
    for (const [name, values] of Object.entries(rows)) this.columns[name].push(...values.slice(end - first));
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
    const rows = rowsOf(this.header, scores[at], action[at], this.domain, number);
    const zero = this.header.kind === "q_value" ? this.domain : null;
    const height = drawPolicy(this.scores, ink2, rows, zero, this.scrolls ? width - SCROLLBAR : width, TALLEST);
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

// src/game.js
var HEARD_S = 10;
var SILENCE_S = 4;
var PULL_S = 0.1;
var SLOW_S = 2;
var Latest = class {
  /** @type {ImageBitmap | null} */
  picture = null;
  at() {
    return this.picture;
  }
  /** @param {ImageBitmap | null} picture */
  put(picture) {
    this.picture?.close();
    this.picture = picture;
  }
  close() {
    this.put(null);
  }
};
var Game = class {
  /**
   * @param {any} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.track = new Track();
    this.latest = new Latest();
    this.held = new Held([]);
    this.header = null;
    this.screen = null;
    this.state = null;
    this.queue = new Queue((text) => this.#say(text, true));
    this.closed = false;
    this.asked = 0;
    this.heard = this.told = performance.now();
    this.drawing = 0;
    this.given = { scores: 0, none: (
      /** @type {number | number[]} */
      -1
    ), fps: 15 };
    this.cleanUp = () => {
    };
    const button = (name, text, title) => element("button", { type: "button", class: `wb-${name}`, title, "aria-label": title, onclick: () => this.#press(name) }, text);
    this.agent = button("agent", "Hand over", "let the agent play (Tab)");
    this.run = button("run", "Run", "let time run (Escape)");
    this.buttons = {
      advice: button("advice", "Take the advice", "one step as the agent would (Enter)"),
      restart: button("restart", "New episode", "begin another episode (Backspace); one that is not kept is dropped"),
      keep: button("keep", "Keep", "keep the episode as it is so far")
    };
    this.speed = element("select", { class: "wb-speed", "aria-label": "speed", onchange: () => this.#pace() });
    this.turns = element(
      "select",
      { class: "wb-turns", "aria-label": "time", onchange: () => this.#pace() },
      element("option", { value: "" }, "real time"),
      element("option", { value: "turns" }, "in turns")
    );
    this.who = element("output", { class: "wb-where" });
    this.stage = element("div", { class: "wb-stage", tabIndex: 0, role: "application", "aria-label": this.model.get("label") });
    this.legend = element("div", { class: "wb-legend" });
    this.note = element("div", { class: "wb-note", role: "status" }, "Waiting for the kernel …");
    this.root = element(
      "div",
      { class: "wb-player wb-game", role: "group", "aria-label": this.model.get("label"), "data-lm-suppress-shortcuts": "true" },
      element(
        "div",
        { class: "wb-controls", role: "toolbar", "aria-label": "playing" },
        this.agent,
        this.run,
        ...Object.values(this.buttons),
        this.turns,
        this.speed,
        this.who
      ),
      this.stage,
      this.legend,
      this.note
    );
    this.root.addEventListener("keydown", (event) => event.stopPropagation());
    this.stage.addEventListener("keydown", (event) => this.#down(event));
    this.stage.addEventListener("keyup", (event) => this.#up(event));
    this.stage.addEventListener("blur", () => this.#left());
    this.stage.addEventListener("pointerdown", () => this.stage.focus());
    el.append(this.root);
    this.#listen();
  }
  #listen() {
    const receive = (content, buffers) => this.receive(content, buffers);
    this.model.on("msg:custom", receive);
    const resized = new ResizeObserver(() => this.draw());
    resized.observe(this.root);
    const unwatch = watchTheme(() => this.draw());
    const ask = setInterval(() => this.#ask(), PULL_S * 1e3);
    this.cleanUp = () => {
      this.closed = true;
      this.model.off("msg:custom", receive);
      resized.disconnect();
      unwatch();
      clearInterval(ask);
      cancelAnimationFrame(this.drawing);
      this.latest.close();
    };
    this.#tell({ type: "hello", view: this.id });
  }
  /** @param {object} content */
  #tell(content) {
    this.told = performance.now();
    try {
      this.model.send(content);
    } catch {
      this.#say("The kernel has gone; an episode that was begun is kept.");
    }
  }
  /** Says now and then that somebody looks; asks where nothing came though time runs. */
  #ask() {
    if (document.hidden) return;
    const now = performance.now(), running = this.state?.running && !this.state.over;
    if (running && now - this.heard > (this.header?.pulled ? PULL_S : SILENCE_S) * 1e3) {
      this.heard = now;
      this.#tell({ type: "pull" });
    } else if (now - this.told > HEARD_S * 1e3) this.#tell({ type: "seen" });
  }
  // --- from the kernel ---------------------------------------------------------------------------------------------
  /**
   * @param {any} content
   * @param {any[]} buffers
   */
  receive(content, buffers) {
    if (content.view && content.view !== this.id) return;
    this.heard = performance.now();
    if (content.type === "problem") {
      this.asked = 0;
      this.#say(content.text, true);
    } else if (content.type === "moments") {
      this.queue.add(() => this.#arrived(content, buffers.map(bytes)));
    }
  }
  /**
   * @param {any} content
   * @param {ArrayBuffer[]} buffers  the newest picture
   */
  async #arrived({ states, mime, header }, [file]) {
    const picture = file?.byteLength ? await createImageBitmap(new Blob([file], { type: mime })).catch(() => null) : null;
    if (this.closed) return picture?.close();
    if (header) this.#begin(header);
    if (!this.header || !this.screen) return picture?.close();
    if (picture) this.latest.put(picture);
    for (const state of states) {
      add(this.track, state, this.given);
      if (state.advice) this.screen.header.kind = state.advice.kind;
    }
    this.screen.changed();
    this.asked = 0;
    this.#now(states.at(-1));
  }
  /** @param {any} header */
  #begin(header) {
    this.header = header;
    this.held = new Held(header.keys);
    const bars3 = header.groups.reduce((all, one) => all + one.names.length, 0);
    const parts = header.groups.reduce((all, one) => all + columnsOf2(one), 0);
    const nothing = withNumbers(header.actions) ? NaN : -1;
    this.given = { scores: bars3, none: header.actions === "categorical" ? nothing : Array(parts).fill(nothing), fps: header.fps };
    this.track = new Track();
    this.screen = new Screen(header, this.track, { seek: () => {
    }, redraw: () => this.draw() });
    this.screen.pictures = /** @type {any} */
    header.picture ? this.latest : null;
    this.stage.replaceChildren(this.screen.el);
    this.speed.replaceChildren(...header.speeds.map((one) => element("option", { value: String(one), selected: one === 1 }, `${one}×`)));
    this.agent.disabled = this.buttons.advice.disabled = !header.agent;
    const key = (keys, words) => element("span", {}, ...caps(keys).map((cap) => element("kbd", {}, cap)), ` ${words}`);
    const own = Object.entries(header.reserved).filter(([name]) => header.agent || !["Tab", "Enter"].includes(name));
    this.legend.replaceChildren(
      ...header.legend.map(([keys, words]) => key(keys, words)),
      ...own.map(([name, words]) => key(name, String(words)))
    );
    this.#say("");
  }
  /** @param {State} state */
  #now(state) {
    const before = this.state, perStep = this.header.frames_per_step;
    this.state = state;
    this.agent.textContent = state.playing === "agent" ? "Take over" : "Hand over";
    this.agent.setAttribute("aria-pressed", String(state.playing === "agent"));
    this.run.textContent = state.running ? "Pause" : "Run";
    this.run.disabled = Boolean(state.over) || state.turns && state.playing === "person";
    this.turns.value = state.turns ? "turns" : "";
    this.who.textContent = clock(state, perStep);
    const speed = this.header.speeds.find((one) => Math.abs(one * this.header.fps - state.rate) < 1e-6);
    if (speed) this.speed.value = String(speed);
    this.buttons.keep.disabled = !state.step;
    const kept = state.kept && (state.over || state.kept !== before?.kept) ? `Kept: wb.rollout("${state.kept}")` : "";
    if (state.over) this.#say(`The episode is over (${why(state)}) with a return of ${number(state.episode_return)}, by you ${state.by_person} of ${state.step} steps. ${kept} Backspace begins another one.`);
    else if (kept) this.#say(kept);
    else if (before && (before.step !== state.step || before.running !== state.running)) this.#say("");
    this.draw();
  }
  // --- keys and buttons --------------------------------------------------------------------------------------------
  /** @param {string} name  of a button */
  #press(name) {
    this.stage.focus();
    if (name === "run") name = this.state?.running ? "pause" : "run";
    this.asked = performance.now();
    this.#tell({ type: "do", name });
  }
  #pace() {
    this.#tell({ type: "pace", speed: Number(this.speed.value), turns: this.turns.value === "turns" });
    this.stage.focus();
  }
  /** @param {KeyboardEvent} event */
  #down(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.state || event.key === "Tab" && event.shiftKey) return;
    const key = nameOf(event.key), own = (
      /** @type {Record<string, string>} */
      { Tab: "agent", Enter: "advice", Escape: "run", Backspace: "restart" }[key]
    );
    if (own) {
      if (!this.header.agent && (own === "agent" || own === "advice")) return;
      event.preventDefault();
      if (!event.repeat || own === "advice" && this.#free()) this.#press(own);
    } else if (this.held.down(key)) {
      event.preventDefault();
      this.#played(event.repeat);
    }
  }
  /** A key of the game was pressed, or is repeated as it is held. @param {boolean} repeated */
  #played(repeated) {
    const { turns, over } = (
      /** @type {State} */
      this.state
    ), held = this.held.keys;
    if (over) {
      if (!repeated) this.#say(`The episode is over (${why(
        /** @type {State} */
        this.state
      )}). Backspace begins another one.`);
    } else if (!turns) {
      if (!repeated) this.#tell({ type: "keys", held, begin: true });
    } else if (!repeated || this.#free()) {
      this.asked = performance.now();
      this.#tell({ type: "press", held });
    }
  }
  /** Whether what was sent before is answered, so that a key that is held does nothing that has to wait. */
  #free() {
    return !this.asked || performance.now() - this.asked > SLOW_S * 1e3;
  }
  /** @param {KeyboardEvent} event */
  #up(event) {
    if (this.held.up(nameOf(event.key)) && this.state && !this.state.turns) this.#tell({ type: "keys", held: this.held.keys });
  }
  /** The keys go elsewhere: nothing is held, and time that waits for a person stands. */
  #left() {
    if (!this.held.release() && !this.state?.running) return;
    if (!this.state?.turns) this.#tell({ type: "keys", held: [] });
    if (this.state?.running && this.state.playing === "person") this.#tell({ type: "do", name: "pause" });
  }
  // --- drawing -----------------------------------------------------------------------------------------------------
  /** Draw everything soon. */
  draw() {
    if (!this.drawing && !this.closed) this.drawing = requestAnimationFrame(() => this.#render());
  }
  #render() {
    this.drawing = 0;
    if (!this.screen || !this.state || !this.track.length || !this.root.isConnected) return;
    this.screen.show(this.track.length - 1, ink(look(this.root)), this.track.length);
    const { advice } = this.state, words = standing(this.state, number, this.header.frames_per_step);
    const said2 = advice ? ` · the agent would: ${inWords(this.screen.header, advice.scores, advice.action, number)}, value ${number(advice.value)}` : "";
    const before = this.state.action === null ? "" : ` · ${this.state.by === "person" ? "you" : "the agent"} did: ${inWords(this.screen.header, void 0, this.state.action, number)}`;
    this.screen.words.textContent = words + before + said2;
  }
  /** @param {string} text @param {boolean} [problem] */
  #say(text, problem = false) {
    this.note.textContent = text;
    this.note.hidden = !text;
    this.note.className = `wb-note${problem ? " wb-error" : ""}`;
    this.note.setAttribute("role", problem ? "alert" : "status");
  }
};
function why({ over, failure }) {
  return failure ? `${over}: ${failure}` : over;
}
var game_default = {
  /** @param {{model: any, el: HTMLElement}} given */
  render({ model, el }) {
    return new Game(model, el).cleanUp;
  }
};
export {
  game_default as default
};
