// The charts of a shared page: canvases without Vega. All charts of time have one range and one position under the
// pointer: the wheel and keys zoom, a drag selects a range, a double click shows all again.
import { arranged } from "./arrangement.js";
import { cleared } from "./canvas.js";
import { element, setText } from "./elements.js";
import { number } from "./numbers.js";
import { linear } from "./scales.js";
import { decades, label, nearest, rounded, within, zoomed } from "./ticks.js";

const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 28; // px around a plot
const HEIGHT = 220, LANE = 20, LANES_LEFT = 92;
const REACH = 9; // px from an event at which it is pointed at
const WHEEL = 0.0015; // of a zoom by 1, per px of the wheel

/** @typedef {{name: string, colour: string, style: string, x: Record<string, number[]>, y: Record<string, (number | null)[]>}} Line */
/** @typedef {{title: string, group: string, kind: string, wide: boolean, log: boolean, zero: boolean, percent: boolean} & Record<string, any>} Chart */
/** @typedef {{axes: string[], spans: Record<string, number[]>, marks: Record<string, {shape: string, colour: string}>, lanes: string[], charts: Chart[]}} Data */
/** @typedef {{context: CanvasRenderingContext2D, width: number, height: number, left: number, ink: string, place: (value: number) => number}} Drawing */

export class Plots {
  /** @param {HTMLElement} root @param {Data} data */
  constructor(root, data) {
    this.data = data;
    this.axis = data.axes[0];
    /** @type {[number, number]} */
    this.range = [0, 1];
    /** @type {number | null} the position under the pointer */
    this.at = null;
    this.drawing = this.placed = 0;
    this.plots = data.charts.map(chart => new Plot(this, chart));
    const choices = data.axes.map(axis => element("button", {
      type: "button", "aria-pressed": "false", onclick: () => this.choose(axis),
    }, axis));
    this.choices = choices;
    root.append(element("div", { class: "axis", role: "group", "aria-label": "horizontal axis" }, "over ", ...choices,
      element("span", { class: "quiet" }, "wheel or drag: zoom · double click: all")));
    this.root = root;
    /** @type {Map<string, {grid: HTMLElement, plots: Plot[]}>} */
    this.groups = new Map();
    for (const plot of this.plots) {
      const { group } = plot.chart, place = this.groups.get(group) ?? { grid: this.section(root, group), plots: [] };
      this.groups.set(group, place);
      place.plots.push(plot);
      place.grid.append(plot.el);
    }
    new ResizeObserver(() => this.soon()).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.soon());
    this.choose(this.axis);
  }

  /** @param {HTMLElement} root @param {string} group */
  section(root, group) {
    const grid = element("div", { class: "grid" });
    if (!group) root.append(grid);
    else root.append(element("details", { ontoggle: () => this.soon() }, element("summary", {}, group), grid));
    return grid;
  }

  /** @returns {[number, number]} */
  get whole() {
    const [low, high] = this.data.spans[this.axis];
    return low < high ? [low, high] : [(low ?? 0) - 0.5, (high ?? low ?? 0) + 0.5];
  }

  /** @param {string} axis */
  choose(axis) {
    this.axis = axis;
    this.choices.forEach((button, at) => button.setAttribute("aria-pressed", String(this.data.axes[at] === axis)));
    this.show(this.whole);
  }

  /** @param {[number, number]} range */
  show(range) {
    this.range = range;
    this.at = null;
    this.soon();
  }

  /** @param {number | null} at */
  point(at) {
    this.at = at;
    this.soon();
  }

  soon() {
    this.drawing ||= requestAnimationFrame(() => {
      this.drawing = 0;
      this.place();
      for (const plot of this.plots) plot.draw();
    });
  }

  /** Share the width among the charts of each grid. */
  place() {
    const width = this.root.clientWidth;
    if (width === this.placed) return;
    this.placed = width;
    for (const { grid, plots } of this.groups.values()) {
      const single = plots.filter(plot => plot.chart.kind !== "events");
      const { columns, first, last } = arranged(width, single.length, Boolean(single[0]?.chart.wide));
      grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
      for (const plot of plots) plot.el.style.gridColumn = single.includes(plot) ? "auto" : "1 / -1";
      if (first > 1) single[0].el.style.gridColumn = `span ${first}`;
      if (last > 1) single[single.length - 1].el.style.gridColumn = `span ${last}`;
    }
  }
}

