// News of runs: unread ones count on the sidebar's icon and in the page's title, and (when allowed) the browser tells.
import { changes } from "./lab_rows.js";

/** @typedef {import("./lab_rows.js").Piece & {id: number, at: number}} Item */

const MOST = 20;
const CHOICE = "rl-workbench:notify";  // in the browser's storage: "off" where a person has switched it off

export class News {
  /** @param {(count: number, bad: boolean) => void} badge @param {() => void} open shows the panel */
  constructor(badge, open) {
    /** @type {Item[]} newest first */
    this.items = [];
    /** @type {() => void} */
    this.changed = () => {};
    this.badge = badge;
    this.open = open;
    this.unread = 0;
    this.next = 0;
    /** @type {import("./lab_rows.js").Overview | null} */
    this.last = null;
    /** @type {Set<string>} */
    this.expected = new Set();
    this.watchTitle();
  }

  /** What a person has just stopped is no news when it stops. @param {string} key */
  expect(key) {
    this.expected.add(key);
  }

  /** Compares with the last look. @param {import("./lab_rows.js").Overview} overview */
  follow(overview) {
    const pieces = changes(this.last, overview, this.expected);
    const stopped = (/** @type {import("./lab_rows.js").Row} */ row) => row.state === "stopped";
    for (const { name } of overview.runs.filter(stopped)) this.expected.delete(`run/${name}`);
    for (const { name } of overview.sweeps.filter(stopped)) this.expected.delete(`sweep/${name}`);
    this.last = overview;
    if (!pieces.length) return;
    this.items = [...pieces.map((piece) => ({ ...piece, id: this.next++, at: overview.now })).reverse(), ...this.items]
      .slice(0, MOST);
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
    this.items = id === undefined ? [] : this.items.filter((item) => item.id !== id);
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
}
