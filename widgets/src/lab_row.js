// One run or sweep in the side panel: what it is, how it is, and its buttons. It can be dragged onto another run.
import { button, element, setText } from "./elements.js";
import { code } from "./lab_code.js";
import { inTrouble, progressOf, resultOf, share, stateOf, subjectOf } from "./lab_rows.js";
import { sparkline, spoken } from "./rows.js";

/** @typedef {import("./lab_rows.js").Row} Row */

const WIDTH = 96, HEIGHT = 24;
const MIME = "application/x-rl-workbench-run";
const SVG = "http://www.w3.org/2000/svg";
const ACTIONS = /** @type {Record<string, string>} */ ({ stop: "Stop", resume: "Resume", delete: "Delete" });
const QUESTIONS = /** @type {Record<string, Record<string, string>>} */ ({
  run: { stop: "Stop $? It writes a last checkpoint.", delete: "Move $ to the trash?" },
  sweep: { stop: "Stop $ and its runs?", delete: "Move $ to the trash? Its runs stay." },
});

export class RunRow {
  /** @param {"run" | "sweep"} kind @param {string} name @param {import("./lab_panel.js").SidePanel} panel */
  constructor(kind, name, panel) {
    this.kind = kind;
    this.name = name;
    this.panel = panel;
    /** @type {string} an action that waits for a yes, or "" */
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
    this.progress = element("div", { class: "wb-progress", role: "progressbar", "aria-label": `Progress of ${name}`,
                                     "aria-valuemin": "0", "aria-valuemax": "100" }, this.done);
    this.subject = element("div", { class: "wb-facts" });
    this.facts = element("div", { class: "wb-facts" });
    this.note = element("div", { class: "wb-note" });
    this.attach = button("Attach", "", () => void panel.attempt(() => panel.does.attach(kind, name)), `Attach ${name}`);
    this.attach.title = "Put a cell that attaches it into the notebook used last, and run it";
    this.actions = new Map(Object.entries(ACTIONS).map(([action, text]) => [
      action, button(text, "", () => this.ask(action), `${text} ${name}`)]));
    this.buttons = element("div", { class: "wb-buttons" }, this.attach, ...this.actions.values());
    this.question = element("div", { class: "wb-question", role: "group", hidden: true });
    this.node = element("li", { class: "wb-row", "data-kind": kind, "data-name": name },
      element("div", { class: "wb-head" }, ...(kind === "run" ? [this.mark] : []), this.open, this.state),
      element("div", { class: "wb-middle" }, this.result, this.spark),
      this.subject, this.progress, this.facts, this.note, this.buttons, this.question);
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
    const others = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes(MIME)
      && !this.node.classList.contains("wb-dragged") && this.node.draggable;
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
      if (!this.node.contains(/** @type {Node | null} */ (event.relatedTarget))) this.node.classList.remove("wb-target");
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
}
