// A grid of charts that the kernel fills: a card per figure, drawn when it is seen, and only where its data changed.
// A page says hello and gets everything, it alone; messages are numbered, and a page that missed one says hello again.
import { Card } from "./card.js";
import { Pacer } from "./pacing.js";
import { look, watchTheme } from "./theme.js";
import { unpack } from "./tables.js";

const PULL_AFTER_MS = 4000; // of silence, where the kernel wants to be asked; doubled while it does not answer
const LONGEST_PULL_MS = 60000;

/** @typedef {{type: string, view: string | null, serial: number, whole: boolean, order: string[],
 *   figures: Record<string, import("./card.js").Figure>,
 *   tables: Record<string, Record<string, import("./tables.js").Packed>>}} Message */

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
    this.grid = document.createElement("div");
    this.grid.className = "workbench-charts";
    this.grid.setAttribute("role", "group");
    this.grid.setAttribute("aria-label", model.get("label"));
    this.said = document.createElement("p");
    this.said.className = "workbench-charts-said";
    this.said.setAttribute("role", "status");
    this.box = document.createElement("div");
    this.box.className = "workbench-charts-box";
    this.box.append(this.grid, this.said);
    el.append(this.box);
    this.look = look(this.grid);
    this.heard = performance.now();
    this.patience = PULL_AFTER_MS;
    this.watch();
  }

  watch() {
    /** @param {Message} message @param {DataView[]} buffers */
    const receive = (message, buffers) => this.receive(message, buffers);
    const wake = () => this.drawAll();
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) this.of(entry.target, (card) => (card.visible = entry.isIntersecting));
    }, { rootMargin: "120px" });
    this.sized = new ResizeObserver((entries) => {
      for (const entry of entries) {
        this.of(entry.target, (card) => (card.width = Math.floor(card.plot.clientWidth) || card.width));
      }
    });
    const stopTheme = watchTheme(() => this.restyle());
    const timer = setInterval(() => this.pull(), 1000);
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
    this.tell({ type: "hello", view: this.id });
  }

  /** @param {Message} message @param {DataView[]} buffers */
  receive(message, buffers) {
    if (message.type !== "show" || (message.view && message.view !== this.id)) return;
    this.heard = performance.now();
    this.patience = PULL_AFTER_MS;
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
    this.grid.append(card.el);
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

  /** @param {string[]} order */
  arrange(order) {
    order.forEach((key, at) => {
      const el = this.cards.get(key)?.el;
      if (el && this.grid.children[at] !== el) this.grid.insertBefore(el, this.grid.children[at] ?? null);
    });
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

  /** Draw what nobody sees later. @param {Card} card */
  draw(card) {
    const due = () => card.dirty && card.visible && card.width > 0 && !document.hidden;
    if (due()) this.pacer.ask(card, async () => (due() ? card.draw() : true));
  }

  restyle() {
    const now = look(this.grid);
    if (now.key === this.look.key) return;
    this.look = now;
    for (const card of this.cards.values()) card.clear();
    this.drawAll();
  }

  /** Where messages arrive only as answers (Colab), ask. */
  pull() {
    const shown = !document.hidden && this.grid.isConnected && this.grid.offsetParent !== null;
    if (!this.model.get("pulls") || !shown || performance.now() - this.heard < this.patience) return;
    this.patience = Math.min(2 * this.patience, LONGEST_PULL_MS);
    this.tell({ type: "pull", view: this.id, serial: this.serial });
  }

  /** @param {object} content */
  tell(content) {
    try {
      this.model.send(content);
    } catch { // the kernel restarts or has gone; whoever runs the cell again gets another view
      this.patience = LONGEST_PULL_MS;
      this.mark(true);
    }
  }

  /** Tell the panel around the charts whether its kernel has gone (panel.css). @param {boolean} lost */
  mark(lost) {
    this.grid.closest(".workbench-panel")?.classList.toggle("workbench-lost", lost);
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
