// The rollout player, and the live view of a watched environment. Python is player.py and watch_view.py of
// workbench/widgets/episodes.
//
// One episode comes in one message and is played here, whatever the kernel does meanwhile. A live view gets the newest
// steps about twice a second and plays them a little later, at the speed at which they happened.
import { ink } from "./canvas.js";
import { bytes, inflated, rows } from "./columns.js";
import { Contact, Queue } from "./contact.js";
import { commandOf, controls } from "./controls.js";
import { element, setText } from "./elements.js";
import { Screen } from "./screen.js";
import { look, watchTheme } from "./theme.js";
import { factor, follow, frameAt, gapOf, nextReward, rate } from "./timeline.js";
import { Track } from "./track.js";
import { WhatIf } from "./whatif.js";

const LONGEST_JUMP_S = 0.25; // of the clock between two pictures: a page that was hidden goes on where it was
const SLOW_S = 2; // to answer a request

/** @typedef {import("./controls.js").Command} Command */

class Player {
  /**
   * @param {any} model
   * @param {HTMLElement} el
   */
  constructor(model, el) {
    this.model = model;
    this.live = model.get("mode") === "live";
    this.id = Math.random().toString(36).slice(2);
    /** @type {Screen[]} */
    this.screens = [];
    this.clock = { at: 0, playing: this.live, following: this.live, speed: "1" };
    /** @type {number[]} */
    this.arrivals = [];
    this.queue = new Queue(text => this.#say(text));
    this.closed = this.over = false;
    this.contact = new Contact(model, this.id, text => this.#say(text));
    this.drawing = 0;
    this.drawn = ""; // the steps on the screens; "": draw anew
    this.then = 0;
    this.slow = 0;
    this.controls = controls({
      command: name => this.command(name), seek: index => this.seek(index),
      speed: choice => this.#set({ speed: choice, ...(choice === "1" ? {} : { following: false }) }),
      overlay: (on, opacity) => this.screens.forEach(screen => void screen.overlaid(on, opacity)),
    }, this.live);
    this.tracks = element("div", { class: "wb-tracks" });
    this.whatif = model.get("mode") !== "rollouts" ? null : new WhatIf({ // another future needs a kernel
      tell: content => this.contact.tell({ ...content, view: this.id }), redraw: () => this.draw(),
    });
    this.note = element("div", { class: "wb-note", role: "status" }, "Waiting for the kernel …");
    this.root = element("div", { class: "wb-player", tabIndex: 0, role: "group", "aria-label": model.get("label"), "data-lm-suppress-shortcuts": "true" },
      this.tracks, this.controls.scrub, this.controls.el, this.note, ...(this.whatif ? [this.whatif.el] : []));
    this.root.addEventListener("keydown", event => this.#key(event));
    el.append(this.root);
    this.#listen();
    this.#set({});
  }

  #listen() {
    const receive = (/** @type {any} */ content, /** @type {any[]} */ buffers) => this.receive(content, buffers);
    this.model.on("msg:custom", receive);
    const resized = new ResizeObserver(() => this.draw());
    resized.observe(this.root);
    const unwatch = watchTheme(() => this.draw());
    const ask = this.live ? setInterval(() => this.contact.ask(this.over), 1000) : 0;
    this.cleanUp = () => {
      this.closed = true;
      this.model.off("msg:custom", receive);
      resized.disconnect();
      unwatch();
      clearInterval(ask);
      clearTimeout(this.slow);
      cancelAnimationFrame(this.drawing);
      this.whatif?.close();
      this.screens.forEach(screen => screen.close());
    };
    this.contact.tell({ type: "hello", view: this.id });
  }

  /**
   * @param {any} content
   * @param {any[]} buffers
   */
  receive(content, buffers) {
    if (content.view && content.view !== this.id) return; // an answer to another view of the same widget
    if (content.type === "episode") this.queue.add(() => this.#episode(content, buffers.map(bytes)));
    else if (content.type === "live") this.queue.add(() => this.#arrived(content, buffers.map(bytes)));
    else if (content.type === "saved") this.#saved(content);
    else if (content.type === "looked") this.#looked(content, bytes(buffers[0]));
    else if (content.type === "futures") this.whatif?.among(content.options, content.chosen);
    else if (content.type === "branched") this.queue.add(() => this.#branched(content));
  }

  /** @param {any} content @param {ArrayBuffer} data */
  #looked({ index, step, shape, entries }, data) {
    const values = shape.length === 3 ? new Uint8Array(data) : new Float32Array(data);
    this.whatif?.looked({ index, step, shape, entries, values });
  }

  /** A branch was played, or not: what is said of it, and where to look. @param {{text: string, error: boolean, at?: number}} content */
  #branched({ text, error, at }) {
    this.whatif?.say(text, error);
    if (at !== undefined) this.seek(at);
  }

  /**
   * @param {any} content
   * @param {ArrayBuffer[]} buffers  columns and saliency, compressed, with the pictures between them
   */
  async #episode({ index, count, header, columns }, [packed, pictures, saliency]) {
    const track = new Track(), unpacked = await inflated(packed);
    if (this.closed) return;
    track.append({ life: "", first: 0 }, rows(columns, unpacked));
    const screen = new Screen(header, track, {
      pictures, saliency, seek: step => this.seek(step), redraw: () => this.draw(),
    });
    screen.el.append(this.#saveButtons(index));
    this.screens[index]?.close();
    this.screens[index] = screen;
    this.screens.splice(count).forEach(other => other?.close());
    this.#pair();
    this.tracks.replaceChildren(...this.screens.filter(Boolean).map(one => one.el));
    this.controls.saliency.hidden = !this.screens.some(one => one?.header.saliency);
    if (this.screens.filter(Boolean).length === count) this.#say("");
    this.draw();
  }

  /** Two futures of one episode are drawn over each other from where they part. */
  #pair() {
    const [one, other] = this.screens, branch = other?.header.branch;
    const futures = one && other && branch && branch.parent === one.header.key;
    one?.beside(futures ? { track: other.track, at: branch.at } : null);
    other?.beside(futures ? { track: one.track, at: branch.at } : null);
  }

  /**
   * New steps of the watched environment, in one or several chunks.
   * @param {any} content
   * @param {ArrayBuffer[]} buffers
   */
  async #arrived({ header, chunks, note, over }, buffers) {
    this.contact.hear();
    this.over = over;
    if (!header) return this.#say(note || "Waiting for the first step …");
    if (!this.screens[0]) {
      this.screens[0] = new Screen(header, new Track(), { seek: step => this.seek(step), redraw: () => this.draw() });
      this.tracks.replaceChildren(this.screens[0].el);
    }
    const [screen] = this.screens, { track } = screen;
    for (const [at, chunk] of chunks.entries()) {
      const before = track.life;
      const unpacked = await inflated(buffers[at]);
      if (this.closed) return;
      track.append(chunk, rows(chunk.columns, unpacked));
      screen.header.kind = chunk.kind;
      if (track.life !== before) this.clock.at = track.times[0];
    }
    if (chunks.length) {
      this.arrivals = [...this.arrivals, performance.now() / 1000].slice(-8);
      screen.changed();
    }
    this.#say(note);
    this.draw();
  }

  /** The track that ends last: steps, the scrub bar and jumps are those of this one. */
  get longest() {
    const tracks = this.screens.filter(Boolean).map(screen => screen.track);
    return tracks.reduce((one, other) => (other.times.at(-1) > one.times.at(-1) ? other : one), tracks[0] ?? new Track());
  }

  get index() {
    return frameAt(this.longest.times, this.clock.at);
  }

  /** @param {Command} name */
  command(name) {
    const track = this.longest, last = track.length - 1;
    if (!track.length) return;
    if (name === "play") return this.#play();
    if (name === "live") return this.#set({ playing: true, following: true, speed: "1" });
    const places = {
      back: this.index - 1, forward: this.index + 1, first: 0, last,
      reward: this.#reward(1) ?? this.index, before: this.#reward(-1) ?? this.index,
    };
    this.seek(Math.max(0, Math.min(last, places[name])));
    if ((name === "reward" || name === "before") && this.#reward(name === "reward" ? 1 : -1) === null) {
      this.#say(name === "reward" ? "No reward after this step." : "No reward before this step.");
    }
  }

  /** @param {1 | -1} direction */
  #reward(direction) {
    const { times } = this.longest;
    const found = this.screens.filter(Boolean).map(({ track }) => {
      const at = nextReward(track.columns.reward, frameAt(track.times, this.clock.at), direction);
      return at === null ? null : frameAt(times, track.times[at]);
    }).filter(at => at !== null);
    return found.length ? (direction > 0 ? Math.min(...found) : Math.max(...found)) : null;
  }

