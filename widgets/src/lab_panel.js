// The page of the side panel: news, a list of runs and one of sweeps, whose rows stay where they are while they change.
import { button, element, setText } from "./elements.js";
import { RunRow } from "./lab_row.js";
import { FILTERS, goesOn, passes } from "./lab_rows.js";

/** @typedef {import("./lab_rows.js").Overview} Overview */
/** @typedef {import("./lab_rows.js").Row} Row */
/** @typedef {"run" | "sweep"} Kind */
/**
 * @typedef {object} Does  what its buttons do
 * @property {(kind: Kind, name: string) => Promise<void>} attach
 * @property {() => Promise<void>} example
 * @property {(kind: Kind | "compare", names: string[]) => Promise<void>} open
 * @property {(kind: Kind, name: string, action: string) => Promise<string>} act
 */

const BELLS = /** @type {Record<string, [string, string]>} */ ({
  ask: ["Notify me", "Let the browser tell you when a run ends, fails, collapses, reaches its target or waits for its "
    + "disk. It asks for your permission."],
  on: ["Notifications on", "The browser tells you what happens to runs. Click to switch that off."],
  off: ["Notifications off", "The browser tells you nothing. Click to switch notifications on."],
  blocked: ["Notifications blocked", "The browser blocks notifications of this page. Its settings allow them: the icon "
    + "beside the address."],
  none: ["No notifications", "Browsers show notifications only of pages on this machine, or behind https."],
});

export class SidePanel {
  /** @param {HTMLElement} root @param {import("./lab_news.js").News} news @param {Does} does */
  constructor(root, news, does) {
    this.news = news;
    this.does = does;
    this.filter = "all";
    /** @type {Overview | null} */
    this.overview = null;
    /** @type {Map<string, RunRow>} */
    this.rows = new Map();
    /** @type {Set<string>} names of the runs that are chosen for a comparison */
    this.chosen = new Set();

    this.compare = button("Compare", "", () => this.openComparison([...this.chosen]));
    this.bell = button("", "wb-bell", () => void news.toggle(this.bell.dataset.shown ?? ""));
    this.choice = element("select", { "aria-label": "Which runs to list" },
      ...[...FILTERS].map(([value, text]) => element("option", { value }, text)));
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
      this.said, this.pieces, this.empty, this.runs, this.sweepTitle, this.sweeps, this.foot);
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
    const since = this.overview && new Date(this.overview.now * 1000).toLocaleTimeString();
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
      this.say((await action()) ?? "");
    } catch (error) {
      this.say(/** @type {any} */ (error)?.message ?? String(error), true);
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
    this.compare.title = this.chosen.size < 2
      ? "Choose two runs or more by their checkboxes, or drag one run onto another" : [...this.chosen].join(", ");
    this.drawEmpty(runs, sweeps);
    const going = [...runs, ...sweeps].filter(goesOn).length;
    this.foot.textContent = this.overview
      ? [`${going} of ${runs.length + sweeps.length + leftOut} going on, in ${this.overview.home}`,
        leftOut ? `${leftOut} older ones are not listed: wb.runs() has them` : ""].filter(Boolean).join(". ") : "";
  }

  /** @param {Kind} kind @param {HTMLUListElement} list @param {Row[]} rows */
  list(kind, list, rows) {
    const shown = rows.filter((row) => passes(row, this.filter)), keys = new Set(shown.map((row) => `${kind}/${row.name}`));
    for (const [key, row] of this.rows) {
      if (!key.startsWith(`${kind}/`) || keys.has(key)) continue;
      if (row.node.contains(document.activeElement)) this.choice.focus();  // the focus would fall out of the panel
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
    this.empty.replaceChildren(...(none ? [
      element("p", {}, "There are no runs yet. One starts with a line in a notebook:"),
      element("pre", {}, "wb.launch(\"CartPole-v1\")"),
      button("Put it into a notebook", "", () => void this.attempt(() => this.does.example())),
    ] : state ? [element("p", {}, `None is ${FILTERS.get(this.filter)}.`)] : []));
  }

  drawNews() {
    const { permission } = this.news, [text, title] = BELLS[permission];
    Object.assign(this.bell, { textContent: text, title, disabled: ["blocked", "none"].includes(permission) });
    this.bell.dataset.shown = permission;
    this.bell.setAttribute("aria-pressed", String(permission === "on"));
    this.pieces.hidden = !this.news.items.length;
    this.pieces.replaceChildren(...this.news.items.map((item) => element(
      "li", { class: item.bad ? "wb-piece wb-bad" : "wb-piece", title: item.body },
      element("div", {}, element("strong", {}, item.title),
        element("span", { class: "wb-time" }, new Date(item.at * 1000).toLocaleTimeString([], { timeStyle: "short" })),
        element("div", { class: "wb-body" }, item.body)),
      button("×", "wb-dismiss", () => this.news.dismiss(item.id), `Dismiss: ${item.title}`))));
  }
}
