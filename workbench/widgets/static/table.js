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

// src/rows.js
var DESCENDING_FIRST = /* @__PURE__ */ new Set(["number", "sparkline"]);
var words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
function cellText(value, kind, now) {
  if (value === null || value === void 0) return kind === "number" ? "—" : "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number" || kind === "text") return String(value);
  if (kind === "ago") return `${duration(Math.max(0, now - value))} ago`;
  return number(value);
}
function ordered(rows, keys, sort, columns) {
  const column = columns.find((one) => one.name === sort?.column);
  if (!sort || !column) return [...keys];
  const values = new Map(keys.map((key) => [key, rank(rows.get(key)?.[column.name], column.kind)]));
  return [...keys].sort((a, b) => {
    const left = values.get(a), right = values.get(b);
    if (left === null || right === null || left === void 0 || right === void 0) {
      return Number(left === null) - Number(right === null);
    }
    const difference = typeof left === "number" && typeof right === "number" ? left - right : words.compare(String(left), String(right));
    return sort.descending ? -difference : difference;
  });
}
function unmoved(keys, shown) {
  const wanted = new Set(keys), there = new Set(shown);
  return [...shown.filter((key) => wanted.has(key)), ...keys.filter((key) => !there.has(key))];
}
function nextSort(sort, column) {
  const first = DESCENDING_FIRST.has(column.kind);
  if (sort?.column !== column.name) return { column: column.name, descending: first };
  return sort.descending === first ? { column: column.name, descending: !first } : null;
}
function question(template, row) {
  return template.replace(/\{(\w+)\}/g, (_, name) => String(row[name] ?? row.key));
}
function sparkline(value, width, height, margin = 2) {
  const all = points(value), known = all.filter(isKnown);
  if (!known.length) return null;
  const [left, right] = extent(known.map(([x2]) => x2)), [low, high] = extent(known.map(([, y2]) => y2));
  const across = (x2) => place(x2, left, right, margin, width - margin, width - margin);
  const up = (y2) => place(y2, low, high, height - margin, margin, height / 2);
  let path = "", pen = "M";
  for (const point of all) {
    if (!isKnown(point)) {
      pen = "M";
      continue;
    }
    path += `${pen}${across(point[0])} ${up(point[1])}`;
    pen = "L";
  }
  const [x, y] = known[known.length - 1];
  return { path, x: across(x), y: up(y) };
}
function spoken(value) {
  const known = points(value).filter(isKnown).map(([, y]) => y);
  if (!known.length) return "no values yet";
  const [low, high] = extent(known);
  return `from ${number(known[0])} to ${number(known[known.length - 1])}, lowest ${number(low)}, highest ${number(high)}`;
}
function rank(value, kind) {
  if (kind === "sparkline") return points(value).filter(isKnown).at(-1)?.[1] ?? null;
  if (value === null || value === void 0 || value === "" || Number.isNaN(value)) return null;
  if (kind === "ago") return typeof value === "number" ? -value : null;
  return typeof value === "number" ? value : String(value);
}
function points(value) {
  if (!Array.isArray(value)) return [];
  return value.map((one, at) => Array.isArray(one) ? [one[0] ?? NaN, one[1] ?? NaN] : [at, one ?? NaN]);
}
function isKnown([x, y]) {
  return Number.isFinite(x) && Number.isFinite(y);
}
function extent(values) {
  return [Math.min(...values), Math.max(...values)];
}
function place(value, low, high, from, to, instead) {
  return high === low ? instead : Math.round((from + (to - from) * (value - low) / (high - low)) * 10) / 10;
}

// src/cells.js
var SPARK = { width: 96, height: 22 };
var SVG = "http://www.w3.org/2000/svg";
function setCell(cell, value, { title, kind }, now) {
  if (kind === "sparkline") return setSparkline(cell, value, title);
  const text = cellText(value, kind, now);
  if (kind !== "state") return setText(cell, text);
  if (!cell.firstChild) cell.append(element("span", { class: "wb-badge" }));
  const badge = (
    /** @type {HTMLElement} */
    cell.firstChild
  );
  setText(badge, text);
  badge.dataset.state = text;
}
function setSparkline(cell, value, title) {
  const given = JSON.stringify(value ?? null);
  if (cell.dataset.given === given) return;
  cell.dataset.given = given;
  const { width, height } = SPARK, shape = sparkline(value, width, height);
  if (!shape) return cell.replaceChildren();
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  cell.replaceChildren(drawing(
    "svg",
    { ...size, role: "img", "aria-label": `${title} ${spoken(value)}` },
    drawing("title", {}, spoken(value)),
    drawing("path", { d: shape.path }),
    drawing("circle", { cx: shape.x, cy: shape.y, r: 2 })
  ));
}
function setNote(note, text, bad) {
  const given = `${bad}${text}`;
  if (note.dataset.given === given) return;
  note.dataset.given = given;
  note.hidden = !text;
  const [first, ...rest] = text.trim().split("\n");
  const said = element("div", { role: bad ? "alert" : "status", class: bad ? "wb-bad" : "" }, first);
  if (rest.length) said.append(element("details", {}, element("summary", {}, "details"), element("pre", { tabIndex: 0 }, rest.join("\n"))));
  note.firstElementChild?.replaceChildren(...text ? [said] : []);
}
function drawing(name, attributes, ...children) {
  const drawn = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) drawn.setAttribute(key, String(value));
  drawn.append(...children);
  return drawn;
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