  #play() {
    const atEnd = !this.live && this.index === this.longest.length - 1;
    if (!this.clock.playing && atEnd) this.clock.at = this.longest.times[0];
    this.#set({ playing: !this.clock.playing, following: false });
  }

  /** @param {number} index */
  seek(index) {
    const { times } = this.longest;
    if (!times.length) return;
    if (!this.live) this.#say("");
    this.#set({ at: times[Math.min(index, times.length - 1)], playing: false, following: false });
  }

  /** @param {Partial<Player["clock"]>} changes */
  #set(changes) {
    Object.assign(this.clock, changes);
    this.controls.choice.value = this.clock.speed;
    this.controls.label(this.clock.playing);
    this.controls.live?.setAttribute("aria-pressed", String(this.clock.following));
    this.then = performance.now();
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    event.stopPropagation(); // a notebook would take it for one of its own
    const command = commandOf(event);
    if (!command) return;
    event.preventDefault();
    this.command(command);
  }

  /** Draw everything soon. */
  draw() {
    this.drawn = "";
    this.#soon();
  }

  #soon() {
    if (!this.drawing && !this.closed) this.drawing = requestAnimationFrame(now => this.#turn(now));
  }

  /** @param {number} now */
  #turn(now) {
    this.drawing = 0;
    const passed = Math.max(0, Math.min(LONGEST_JUMP_S, (now - this.then) / 1000));
    this.then = now;
    if (this.clock.playing) this.#advance(passed);
    const shown = this.screens.map(({ track }) => track.first + frameAt(track.times, this.clock.at)).join();
    if (shown !== this.drawn) this.#render();
    this.drawn = shown;
    if (this.clock.playing) this.#soon();
  }

  /** @param {number} passed  seconds */
  #advance(passed) {
    const { times } = this.longest;
    if (!times.length) return;
    const oldest = times[0], newest = times[times.length - 1], { clock } = this;
    if (this.over && clock.at >= newest) return this.#set({ playing: false, following: false });
    if (clock.following) {
      const arrived = performance.now() / 1000 - (this.arrivals.at(-1) ?? 0);
      clock.at = follow({ at: clock.at, passed, oldest, newest, arrived, gap: gapOf(this.arrivals) });
      return;
    }
    clock.at += passed * factor(clock.speed, this.live ? rate(times) : this.screens.find(Boolean)?.header.fps ?? 15);
    if (this.live) {
      if (clock.at < oldest) clock.at = Math.max(oldest, newest - 2); // slower than life: what was forgotten is left out
      clock.at = Math.min(clock.at, newest);
    } else if (clock.at >= newest) {
      this.#set({ at: newest, playing: false });
    }
  }

  #render() {
    const track = this.longest, { length } = track;
    if (!length || !this.root.isConnected) return;
    const colours = ink(look(this.root)), at = this.index, screens = this.screens.filter(Boolean);
    const steps = screens.map(screen => frameAt(screen.track.times, this.clock.at));
    screens.forEach((screen, which) => screen.show(steps[which], colours, this.live ? screen.track.length : length));
    this.whatif?.show(screens, steps, this.clock.playing);
    const { scrub, where } = this.controls, seconds = (track.times[at] - track.times[0]).toFixed(1);
    scrub.max = String(length - 1);
    scrub.value = String(at);
    const words = this.live ? `step ${track.columns.episode_step[at]} of its episode`
      : `step ${at} of ${length - 1}, ${seconds} s`;
    setText(where, words);
    scrub.setAttribute("aria-valuetext", words);
  }

  /** @param {number} index  of the rollout */
  #saveButtons(index) {
    const told = element("span", { class: "wb-saved", role: "status" });
    const overlay = () => this.screens[index].overlay.on;
    const button = (/** @type {string} */ format) => element("button", {
      type: "button", class: `wb-save-${format}`, title: `write an ${format} file into the notebook's folder`,
      onclick: () => this.#save({ index, format, overlay: overlay() }, told),
    }, `Save ${format}`);
    return element("div", { class: "wb-saves" }, button("mp4"), button("gif"), told);
  }

  /**
   * @param {{index: number, format: string, overlay: boolean}} what
   * @param {HTMLElement} told
   */
  #save(what, told) {
    told.className = "wb-saved";
    told.textContent = `writing the ${what.format} …`;
    clearTimeout(this.slow);
    this.slow = window.setTimeout(() => {
      told.textContent = `the kernel is busy; the ${what.format} is written as soon as it is free …`;
    }, SLOW_S * 1000);
    if (this.contact.tell({ type: "save", view: this.id, ...what })) return;
    this.#saved({ index: what.index, text: "not saved: the kernel has gone", error: true });
  }

  /** @param {{index: number, text: string, error: boolean}} content */
  #saved({ index, text, error }) {
    clearTimeout(this.slow);
    const told = this.screens[index]?.el.querySelector(".wb-saved");
    if (!told) return;
    told.textContent = text;
    told.className = `wb-saved${error ? " wb-error" : ""}`;
    told.setAttribute("role", error ? "alert" : "status");
  }

  /** @param {string} text */
  #say(text) {
    setText(this.note, text);
    this.note.hidden = !text;
  }
}

export default {
  /** @param {{model: any, el: HTMLElement}} given */
  render({ model, el }) {
    return new Player(model, el).cleanUp;
  },
};
