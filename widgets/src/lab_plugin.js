// What the side panel is to JupyterLab: a widget in its sidebar with a badge, a command, and tabs of their own.
import { code, describedBy, Notebooks, Tabs } from "./lab_code.js";
import { News } from "./lab_news.js";
import { SidePanel } from "./lab_panel.js";
import { ICON } from "./lab_icon.js";
import styles from "./lab.css";

const ID = "rl-workbench:side-panel", SHOW = "workbench:show-runs";
const SEEN_MS = 2000, UNSEEN_MS = 5000, AWAY_MS = 10000, LOST_MS = 15000;

/** The plugin. @param {(name: string) => Promise<any>} library */
export async function plugin(library) {
  const [apputils, notebook, consoles, widgets, icons, services] = await Promise.all([
    "@jupyterlab/apputils", "@jupyterlab/notebook", "@jupyterlab/console", "@lumino/widgets",
    "@jupyterlab/ui-components", "@jupyterlab/services",
  ].map(library));
  return {
    id: ID,
    autoStart: true,
    optional: [notebook.INotebookTracker, consoles.IConsoleTracker, apputils.ICommandPalette],
    /** @param {any} app @param {any} notebooks @param {any} tracker @param {any} palette */
    activate(app, notebooks, tracker, palette) {
      if (app.name !== "JupyterLab" || !notebooks || !tracker) return;  // Notebook 7 loads it, too, and has no sidebar
      const libraries = { notebook, widgets, icons, services };
      start(app, { notebooks, tracker, palette }, libraries);
    },
  };
}

/** @param {any} app @param {{notebooks: any, tracker: any, palette: any}} tokens
 * @param {{notebook: any, widgets: any, icons: any, services: any}} libraries */
function start(app, { notebooks, tracker, palette }, { notebook, widgets, icons, services }) {
  document.head.append(Object.assign(document.createElement("style"), { textContent: styles }));
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
    },
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
  widget.processMessage = (/** @type {any} */ message) => {  // as a class that extends Widget would
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
    label: "RL Workbench: Show Runs", caption: "The runs and sweeps of this machine", icon, execute: show,
    describedBy,
  });
  palette?.addItem({ command: SHOW, category: "RL Workbench" });
  void app.restored.then(() => poll.now());
}

/** The number of unread news on the sidebar's icon. @param {any} widget @param {number} count @param {boolean} bad */
function badge(widget, count, bad) {
  const { "wb-news": _, "wb-bad": __, ...others } = widget.title.dataset;  // JupyterLab keeps the tab's id there
  widget.title.dataset = count ? { ...others, "wb-news": String(count), "wb-bad": String(bad) } : others;
  const noun = count === 1 ? "piece" : "pieces";
  widget.title.caption = `RL Workbench: runs and sweeps${count ? ` (${count} ${noun} of news)` : ""}`;
}

/** Our addresses on the Jupyter server, by the application's own connection: logged in, and with its XSRF token. */
class Server {
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
        `${this.settings.baseUrl}workbench/api/${path}`, { method, cache: "no-store" }, this.settings);
    } catch {
      throw new Error("The Jupyter server does not answer.");
    }
    if (response.status === 404 && path === "overview") {
      throw new Error("The Jupyter server does not know its half of this panel. Enable it, and start the server again: "
        + "jupyter server extension enable workbench.widgets.side_panel");
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(String(answer.message ?? `The server answers ${response.status}.`));
    return answer;
  }
}

/** Does something again and again: one at a time, and less often where nobody looks or nothing answers. */
class Poll {
  /** @param {() => Promise<void>} work @param {(error: Error) => void} failed @param {() => number} period */
  constructor(work, failed, period) {
    this.work = work;
    this.failed = failed;
    this.period = period;
    this.busy = false;
    this.again = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
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
      this.failed(/** @type {Error} */ (error));
      wait = LOST_MS;
    }
    this.busy = false;
    this.timer = setTimeout(() => void this.now(), this.again ? 0 : wait);
  }
}