class Plot {
  /** @param {Plots} all @param {Chart} chart */
  constructor(all, chart) {
    this.all = all;
    this.chart = chart;
    this.timed = chart.kind === "lines" || chart.kind === "events";
    this.left = chart.kind === "events" ? LANES_LEFT : chart.kind === "parts" ? 104 : LEFT;
    this.height = chart.kind === "events" ? all.data.lanes.length * LANE + BOTTOM : HEIGHT;
    this.canvas = element("canvas", { role: "img", "aria-label": chart.title, ...(this.timed ? { tabIndex: 0 } : {}) });
    this.words = element("div", { class: "words", role: "status" });
    /** @type {[number, number] | null} the px of a selection */
    this.selected = null;
    const names = new Map((/** @type {Line[]} */ (chart.lines ?? [])).map(line => [line.name, line.colour]));
    const legend = [...names].map(([name, colour]) => {
      const sign = element("i");
      sign.style.background = colour;
      return element("span", {}, sign, name);
    });
    this.el = element("figure", {},
      element("figcaption", {}, element("b", {}, chart.title), ...(legend.length > 1 ? legend : [])), this.canvas, this.words);
    if (this.timed) this.listen();
  }

  listen() {
    const { canvas, all } = this, stop = (/** @type {Event} */ event) => event.preventDefault();
    canvas.addEventListener("wheel", event => {
      const range = zoomed(all.range, this.valueAt(event), Math.exp(event.deltaY * WHEEL), all.whole);
      if (range[0] === all.range[0] && range[1] === all.range[1]) return; // all is shown: the page scrolls
      stop(event);
      all.show(range);
    }, { passive: false });
    canvas.addEventListener("dblclick", () => all.show(all.whole));
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      this.selected = [event.offsetX, event.offsetX];
    });
    canvas.addEventListener("pointermove", event => {
      if (this.selected) this.selected[1] = event.offsetX;
      this.pointed = [event.offsetX, event.offsetY];
      all.point(this.valueAt(event));
    });
    canvas.addEventListener("pointerup", () => this.select());
    canvas.addEventListener("pointercancel", () => (this.selected = null));
    canvas.addEventListener("pointerleave", () => {
      this.pointed = undefined;
      all.point(null);
    });
    canvas.addEventListener("keydown", event => {
      const [low, high] = all.range, middle = (low + high) / 2, step = (high - low) / 10;
      const factor = { "+": 0.8, "-": 1.25 }[event.key], way = { ArrowLeft: -step, ArrowRight: step }[event.key];
      if (factor) all.show(zoomed(all.range, middle, factor, all.whole));
      else if (way) all.show(within([low + way, high + way], all.whole));
      else if (event.key === "0") all.show(all.whole);
      else return;
      stop(event);
    });
  }

  /** A drag shows its range. */
  select() {
    const [from, to] = this.selected ?? [0, 0];
    this.selected = null;
    if (Math.abs(to - from) < 5) return this.all.soon();
    const ends = [Math.min(from, to), Math.max(from, to)].map(x => this.valueAt({ offsetX: x }));
    this.all.show(within([ends[0], ends[1]], this.all.whole));
  }

  /** @param {{offsetX: number}} event */
  valueAt({ offsetX }) {
    const [low, high] = this.all.range;
    const share = (offsetX - this.left) / Math.max(1, this.canvas.clientWidth - this.left - RIGHT);
    return low + Math.max(0, Math.min(1, share)) * (high - low);
  }

  draw() {
    const width = this.el.clientWidth - 20;
    if (width <= 0) return; // in a section that is closed
    const context = cleared(this.canvas, width, this.height), ink = getComputedStyle(this.el).color;
    context.font = "12px sans-serif";
    const domain = this.timed ? this.all.range : /** @type {[number, number]} */ ([0, 1]);
    /** @type {Drawing} */
    const drawing = { context, ink, width, height: this.height - BOTTOM, left: this.left,
      place: linear(domain, this.left, width - RIGHT) };
    this.canvas.dataset.low = String(domain[0]);
    this.canvas.dataset.high = String(domain[1]);
    if (this.timed) axisX(drawing, domain);
    /** @type {Record<string, () => void>} */
    const kinds = { lines: () => this.lines(drawing), events: () => this.events(drawing), bars: () => bars(drawing, this.chart),
      parts: () => parts(drawing, this.chart), nothing: () => text(drawing, this.chart.text, this.left, 40) };
    kinds[this.chart.kind]?.();
    if (this.timed) this.pointer(drawing);
  }

  /** @param {Drawing} drawing */
  lines(drawing) {
    const { chart, all } = this, { context, height } = drawing;
    const drawn = /** @type {Line[]} */ (chart.lines).map(line => ({ ...line, xs: line.x[all.axis], ys: line.y[all.axis] }));
    const seen = drawn.flatMap(({ xs, ys }) => ys.filter((y, at) => y !== null && xs[at] >= all.range[0] && xs[at] <= all.range[1]));
    const log = chart.log && seen.every(y => Number(y) > 0);
    const domain = vertical(/** @type {number[]} */ (seen).concat(chart.asked), chart, log);
    const scale = linear(log ? [Math.log10(domain[0]), Math.log10(domain[1])] : domain, height, TOP);
    const place = (/** @type {number} */ y) => scale(log ? Math.log10(y) : y);
    axisY(drawing, log ? decades(domain) : rounded(domain, 5), place, chart.percent);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, drawing.width - RIGHT - this.left + 1, height + 1);
    context.clip();
    for (const { xs, ys, colour, style } of drawn) curve(drawing, { xs, ys, colour, style }, place);
    for (const value of chart.asked) rule(drawing, place(value), `asked for ${number(value)}`);
    context.restore();
    const values = drawn.filter(({ style }) => style === "strong" || style === "step").map(({ name, xs, ys }) => {
      const y = all.at === null ? null : ys[nearest(xs, all.at)];
      return y === null || y === undefined ? "" : `${name} ${chart.percent ? `${(100 * y).toFixed(1)} %` : number(y)}`;
    });
    this.say(all.at === null ? "" : [`${label(all.at)} ${all.axis}`, ...values].filter(Boolean).join(" · "));
  }

  /** @param {Drawing} drawing */
  events(drawing) {
    const { chart, all } = this, { context, place } = drawing, xs = /** @type {number[]} */ (chart.x[all.axis]);
    let closest = { at: -1, distance: REACH };
    all.data.lanes.forEach((lane, row) => text(drawing, lane, 4, row * LANE + LANE / 2 + 4));
    xs.forEach((x, at) => {
      const y = (all.data.lanes.indexOf(chart.lane[at]) + 0.5) * LANE, { shape, colour } = all.data.marks[chart.event[at]];
      if (x < all.range[0] || x > all.range[1]) return;
      context.save();
      context.translate(place(x), y);
      context.scale(6, 6);
      context.fillStyle = colour;
      context.fill(new Path2D(shape));
      context.restore();
      const distance = this.pointed ? Math.hypot(this.pointed[0] - place(x), this.pointed[1] - y) : Infinity;
      if (distance < closest.distance) closest = { at, distance };
    });
    const { at } = closest;
    this.say(at < 0 ? `${xs.length} event${xs.length === 1 ? "" : "s"}` : `${chart.event[at]}: ${chart.message[at]} (at ${label(xs[at])} ${all.axis})`);
  }

  /** The line under the pointer, and a selection. @param {Drawing} drawing */
  pointer({ context, ink, height, place }) {
    context.fillStyle = ink;
    const { at } = this.all;
    if (at !== null && at >= this.all.range[0] && at <= this.all.range[1]) {
      context.globalAlpha = 0.5;
      context.fillRect(Math.round(place(at)), 0, 1, height);
    }
    if (this.selected) {
      context.globalAlpha = 0.15;
      context.fillRect(this.selected[0], 0, this.selected[1] - this.selected[0], height);
    }
    context.globalAlpha = 1;
  }

  /** @param {string} words */
  say(words) {
    setText(this.words, words);
  }
}

