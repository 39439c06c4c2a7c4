// "What if …": another action, or another observation, at the step that is shown. Python is
// workbench/widgets/episodes/what_if.py, which plays the branch; here are the fields, and how it stands.
import { element } from "./elements.js";
import { asPicture } from "./frames.js";
import { number } from "./numbers.js";
import { columnsOf, inWords } from "./policy.js";

const SETTLE_MS = 250; // a step is looked at so long before its observation is asked for
const LARGEST_PX = 252; // of the picture that is edited
const MOST_STEPS = 1000;

/** @typedef {import("./screen.js").Screen} Screen */
/** @typedef {{index: number, step: number, shape: number[], entries: string[], values: ArrayLike<number>}} Seen */
/** @typedef {{key: string, text: string}} Future */

/** A label with its field. @param {string} text @param {Node} field */
const labelled = (text, field) => element("label", {}, `${text} `, field);

/** @param {string} name  for screen readers @param {Record<string, any>} more */
const numberField = (name, more) => element("input", { type: "number", "aria-label": name, ...more });

export class WhatIf {
  /**
   * @param {object} on
   * @param {(content: object) => boolean} on.tell  whether it could be sent
   * @param {() => void} on.redraw
   */
  constructor({ tell, redraw }) {
    this.tell = tell;
    this.redraw = redraw;
    /** @type {Screen[]} */
    this.screens = [];
    /** @type {number[]} */
    this.steps = [];
    this.shown = ""; // which step of which episode the fields are for
    /** @type {Seen | null} */
    this.seen = null;
    /** @type {Map<number, number>} */
    this.numbers = new Map(); // that were changed
    /** @type {Record<"left" | "top" | "width" | "height" | "shade", HTMLInputElement> | null} */
    this.box = null; // its fields, where a picture is edited
    this.busy = false;
    this.since = this.settling = this.ticking = 0;
    this.which = element("select", { class: "wb-which", onchange: () => this.redraw() });
    this.at = element("div", { class: "wb-at" });
    this.force = element("input", { type: "checkbox", class: "wb-force" });
    this.actions = element("span", { class: "wb-fields" });
    this.repeat = numberField("for how many steps the action is taken", { class: "wb-repeat", min: "1", max: String(MOST_STEPS), value: "1" });
    this.edit = element("input", { type: "checkbox", class: "wb-edit" });
    this.sight = element("div", { class: "wb-fields wb-sight" });
    this.hold = numberField("for how many steps the observation is edited", { class: "wb-hold", min: "1", max: String(MOST_STEPS), value: "1" });
    this.canvas = element("canvas", { class: "wb-seen", role: "img", "aria-label": "what the policy sees at this step" });
    this.go = element("button", { type: "button", class: "wb-branch", onclick: () => this.#branch() }, "Play this future");
    this.told = element("span", { class: "wb-told", role: "status" });
    this.futures = element("select", { class: "wb-futures", onchange: () => this.#choose() });
    this.which.hidden = true;
    this.whichLabel = labelled("Of", this.which);
    this.futuresLabel = labelled("Futures", this.futures);
    this.whichLabel.hidden = this.futuresLabel.hidden = true;
    this.form = element("div", {},
      element("div", { class: "wb-row" }, this.whichLabel, this.at),
      element("fieldset", {}, element("legend", {}, ticked(this.force, "take another action")),
        element("div", { class: "wb-row" }, this.actions, element("label", {}, "for ", this.repeat, " steps"))),
      element("fieldset", {}, element("legend", {}, ticked(this.edit, "let the policy see something else")),
        this.sight, element("label", {}, "for ", this.hold, " steps")),
      element("div", { class: "wb-row" }, this.go, this.told));
    this.reason = element("div", { class: "wb-reason", hidden: true });
    this.el = element("details", { class: "wb-whatif", ontoggle: () => this.#toggled() },
      element("summary", {}, "What if …"), this.reason, this.form, element("div", { class: "wb-row" }, this.futuresLabel));
    this.canvas.onpointerdown = event => this.#drag(event);
  }

  get index() {
    return Math.min(Number(this.which.value) || 0, this.screens.length - 1);
  }

  #toggled() {
    this.shown = "";
    this.redraw();
  }

  /**
   * Show the fields of the step that each screen shows.
   * @param {Screen[]} screens
   * @param {number[]} steps
   * @param {boolean} playing
   */
  show(screens, steps, playing) {
    if (screens.length !== this.screens.length || screens.some((one, at) => one !== this.screens[at])) this.#among(screens);
    [this.screens, this.steps] = [screens, steps];
    const screen = screens[this.index];
    if (!this.el.open || !screen || playing) return;
    const step = steps[this.index], now = `${this.index} ${screen.header.key} ${step}`;
    if (now === this.shown) return;
    this.shown = now;
    const { why } = screen.header;
    this.reason.hidden = !why;
    this.reason.textContent = why ?? "";
    this.form.hidden = Boolean(why);
    if (!why) this.#stepped(screen, step);
  }

  /** @param {Screen[]} screens */
  #among(screens) {
    const before = this.index;
    const branched = screens.some(one => one.header.branch), places = ["first", "second"];
    this.which.replaceChildren(...screens.map(({ header: { branch } }, at) => element("option", { value: String(at) },
      branch ? `the branch at step ${branch.at}` : branched ? "the recorded episode" : `the ${places[at]} episode`)));
    this.which.value = String(before < screens.length ? Math.max(0, before) : 0);
    this.whichLabel.hidden = this.which.hidden = screens.length < 2;
    this.shown = "";
    if (this.seen) this.seen = { ...this.seen, step: NaN }; // it may be another episode's: no step is that one
  }

  /** @param {Screen} screen @param {number} step */
  #stepped(screen, step) {
    const { scores, action, value } = screen.track.columns, { header } = screen;
    const chosen = inWords(header, scores[step], action[step], number);
    const last = step >= screen.track.length - 1;
    this.go.disabled = this.busy || last;
    this.at.textContent = last ? "No action is taken at the last step: go to an earlier one."
      : `At step ${step} the policy did ${chosen}${Number.isFinite(value[step]) ? `, value ${number(value[step])}` : ""}.`;
    if (!this.force.checked || !this.actions.children.length) this.#actionFields(header, action[step]);
    if (this.seen?.index !== this.index || this.seen.step !== step) this.#ask(step);
  }

  // --- another action -------------------------------------------------------------------------------------------

  /** @param {import("./screen.js").Header} header @param {any} action  that was taken */
  #actionFields({ groups }, action) {
    const parts = typeof action === "number" ? [action] : Array.from(action ?? []);
    const changed = () => void (this.force.checked = true);
    const choice = (/** @type {string} */ name, /** @type {string[]} */ options, /** @type {number} */ taken) => {
      const field = element("select", { class: "wb-action", "aria-label": name, onchange: changed },
        ...options.map((text, at) => element("option", { value: String(at) }, text)));
      field.value = String(Math.max(0, taken));
      return field;
    };
    let column = 0;
    const fields = groups.flatMap(group => {
      const { title, names } = group, own = parts.slice(column, column += columnsOf(group));
      if (group.kind === "choice") return title ? labelled(title, choice(title, names, own[0])) : choice("action", names, own[0]);
      return names.map((name, at) => {
        const words = title ? `${title}, ${name}` : name;
        return labelled(words, group.kind === "switches" ? choice(words, ["off", "on"], own[at]) : numberField(words, {
          class: "wb-action", min: "-1", max: "1", step: "any", value: String(own[at]), oninput: changed,
        }));
      });
    });
    this.actions.replaceChildren(...fields);
  }

  /** The action in the fields, as often as it is asked for; null: the policy's own. */
  get action() {
    if (!this.force.checked) return null;
    const fields = /** @type {any[]} */ ([...this.actions.querySelectorAll(".wb-action")]);
    const parts = fields.map(field => Number(field.value));
    const one = this.screens[this.index].header.actions === "categorical" ? parts[0] : parts;
    return Array(Math.max(1, Math.min(MOST_STEPS, Number(this.repeat.value) || 1))).fill(one);
  }

  // --- another observation --------------------------------------------------------------------------------------

  /** Ask what the policy saw, once the step is looked at. @param {number} step */
  #ask(step) {
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.tell({ type: "look", index: this.index, step }), SETTLE_MS);
  }

  /** What it saw. @param {Seen} seen */
  looked(seen) {
    const kind = this.seen && [...this.seen.shape, this.seen.entries.length].join();
    this.seen = seen;
    if (kind !== [...seen.shape, seen.entries.length].join()) {
      this.numbers.clear();
      this.edit.checked = false;
      this.box = null;
    }
    if (seen.shape.length === 3) this.#picture(seen);
    else this.#vector(seen);
  }

  /** @param {Seen} seen */
  #vector({ entries, values }) {
    this.sight.replaceChildren(...entries.map((name, at) => {
      const field = numberField(name, { class: "wb-number", step: "any", value: String(this.numbers.get(at) ?? short(values[at])) });
      field.oninput = () => {
        if (field.value === "") this.numbers.delete(at);
        else this.numbers.set(at, Number(field.value));
        this.edit.checked = this.numbers.size > 0;
      };
      return labelled(name, field);
    }));
  }

  /** @param {Seen} seen */
  #picture({ shape }) {
    const [, height, width] = shape;
    if (!this.box) {
      const field = (/** @type {string} */ name, /** @type {number} */ value, /** @type {number} */ most) => numberField(name, {
        class: "wb-box", min: "0", max: String(most), value: String(value), oninput: () => this.#boxed(),
      });
      this.box = {
        left: field("left edge in pixels", Math.round(width / 3), width - 1), top: field("top edge in pixels", Math.round(height / 3), height - 1),
        width: field("width in pixels", Math.round(width / 3), width), height: field("height in pixels", Math.round(height / 3), height),
        shade: field("shade, 0 is black and 255 is white", 128, 255),
      };
      this.sight.replaceChildren(this.canvas, element("div", { class: "wb-boxes" },
        element("div", {}, "A rectangle of what the policy sees, in one shade: drag it on the picture, or type it."),
        ...Object.entries(this.box).map(([name, one]) => labelled(name, one))));
    }
    this.#drawSeen();
  }

  #boxed() {
    this.edit.checked = true;
    this.#drawSeen();
  }

  #drawSeen() {
    if (!this.seen || !this.box) return;
    const { shape, values } = this.seen, [, height, width] = shape, scale = Math.max(1, Math.floor(LARGEST_PX / Math.max(width, height)));
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    Object.assign(this.canvas.style, { width: `${width * scale}px`, height: `${height * scale}px` });
    const context = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
    context.putImageData(asPicture(values, shape), 0, 0);
    if (!this.edit.checked) return;
    const [left, top, across, down] = this.occluded, shade = Number(this.box.shade.value);
    context.fillStyle = `rgb(${shade},${shade},${shade})`;
    context.fillRect(left, top, across, down);
  }

  /** Left, top, width and height of the rectangle. */
  get occluded() {
    const { left, top, width, height } = /** @type {Record<string, HTMLInputElement>} */ (this.box);
    return [left, top, width, height].map(one => Math.round(Number(one.value)) || 0);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (!this.box || !this.seen) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    const [, height, width] = this.seen.shape, { box } = this;
    const place = (/** @type {PointerEvent} */ now) => {
      const { left, top, width: across, height: down } = this.canvas.getBoundingClientRect();
      return [bounded((now.clientX - left) / across * width, width - 1), bounded((now.clientY - top) / down * height, height - 1)];
    };
    const from = place(event);
    this.canvas.onpointermove = now => {
      const to = place(now);
      const [left, top] = [0, 1].map(axis => Math.min(from[axis], to[axis]));
      const [across, down] = [0, 1].map(axis => Math.abs(from[axis] - to[axis]) + 1);
      Object.entries({ left, top, width: across, height: down }).forEach(([name, value]) => {
        box[/** @type {"left"} */ (name)].value = String(value);
      });
      this.#boxed();
    };
    this.canvas.onpointerup = this.canvas.onpointercancel = () => void (this.canvas.onpointermove = null);
  }

  /** What the policy is to see; null: what there is. */
  get observation() {
    if (!this.edit.checked || !this.seen) return null;
    if (this.box) return { occlude: this.occluded, shade: Number(this.box.shade.value) };
    return Object.fromEntries(this.numbers);
  }

  // --- the branch -----------------------------------------------------------------------------------------------

  #branch() {
    const { index } = this, step = this.steps[index], { action, observation } = this;
    if (!action && !observation) return this.say("Choose another action, or another observation, first.", true);
    const hold = Math.max(1, Math.min(MOST_STEPS, Number(this.hold.value) || 1));
    this.#wait(`playing to step ${step}, and from there the other future`);
    if (!this.tell({ type: "branch", index, step, action, observation, hold })) this.say("no branch: the kernel has gone", true);
  }

  /** @param {string} words */
  #wait(words) {
    this.busy = this.go.disabled = true;
    this.el.setAttribute("aria-busy", "true");
    this.since = performance.now();
    this.#tell(`${words} …`, false);
    clearInterval(this.ticking);
    this.ticking = window.setInterval(() => {
      this.#tell(`${words} … ${Math.round((performance.now() - this.since) / 1000)} s`, false);
    }, 1000);
  }

  /** How it ended. @param {string} text @param {boolean} error */
  say(text, error) {
    clearInterval(this.ticking);
    this.busy = this.go.disabled = false;
    this.el.setAttribute("aria-busy", "false");
    this.shown = ""; // the button is disabled anew where it must be
    this.#tell(text, error);
    this.redraw();
  }

  /** @param {string} text @param {boolean} error */
  #tell(text, error) {
    this.told.textContent = text;
    this.told.className = `wb-told${error ? " wb-error" : ""}`;
    this.told.setAttribute("role", error ? "alert" : "status");
  }

  /** The branches that there are. @param {Future[]} options @param {string} chosen */
  among(options, chosen) {
    this.futuresLabel.hidden = options.length < 2;
    this.futures.replaceChildren(...options.map(({ key, text }) => element("option", { value: key }, text)));
    this.futures.value = chosen;
  }

  #choose() {
    if (!this.tell({ type: "choose", name: this.futures.value })) this.say("the kernel has gone", true);
  }

  close() {
    clearInterval(this.ticking);
    clearTimeout(this.settling);
  }
}

/** A field before its label. @param {Node} field @param {string} text */
function ticked(field, text) {
  return element("label", {}, field, ` ${text}`);
}

/** @param {number} value @param {number} most */
const bounded = (value, most) => Math.max(0, Math.min(most, Math.floor(value)));

/** A number with as many digits as a field has room for. @param {number} value */
const short = value => Number(value.toPrecision(5));
