// A game to play by keys, with the agent's advice beside. Python is workbench/widgets/episodes/game_view.py.
//
// The page says which keys are held; the game's own process keeps the time. Each state comes with the newest picture.
import { ink } from "./canvas.js";
import { bytes } from "./columns.js";
import { Queue } from "./contact.js";
import { element } from "./elements.js";
import { caps, Held, nameOf } from "./keys.js";
import { add, clock, standing } from "./moments.js";
import { number } from "./numbers.js";
import { columnsOf, inWords, withNumbers } from "./policy.js";
import { Screen } from "./screen.js";
import { look, watchTheme } from "./theme.js";
import { Track } from "./track.js";

const HEARD_S = 10; // how often it says that it is looked at
const SILENCE_S = 4; // without news while time runs, it asks
const PULL_S = 0.1; // how often it asks where nothing comes unasked
const SLOW_S = 2; // to answer a key

/** @typedef {import("./moments.js").State} State */

/** The newest picture, for a screen that asks for one by its step. */
class Latest {
  /** @type {ImageBitmap | null} */
  picture = null;
  at() {
    return this.picture;
  }
  /** @param {ImageBitmap | null} picture */
  put(picture) {
    this.picture?.close();
    this.picture = picture;
  }
  close() {
    this.put(null);
  }
}

