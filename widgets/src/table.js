// A table whose rows stay where a person's eyes, pointer and keyboard are while their cells change.
// workbench/widgets/views/table.py sends {type: "rows"} with what changed; hello and pull ask it for everything.
import { setCell, setNote } from "./cells.js";
import { Contact } from "./contact.js";
import { element, setText } from "./elements.js";
import { cellText, nextSort, ordered, question, unmoved } from "./rows.js";

/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./rows.js").Column} Column */
/** @typedef {import("./rows.js").Action} Action */
/** @typedef {import("./rows.js").Sort} Sort */
/** @typedef {{columns: Column[], actions: Action[], label: string, selectable: boolean, pulls: boolean,
 *            empty: string, row: string}} Shape */
/** @typedef {{text: string, bad: boolean}} Said */
/** @typedef {{type: string, all: boolean, keys: string[], rows: Row[], said: Said, now: number}} Told */
/** @typedef {{get(name: string): any, send(content: object): void, on(event: string, heard: (...given: any[]) => void):
 *            void, off(event: string, heard: (...given: any[]) => void): void}} Model */
/** @typedef {{line: HTMLTableRowElement, cells: Map<string, HTMLElement>, doing: HTMLElement | null,
 *            buttons: Map<string, HTMLButtonElement>, note: HTMLTableRowElement, asking: HTMLElement | null}} Drawn */

const TICK_MS = 1000;
const UNANSWERED_MS = 8000;
const UNANSWERED = "The kernel has not answered: it is busy, or was restarted. Then run this cell again.";
let tables = 0;

