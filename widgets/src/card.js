// One chart in its card: title, menu, the Vega view, and what is wrong where it cannot be drawn.
import { element, setText } from "./elements.js";
import { vegaConfig } from "./theme.js";
import { equal, rows } from "./tables.js";

const HEIGHT = 236; // px of the whole drawing, the same for all that say nothing else, so that rows are even

/** @typedef {import("./theme.js").Look} Look */
/** @typedef {import("./tables.js").Table} Table */
/** @typedef {{title: string, wide: boolean, row: boolean, group: string, spec: Record<string, any>}} Figure */
/** @typedef {{embed: Function, changeset: Function}} Vega */

export class Card {
  /** @param {Vega} vega @param {() => Look} look @param {(text: string) => void} say */
  constructor(vega, look, say) {
    this.vega = vega;
    this.look = look;
    this.say = say;
    /** @type {Record<string, Table>} */
    this.tables = {};
    /** @type {Set<string>} tables that the view has not drawn yet */
    this.stale = new Set();
    /** @type {Figure | null} */
    this.figure = null;
    /** @type {any} what vega-embed returned */
    this.drawn = null;
    /** @type {Record<string, unknown>} values of the chart's own controls, by name */
    this.chosen = {};
    this.width = 0;
    this.visible = false;
    this.el = element("figure", { class: "workbench-card" });
    this.plot = element("div", { class: "workbench-card-plot" });
    this.line = element("div", { class: "workbench-card-line", hidden: true });
    this.el.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab has shortcuts of its own
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
    const actions = /** @type {[string, () => Promise<void>][]} */ ([
      ["Save as PNG", () => this.save("png")], ["Save as SVG", () => this.save("svg")],
      ["Copy Vega-Lite spec", () => this.copy()],
    ]);
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
      if (!menu.contains(/** @type {Node | null} */ (event.relatedTarget))) menu.open = false;
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
    else this.plot.tabIndex = 0; // it scrolls, also by arrows (charts.css)
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
    const { title: _, ...chart } = this.spec(); // the card has the title
    const spec = sized(chart, width);
    this.stale.clear();
    const made = await this.vega.embed(this.plot, spec, {
      actions: false, logLevel: 1, renderer: "canvas", defaultStyle: false, config: vegaConfig(this.look()),
      tooltip: { theme: "workbench", disableDefaultStyle: true, id: "workbench-chart-tooltip" },
    });
    if (this.figure !== figure) return made.finalize(); // it changed, or was removed, in the meantime
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
}

/** @param {Record<string, any> | undefined} spec */
function single(spec) {
  return spec !== undefined && ("layer" in spec || "mark" in spec);
}

/** @param {Record<string, any> | undefined} spec @returns {number} */
function heightOf(spec) {
  return spec?.height ?? HEIGHT;
}

/** The chart in a card so wide; one of several views keeps its own sizes.
 * @param {Record<string, any>} spec @param {number} width */
function sized(spec, width) {
  if (!single(spec)) return spec;
  return { ...spec, width, height: heightOf(spec), autosize: { type: "fit", contains: "padding" }, padding: 2 };
}
