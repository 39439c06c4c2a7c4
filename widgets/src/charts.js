// Charts that the kernel fills: a card per figure, drawn when it is seen, and only where its data changed; all that
// have changed are drawn in one go, so that their axes agree. Figures of a group are in a section that a person opens.
// A page says hello and gets everything, it alone; messages are numbered, and a page that missed one says hello again.
import { arranged } from "./arrangement.js";
import { Card } from "./card.js";
import { Contact } from "./contact.js";
import { showAt, valueAt } from "./crosshair.js";
import { element } from "./elements.js";
import { Pacer } from "./pacing.js";
import { look, watchTheme } from "./theme.js";
import { unpack } from "./tables.js";

/** @typedef {{type: string, view: string | null, serial: number, whole: boolean, order: string[],
 *   figures: Record<string, import("./card.js").Figure>,
 *   tables: Record<string, Record<string, import("./tables.js").Packed>>}} Message */

/** A section that opens and closes. @typedef {{el: HTMLDetailsElement, heading: HTMLElement, grid: HTMLElement}} Section */

class Charts {
  /** @param {any} model @param {HTMLElement} el @param {import("./card.js").Vega} vega */
  constructor(model, el, vega) {
    this.model = model;
    this.vega = vega;
    this.id = Math.random().toString(36).slice(2);
    /** @type {Map<string, Card>} */
    this.cards = new Map();
    this.serial = -1; // of the newest message; -1: everything is to be sent
    this.pacer = new Pacer();
    this.label = model.get("label");
    this.grid = element("div", { class: "workbench-charts", role: "group", "aria-label": this.label });
    /** @type {Map<string, Section>} by its heading */
    this.sections = new Map();
    /** @type {Map<HTMLElement, Card[]>} the cards of each grid, in order */
    this.grids = new Map();
    this.said = element("p", { class: "workbench-charts-said", role: "status" });
    this.box = element("div", { class: "workbench-charts-box" }, this.grid, this.said);
    el.append(this.box);
    this.width = 0;
    this.look = look(this.grid);
    this.contact = new Contact(model, this.id, () => this.mark(true)); // whoever runs the cell again gets another view
    this.watch();
  }

  watch() {
    /** @param {Message} message @param {DataView[]} buffers */
    const receive = (message, buffers) => this.receive(message, buffers);
    const wake = () => this.drawAll();
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) this.of(entry.target, (card) => (card.visible = entry.isIntersecting));
      this.pacer.hurry(); // what comes into view has the axis of before
    }, { rootMargin: "120px" });
    this.sized = new ResizeObserver((entries) => {
      for (const entry of entries) {
        if (entry.target === this.box) this.place();
        else this.of(entry.target, (card) => (card.width = Math.floor(card.plot.clientWidth) || card.width));
      }
    });
    this.sized.observe(this.box);
    const point = (/** @type {PointerEvent} */ event) => this.point(event), leave = () => showAt(this.cards.values(), null);
    this.box.addEventListener("pointermove", point);
    this.box.addEventListener("pointerleave", leave);
    const stopTheme = watchTheme(() => this.restyle());
    const timer = setInterval(() => this.ask(), 1000);
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
    if (message.type !== "show" || (message.view && message.view !== this.id)) return;
    this.contact.hear();
    this.mark(false);
    if (!message.whole && this.serial < 0) return; // hello was said: everything is on its way
    if (!message.whole && message.serial === this.serial) return; // an answer: nothing is new
    if (!message.whole && message.serial !== this.serial + 1) return this.hello();
    this.serial = message.serial;
    for (const [key, card] of this.cards) {
      if (!message.order.includes(key)) this.drop(key, card);
    }
    for (const key of message.order) {
      const tables = Object.fromEntries(Object.entries(message.tables[key] ?? {}).map(
        ([name, packed]) => [name, unpack(packed, buffers)]));
      const figure = message.figures[key], card = this.cards.get(key);
      if (figure && !card?.shows(figure)) (card ?? this.add(key)).become(figure, tables);
      else card?.take(tables);
    }
    this.arrange(message.order);
    this.drawAll();
  }

  /** @param {string} key */
  add(key) {
    const card = new Card(this.vega, () => this.look, (text) => (this.said.textContent = text));
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
    this.grids = new Map([[this.grid, /** @type {Card[]} */ ([])]]);
    for (const key of order) {
      const card = this.cards.get(key), group = card?.figure?.group;
      const grid = group ? this.section(group).grid : this.grid;
      if (card) this.grids.set(grid, [...(this.grids.get(grid) ?? []), card]);
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
    const el = element("details", { class: "workbench-charts-section", open: (this.model.get("opened") ?? []).includes(group) },
      element("summary", {}, group, heading), grid);
    el.addEventListener("toggle", () => this.remember(group, el.open));
    el.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab has shortcuts of its own
    this.box.insertBefore(el, this.said);
    this.sections.set(group, { el, heading, grid });
    return { el, heading, grid };
  }

  /** Tell the kernel which sections are open, for a page that is loaded anew. @param {string} group @param {boolean} open */
  remember(group, open) {
    const before = /** @type {string[]} */ (this.model.get("opened") ?? []);
    if (before.includes(group) === open) return;
    this.model.set("opened", open ? [...before, group] : before.filter(other => other !== group));
    try {
      this.model.save_changes();
    } catch { // the kernel restarts or has gone
    }
  }

  /** Give every card its columns of the grid. */
  place() {
    const width = this.box.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    for (const [grid, cards] of this.grids) {
      const single = cards.filter(card => !card.figure?.row);
      const { columns, first, last } = arranged(width, single.length, Boolean(single[0]?.figure?.wide));
      grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
      for (const card of cards) card.el.style.gridColumn = card.figure?.row ? "1 / -1" : "auto";
      if (first > 1) single[0].el.style.gridColumn = `span ${first}`;
      if (last > 1) single[single.length - 1].el.style.gridColumn = `span ${last}`;
    }
  }

  /** The line under the pointer, in all charts of time. @param {PointerEvent} event */
  point(event) {
    const card = [...this.cards.values()].find(one => one.plot.contains(/** @type {Node} */ (event.target)));
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
    if (!card.drawn) return this.pacer.ask(card, async () => (this.due(card) ? card.draw() : true));
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
}

export default {
  /** @param {{model: any, el: HTMLElement, host: any}} context */
  async render({ model, el, host }) {
    const { exports } = await host.getWidget(model.get("lib"));
    const charts = new Charts(model, el, await exports.vega());
    return () => charts.close();
  },
};
