// src/arrangement.js
var NARROWEST = 240;
var GAP = 10;
function arranged(width, count, wide) {
  const most = Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP)));
  if (count < 2 || most < 2) return { columns: 1, first: 1, last: 1 };
  if (wide) {
    if (most > count) return { columns: count + 1, first: 2, last: 1 };
    if (count > 2 && most >= count - 1) return { columns: count - 1, first: count - 1, last: 1 };
    return { columns: 2, first: count % 2 ? 2 : 1, last: 1 };
  }
  const largest = Math.min(most, count), hole = (columns2) => columns2 - 1 - (count - 1) % columns2;
  const columns = largest > 2 && hole(largest - 1) < hole(largest) ? largest - 1 : largest;
  return { columns, first: 1, last: 1 + hole(columns) };
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

// src/theme.js
function look(el) {
  const style = getComputedStyle(el);
  const [text, background, font] = [style.color, style.backgroundColor, style.fontFamily];
  return { text, background, font, key: [text, background, font].join("|") };
}
function vegaConfig({ text, background, font }) {
  const axis = {
    gridColor: text,
    gridOpacity: 0.14,
    domainColor: text,
    domainOpacity: 0.45,
    tickColor: text,
    tickOpacity: 0.45,
    labelColor: text,
    titleColor: text,
    titleFontWeight: "normal",
    labelFontSize: 13,
    titleFontSize: 13,
    labelFont: font,
    titleFont: font
  };
  const legend = {
    labelColor: text,
    titleColor: text,
    labelFontSize: 13,
    labelFont: font,
    columnPadding: 10,
    labelLimit: 200,
    layout: { top: { direction: "vertical", anchor: "start" } }
  };
  return {
    background,
    font,
    axis,
    axisX: { titleAnchor: "end" },
    legend,
    view: { stroke: null },
    text: { color: text, fontSize: 13, font },
    title: { color: text, fontSize: 15, font, anchor: "start" }
  };
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

// src/tables.js
function unpack(packed, buffers) {
  const columns = { ...packed.texts };
  if (packed.buffer !== null) {
    const view = buffers[packed.buffer];
    const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    const all = new Float64Array(bytes);
    packed.numbers.forEach((name, at) => {
      columns[name] = all.subarray(at * packed.length, (at + 1) * packed.length);
    });
  }
  return { length: packed.length, columns };
}
function equal(one, other) {
  const names = Object.keys(one.columns);
  return one.length === other.length && names.length === Object.keys(other.columns).length && names.every((name) => {
    const [column, before] = [one.columns[name], other.columns[name]];
    return before !== void 0 && Array.prototype.every.call(column, (value, at) => Object.is(value, before[at]));
  });
}
function rows({ length, columns }) {
  const names = Object.keys(columns);
  return Array.from({ length }, (_, at) => {
    const row = {};
    for (const name of names) {
      const value = columns[name][at];
      row[name] = typeof value === "number" && !Number.isFinite(value) ? null : value;
    }
    return row;
  });
}

// src/card.js
var HEIGHT = 236;
var Card = class {
  /** @param {Vega} vega @param {() => Look} look @param {(text: string) => void} say */
  constructor(vega, look2, say) {
    this.vega = vega;
    this.look = look2;
    this.say = say;
    this.tables = {};
    this.stale = /* @__PURE__ */ new Set();
    this.figure = null;
    this.drawn = null;
    this.chosen = {};
    this.width = 0;
    this.visible = false;
    this.el = element("figure", { class: "workbench-card" });
    this.plot = element("div", { class: "workbench-card-plot" });
    this.line = element("div", { class: "workbench-card-line", hidden: true });
    this.el.addEventListener("keydown", (event) => event.stopPropagation());
    this.title = element("span", { class: "workbench-card-title" });
    this.summary = element("summary", {}, "⋯");
    this.problem = element("p", { class: "workbench-card-problem", role: "alert", hidden: true });
    this.failed = false;
    const head = element("figcaption", { class: "workbench-card-head" }, this.title, this.menu());
    const over = element("div", { class: "workbench-card-over" }, this.plot, this.line);
    this.el.append(head, over, this.problem);
  }
  menu() {
    const menu = element("details", { class: "workbench-card-menu" });
    const list = element("div", { class: "workbench-card-actions" });
    const actions = (
      /** @type {[string, () => Promise<void>][]} */
      [
        ["Save as PNG", () => this.save("png")],
        ["Save as SVG", () => this.save("svg")],
        ["Copy Vega-Lite spec", () => this.copy()]
      ]
    );
    for (const [label, act] of actions) {
      const button = element("button", {}, label);
      button.addEventListener("click", () => {
        menu.open = false;
        this.summary.focus();
        act().catch((error) => this.say(`${label}: ${error.message ?? error}`));
      });
      list.append(button);
    }
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") menu.open = false;
    });
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(
        /** @type {Node | null} */
        event.relatedTarget
      )) menu.open = false;
    });
    menu.append(this.summary, list);
    return menu;
  }
  /** Whether this is the chart that is here already. @param {Figure} figure */
  shows(figure) {
    return JSON.stringify(figure) === JSON.stringify(this.figure);
  }
  /** Another chart, with all of its tables. @param {Figure} figure @param {Record<string, Table>} tables */
  become(figure, tables) {
    this.figure = figure;
    this.tables = tables;
    this.clear();
    this.chosen = {};
    this.title.textContent = figure.title;
    this.summary.setAttribute("aria-label", `Save or copy: ${figure.title}`);
    if (single(figure.spec)) this.plot.removeAttribute("tabindex");
    else this.plot.tabIndex = 0;
    this.plot.style.minHeight = `${single(figure.spec) ? heightOf(figure.spec) : HEIGHT}px`;
  }
  /** New data, with which a chart that could not be drawn is tried again. @param {Record<string, Table>} tables */
  take(tables) {
    for (const [name, table] of Object.entries(tables)) {
      if (this.tables[name] && equal(this.tables[name], table)) continue;
      this.tables[name] = table;
      this.stale.add(name);
      this.failed = false;
    }
  }
  get dirty() {
    return this.figure !== null && (!this.drawn ? !this.failed : this.stale.size > 0 || this.resized);
  }
  get resized() {
    return this.drawn !== null && this.width > 0 && Math.abs(this.drawn.width - this.width) >= 1;
  }
  /** Where the plot of a chart of time is within the drawing, in px; null for any other chart.
   * @returns {{left: number, top: number, width: number, height: number} | null} */
  plotted() {
    if (!this.drawn || !this.tables.span) return null;
    const { view } = this.drawn, [left, top] = view.origin(), padding = view.padding();
    return { left: left + padding.left, top: top + padding.top, width: view.width(), height: view.height() };
  }
  /** Bring the drawing up to date; whether it is there for the first time. */
  async draw() {
    const first = !this.drawn;
    try {
      await (first ? this.embed() : this.update());
    } catch (error) {
      this.fail(error);
    }
    return first && !this.failed;
  }
  async embed() {
    if (!this.figure || this.width <= 0) return;
    const { figure, width } = this;
    if (figure.spec.problem) throw new Error(figure.spec.problem);
    const { title: _, ...chart } = this.spec();
    const spec = sized(chart, width);
    this.stale.clear();
    const made = await this.vega.embed(this.plot, spec, {
      actions: false,
      logLevel: 1,
      renderer: "canvas",
      defaultStyle: false,
      config: vegaConfig(this.look()),
      tooltip: { theme: "workbench", disableDefaultStyle: true, id: "workbench-chart-tooltip" }
    });
    if (this.figure !== figure) return made.finalize();
    this.problem.hidden = true;
    this.plot.hidden = false;
    this.drawn = { width, view: made.view, finalize: () => made.finalize() };
    for (const [name, value] of Object.entries(this.chosen)) made.view.signal(name, value);
    if (Object.keys(this.chosen).length) await made.view.runAsync();
  }
  async update() {
    const { view } = this.drawn;
    for (const name of this.stale) {
      view.change(name, this.vega.changeset().remove(() => true).insert(rows(this.tables[name])));
    }
    this.stale.clear();
    if (this.resized && single(this.figure?.spec)) view.width(this.width);
    this.drawn.width = this.width;
    await view.resize().runAsync();
  }
  /** The specification with its data. @returns {Record<string, any>} */
  spec() {
    const datasets = Object.fromEntries(Object.entries(this.tables).map(([name, table]) => [name, rows(table)]));
    return { ...structuredClone(this.figure?.spec ?? {}), datasets };
  }
  /** @param {unknown} error */
  fail(error) {
    this.clear();
    const said = `This chart cannot be drawn: ${error instanceof Error ? error.message : error}`;
    setText(this.problem, said);
    this.failed = true;
    this.problem.hidden = false;
    this.plot.hidden = true;
  }
  /** Forget the drawing; the data stays, and what a person chose in the controls that the chart itself has. */
  clear() {
    this.line.hidden = true;
    for (const { name, bind } of this.drawn ? this.figure?.spec.params ?? [] : []) {
      if (bind && bind !== "scales" && bind !== "legend") this.chosen[name] = this.drawn.view.signal(name);
    }
    this.drawn?.finalize();
    this.drawn = null;
    this.plot.replaceChildren();
    this.plot.hidden = false;
    this.problem.hidden = true;
    this.failed = false;
  }
  /** @param {"png" | "svg"} kind */
  async save(kind) {
    if (!this.drawn) throw new Error("it is not drawn yet");
    const link = document.createElement("a");
    link.href = await this.drawn.view.toImageURL(kind, 2);
    link.download = `${this.figure?.title ?? "chart"}.${kind}`;
    link.click();
  }
  async copy() {
    if (!navigator.clipboard) throw new Error("the browser gives a clipboard to pages by https or from localhost alone");
    await navigator.clipboard.writeText(JSON.stringify(this.spec()));
    this.say("The Vega-Lite specification, with its data, is in the clipboard.");
  }
  remove() {
    this.figure = null;
    this.clear();
    this.el.remove();
  }
};
function single(spec) {
  return spec !== void 0 && ("layer" in spec || "mark" in spec);
}
function heightOf(spec) {
  return spec?.height ?? HEIGHT;
}
function sized(spec, width) {
  if (!single(spec)) return spec;
  return { ...spec, width, height: heightOf(spec), autosize: { type: "fit", contains: "padding" }, padding: 2 };
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

// src/crosshair.js
function valueAt(card, clientX) {
  const view = card.drawn?.view, plot = card.plotted();
  if (!view || !plot) return null;
  const place = clientX - card.plot.getBoundingClientRect().left - plot.left;
  return place < 0 || place > plot.width ? null : view.scale("x").invert(place);
}
function showAt(cards, value) {
  for (const card of cards) {
    const plot = value === null || !card.visible ? null : card.plotted();
    const place = plot ? card.drawn.view.scale("x")(value) : NaN;
    const { line } = card;
    line.hidden = !plot || !(place >= 0 && place <= plot.width);
    if (plot && !line.hidden) {
      Object.assign(line.style, { left: `${plot.left + place}px`, top: `${plot.top}px`, height: `${plot.height}px` });
    }
  }
}

// src/pacing.js
var Pacer = class {
  /** @param {{share?: number, longestRestMs?: number, now?: () => number,
   *           later?: (call: () => void, ms: number) => any, cancel?: (timer: any) => void}} [how] */
  constructor({
    share = 0.08,
    longestRestMs = 3e3,
    now = () => performance.now(),
    later = (call, ms) => setTimeout(call, ms),
    cancel = (timer) => clearTimeout(timer)
  } = {}) {
    this.share = share;
    this.longestRestMs = longestRestMs;
    this.now = now;
    this.later = later;
    this.cancel = cancel;
    this.waiting = /* @__PURE__ */ new Map();
    this.busy = false;
    this.closed = false;
    this.rest = null;
  }
  /** Do `task` when it is its turn; one that waits under the same key is done once. It resolves to whether it is urgent
   * work, such as a first drawing, after which nobody rests.
   * @param {unknown} key @param {() => Promise<boolean>} task */
  ask(key, task) {
    this.waiting.set(key, task);
    if (!this.busy && !this.closed) {
      this.busy = true;
      this.later(() => void this.next(), 0);
    }
  }
  async next() {
    this.rest = null;
    const first = this.waiting.entries().next();
    if (first.done || this.closed) {
      this.busy = false;
      return;
    }
    const [key, task] = first.value;
    this.waiting.delete(key);
    const began = this.now();
    const urgent = await task();
    const took = this.now() - began;
    const rest = urgent ? 0 : Math.min(took / this.share - took, this.longestRestMs);
    this.rest = this.later(() => void this.next(), rest);
  }
  /** End a rest: somebody looks at what waits. */
  hurry() {
    if (this.rest === null || !this.waiting.size) return;
    this.cancel(this.rest);
    this.rest = null;
    this.later(() => void this.next(), 0);
  }
  close() {
    this.closed = true;
    this.waiting.clear();
  }
};

// src/charts.js
var Charts = class {
  /** @param {any} model @param {HTMLElement} el @param {import("./card.js").Vega} vega */
  constructor(model, el, vega) {
    this.model = model;
    this.vega = vega;
    this.id = Math.random().toString(36).slice(2);
    this.cards = /* @__PURE__ */ new Map();
    this.serial = -1;
    this.pacer = new Pacer();
    this.label = model.get("label");
    this.grid = element("div", { class: "workbench-charts", role: "group", "aria-label": this.label });
    this.sections = /* @__PURE__ */ new Map();
    this.grids = /* @__PURE__ */ new Map();
    this.said = element("p", { class: "workbench-charts-said", role: "status" });
    this.box = element("div", { class: "workbench-charts-box" }, this.grid, this.said);
    el.append(this.box);
    this.width = 0;
    this.look = look(this.grid);
    this.contact = new Contact(model, this.id, () => this.mark(true));
    this.watch();
  }
  watch() {
    const receive = (message, buffers) => this.receive(message, buffers);
    const wake = () => this.drawAll();
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) this.of(entry.target, (card) => card.visible = entry.isIntersecting);
      this.pacer.hurry();
    }, { rootMargin: "120px" });
    this.sized = new ResizeObserver((entries) => {
      for (const entry of entries) {
        if (entry.target === this.box) this.place();
        else this.of(entry.target, (card) => card.width = Math.floor(card.plot.clientWidth) || card.width);
      }
    });
    this.sized.observe(this.box);
    const point = (event) => this.point(event), leave = () => showAt(this.cards.values(), null);
    this.box.addEventListener("pointermove", point);
    this.box.addEventListener("pointerleave", leave);
    const stopTheme = watchTheme(() => this.restyle());
    const timer = setInterval(() => this.ask(), 1e3);
    this.model.on("msg:custom", receive);
    document.addEventListener("visibilitychange", wake);
    this.stop = () => {
      this.model.off("msg:custom", receive);
      document.removeEventListener("visibilitychange", wake);
      clearInterval(timer);
      stopTheme();
    };
    this.hello();
  }
  hello() {
    this.serial = -1;
    this.contact.tell({ type: "hello", view: this.id });
  }
  /** @param {Message} message @param {DataView[]} buffers */
  receive(message, buffers) {
    if (message.type !== "show" || message.view && message.view !== this.id) return;
    this.contact.hear();
    this.mark(false);
    if (!message.whole && this.serial < 0) return;
    if (!message.whole && message.serial === this.serial) return;
    if (!message.whole && message.serial !== this.serial + 1) return this.hello();
    this.serial = message.serial;
    for (const [key, card] of this.cards) {
      if (!message.order.includes(key)) this.drop(key, card);
    }
    for (const key of message.order) {
      const tables = Object.fromEntries(Object.entries(message.tables[key] ?? {}).map(
        ([name, packed]) => [name, unpack(packed, buffers)]
      ));
      const figure = message.figures[key], card = this.cards.get(key);
      if (figure && !card?.shows(figure)) (card ?? this.add(key)).become(figure, tables);
      else card?.take(tables);
    }
    this.arrange(message.order);
    this.drawAll();
  }
  /** @param {string} key */
  add(key) {
    const card = new Card(this.vega, () => this.look, (text) => this.said.textContent = text);
    this.cards.set(key, card);
    this.seen?.observe(card.el);
    this.sized?.observe(card.el);
    return card;
  }
  /** @param {string} key @param {Card} card */
  drop(key, card) {
    this.seen?.unobserve(card.el);
    this.sized?.unobserve(card.el);
    card.remove();
    this.cards.delete(key);
  }
  /** Put every card into the grid of its group, in this order. @param {string[]} order */
  arrange(order) {
    this.grids = /* @__PURE__ */ new Map([[
      this.grid,
      /** @type {Card[]} */
      []
    ]]);
    for (const key of order) {
      const card = this.cards.get(key), group = card?.figure?.group;
      const grid = group ? this.section(group).grid : this.grid;
      if (card) this.grids.set(grid, [...this.grids.get(grid) ?? [], card]);
    }
    for (const [grid, cards] of this.grids) {
      cards.forEach(({ el }, at) => {
        if (grid.children[at] !== el) grid.insertBefore(el, grid.children[at] ?? null);
      });
    }
    for (const [group, { el, grid, heading }] of this.sections) {
      const count = this.grids.get(grid)?.length ?? 0;
      heading.textContent = `${count} chart${count === 1 ? "" : "s"}`;
      if (count) continue;
      el.remove();
      this.sections.delete(group);
    }
    this.width = 0;
    this.place();
  }
  /** The section of that heading, made where there is none. @param {string} group @returns {Section} */
  section(group) {
    const before = this.sections.get(group);
    if (before) return before;
    const heading = element("span", { class: "workbench-charts-count" });
    const grid = element("div", { class: "workbench-charts", role: "group", "aria-label": `${this.label}: ${group}` });
    const el = element(
      "details",
      { class: "workbench-charts-section", open: (this.model.get("opened") ?? []).includes(group) },
      element("summary", {}, group, heading),
      grid
    );
    el.addEventListener("toggle", () => this.remember(group, el.open));
    el.addEventListener("keydown", (event) => event.stopPropagation());
    this.box.insertBefore(el, this.said);
    this.sections.set(group, { el, heading, grid });
    return { el, heading, grid };
  }
  /** Tell the kernel which sections are open, for a page that is loaded anew. @param {string} group @param {boolean} open */
  remember(group, open) {
    const before = (
      /** @type {string[]} */
      this.model.get("opened") ?? []
    );
    if (before.includes(group) === open) return;
    this.model.set("opened", open ? [...before, group] : before.filter((other) => other !== group));
    try {
      this.model.save_changes();
    } catch {
    }
  }
  /** Give every card its columns of the grid. */
  place() {
    const width = this.box.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    for (const [grid, cards] of this.grids) {
      const single2 = cards.filter((card) => !card.figure?.row);
      const { columns, first, last } = arranged(width, single2.length, Boolean(single2[0]?.figure?.wide));
      grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
      for (const card of cards) card.el.style.gridColumn = card.figure?.row ? "1 / -1" : "auto";
      if (first > 1) single2[0].el.style.gridColumn = `span ${first}`;
      if (last > 1) single2[single2.length - 1].el.style.gridColumn = `span ${last}`;
    }
  }
  /** The line under the pointer, in all charts of time. @param {PointerEvent} event */
  point(event) {
    const card = [...this.cards.values()].find((one) => one.plot.contains(
      /** @type {Node} */
      event.target
    ));
    showAt(this.cards.values(), card ? valueAt(card, event.clientX) : null);
  }
  /** Change something of the card that has this element, and draw it. @param {Element} el @param {(card: Card) => void} change */
  of(el, change) {
    for (const card of this.cards.values()) {
      if (card.el === el) {
        change(card);
        this.draw(card);
      }
    }
  }
  drawAll() {
    for (const card of this.cards.values()) this.draw(card);
  }
  /** Draw a card that somebody sees: alone and at once for the first time, then with all others that have news.
   * @param {Card} card */
  draw(card) {
    if (!this.due(card)) return;
    if (!card.drawn) return this.pacer.ask(card, async () => this.due(card) ? card.draw() : true);
    this.pacer.ask(this, async () => {
      for (const each of this.cards.values()) {
        if (each.drawn && this.due(each)) await each.draw();
      }
      return false;
    });
  }
  /** @param {Card} card */
  due(card) {
    return card.dirty && card.visible && card.width > 0 && !document.hidden;
  }
  restyle() {
    const now = look(this.grid);
    if (now.key === this.look.key) return;
    this.look = now;
    for (const card of this.cards.values()) card.clear();
    this.drawAll();
  }
  /** While the kernel follows something for whoever looks: say that somebody does, and ask where nothing came. */
  ask() {
    if (this.model.get("pulls") && this.grid.offsetParent !== null) this.contact.ask(false, { serial: this.serial });
  }
  /** Tell the view around the charts whether its kernel has gone (panel.css, charts.css). @param {boolean} lost */
  mark(lost) {
    this.grid.closest(".workbench-panel, .workbench-sweep")?.classList.toggle("workbench-lost", lost);
  }
  close() {
    this.stop?.();
    this.pacer.close();
    this.seen?.disconnect();
    this.sized?.disconnect();
    for (const card of this.cards.values()) card.remove();
    this.cards.clear();
    this.box.remove();
  }
};
var charts_default = {
  /** @param {{model: any, el: HTMLElement, host: any}} context */
  async render({ model, el, host }) {
    const { exports } = await host.getWidget(model.get("lib"));
    const charts = new Charts(model, el, await exports.vega());
    return () => charts.close();
  }
};
export {
  charts_default as default
};