class Game {
  /**
   * @param {any} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.id = Math.random().toString(36).slice(2);
    this.track = new Track();
    this.latest = new Latest();
    this.held = new Held([]);
    /** @type {any} */
    this.header = null;
    /** @type {Screen | null} */
    this.screen = null;
    /** @type {State | null} */
    this.state = null;
    this.queue = new Queue(text => this.#say(text, true));
    this.closed = false;
    this.asked = 0; // when a key was sent that is not answered yet; 0: none
    this.heard = this.told = performance.now();
    this.drawing = 0;
    this.given = { scores: 0, none: /** @type {number | number[]} */ (-1), fps: 15 };
    this.cleanUp = () => {};
    const button = (/** @type {string} */ name, /** @type {string} */ text, /** @type {string} */ title) =>
      element("button", { type: "button", class: `wb-${name}`, title, "aria-label": title, onclick: () => this.#press(name) }, text);
    this.agent = button("agent", "Hand over", "let the agent play (Tab)");
    this.run = button("run", "Run", "let time run (Escape)");
    this.buttons = {
      advice: button("advice", "Take the advice", "one step as the agent would (Enter)"),
      restart: button("restart", "New episode", "begin another episode (Backspace); one that is not kept is dropped"),
      keep: button("keep", "Keep", "keep the episode as it is so far"),
    };
    this.speed = element("select", { class: "wb-speed", "aria-label": "speed", onchange: () => this.#pace() });
    this.turns = element("select", { class: "wb-turns", "aria-label": "time", onchange: () => this.#pace() },
      element("option", { value: "" }, "real time"), element("option", { value: "turns" }, "in turns"));
    this.who = element("output", { class: "wb-where" });
    this.stage = element("div", { class: "wb-stage", tabIndex: 0, role: "application", "aria-label": this.model.get("label") });
    this.legend = element("div", { class: "wb-legend" });
    this.note = element("div", { class: "wb-note", role: "status" }, "Waiting for the kernel …");
    this.root = element("div", { class: "wb-player wb-game", role: "group", "aria-label": this.model.get("label"), "data-lm-suppress-shortcuts": "true" },
      element("div", { class: "wb-controls", role: "toolbar", "aria-label": "playing" },
        this.agent, this.run, ...Object.values(this.buttons), this.turns, this.speed, this.who),
      this.stage, this.legend, this.note);
    this.root.addEventListener("keydown", event => event.stopPropagation()); // a notebook would take it for one of its own
    this.stage.addEventListener("keydown", event => this.#down(event));
    this.stage.addEventListener("keyup", event => this.#up(event));
    this.stage.addEventListener("blur", () => this.#left());
    this.stage.addEventListener("pointerdown", () => this.stage.focus());
    el.append(this.root);
    this.#listen();
  }

  #listen() {
    const receive = (/** @type {any} */ content, /** @type {any[]} */ buffers) => this.receive(content, buffers);
    this.model.on("msg:custom", receive);
    const resized = new ResizeObserver(() => this.draw());
    resized.observe(this.root);
    const unwatch = watchTheme(() => this.draw());
    const ask = setInterval(() => this.#ask(), PULL_S * 1000);
    this.cleanUp = () => {
      this.closed = true;
      this.model.off("msg:custom", receive);
      resized.disconnect();
      unwatch();
      clearInterval(ask);
      cancelAnimationFrame(this.drawing);
      this.latest.close();
    };
    this.#tell({ type: "hello", view: this.id });
  }

  /** @param {object} content */
  #tell(content) {
    this.told = performance.now();
    try {
      this.model.send(content);
    } catch {
      this.#say("The kernel has gone; an episode that was begun is kept.");
    }
  }

  /** Says now and then that somebody looks; asks where nothing came though time runs. */
  #ask() {
    if (document.hidden) return;
    const now = performance.now(), running = this.state?.running && !this.state.over;
    if (running && now - this.heard > (this.header?.pulled ? PULL_S : SILENCE_S) * 1000) {
      this.heard = now;
      this.#tell({ type: "pull" });
    } else if (now - this.told > HEARD_S * 1000) this.#tell({ type: "seen" });
  }

  // --- from the kernel ---------------------------------------------------------------------------------------------

  /**
   * @param {any} content
   * @param {any[]} buffers
   */
  receive(content, buffers) {
    if (content.view && content.view !== this.id) return; // an answer to another view of the same widget
    this.heard = performance.now();
    if (content.type === "problem") {
      this.asked = 0;
      this.#say(content.text, true);
    } else if (content.type === "moments") {
      this.queue.add(() => this.#arrived(content, buffers.map(bytes)));
    }
  }

  /**
   * @param {any} content
   * @param {ArrayBuffer[]} buffers  the newest picture
   */
  async #arrived({ states, mime, header }, [file]) {
    const picture = file?.byteLength ? await createImageBitmap(new Blob([file], { type: mime })).catch(() => null) : null;
    if (this.closed) return picture?.close();
    if (header) this.#begin(header);
    if (!this.header || !this.screen) return picture?.close();
    if (picture) this.latest.put(picture);
    for (const state of states) {
      add(this.track, state, this.given);
      if (state.advice) this.screen.header.kind = state.advice.kind;
    }
    this.screen.changed();
    this.asked = 0;
    this.#now(states.at(-1));
  }

  /** @param {any} header */
  #begin(header) {
    this.header = header;
    this.held = new Held(header.keys);
    const bars = header.groups.reduce((/** @type {number} */ all, /** @type {any} */ one) => all + one.names.length, 0);
    const parts = header.groups.reduce((/** @type {number} */ all, /** @type {any} */ one) => all + columnsOf(one), 0);
    const nothing = withNumbers(header.actions) ? NaN : -1;
    this.given = { scores: bars, none: header.actions === "categorical" ? nothing : Array(parts).fill(nothing), fps: header.fps };
    this.track = new Track();
    this.screen = new Screen(header, this.track, { seek: () => {}, redraw: () => this.draw() });
    this.screen.pictures = /** @type {any} */ (header.picture ? this.latest : null);
    this.stage.replaceChildren(this.screen.el);
    this.speed.replaceChildren(...header.speeds.map((/** @type {number} */ one) => element("option", { value: String(one), selected: one === 1 }, `${one}×`)));
    this.agent.disabled = this.buttons.advice.disabled = !header.agent;
    const key = (/** @type {string} */ keys, /** @type {string} */ words) =>
      element("span", {}, ...caps(keys).map(cap => element("kbd", {}, cap)), ` ${words}`);
    const own = Object.entries(header.reserved).filter(([name]) => header.agent || !["Tab", "Enter"].includes(name));
    this.legend.replaceChildren(...header.legend.map((/** @type {[string, string]} */ [keys, words]) => key(keys, words)),
      ...own.map(([name, words]) => key(name, String(words))));
    this.#say("");
  }

  /** @param {State} state */
  #now(state) {
    const before = this.state, perStep = this.header.frames_per_step;
    this.state = state;
    this.agent.textContent = state.playing === "agent" ? "Take over" : "Hand over";
    this.agent.setAttribute("aria-pressed", String(state.playing === "agent"));
    this.run.textContent = state.running ? "Pause" : "Run";
    this.run.disabled = Boolean(state.over) || (state.turns && state.playing === "person");
    this.turns.value = state.turns ? "turns" : "";
    this.who.textContent = clock(state, perStep);
    const speed = this.header.speeds.find((/** @type {number} */ one) => Math.abs(one * this.header.fps - state.rate) < 1e-6);
    if (speed) this.speed.value = String(speed);
    this.buttons.keep.disabled = !state.step;
    const kept = state.kept && (state.over || state.kept !== before?.kept) ? `Kept: wb.rollout("${state.kept}")` : "";
    if (state.over) this.#say(`The episode is over (${why(state)}) with a return of ${number(state.episode_return)}, by you ${state.by_person} of ${state.step} steps. ${kept} Backspace begins another one.`);
    else if (kept) this.#say(kept);
    else if (before && (before.step !== state.step || before.running !== state.running)) this.#say("");
    this.draw();
  }

  // --- keys and buttons --------------------------------------------------------------------------------------------

  /** @param {string} name  of a button */
  #press(name) {
    this.stage.focus(); // keys are for the game again
    if (name === "run") name = this.state?.running ? "pause" : "run";
    this.asked = performance.now();
    this.#tell({ type: "do", name });
  }

  #pace() {
    this.#tell({ type: "pace", speed: Number(this.speed.value), turns: this.turns.value === "turns" });
    this.stage.focus();
  }

  /** @param {KeyboardEvent} event */
  #down(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.state || (event.key === "Tab" && event.shiftKey)) return;
    const key = nameOf(event.key), own = /** @type {Record<string, string>} */ ({ Tab: "agent", Enter: "advice", Escape: "run", Backspace: "restart" })[key];
    if (own) {
      if (!this.header.agent && (own === "agent" || own === "advice")) return; // Tab leaves the picture, as elsewhere
      event.preventDefault();
      if (!event.repeat || (own === "advice" && this.#free())) this.#press(own);
    } else if (this.held.down(key)) {
      event.preventDefault();
      this.#played(event.repeat);
    }
  }

  /** A key of the game was pressed, or is repeated as it is held. @param {boolean} repeated */
  #played(repeated) {
    const { turns, over } = /** @type {State} */ (this.state), held = this.held.keys;
    if (over) {
      if (!repeated) this.#say(`The episode is over (${why(/** @type {State} */ (this.state))}). Backspace begins another one.`);
    } else if (!turns) {
      if (!repeated) this.#tell({ type: "keys", held, begin: true });
    } else if (!repeated || this.#free()) {
      this.asked = performance.now();
      this.#tell({ type: "press", held });
    }
  }

  /** Whether what was sent before is answered, so that a key that is held does nothing that has to wait. */
  #free() {
    return !this.asked || performance.now() - this.asked > SLOW_S * 1000;
  }

  /** @param {KeyboardEvent} event */
  #up(event) {
    if (this.held.up(nameOf(event.key)) && this.state && !this.state.turns) this.#tell({ type: "keys", held: this.held.keys });
  }