class TableView {
  /** @param {Model} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.shape = /** @type {Shape} */ (model.get("_shape"));
    this.id = `wb-table-${++tables}`;
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {string[]} */
    this.keys = [];
    /** @type {Map<string, Drawn>} */
    this.drawn = new Map();
    /** @type {Sort | null} */
    this.sort = null;
    this.pointed = false;  // a pointer is over the rows, so they stay in their places
    this.clock = 0;  // how far the kernel's clock is ahead of this one, in s
    this.contact = new Contact(model, this.id, (text) => this.say({ text, bad: true }));
    /** @type {number | null} */
    this.askedAt = null;  // when a person asked for something that has not been answered
    this.said = { text: "", bad: false };
    this.headers = new Map(this.shape.columns.map((column) => [column.name, this.header(column)]));
    this.body = element("tbody");
    this.saying = element("p", { class: "wb-said", role: "status", "aria-live": "polite", hidden: true });
    this.nothing = element("p", { class: "wb-nothing" }, this.shape.empty);
    el.classList.add("wb-table");
    el.dataset.lmSuppressShortcuts = "true";  // else JupyterLab takes the arrow keys and Enter
    el.replaceChildren(this.scroller(), this.nothing, this.saying);
    this.root = el;
  }

  start() {
    const heard = (/** @type {Told} */ told) => this.hear(told);
    const selected = () => this.showSelected();
    const timer = setInterval(() => this.tick(), TICK_MS);
    this.model.on("msg:custom", heard);
    this.model.on("change:selected", selected);
    this.contact.tell({ type: "hello" });
    return () => {
      clearInterval(timer);
      this.model.off("msg:custom", heard);
      this.model.off("change:selected", selected);
    };
  }

  // --- what comes from the kernel ---

  /** @param {Told} told */
  hear(told) {
    if (told.type !== "rows") return;
    this.clock = told.now - Date.now() / 1000;
    this.contact.hear();
    this.askedAt = null;
    if (told.all) this.rows.clear();
    for (const row of told.rows) this.rows.set(row.key, row);
    const missed = told.keys.some((key) => !this.rows.has(key));
    this.keys = told.keys.filter((key) => this.rows.has(key));
    for (const key of this.rows.keys()) if (!told.keys.includes(key)) this.rows.delete(key);
    this.said = told.said;
    this.draw();
    if (missed) this.contact.tell({ type: "hello" });
  }

  tick() {
    for (const [key, { cells }] of this.drawn) {
      for (const { name, kind } of this.shape.columns) {
        const cell = cells.get(name);
        if (kind === "ago" && cell) setText(cell, cellText(this.rows.get(key)?.[name], kind, this.now()));
      }
    }
    if (this.shape.pulls && this.root.offsetParent !== null) this.contact.ask(false);
    if (this.askedAt !== null && Date.now() - this.askedAt > UNANSWERED_MS) {
      this.askedAt = null;
      this.say({ text: UNANSWERED, bad: true });
    }
  }

  now() {
    return Date.now() / 1000 + this.clock;
  }

  /** @param {Row} row @param {Action} action */
  ask(row, action) {
    this.askedAt = Date.now();
    this.contact.tell({ type: "action", key: row.key, action: action.name });
  }

  // --- what is on the screen ---

  scroller() {
    const head = element("tr", {}, ...[...this.headers.values()].map((one) => one.cell));
    if (this.shape.actions.length) {
      head.append(element("th", { scope: "col", class: "wb-doing" }, element("span", { class: "wb-hidden" }, "actions")));
    }
    const table = element("table", { "aria-label": this.shape.label }, element("thead", {}, head), this.body);
    if (this.shape.selectable) table.setAttribute("role", "grid");
    table.addEventListener("keydown", (event) => this.pressed(event));
    this.body.addEventListener("pointerenter", () => { this.pointed = true; });
    this.body.addEventListener("pointerleave", () => { this.pointed = false; });
    return element("div", { class: "wb-scroll" }, table);
  }

  /** @param {Column} column */
  header(column) {
    const arrow = element("span", { class: "wb-arrow", "aria-hidden": "true" });
    const unit = column.unit ? element("span", { class: "wb-unit" }, ` ${column.unit}`) : "";
    const button = element("button", { type: "button", title: column.help }, column.title, unit, arrow);
    const cell = element("th", { scope: "col", "data-kind": column.kind, "aria-sort": "none" }, button);
    button.addEventListener("click", () => {
      this.sort = nextSort(this.sort, column);
      this.draw({ move: true });
    });
    return { cell, arrow };
  }

  draw({ move = false } = {}) {
    const focused = this.focused();
    for (const [key, drawn] of this.drawn) {
      if (this.rows.has(key)) continue;
      drawn.line.remove();
      drawn.note.remove();
      this.drawn.delete(key);
    }
    for (const key of this.keys) this.drawRow(/** @type {Row} */ (this.rows.get(key)));
    this.place(move);
    for (const { name } of this.shape.columns.slice(1)) this.showColumn(name);
    for (const [name, { cell, arrow }] of this.headers) {
      const way = this.sort?.column !== name ? "none" : this.sort.descending ? "descending" : "ascending";
      cell.setAttribute("aria-sort", way);
      setText(arrow, { none: "", ascending: "▲", descending: "▼" }[way]);
    }
    this.nothing.hidden = this.keys.length > 0;
    this.say(this.said);
    this.showSelected();
    this.refocus(focused);
  }

  /** Hide a column in which no row has a value, such as the speed where no run trains. @param {string} name */
  showColumn(name) {
    const empty = this.keys.length > 0 && this.keys.every((key) => (this.rows.get(key)?.[name] ?? null) === null);
    const cells = [this.headers.get(name)?.cell, ...[...this.drawn.values()].map((one) => one.cells.get(name))];
    for (const cell of cells) if (cell) cell.hidden = empty;
  }

  /** Bring the rows into their order; those that are in place already are not touched. @param {boolean} move */
  place(move) {
    const sorted = ordered(this.rows, this.keys, this.sort, this.shape.columns);
    const keys = this.pointed && !move ? unmoved(sorted, [...this.drawn.keys()]) : sorted;
    const drawn = new Map();
    let at = this.body.firstChild;
    for (const key of keys) {
      const one = /** @type {Drawn} */ (this.drawn.get(key));
      drawn.set(key, one);
      for (const line of [one.line, one.note]) {
        if (line === at) at = at.nextSibling;
        else this.body.insertBefore(line, at);
      }
    }
    this.drawn = drawn;
  }

  /** @param {Row} row */
  drawRow(row) {
    let drawn = this.drawn.get(row.key);
    if (!drawn) this.drawn.set(row.key, drawn = this.newRow(row));
    for (const column of this.shape.columns) {
      const cell = /** @type {HTMLElement} */ (drawn.cells.get(column.name));
      setCell(cell, row[column.name], column, this.now());
    }
    drawn.line.setAttribute("aria-busy", String(Boolean(row.busy)));
    for (const [name, button] of drawn.buttons) {
      button.hidden = row.actions ? !row.actions.includes(name) : false;
      button.disabled = Boolean(row.busy);
    }
    const asked = drawn.asking?.dataset.action;
    if (asked && (row.busy || drawn.buttons.get(asked)?.hidden)) this.stopAsking(drawn);
    setNote(drawn.note, row.note ?? "", row.bad ?? true);
  }

  /** @param {Row} row @returns {Drawn} */
  newRow(row) {
    const cells = new Map(this.shape.columns.map(({ name, kind }, at) => [
      name, element(at ? "td" : "th", { "data-kind": kind, ...(at ? {} : { scope: "row" }) }),
    ]));
    const line = element("tr", { "data-key": row.key }, ...cells.values());
    const buttons = new Map(this.shape.actions.map((action) => [action.name, this.button(row, action)]));
    const doing = buttons.size ? element("span", { class: "wb-actions" }, ...buttons.values()) : null;
    if (doing) line.append(element("td", { class: "wb-doing" }, doing));
    if (this.shape.selectable) {
      line.addEventListener("click", (event) => {
        if (!(/** @type {HTMLElement} */ (event.target)).closest("button")) this.select(row.key);
      });
    }
    const span = String(this.shape.columns.length + (doing ? 1 : 0));
    const note = element("tr", { class: "wb-note", hidden: true }, element("td", { colSpan: span }));
    return { line, cells, buttons, note, doing, asking: null };
  }

  /** @param {Row} row @param {Action} action */
  button({ key, ...cells }, action) {
    const label = `${action.title} ${question(this.shape.row, { key, ...cells })}`;
    const button = element("button", { type: "button", "data-action": action.name, "aria-label": label }, action.title);
    button.addEventListener("click", () => {
      const row = this.rows.get(key);
      if (row && action.confirm) this.startAsking(row, action, action.confirm);
      else if (row) this.ask(row, action);
    });
    return button;
  }

  /** @param {Row} row @param {Action} action @param {string} template */
  startAsking(row, action, template) {
    const drawn = this.drawn.get(row.key);
    if (!drawn?.doing) return;
    const asked = question(template, row), id = `${this.id}-asked-${row.key}`;
    const yes = element("button", { type: "button", "aria-describedby": id }, action.title);
    const no = element("button", { type: "button", "aria-describedby": id }, "Cancel");
    yes.classList.toggle("wb-danger", action.danger);
    yes.addEventListener("click", () => { this.stopAsking(drawn); this.ask(row, action); });
    no.addEventListener("click", () => this.stopAsking(drawn));
    drawn.asking = element("span", { class: "wb-asking", role: "group", "aria-label": asked, "data-action": action.name },
      element("span", { id }, asked), yes, no);
    drawn.doing.hidden = true;
    drawn.doing.after(drawn.asking);
    no.focus({ preventScroll: true });
  }

  /** @param {Drawn} drawn */
  stopAsking(drawn) {
    if (!drawn.asking || !drawn.doing) return;
    const focused = drawn.asking.contains(this.active());
    const from = drawn.buttons.get(drawn.asking.dataset.action ?? "");
    drawn.asking.remove();
    drawn.asking = null;
    drawn.doing.hidden = false;
    if (focused) from?.focus({ preventScroll: true });
  }

  /** @param {Said} said */
  say({ text, bad }) {
    setText(this.saying, text);
    this.saying.hidden = !text;
    this.saying.classList.toggle("wb-bad", bad);
  }

  /** @param {string} key */
  select(key) {
    this.contact.tell({ type: "select", key });
  }

  showSelected() {
    if (!this.shape.selectable) return;
    const selected = this.model.get("selected");
    const first = this.drawn.has(selected) ? selected : this.drawn.keys().next().value;
    for (const [key, { line }] of this.drawn) {
      line.setAttribute("aria-selected", String(key === selected));
      line.tabIndex = key === first ? 0 : -1;
    }
  }

  // --- the keyboard ---

  /** Arrows move between rows and within one, Enter chooses, Escape takes a question back.
   * @param {KeyboardEvent} event */
  pressed(event) {
    const active = this.active();
    if (!active || event.altKey || event.ctrlKey || event.metaKey) return;
    const line = active.closest("tr");
    if (!line) return;
    const key = line.dataset.key;
    const drawn = key === undefined ? undefined : this.drawn.get(key);
    if (event.key === "Escape" && drawn?.asking) this.stopAsking(drawn);
    else if ((event.key === "Enter" || event.key === " ") && active === line && key !== undefined) this.select(key);
    else if (!this.move(event.key, line, active)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Whether a key moved the focus, or would have if there were more. @param {string} key
   * @param {HTMLElement} line @param {HTMLElement} active */
  move(key, line, active) {
    const lines = [...this.root.querySelectorAll("tr")].filter((one) => stops(one).length);
    const here = lines.indexOf(/** @type {HTMLTableRowElement} */ (line)), at = stops(line).indexOf(active);
    const ways = {
      ArrowUp: [here - 1, at], ArrowDown: [here + 1, at], ArrowLeft: [here, at - 1], ArrowRight: [here, at + 1],
      Home: [0, at], End: [lines.length - 1, at],
    };
    if (!(key in ways)) return false;
    const [row, column] = ways[/** @type {keyof typeof ways} */ (key)];
    const there = lines[row] ? stops(lines[row]) : [];
    there[row === here ? column : Math.min(column, there.length - 1)]?.focus();
    return true;
  }

  /** The element of the table that has the focus. @returns {HTMLElement | null} */
  active() {
    const { activeElement } = /** @type {Document | ShadowRoot} */ (this.root.getRootNode());
    return activeElement instanceof HTMLElement && this.root.contains(activeElement) ? activeElement : null;
  }

  focused() {
    const active = this.active();
    const line = active?.closest("tr");
    return active ? { active, key: line?.dataset.key, at: line ? [...this.body.children].indexOf(line) : 0 } : null;
  }

  /** Give the focus back after lines moved; what is gone leaves it to its row, a row to the next one.
   * @param {{active: HTMLElement, key?: string, at: number} | null} before */
  refocus(before) {
    if (!before || this.active() === before.active) return;
    const { active, key, at } = before;
    if (active.isConnected && active.offsetParent !== null && !active.hasAttribute("disabled")) {
      return active.focus({ preventScroll: true });
    }
    const line = this.drawn.get(key ?? "")?.line ?? this.body.children[Math.min(at, this.body.children.length - 2)];
    if (line instanceof HTMLElement) stops(line)[0]?.focus({ preventScroll: true });
  }
}

/** What of a row the keyboard can reach. @param {HTMLElement} line @returns {HTMLElement[]} */
function stops(line) {
  const buttons = [...line.querySelectorAll("button")].filter((one) => one.offsetParent !== null && !one.disabled);
  return line.tabIndex >= 0 || line.hasAttribute("aria-selected") ? [line, ...buttons] : buttons;
}

export default {
  /** @param {{model: Model, el: HTMLElement}} given */
  render({ model, el }) {
    return new TableView(model, el).start();
  },
};