// src/table.js
var TICK_MS = 1e3;
var UNANSWERED_MS = 8e3;
var UNANSWERED = "The kernel has not answered: it is busy, or was restarted. Then run this cell again.";
var tables = 0;
var TableView = class {
  /** @param {Model} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    this.shape = /** @type {Shape} */
    model.get("_shape");
    this.id = `wb-table-${++tables}`;
    this.rows = /* @__PURE__ */ new Map();
    this.keys = [];
    this.drawn = /* @__PURE__ */ new Map();
    this.sort = null;
    this.pointed = false;
    this.clock = 0;
    this.contact = new Contact(model, this.id, (text) => this.say({ text, bad: true }));
    this.askedAt = null;
    this.said = { text: "", bad: false };
    this.headers = new Map(this.shape.columns.map((column) => [column.name, this.header(column)]));
    this.body = element("tbody");
    this.saying = element("p", { class: "wb-said", role: "status", "aria-live": "polite", hidden: true });
    this.nothing = element("p", { class: "wb-nothing" }, this.shape.empty);
    el.classList.add("wb-table");
    el.dataset.lmSuppressShortcuts = "true";
    el.replaceChildren(this.scroller(), this.nothing, this.saying);
    this.root = el;
  }
  start() {
    const heard = (told) => this.hear(told);
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
    this.clock = told.now - Date.now() / 1e3;
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
    return Date.now() / 1e3 + this.clock;
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
    this.body.addEventListener("pointerenter", () => {
      this.pointed = true;
    });
    this.body.addEventListener("pointerleave", () => {
      this.pointed = false;
    });
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
    for (const key of this.keys) this.drawRow(
      /** @type {Row} */
      this.rows.get(key)
    );
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
    const drawn = /* @__PURE__ */ new Map();
    let at = this.body.firstChild;
    for (const key of keys) {
      const one = (
        /** @type {Drawn} */
        this.drawn.get(key)
      );
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
      const cell = (
        /** @type {HTMLElement} */
        drawn.cells.get(column.name)
      );
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
      name,
      element(at ? "td" : "th", { "data-kind": kind, ...at ? {} : { scope: "row" } })
    ]));
    const line = element("tr", { "data-key": row.key }, ...cells.values());
    const buttons = new Map(this.shape.actions.map((action) => [action.name, this.button(row, action)]));
    const doing = buttons.size ? element("span", { class: "wb-actions" }, ...buttons.values()) : null;
    if (doing) line.append(element("td", { class: "wb-doing" }, doing));
    if (this.shape.selectable) {
      line.addEventListener("click", (event) => {
        if (!/** @type {HTMLElement} */
        event.target.closest("button")) this.select(row.key);
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
    yes.addEventListener("click", () => {
      this.stopAsking(drawn);
      this.ask(row, action);
    });
    no.addEventListener("click", () => this.stopAsking(drawn));
    drawn.asking = element(
      "span",
      { class: "wb-asking", role: "group", "aria-label": asked, "data-action": action.name },
      element("span", { id }, asked),
      yes,
      no
    );
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
    const drawn = key === void 0 ? void 0 : this.drawn.get(key);
    if (event.key === "Escape" && drawn?.asking) this.stopAsking(drawn);
    else if ((event.key === "Enter" || event.key === " ") && active === line && key !== void 0) this.select(key);
    else if (!this.move(event.key, line, active)) return;
    event.preventDefault();
    event.stopPropagation();
  }
  /** Whether a key moved the focus, or would have if there were more. @param {string} key
   * @param {HTMLElement} line @param {HTMLElement} active */
  move(key, line, active) {
    const lines = [...this.root.querySelectorAll("tr")].filter((one) => stops(one).length);
    const here = lines.indexOf(
      /** @type {HTMLTableRowElement} */
      line
    ), at = stops(line).indexOf(active);
    const ways = {
      ArrowUp: [here - 1, at],
      ArrowDown: [here + 1, at],
      ArrowLeft: [here, at - 1],
      ArrowRight: [here, at + 1],
      Home: [0, at],
      End: [lines.length - 1, at]
    };
    if (!(key in ways)) return false;
    const [row, column] = ways[
      /** @type {keyof typeof ways} */
      key
    ];
    const there = lines[row] ? stops(lines[row]) : [];
    there[row === here ? column : Math.min(column, there.length - 1)]?.focus();
    return true;
  }
  /** The element of the table that has the focus. @returns {HTMLElement | null} */
  active() {
    const { activeElement } = (
      /** @type {Document | ShadowRoot} */
      this.root.getRootNode()
    );
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
};
function stops(line) {
  const buttons = [...line.querySelectorAll("button")].filter((one) => one.offsetParent !== null && !one.disabled);
  return line.tabIndex >= 0 || line.hasAttribute("aria-selected") ? [line, ...buttons] : buttons;
}
var table_default = {
  /** @param {{model: Model, el: HTMLElement}} given */
  render({ model, el }) {
    return new TableView(model, el).start();
  }
};
export {
  table_default as default
};