/** The ends of a vertical axis. @param {number[]} values @param {Chart} chart @param {boolean} log @returns {[number, number]} */
function vertical(values, chart, log) {
  if (chart.percent) return [0, 1];
  let low = chart.zero ? 0 : Infinity, high = chart.zero ? 0 : -Infinity;
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (low > high) return log ? [1, 10] : [0, 1];
  if (low === high) return log ? [low / 2, high * 2] : [low - Math.max(0.5, Math.abs(low) / 10), high + Math.max(0.5, Math.abs(high) / 10)];
  const margin = log ? (high / low) ** 0.04 : (high - low) * 0.04;
  return log ? [low / margin, high * margin] : [chart.zero ? low : low - margin, high + margin];
}

/** @param {Drawing} drawing @param {string} words @param {number} x @param {number} y */
function text({ context, ink }, words, x, y) {
  context.fillStyle = ink;
  context.fillText(words, x, y);
}

/** @param {Drawing} drawing @param {[number, number]} domain */
function axisX(drawing, domain) {
  const { context, ink, width, height, left, place } = drawing;
  context.fillStyle = ink;
  context.fillRect(left, height, width - RIGHT - left, 1);
  context.textAlign = "center";
  for (const tick of rounded(domain, Math.max(2, Math.floor(width / 80)))) {
    context.fillRect(Math.round(place(tick)), height, 1, 4);
    text(drawing, label(tick), Math.min(place(tick), width - 18), height + 17);
  }
  context.textAlign = "left";
}

