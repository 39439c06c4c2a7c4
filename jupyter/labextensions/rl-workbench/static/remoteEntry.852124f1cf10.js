"use strict";
(() => {
  // src/lab_code.js
  var PREFIX = "workbench-panel-";
  var OURS = "rl-workbench-cpu";
  var describedBy = { args: { type: "object", properties: {} } };
  function code(kind, names) {
    const quoted = names.map((name) => JSON.stringify(name)).join(", ");
    const lines = {
      run: `run = wb.attach(${quoted})
run`,
      sweep: `sweep = wb.attach_sweep(${quoted})
sweep`,
      compare: `wb.compare([${quoted}])`,
      example: 'run = wb.launch("CartPole-v1")\nrun'
    };
    return `import workbench as wb

${lines[kind]}`;
  }
  function pathOf(kind, names) {
    return `${PREFIX}${kind}-${names.join("+")}`;
  }
  function shownBy(path) {
    const match = /^workbench-panel-(run|sweep|compare)-([A-Za-z0-9._+-]+)$/.exec(path);
    return match && { kind: (
      /** @type {Kind} */
      match[1]
    ), names: match[2].split("+") };
  }
  var Notebooks = class {
    /** @param {any} app @param {any} tracker @param {any} actions NotebookActions @param {Tabs} tabs */
    constructor(app, tracker, actions, tabs) {
      this.app = app;
      this.tracker = tracker;
      this.actions = actions;
      this.tabs = tabs;
    }
    /** Puts a cell below the active one of the notebook used last, or into a new notebook, and runs it.
     * @param {string} source @param {{run?: boolean}} how */
    async insert(source, { run = true } = {}) {
      let panel = this.tracker.currentWidget;
      if (!panel) {
        panel = await this.app.commands.execute("notebook:create-new", { kernelName: this.tabs.kernel() });
        await panel.context.ready;
      }
      this.app.shell.activateById(panel.id);
      await panel.revealed;
      const notebook = panel.content, active = notebook.activeCell;
      if (active?.model.type !== "code" || active.model.sharedModel.getSource().trim()) {
        this.actions.insertBelow(notebook);
      }
      notebook.activeCell.model.sharedModel.setSource(source);
      if (!run) return;
      await panel.sessionContext.ready;
      await this.actions.run(notebook, panel.sessionContext);
    }
  };
  function stayAtTop(node) {
    const scrolled = ({ target }) => {
      const content = (
        /** @type {HTMLElement} */
        target
      );
      if (content.classList?.contains("jp-CodeConsole-content") && content.scrollTop) content.scrollTop = 0;
    };
    node.addEventListener("scroll", scrolled, true);
    for (const touch of ["wheel", "pointerdown", "keydown", "touchmove"]) {
      node.addEventListener(touch, () => node.removeEventListener("scroll", scrolled, true), { capture: true, once: true });
    }
  }
  var Tabs = class {
    /** @param {any} app @param {any} tracker of consoles @param {any} icon */
    constructor(app, tracker, icon) {
      this.app = app;
      this.tracker = tracker;
      this.icon = icon;
      tracker.widgetAdded.connect((_, panel) => this.adopt(panel));
      tracker.forEach((panel) => this.adopt(panel));
    }
    /** Name of the kernel for what the panel opens; undefined: the server's default. */
    kernel() {
      const specs = this.app.serviceManager.kernelspecs.specs;
      return specs?.kernelspecs?.[OURS] ? OURS : specs?.default;
    }
    /** Opens the tab, or shows the one that is open. @param {Kind} kind @param {readonly string[]} names */
    async open(kind, names) {
      const path = pathOf(kind, names);
      const there = this.tracker.find((panel) => panel.console.sessionContext.path === path);
      if (there) {
        this.app.shell.activateById(there.id);
        return;
      }
      await this.app.serviceManager.kernelspecs.ready;
      await this.app.commands.execute("console:create", {
        path,
        name: names.join(" and "),
        activate: true,
        kernelPreference: { name: this.kernel(), shutdownOnDispose: true, autoStartDefault: true }
      });
    }
    /** Makes a console that is one of ours a plain view, and fills it. @param {any} panel */
    adopt(panel) {
      const { path } = panel.console.sessionContext, shown = shownBy(path);
      if (!shown) return;
      panel.addClass("wb-tab");
      panel.disposed.connect(() => void this.end(path));
      panel.title.icon = this.icon;
      panel.node.tabIndex = -1;
      panel.onActivateRequest = () => panel.node.focus();
      panel.node.setAttribute("aria-label", `RL Workbench: ${shown.names.join(" and ")}`);
      const notice = document.createElement("div");
      notice.className = "wb-tab-notice";
      notice.setAttribute("role", "status");
      notice.textContent = `Starting a kernel to show ${shown.names.join(" and ")} …`;
      panel.node.append(notice);
      stayAtTop(panel.node);
      void this.fill(panel, code(shown.kind, shown.names), notice);
    }
    /** Ends the session at that path, with its kernel, if there is one. @param {string} path */
    async end(path) {
      const sessions = this.app.serviceManager.sessions, session = await sessions.findByPath(path);
      if (session) await sessions.shutdown(session.id);
    }
    /** @param {any} panel @param {string} source @param {HTMLElement} notice */
    async fill(panel, source, notice) {
      try {
        await panel.console.sessionContext.ready;
        panel.title.icon = this.icon;
        const ran = panel.console.inject(source);
        const output = new MutationObserver(() => {
          if (!panel.node.querySelector(".jp-OutputArea-output")) return;
          output.disconnect();
          notice.remove();
        });
        output.observe(panel.node, { childList: true, subtree: true });
        await ran;
      } catch (error) {
        notice.textContent = `The panel could not be shown: ${/** @type {any} */
        error?.message ?? error}`;
      }
    }
  };

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

  // src/lab_rows.js
  var GOING_ON = /* @__PURE__ */ new Set(["starting", "training", "paused", "stopping", "running"]);
  var ENDS = /* @__PURE__ */ new Map([
    ["finished", "has finished"],
    ["failed", "has failed"],
    ["dead", "has died"],
    ["stopped", "has stopped"],
    ["damaged", "cannot be read any more"]
  ]);
  var OF_TRIALS = /* @__PURE__ */ new Set(["failed", "dead", "damaged", "disk"]);
  var EVENTS = /* @__PURE__ */ new Map([["collapse", "has collapsed"], ["recovered", "has recovered"]]);
  var FILTERS = /* @__PURE__ */ new Map([
    ["all", "all"],
    ["going", "going on"],
    ["ended", "ended"],
    ["trouble", "in trouble"]
  ]);
  function goesOn(row) {
    return GOING_ON.has(row.state);
  }
  function inTrouble(row) {
    return ["failed", "dead", "damaged"].includes(row.state) || Boolean(row.waits_for_disk || row.collapsed);
  }
  function passes(row, filter) {
    if (filter === "going") return goesOn(row);
    if (filter === "ended") return !goesOn(row);
    return filter !== "trouble" || inTrouble(row);
  }
  function stateOf(row) {
    if (row.waits_for_disk) return "waits for its disk";
    return row.collapsed && goesOn(row) ? `${row.state}, collapsed` : row.state;
  }
  function share(row) {
    const [done, all] = row.trials === void 0 ? [row.frames, row.total_frames] : [row.over, row.trials];
    return done === null || done === void 0 || !all ? null : Math.min(1, done / all);
  }
  function progressOf(row) {
    if (row.problem) return "";
    if (row.trials !== void 0) {
      const running = row.running ? `${row.running} running` : "";
      return joined([row.over === null ? `${row.trials} trials` : `${row.over} of ${row.trials} trials`, running]);
    }
    const all = row.total_frames ? ` of ${number(row.total_frames)}` : "";
    return joined([
      `${number(row.frames ?? 0)}${all} frames`,
      isNumber(row.frames_per_second) ? `${number(Math.round(row.frames_per_second))} frames/s` : "",
      isNumber(row.eta_s) ? `${duration(row.eta_s)} left` : ""
    ]);
  }
  function resultOf(row) {
    if (row.trials !== void 0) {
      return isNumber(row.best_value) ? `best ${row.metric} ${number(row.best_value)} (${row.best_run})` : "";
    }
    const last = isNumber(row.episode_return) ? number(row.episode_return) : "";
    const best = isNumber(row.best_return) ? number(row.best_return) : "";
    return joined([last && `return ${last}`, best && best !== last ? `best ${best}` : ""]);
  }
  function subjectOf(row) {
    return joined([row.environment ?? "", row.algorithm ?? ""]);
  }
  function changes(before, after, expected = /* @__PURE__ */ new Set()) {
    if (!before) return [];
    return (
      /** @type {["run" | "sweep", Row[], Row[]][]} */
      [
        ["run", before.runs, after.runs],
        ["sweep", before.sweeps, after.sweeps]
      ].flatMap(([kind, old, rows]) => {
        const known = new Map(old.map((row) => [row.name, row]));
        return rows.flatMap((row) => changesOf(`${kind}/${row.name}`, known.get(row.name), row, before.now, expected));
      })
    );
  }
  function changesOf(key, old, row, since, expected) {
    const isNew = !old && (row.created ?? 0) >= since;
    if (!old && !isNew) return [];
    if (old && old.created !== row.created && row.created !== void 0 && old.created !== void 0) return [];
    const last = Math.max(0, ...(old?.events ?? []).map((event) => event.id));
    const pieces = (row.events ?? []).filter((event) => event.id > last).map((event) => ({
      key,
      name: row.name,
      kind: event.kind,
      title: `${row.name} ${EVENTS.get(event.kind) ?? event.kind}`,
      body: event.message,
      bad: event.kind !== "recovered"
    }));
    const piece = (kind, what, bad) => pieces.push({
      key,
      name: row.name,
      kind,
      title: `${row.name} ${what}`,
      bad,
      body: joined([row.problem || row.reason || "", resultOf(row)])
    });
    if (row.waits_for_disk && !old?.waits_for_disk) piece("disk", "waits for its disk", true);
    const end = ENDS.get(row.state);
    if (end && (old ? goesOn(old) || old.state !== "damaged" && row.state === "damaged" : true) && !(row.state === "stopped" && expected.has(key))) {
      piece(row.state, end, !["finished", "stopped"].includes(row.state));
    }
    return row.sweep ? pieces.filter(({ kind }) => OF_TRIALS.has(kind)) : pieces;
  }
  function joined(parts) {
    return parts.filter(Boolean).join(" · ");
  }
  function isNumber(value) {
    return typeof value === "number";
  }

  // src/lab_news.js
  var MOST = 20;
  var CHOICE = "rl-workbench:notify";
  var News = class {
    /** @param {(count: number, bad: boolean) => void} badge @param {() => void} open shows the panel */
    constructor(badge2, open) {
      this.items = [];
      this.changed = () => {
      };
      this.badge = badge2;
      this.open = open;
      this.unread = 0;
      this.next = 0;
      this.last = null;
      this.expected = /* @__PURE__ */ new Set();
      this.watchTitle();
    }
    /** What a person has just stopped is no news when it stops. @param {string} key */
    expect(key) {
      this.expected.add(key);
    }
    /** Compares with the last look. @param {import("./lab_rows.js").Overview} overview */
    follow(overview) {
      const pieces = changes(this.last, overview, this.expected);
      const stopped = (row) => row.state === "stopped";
      for (const { name } of overview.runs.filter(stopped)) this.expected.delete(`run/${name}`);
      for (const { name } of overview.sweeps.filter(stopped)) this.expected.delete(`sweep/${name}`);
      this.last = overview;
      if (!pieces.length) return;
      this.items = [...pieces.map((piece) => ({ ...piece, id: this.next++, at: overview.now })).reverse(), ...this.items].slice(0, MOST);
      this.unread += pieces.length;
      for (const piece of pieces) this.tell(piece);
      this.update();
    }
    /** All of them have been seen: the counts go. */
    seen() {
      this.unread = 0;
      this.update();
    }
    /** Forgets one, or all. @param {number} [id] */
    dismiss(id) {
      this.items = id === void 0 ? [] : this.items.filter((item) => item.id !== id);
      this.seen();
    }
    update() {
      this.badge(this.unread, this.items.slice(0, this.unread).some((item) => item.bad));
      this.writeTitle();
      this.changed();
    }
    // --- the browser's notifications ------------------------------------------------------------------------------
    /** "on", "off", "ask", "blocked" by the browser, or "none": this page cannot have them. */
    get permission() {
      if (typeof Notification === "undefined" || !window.isSecureContext) return "none";
      if (Notification.permission === "denied") return "blocked";
      if (Notification.permission !== "granted") return "ask";
      return localStorage.getItem(CHOICE) === "off" ? "off" : "on";
    }
    /** Asks for the permission, or switches it on and off. Only ever called by a person's click.
     * @param {string} shown  the permission that the person saw; the browser's settings may have changed it since */
    async toggle(shown) {
      if (shown === "ask") {
        await Notification.requestPermission();
        localStorage.removeItem(CHOICE);
      } else {
        localStorage.setItem(CHOICE, shown === "on" ? "off" : "on");
      }
      this.changed();
    }
    /** @param {import("./lab_rows.js").Piece} piece */
    tell(piece) {
      if (this.permission !== "on") return;
      const shown = new Notification(piece.title, { body: piece.body, tag: `rl-workbench/${piece.key}/${piece.kind}` });
      shown.onclick = () => {
        window.focus();
        this.open();
        shown.close();
      };
    }
    // --- the page's title -----------------------------------------------------------------------------------------
    watchTitle() {
      const title = document.querySelector("title");
      if (title) new MutationObserver(() => this.writeTitle()).observe(title, { childList: true, characterData: true });
    }
    /** JupyterLab writes the title anew with each tab, so the count is put back before it. */
    writeTitle() {
      const plain = document.title.replace(/^\(\d+\) /, "");
      const wanted = this.unread ? `(${this.unread}) ${plain}` : plain;
      if (document.title !== wanted) document.title = wanted;
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
  function setText(shown, text) {
    if (shown.textContent !== text) shown.textContent = text;
  }
  function button(text, style, click, label = "") {
    const made = element("button", { type: "button", class: style, ...label ? { "aria-label": label } : {} }, text);
    made.addEventListener("click", click);
    return made;
  }

  // src/rows.js
  var words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
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

  // src/lab_row.js
  var WIDTH = 96;
  var HEIGHT = 24;
  var MIME = "application/x-rl-workbench-run";
  var SVG = "http://www.w3.org/2000/svg";
  var ACTIONS = (
    /** @type {Record<string, string>} */
    { stop: "Stop", resume: "Resume", delete: "Delete" }
  );
  var QUESTIONS = (
    /** @type {Record<string, Record<string, string>>} */
    {
      run: { stop: "Stop $? It writes a last checkpoint.", delete: "Move $ to the trash?" },
      sweep: { stop: "Stop $ and its runs?", delete: "Move $ to the trash? Its runs stay." }
    }
  );
  var RunRow = class {
    /** @param {"run" | "sweep"} kind @param {string} name @param {import("./lab_panel.js").SidePanel} panel */
    constructor(kind, name, panel) {
      this.kind = kind;
      this.name = name;
      this.panel = panel;
      this.asking = "";
      this.mark = element("input", { type: "checkbox", "aria-label": `Compare ${name}` });
      this.mark.addEventListener("change", () => panel.choose(name, this.mark.checked));
      this.open = button(name, "wb-name", () => void panel.attempt(() => panel.does.open(kind, [name])));
      this.open.title = `Open the panel of ${name} in a tab of its own`;
      this.state = element("span", { class: "wb-state" });
      this.result = element("span", { class: "wb-result" });
      this.spark = document.createElementNS(SVG, "svg");
      this.line = this.spark.appendChild(document.createElementNS(SVG, "path"));
      this.end = this.spark.appendChild(document.createElementNS(SVG, "circle"));
      for (const [key, value] of Object.entries({ role: "img", width: WIDTH, height: HEIGHT })) {
        this.spark.setAttribute(key, String(value));
      }
      this.end.setAttribute("r", "2");
      this.done = element("div", { class: "wb-done" });
      this.progress = element("div", {
        class: "wb-progress",
        role: "progressbar",
        "aria-label": `Progress of ${name}`,
        "aria-valuemin": "0",
        "aria-valuemax": "100"
      }, this.done);
      this.subject = element("div", { class: "wb-facts" });
      this.facts = element("div", { class: "wb-facts" });
      this.note = element("div", { class: "wb-note" });
      this.attach = button("Attach", "", () => void panel.attempt(() => panel.does.attach(kind, name)), `Attach ${name}`);
      this.attach.title = "Put a cell that attaches it into the notebook used last, and run it";
      this.actions = new Map(Object.entries(ACTIONS).map(([action, text]) => [
        action,
        button(text, "", () => this.ask(action), `${text} ${name}`)
      ]));
      this.buttons = element("div", { class: "wb-buttons" }, this.attach, ...this.actions.values());
      this.question = element("div", { class: "wb-question", role: "group", hidden: true });
      this.node = element(
        "li",
        { class: "wb-row", "data-kind": kind, "data-name": name },
        element("div", { class: "wb-head" }, ...kind === "run" ? [this.mark] : [], this.open, this.state),
        element("div", { class: "wb-middle" }, this.result, this.spark),
        this.subject,
        this.progress,
        this.facts,
        this.note,
        this.buttons,
        this.question
      );
      this.question.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.cancel();
      });
      if (kind === "run") this.dragging();
    }
    // --- showing --------------------------------------------------------------------------------------------------
    /** @param {Row} row @param {boolean} chosen */
    show(row, chosen) {
      const damaged = Boolean(row.problem), done = share(row);
      this.node.classList.toggle("wb-trouble", inTrouble(row));
      this.mark.checked = chosen;
      this.mark.disabled = this.open.disabled = damaged;
      setText(this.state, row.busy ? "working …" : stateOf(row));
      this.state.dataset.state = row.state;
      setText(this.result, resultOf(row));
      setText(this.subject, subjectOf(row));
      setText(this.facts, progressOf(row));
      setText(this.note, row.problem || row.failure || row.reason || "");
      this.note.hidden = !this.note.textContent;
      this.note.classList.toggle("wb-bad", Boolean(row.failure) || inTrouble(row));
      this.progress.hidden = done === null;
      this.progress.setAttribute("aria-valuenow", String(Math.round(100 * (done ?? 0))));
      this.progress.setAttribute("aria-valuetext", progressOf(row));
      this.done.style.width = `${100 * (done ?? 0)}%`;
      this.drawCurve(row);
      this.attach.hidden = damaged;
      for (const [action, each] of this.actions) {
        each.hidden = !row.actions.includes(action);
        each.disabled = Boolean(row.busy);
      }
      this.node.draggable = this.kind === "run" && !damaged;
      if (this.asking && !row.actions.includes(this.asking)) this.cancel();
    }
    /** @param {Row} row */
    drawCurve(row) {
      const drawn = sparkline(row.curve ?? [], WIDTH, HEIGHT, 3);
      this.spark.toggleAttribute("hidden", !drawn);
      if (!drawn) return;
      this.line.setAttribute("d", drawn.path);
      this.end.setAttribute("cx", String(drawn.x));
      this.end.setAttribute("cy", String(drawn.y));
      const what = this.kind === "run" ? "Return" : row.metric ?? "Value";
      this.spark.setAttribute("aria-label", `${what} of ${this.name} so far: ${spoken(row.curve)}`);
    }
    // --- acting ---------------------------------------------------------------------------------------------------
    /** Does it, or asks first where it ends something. @param {string} action */
    ask(action) {
      const question = QUESTIONS[this.kind][action];
      if (!question) {
        this.act(action);
        return;
      }
      this.asking = action;
      const text = question.replace("$", () => this.name);
      const yes = button(ACTIONS[action], action === "delete" ? "wb-danger" : "", () => {
        this.cancel();
        this.act(action);
      });
      this.question.replaceChildren(element("span", {}, text), yes, button("Cancel", "", () => this.cancel()));
      this.question.setAttribute("aria-label", text);
      this.question.hidden = false;
      this.buttons.hidden = true;
      yes.focus();
    }
    cancel() {
      const inside = this.question.contains(document.activeElement), asked = this.actions.get(this.asking);
      this.asking = "";
      this.question.hidden = true;
      this.buttons.hidden = false;
      if (inside) (asked && !asked.hidden && !asked.disabled ? asked : this.open).focus();
    }
    /** @param {string} action */
    act(action) {
      void this.panel.attempt(() => this.panel.does.act(this.kind, this.name, action), `${ACTIONS[action]} ${this.name} …`);
    }
    // --- dragging -------------------------------------------------------------------------------------------------
    /** A run that is dropped onto another is compared with it; into a cell, it is the line that attaches it. */
    dragging() {
      const others = (event) => event.dataTransfer?.types.includes(MIME) && !this.node.classList.contains("wb-dragged") && this.node.draggable;
      this.node.addEventListener("dragstart", (event) => {
        event.dataTransfer?.setData(MIME, this.name);
        event.dataTransfer?.setData("text/plain", code("run", [this.name]));
        this.node.classList.add("wb-dragged");
      });
      this.node.addEventListener("dragend", () => this.node.classList.remove("wb-dragged"));
      this.node.addEventListener("dragover", (event) => {
        if (!others(event)) return;
        event.preventDefault();
        this.node.classList.add("wb-target");
      });
      this.node.addEventListener("dragleave", (event) => {
        if (!this.node.contains(
          /** @type {Node | null} */
          event.relatedTarget
        )) this.node.classList.remove("wb-target");
      });
      this.node.addEventListener("drop", (event) => {
        this.node.classList.remove("wb-target");
        const other = event.dataTransfer?.getData(MIME);
        if (!other || other === this.name || !others(event)) return;
        event.preventDefault();
        event.stopPropagation();
        this.panel.openComparison([other, this.name]);
      });
    }
  };

  // src/lab_panel.js
  var BELLS = (
    /** @type {Record<string, [string, string]>} */
    {
      ask: ["Notify me", "Let the browser tell you when a run ends, fails, collapses, reaches its target or waits for its disk. It asks for your permission."],
      on: ["Notifications on", "The browser tells you what happens to runs. Click to switch that off."],
      off: ["Notifications off", "The browser tells you nothing. Click to switch notifications on."],
      blocked: ["Notifications blocked", "The browser blocks notifications of this page. Its settings allow them: the icon beside the address."],
      none: ["No notifications", "Browsers show notifications only of pages on this machine, or behind https."]
    }
  );
  var SidePanel = class {
    /** @param {HTMLElement} root @param {import("./lab_news.js").News} news @param {Does} does */
    constructor(root, news, does) {
      this.news = news;
      this.does = does;
      this.filter = "all";
      this.overview = null;
      this.rows = /* @__PURE__ */ new Map();
      this.chosen = /* @__PURE__ */ new Set();
      this.compare = button("Compare", "", () => this.openComparison([...this.chosen]));
      this.bell = button("", "wb-bell", () => void news.toggle(this.bell.dataset.shown ?? ""));
      this.choice = element(
        "select",
        { "aria-label": "Which runs to list" },
        ...[...FILTERS].map(([value, text]) => element("option", { value }, text))
      );
      this.choice.addEventListener("change", () => {
        this.filter = this.choice.value;
        this.draw();
      });
      this.pieces = element("ul", { class: "wb-news", "aria-label": "News" });
      this.said = element("div", { class: "wb-said", role: "status" });
      this.runs = element("ul", { class: "wb-list", "aria-label": "Runs" });
      this.sweeps = element("ul", { class: "wb-list", "aria-label": "Sweeps" });
      this.sweepTitle = element("h3", {}, "Sweeps");
      this.empty = element("div", { class: "wb-empty" });
      this.foot = element("div", { class: "wb-foot" });
      root.append(
        element("div", { class: "wb-top" }, element("h2", {}, "Runs"), this.choice, this.compare, this.bell),
        this.said,
        this.pieces,
        this.empty,
        this.runs,
        this.sweepTitle,
        this.sweeps,
        this.foot
      );
      news.changed = () => this.drawNews();
      this.say("Reading the runs …");
      this.draw();
      this.drawNews();
    }
    // --- what comes in --------------------------------------------------------------------------------------------
    /** @param {Overview} overview */
    show(overview) {
      if (this.old || !this.overview) this.say("");
      this.old = false;
      this.overview = overview;
      this.draw();
    }
    /** The server did not answer: what is shown stays, and says that it is old. @param {Error} error */
    complain(error) {
      const since = this.overview && new Date(this.overview.now * 1e3).toLocaleTimeString();
      this.say(`${error.message}${since ? ` What you see is from ${since}.` : ""}`, true);
      this.old = true;
    }
    /** @param {string} text @param {boolean} [bad] */
    say(text, bad = false) {
      setText(this.said, text);
      this.said.classList.toggle("wb-bad", bad);
    }
    // --- what a person does ---------------------------------------------------------------------------------------
    /** Does it; a sentence says what became of it, also where it failed. @param {() => Promise<string | void>} action
     * @param {string} [meanwhile] */
    async attempt(action, meanwhile = "") {
      if (meanwhile) this.say(meanwhile);
      try {
        this.say(await action() ?? "");
      } catch (error) {
        this.say(
          /** @type {any} */
          error?.message ?? String(error),
          true
        );
      }
    }
    /** @param {string[]} names */
    openComparison(names) {
      void this.attempt(() => this.does.open("compare", names));
    }
    /** @param {string} name @param {boolean} on */
    choose(name, on) {
      if (on) this.chosen.add(name);
      else this.chosen.delete(name);
      this.draw();
    }
    // --- drawing --------------------------------------------------------------------------------------------------
    draw() {
      const { runs = [], sweeps = [], left_out: leftOut = 0 } = this.overview ?? {};
      for (const name of this.chosen) if (!runs.some((row) => row.name === name)) this.chosen.delete(name);
      this.list("run", this.runs, runs);
      this.list("sweep", this.sweeps, sweeps);
      this.runs.hidden = !this.runs.childElementCount;
      this.sweepTitle.hidden = this.sweeps.hidden = !this.sweeps.childElementCount;
      this.compare.disabled = this.chosen.size < 2;
      this.compare.textContent = this.chosen.size ? `Compare ${this.chosen.size}` : "Compare";
      this.compare.title = this.chosen.size < 2 ? "Choose two runs or more by their checkboxes, or drag one run onto another" : [...this.chosen].join(", ");
      this.drawEmpty(runs, sweeps);
      const going = [...runs, ...sweeps].filter(goesOn).length;
      this.foot.textContent = this.overview ? [
        `${going} of ${runs.length + sweeps.length + leftOut} going on, in ${this.overview.home}`,
        leftOut ? `${leftOut} older ones are not listed: wb.runs() has them` : ""
      ].filter(Boolean).join(". ") : "";
    }
    /** @param {Kind} kind @param {HTMLUListElement} list @param {Row[]} rows */
    list(kind, list, rows) {
      const shown = rows.filter((row) => passes(row, this.filter)), keys = new Set(shown.map((row) => `${kind}/${row.name}`));
      for (const [key, row] of this.rows) {
        if (!key.startsWith(`${kind}/`) || keys.has(key)) continue;
        if (row.node.contains(document.activeElement)) this.choice.focus();
        row.node.remove();
        this.rows.delete(key);
      }
      shown.forEach((row, at) => {
        const key = `${kind}/${row.name}`;
        const drawn = this.rows.get(key) ?? new RunRow(kind, row.name, this);
        this.rows.set(key, drawn);
        drawn.show(row, this.chosen.has(row.name));
        if (list.children[at] !== drawn.node) list.insertBefore(drawn.node, list.children[at] ?? null);
      });
    }
    /** @param {Row[]} runs @param {Row[]} sweeps */
    drawEmpty(runs, sweeps) {
      const none = this.overview && !runs.length && !sweeps.length;
      const passed = [...runs, ...sweeps].some((row) => passes(row, this.filter));
      const state = !this.overview || passed ? "" : none ? "none" : `filtered ${this.filter}`;
      if (this.empty.dataset.state === state) return;
      this.empty.dataset.state = state;
      this.empty.replaceChildren(...none ? [
        element("p", {}, "There are no runs yet. One starts with a line in a notebook:"),
        element("pre", {}, 'wb.launch("CartPole-v1")'),
        button("Put it into a notebook", "", () => void this.attempt(() => this.does.example()))
      ] : state ? [element("p", {}, `None is ${FILTERS.get(this.filter)}.`)] : []);
    }
    drawNews() {
      const { permission } = this.news, [text, title] = BELLS[permission];
      Object.assign(this.bell, { textContent: text, title, disabled: ["blocked", "none"].includes(permission) });
      this.bell.dataset.shown = permission;
      this.bell.setAttribute("aria-pressed", String(permission === "on"));
      this.pieces.hidden = !this.news.items.length;
      this.pieces.replaceChildren(...this.news.items.map((item) => element(
        "li",
        { class: item.bad ? "wb-piece wb-bad" : "wb-piece", title: item.body },
        element(
          "div",
          {},
          element("strong", {}, item.title),
          element("span", { class: "wb-time" }, new Date(item.at * 1e3).toLocaleTimeString([], { timeStyle: "short" })),
          element("div", { class: "wb-body" }, item.body)
        ),
        button("×", "wb-dismiss", () => this.news.dismiss(item.id), `Dismiss: ${item.title}`)
      )));
    }
  };

  // src/lab_icon.js
  var ICON = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
<g class="jp-icon3" fill="none" stroke="#616161" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">
<path class="wb-stroke" d="M4 3v17h17"/><path class="wb-stroke" d="M7 17c3 0 3-4 5-7s4-4 9-4"/></g></svg>`;

  // src/lab.css
  var lab_default = '.wb-lab {\n  --wb-ink: var(--jp-ui-font-color1); --wb-line: var(--jp-border-color2); --wb-ground: var(--jp-layout-color1);\n  --wb-accent: var(--jp-brand-color1); --wb-raised: var(--jp-layout-color2);\n  display: flex; flex-direction: column; overflow-y: auto; min-width: 220px; padding: 0 8px 8px;\n  background: var(--wb-ground); color: var(--wb-ink); font: 13px/1.4 var(--jp-ui-font-family);\n}\n.wb-lab [hidden] { display: none !important; }\n.wb-lab :is(h2, h3) { font-size: 13px; font-weight: 600; margin: 10px 0 4px; }\n.wb-lab .wb-top {\n  display: flex; flex-wrap: wrap; gap: 6px; align-items: center; position: sticky; top: 0; z-index: 1; padding: 4px 0;\n  background: var(--wb-ground);\n}\n.wb-lab .wb-top h2 { margin: 0 auto 0 0; }\n.wb-lab :is(button, select) {\n  font: inherit; font-size: 12px; color: var(--wb-ink); background: transparent; min-height: 24px; margin: 0;\n  border: 1px solid var(--jp-border-color1); border-radius: 4px; padding: 1px 8px; cursor: pointer;\n}\n.wb-lab select { background: var(--wb-ground); padding: 1px 2px; }\n.wb-lab :is(button, select):hover:enabled { border-color: var(--wb-accent); background: var(--wb-raised); }\n.wb-lab :is(button, select):disabled { border-style: dashed; cursor: default; }\n.wb-lab :is(button, select, input):focus-visible { outline: 2px solid var(--wb-accent); outline-offset: 1px; }\n.wb-lab ul { list-style: none; margin: 0; padding: 0; }\n.wb-lab .wb-said { overflow-wrap: anywhere; }\n.wb-lab .wb-said:not(:empty) { padding: 2px 0 6px; }\n.wb-lab :is(.wb-said, .wb-note).wb-bad::before { content: "⚠ "; }\n.wb-lab .wb-news { border: 1px solid var(--wb-line); border-radius: 4px; max-height: 30%; overflow-y: auto; flex: none; }\n.wb-lab .wb-piece { display: flex; gap: 6px; padding: 4px 6px; border-left: 3px solid var(--jp-success-color1); }\n.wb-lab .wb-piece.wb-bad { border-left-color: var(--jp-error-color1); }\n.wb-lab .wb-piece > div { flex: 1; min-width: 0; overflow-wrap: anywhere; }\n.wb-lab .wb-time { margin-left: 6px; font-size: 12px; }\n.wb-lab .wb-body { font-size: 12px; max-height: 4.2em; overflow: hidden; }\n.wb-lab .wb-dismiss { border-color: transparent; padding: 0; min-width: 24px; align-self: flex-start; }\n.wb-lab .wb-row { border-top: 1px solid var(--wb-line); padding: 6px 2px 8px; border-radius: 2px; }\n.wb-lab .wb-row[draggable="true"] { cursor: grab; }\n.wb-lab .wb-row.wb-dragged { opacity: .6; }\n.wb-lab .wb-row.wb-target { outline: 2px dashed var(--wb-accent); outline-offset: -2px; background: var(--wb-raised); }\n.wb-lab .wb-row.wb-target .wb-head::after { content: "compare"; font-size: 12px; }\n.wb-lab .wb-head { display: flex; gap: 6px; align-items: center; max-width: 100%; }\n.wb-lab .wb-head input { margin: 0; min-width: 14px; min-height: 14px; accent-color: var(--wb-accent); }\n.wb-lab .wb-name {\n  flex: 1; min-width: 0; text-align: left; border: 0; padding: 0; font-size: 13px; font-weight: 600; overflow: hidden;\n  text-overflow: ellipsis; white-space: nowrap;\n}\n.wb-lab .wb-name:hover:enabled { text-decoration: underline; background: transparent; }\n.wb-lab .wb-state { flex: none; padding: 0 8px; border-radius: 9px; background: #5b6b7d; color: #fff; font-size: 12px; }\n.wb-lab .wb-state:is([data-state="training"], [data-state="running"]) { background: #2e7d46; }\n.wb-lab .wb-state:is([data-state="paused"], [data-state="stopping"]) { background: #8a5400; }\n.wb-lab .wb-state[data-state="finished"] { background: #1f66b0; }\n.wb-lab .wb-state:is([data-state="failed"], [data-state="dead"], [data-state="damaged"]) { background: #b3261e; }\n.wb-lab .wb-trouble { box-shadow: inset 3px 0 #b3261e; padding-left: 8px; }\n.wb-lab .wb-middle { display: flex; gap: 8px; align-items: center; justify-content: space-between; }\n.wb-lab .wb-result { font-variant-numeric: tabular-nums; min-width: 0; }\n.wb-lab .wb-middle svg { flex: none; display: block; }\n.wb-lab .wb-middle path { fill: none; stroke: var(--wb-accent); stroke-width: 1.5; stroke-linejoin: round; }\n.wb-lab .wb-middle circle { fill: var(--wb-accent); }\n.wb-lab .wb-progress { height: 3px; border-radius: 2px; background: var(--wb-raised); overflow: hidden; margin: 3px 0; }\n.wb-lab .wb-done { height: 100%; background: var(--wb-accent); }\n.wb-lab .wb-facts { font-size: 12px; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }\n.wb-lab .wb-note { font-size: 12px; overflow-wrap: anywhere; margin-top: 2px; }\n.wb-lab :is(.wb-buttons, .wb-question) { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 5px; align-items: center; }\n.wb-lab .wb-question span { flex-basis: 100%; }\n.wb-lab .wb-danger { background: #b3261e; border-color: #b3261e; color: #fff; }\n.wb-lab .wb-danger:hover:enabled { background: #8c1d18; }\n.wb-lab .wb-empty pre { margin: 4px 0 8px; padding: 4px 6px; background: var(--wb-raised); overflow-x: auto; font-size: 12px; }\n.wb-lab .wb-foot { margin-top: 10px; font-size: 12px; overflow-wrap: anywhere; }\n.lm-TabBar-tab[data-wb-news] { position: relative; }\n.lm-TabBar-tab[data-wb-news]::before {  /* JupyterLab marks the current tab by its ::after */\n  content: attr(data-wb-news); position: absolute; top: 2px; right: 2px; min-width: 15px; padding: 0 3px; box-sizing: border-box;\n  border-radius: 8px; background: #1f66b0; color: #fff; font: 600 10px/15px var(--jp-ui-font-family); text-align: center;\n}\n.lm-TabBar-tab[data-wb-news][data-wb-bad="true"]::before { background: #b3261e; }\n.wb-stroke { fill: none !important; stroke: var(--jp-inverse-layout-color3); }\n.wb-tab :is(.jp-CodeConsole-banner, .jp-CodeConsole-input, .jp-CodeConsole-promptCell, .jp-Cell-inputWrapper, .jp-OutputPrompt,\n  .jp-OutputArea-promptOverlay, .jp-Toolbar, .jp-Cell-inputCollapser, .jp-Cell-outputCollapser) { display: none; }\n.wb-tab .jp-CodeConsole-content { height: 100% !important; padding: 0; }\n.wb-tab .lm-SplitPanel-handle { display: none; }\n.wb-tab:focus { outline: none; }\n.wb-tab-notice {\n  position: absolute; top: 0; left: 0; right: 0; padding: 16px; color: var(--jp-ui-font-color1);\n  font: 13px/1.4 var(--jp-ui-font-family);\n}\n';

  // src/lab_plugin.js
  var ID = "rl-workbench:side-panel";
  var SHOW = "workbench:show-runs";
  var SEEN_MS = 2e3;
  var UNSEEN_MS = 5e3;
  var AWAY_MS = 1e4;
  var LOST_MS = 15e3;
  async function plugin(library2) {
    const [apputils, notebook, consoles, widgets, icons, services] = await Promise.all([
      "@jupyterlab/apputils",
      "@jupyterlab/notebook",
      "@jupyterlab/console",
      "@lumino/widgets",
      "@jupyterlab/ui-components",
      "@jupyterlab/services"
    ].map(library2));
    return {
      id: ID,
      autoStart: true,
      optional: [notebook.INotebookTracker, consoles.IConsoleTracker, apputils.ICommandPalette],
      /** @param {any} app @param {any} notebooks @param {any} tracker @param {any} palette */
      activate(app, notebooks, tracker, palette) {
        if (app.name !== "JupyterLab" || !notebooks || !tracker) return;
        const libraries = { notebook, widgets, icons, services };
        start(app, { notebooks, tracker, palette }, libraries);
      }
    };
  }
  function start(app, { notebooks, tracker, palette }, { notebook, widgets, icons, services }) {
    document.head.append(Object.assign(document.createElement("style"), { textContent: lab_default }));
    const icon = new icons.LabIcon({ name: `${ID}-icon`, svgstr: ICON });
    const server = new Server(services.ServerConnection, app.serviceManager.serverSettings);
    const tabs = new Tabs(app, tracker, icon), cells = new Notebooks(app, notebooks, notebook.NotebookActions, tabs);
    const widget = new widgets.Widget();
    const show = () => app.shell.activateById(widget.id);
    const news = new News((count, bad) => badge(widget, count, bad), show);
    const panel = new SidePanel(widget.node, news, {
      attach: (kind, name) => cells.insert(code(kind, [name])),
      example: () => cells.insert(code("example", []), { run: false }),
      open: (kind, names) => tabs.open(kind, names),
      act: async (kind, name, action) => {
        if (action === "stop") news.expect(`${kind}/${name}`);
        const answer = await server.ask(`${kind}s/${name}/${action}`, "POST");
        void poll.now();
        return String(answer.message ?? "");
      }
    });
    const poll = new Poll(async () => {
      const answer = await server.ask("overview");
      news.follow(answer);
      panel.show(answer);
    }, (error) => panel.complain(error), () => document.hidden ? AWAY_MS : widget.isVisible ? SEEN_MS : UNSEEN_MS);
    widget.id = "rl-workbench-runs";
    widget.addClass("wb-lab");
    Object.assign(widget.title, { icon, caption: "RL Workbench: runs and sweeps" });
    widget.node.setAttribute("role", "region");
    widget.node.setAttribute("aria-label", "RL Workbench: runs and sweeps");
    const seen = () => {
      if (widget.isVisible && !document.hidden) news.seen();
    };
    widget.processMessage = (message) => {
      widgets.Widget.prototype.processMessage.call(widget, message);
      if (message.type === "after-show") {
        seen();
        void poll.now();
      }
    };
    document.addEventListener("visibilitychange", () => {
      seen();
      if (!document.hidden) void poll.now();
    });
    app.shell.add(widget, "left", { rank: 350, type: "RL Workbench" });
    app.commands.addCommand(SHOW, {
      label: "RL Workbench: Show Runs",
      caption: "The runs and sweeps of this machine",
      icon,
      execute: show,
      describedBy
    });
    palette?.addItem({ command: SHOW, category: "RL Workbench" });
    void app.restored.then(() => poll.now());
  }
  function badge(widget, count, bad) {
    const { "wb-news": _, "wb-bad": __, ...others } = widget.title.dataset;
    widget.title.dataset = count ? { ...others, "wb-news": String(count), "wb-bad": String(bad) } : others;
    const noun = count === 1 ? "piece" : "pieces";
    widget.title.caption = `RL Workbench: runs and sweeps${count ? ` (${count} ${noun} of news)` : ""}`;
  }
  var Server = class {
    /** @param {any} connection @param {any} settings */
    constructor(connection, settings) {
      this.connection = connection;
      this.settings = settings;
    }
    /** The answer. Throws an Error with the server's sentence. @param {string} path @param {string} method */
    async ask(path, method = "GET") {
      let response;
      try {
        response = await this.connection.makeRequest(
          `${this.settings.baseUrl}workbench/api/${path}`,
          { method, cache: "no-store" },
          this.settings
        );
      } catch {
        throw new Error("The Jupyter server does not answer.");
      }
      if (response.status === 404 && path === "overview") {
        throw new Error("The Jupyter server does not know its half of this panel. Enable it, and start the server again: jupyter server extension enable workbench.widgets.side_panel");
      }
      const answer = await response.json().catch(() => ({}));
      if (!response.ok) throw new Error(String(answer.message ?? `The server answers ${response.status}.`));
      return answer;
    }
  };
  var Poll = class {
    /** @param {() => Promise<void>} work @param {(error: Error) => void} failed @param {() => number} period */
    constructor(work, failed, period) {
      this.work = work;
      this.failed = failed;
      this.period = period;
      this.busy = false;
      this.again = false;
      this.timer = void 0;
    }
    /** At once; where it is under way, once more after it. */
    async now() {
      clearTimeout(this.timer);
      this.again = this.busy;
      if (this.busy) return;
      this.busy = true;
      let wait = this.period();
      try {
        await this.work();
      } catch (error) {
        this.failed(
          /** @type {Error} */
          error
        );
        wait = LOST_MS;
      }
      this.busy = false;
      this.timer = setTimeout(() => void this.now(), this.again ? 0 : wait);
    }
  };

  // src/lab.js
  var NAME = "rl-workbench";
  var scope = {};
  async function library(name) {
    const entry = Object.values(scope[name] ?? {})[0];
    if (!entry) throw new Error(`${NAME}: this JupyterLab does not share ${name}`);
    return (await entry.get())();
  }
  window._JUPYTERLAB = {
    .../** @type {any} */
    window._JUPYTERLAB,
    [NAME]: {
      /** @param {Scope} shared */
      init(shared) {
        scope = shared;
      },
      async get() {
        const built = await plugin(library);
        return () => ({ __esModule: true, default: built });
      }
    }
  };
})();
