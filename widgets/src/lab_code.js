// The lines of Python that the side panel writes, and where they run: in the active notebook, or in a tab of its own.

const PREFIX = "workbench-panel-";  // of the session of a tab; what follows says what it shows
const OURS = "rl-workbench-cpu";  // the kernel that the wheel brings: it has the workbench, and a view needs no GPU
export const describedBy = { args: { type: "object", properties: {} } };

/** @typedef {"run" | "sweep" | "compare" | "example"} Kind */

/** The Python for it. Names are letters, digits and . _ - alone: the server refuses others.
 * @param {Kind} kind @param {readonly string[]} names */
export function code(kind, names) {
  const quoted = names.map((name) => JSON.stringify(name)).join(", ");
  const lines = {
    run: `run = wb.attach(${quoted})\nrun`,
    sweep: `sweep = wb.attach_sweep(${quoted})\nsweep`,
    compare: `wb.compare([${quoted}])`,
    example: "run = wb.launch(\"CartPole-v1\")\nrun",
  };
  return `import workbench as wb\n\n${lines[kind]}`;
}

/** The path of the session of a tab. @param {Kind} kind @param {readonly string[]} names */
export function pathOf(kind, names) {
  return `${PREFIX}${kind}-${names.join("+")}`;
}

/** What the tab of that session shows; null: it is not one of ours. @param {string} path
 * @returns {{kind: Kind, names: string[]} | null} */
export function shownBy(path) {
  const match = /^workbench-panel-(run|sweep|compare)-([A-Za-z0-9._+-]+)$/.exec(path);
  return match && { kind: /** @type {Kind} */ (match[1]), names: match[2].split("+") };
}

/** Cells in notebooks. */
export class Notebooks {
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
}

/** A console follows the end of its output: what shows one output begins at its top, until somebody scrolls.
 * @param {HTMLElement} node */
function stayAtTop(node) {
  const scrolled = (/** @type {Event} */ { target }) => {
    const content = /** @type {HTMLElement} */ (target);
    if (content.classList?.contains("jp-CodeConsole-content") && content.scrollTop) content.scrollTop = 0;
  };
  node.addEventListener("scroll", scrolled, true);
  for (const touch of ["wheel", "pointerdown", "keydown", "touchmove"]) {
    node.addEventListener(touch, () => node.removeEventListener("scroll", scrolled, true), { capture: true, once: true });
  }
}

/** Panels in tabs of their own: consoles that show nothing but one output. The kernel ends with its tab, not the run. */
export class Tabs {
  /** @param {any} app @param {any} tracker of consoles @param {any} icon */
  constructor(app, tracker, icon) {
    this.app = app;
    this.tracker = tracker;
    this.icon = icon;
    tracker.widgetAdded.connect((/** @type {any} */ _, /** @type {any} */ panel) => this.adopt(panel));
    tracker.forEach((/** @type {any} */ panel) => this.adopt(panel));  // those that the page had before it was reloaded
  }

  /** Name of the kernel for what the panel opens; undefined: the server's default. */
  kernel() {
    const specs = this.app.serviceManager.kernelspecs.specs;
    return specs?.kernelspecs?.[OURS] ? OURS : specs?.default;
  }

  /** Opens the tab, or shows the one that is open. @param {Kind} kind @param {readonly string[]} names */
  async open(kind, names) {
    const path = pathOf(kind, names);
    const there = this.tracker.find((/** @type {any} */ panel) => panel.console.sessionContext.path === path);
    if (there) {
      this.app.shell.activateById(there.id);
      return;
    }
    await this.app.serviceManager.kernelspecs.ready;
    await this.app.commands.execute("console:create", {
      path, name: names.join(" and "), activate: true,
      kernelPreference: { name: this.kernel(), shutdownOnDispose: true, autoStartDefault: true },
    });
  }

  /** Makes a console that is one of ours a plain view, and fills it. @param {any} panel */
  adopt(panel) {
    const { path } = panel.console.sessionContext, shown = shownBy(path);
    if (!shown) return;
    panel.addClass("wb-tab");
    panel.disposed.connect(() => void this.end(path));  // whatever the application's settings say of kernels
    panel.title.icon = this.icon;
    panel.node.tabIndex = -1;
    panel.onActivateRequest = () => panel.node.focus();  // its prompt, which would take the focus, is not shown
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
      panel.title.icon = this.icon;  // the console has set its own meanwhile
      const ran = panel.console.inject(source);
      const output = new MutationObserver(() => {
        if (!panel.node.querySelector(".jp-OutputArea-output")) return;
        output.disconnect();
        notice.remove();
      });
      output.observe(panel.node, { childList: true, subtree: true });
      await ran;
    } catch (error) {
      notice.textContent = `The panel could not be shown: ${/** @type {any} */ (error)?.message ?? error}`;
    }
  }
}