/** @param {Drawing} drawing @param {number[]} ticks @param {(y: number) => number} place @param {boolean} share */
function axisY(drawing, ticks, place, share) {
  const { context, ink, width, left } = drawing;
  context.textAlign = "right";
  for (const tick of ticks) {
    context.fillStyle = ink;
    context.globalAlpha = 0.15;
    context.fillRect(left, Math.round(place(tick)), width - RIGHT - left, 1);
    context.globalAlpha = 1;
    text(drawing, share ? `${Math.round(100 * tick)}%` : label(tick), left - 5, place(tick) + 4);
  }
  context.textAlign = "left";
}

/** @param {Drawing} drawing @param {{xs: number[], ys: (number | null)[], colour: string, style: string}} line
 * @param {(y: number) => number} placeY */
function curve({ context, place }, { xs, ys, colour, style }, placeY) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = style === "thin" ? 1 : 2;
  context.globalAlpha = style === "thin" || style === "dots" ? 0.4 : 1;
  const single = ys.filter(y => y !== null).length === 1;
  let open = false, before = 0;
  context.beginPath();
  ys.forEach((y, at) => {
    if (y === null) {
      open = false;
      return;
    }
    const [x, height] = [place(xs[at]), placeY(y)];
    if (style === "dots" || single) context.fillRect(x - 1.5, height - 1.5, single ? 5 : 3, single ? 5 : 3);
    else if (!open) context.moveTo(x, height);
    else {
      if (style === "step") context.lineTo(x, before);
      context.lineTo(x, height);
    }
    [open, before] = [true, height];
  });
  context.stroke();
  context.globalAlpha = 1;
}

/** A dashed line across a plot. @param {Drawing} drawing @param {number} y @param {string} words */
function rule(drawing, y, words) {
  const { context, ink, width, left } = drawing;
  context.strokeStyle = ink;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(left, y);
  context.lineTo(width - RIGHT, y);
  context.stroke();
  context.setLineDash([]);
  text(drawing, words, left + 4, y + 14);
}

/** A histogram. @param {Drawing} drawing @param {Chart} chart */
function bars(drawing, chart) {
  const { context, width, height, left } = drawing;
  const at = (/** @type {number} */ value) => (chart.log ? Math.log10(value) : value);
  /** @type {[number, number]} */
  const ends = [chart.low[0], chart.high[chart.high.length - 1]];
  const x = linear([at(ends[0]), at(ends[1])], left, width - RIGHT);
  const most = Math.max(...chart.share, 1e-9), y = linear([0, most], height, TOP);
  axisY(drawing, rounded([0, most], 4), y, true);
  context.fillStyle = "#2a80c4";
  chart.low.forEach((/** @type {number} */ low, /** @type {number} */ bar) => {
    context.fillRect(x(at(low)), y(chart.share[bar]), Math.max(1, x(at(chart.high[bar])) - x(at(low)) - 1), height - y(chart.share[bar]));
  });
  context.textAlign = "center";
  for (const tick of chart.log ? decades(ends) : rounded(ends, 5)) text(drawing, label(tick), x(at(tick)), height + 13);
  context.textAlign = "right";
  text(drawing, chart.x, width - RIGHT, height + 25);
  context.textAlign = "left";
}

/** Where time goes. @param {Drawing} drawing @param {Chart} chart */
function parts(drawing, chart) {
  const { context, width, left } = drawing, step = Math.min(28, (HEIGHT - TOP) / Math.max(1, chart.part.length));
  chart.part.forEach((/** @type {string} */ part, /** @type {number} */ row) => {
    const y = TOP + row * step, length = chart.share[row] * (width - left - 58);
    context.fillStyle = chart.most[row] ? "#d55e00" : "#2a80c4";
    context.fillRect(left, y, length, step * 0.65);
    text(drawing, part, 4, y + step * 0.5);
    text(drawing, chart.text[row], left + length + 5, y + step * 0.5);
  });
}
