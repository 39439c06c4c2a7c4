// The row of buttons below the screens, and the keys.
import { element } from "./elements.js";
import { SPEEDS } from "./timeline.js";

/** @typedef {"play" | "back" | "forward" | "first" | "last" | "reward" | "before" | "live"} Command */

/** @type {Record<string, Command>} */
const KEYS = {
  " ": "play", k: "play", ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", n: "reward", p: "before",
};
const HELP = "Keys: space plays and pauses, arrows step, Home and End go to the ends, n and p to rewards.";

/**
 * @param {object} on
 * @param {(command: Command) => void} on.command
 * @param {(index: number) => void} on.seek
 * @param {(choice: string) => void} on.speed
 * @param {(on: boolean, opacity: number) => void} on.overlay
 * @param {boolean} live
 */
export function controls({ command, seek, speed, overlay }, live) {
  const button = (/** @type {Command} */ name, /** @type {string} */ text, /** @type {string} */ title) =>
    element("button", { type: "button", class: `wb-${name}`, title, "aria-label": title, onclick: () => command(name) }, text);
  const scrub = element("input", {
    type: "range", class: "wb-scrub", min: "0", max: "0", value: "0", "aria-label": "step",
    oninput: () => seek(Number(scrub.value)),
  });
  const play = button("play", "Play", "play (space)");
  const where = element("output", { class: "wb-where" });
  const choice = element("select", { class: "wb-speed", "aria-label": "speed", onchange: () => speed(choice.value) },
    ...SPEEDS.map(one => element("option", { value: one, selected: one === "1" }, one === "max" ? "fastest" : `${one}×`)));
  const opacity = element("input", { type: "range", class: "wb-opacity", min: "0.1", max: "1", step: "0.05", value: "0.7", "aria-label": "opacity of the saliency" });
  const on = element("input", { type: "checkbox", class: "wb-overlay" });
  on.onchange = opacity.oninput = () => overlay(on.checked, Number(opacity.value));
  const saliency = element("span", { class: "wb-saliency", hidden: true }, element("label", {}, on, " saliency"), opacity);
  const el = element("div", { class: "wb-controls", role: "toolbar", "aria-label": "playing", title: HELP },
    play, button("back", "‹ step", "one step back (left arrow)"), button("forward", "step ›", "one step forward (right arrow)"),
    button("before", "‹ reward", "to the reward before (p)"), button("reward", "reward ›", "to the next reward (n)"),
    ...(live ? [button("live", "Live", "follow what happens now")] : []),
    choice, saliency, where);
  const label = (/** @type {boolean} */ playing) => {
    play.textContent = playing ? "Pause" : "Play";
    play.setAttribute("aria-label", playing ? "pause (space)" : "play (space)");
  };
  return { el, scrub, play, where, saliency, choice, label, live: /** @type {HTMLButtonElement | null} */ (el.querySelector(".wb-live")) };
}

/**
 * The command of a key press, or null where the key belongs to what has the focus.
 * @param {KeyboardEvent} event
 * @returns {Command | null}
 */
export function commandOf(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const target = /** @type {HTMLElement} */ (event.target);
  const own = target.closest("button, select, input, summary");
  if (own instanceof HTMLSelectElement || (own && !(own instanceof HTMLInputElement) && event.key === " ")) return null;
  if (own instanceof HTMLInputElement && (own.type === "checkbox" || !own.classList.contains("wb-scrub"))) return null;
  return KEYS[event.key] ?? null;
}