  /** The keys go elsewhere: nothing is held, and time that waits for a person stands. */
  #left() {
    if (!this.held.release() && !this.state?.running) return;
    if (!this.state?.turns) this.#tell({ type: "keys", held: [] });
    if (this.state?.running && this.state.playing === "person") this.#tell({ type: "do", name: "pause" });
  }

  // --- drawing -----------------------------------------------------------------------------------------------------

  /** Draw everything soon. */
  draw() {
    if (!this.drawing && !this.closed) this.drawing = requestAnimationFrame(() => this.#render());
  }

  #render() {
    this.drawing = 0;
    if (!this.screen || !this.state || !this.track.length || !this.root.isConnected) return;
    this.screen.show(this.track.length - 1, ink(look(this.root)), this.track.length);
    const { advice } = this.state, words = standing(this.state, number, this.header.frames_per_step);
    const said = advice ? ` · the agent would: ${inWords(this.screen.header, advice.scores, advice.action, number)}, value ${number(advice.value)}` : "";
    const before = this.state.action === null ? "" : ` · ${this.state.by === "person" ? "you" : "the agent"} did: ${inWords(this.screen.header, undefined, this.state.action, number)}`;
    this.screen.words.textContent = words + before + said;
  }

  /** @param {string} text @param {boolean} [problem] */
  #say(text, problem = false) {
    this.note.textContent = text;
    this.note.hidden = !text;
    this.note.className = `wb-note${problem ? " wb-error" : ""}`;
    this.note.setAttribute("role", problem ? "alert" : "status");
  }
}

/** Why an episode is over. @param {State} state */
function why({ over, failure }) {
  return failure ? `${over}: ${failure}` : over;
}

export default {
  /** @param {{model: any, el: HTMLElement}} given */
  render({ model, el }) {
    return new Game(model, el).cleanUp;
  },
};
