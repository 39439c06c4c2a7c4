import assert from "node:assert/strict";
import { test } from "node:test";

import { caps, Held, nameOf } from "../src/keys.js";
import { add, clock, standing } from "../src/moments.js";
import { number } from "../src/numbers.js";
import { Track } from "../src/track.js";
import { model, place } from "./page.js";

const { default: game } = await import("../src/game.js");

const state = (/** @type {object} */ changes = {}) => /** @type {any} */ ({
  episode: 0, seed: 0, step: 0, frames: 0, reward: 0, episode_return: 0, score: null, episode_score: null, action: null, by: "",
  by_person: 0, over: "", observation: null, playing: "person", running: false, turns: true, rate: 15, kept: null,
  advice: { kind: "probability", scores: [0.25, 0.75], action: 1, value: 2 }, ...changes,
});
const GIVEN = { scores: 2, none: -1, fps: 15 };

test("keys are held in the order in which they went down, and each once", () => {
  const held = new Held(["ArrowUp", "d"]);
  assert.ok(held.down("d") && held.down("ArrowUp") && held.down("d") && !held.down("x"));
  assert.deepEqual(held.keys, ["d", "ArrowUp"]);
  assert.ok(held.up("d") && !held.up("x"));
  assert.deepEqual(held.keys, ["ArrowUp"]);
  assert.ok(held.release() && !held.release());
  assert.deepEqual([" ", "D", "ArrowUp", "ß"].map(nameOf), ["Space", "d", "ArrowUp", "ß"]);
  assert.deepEqual(caps("ArrowUp, w, Space"), ["↑", "W", "Space"]);
});

test("a step's row says what was advised, and once the next one is there what was done", () => {
  const track = new Track();
  add(track, state(), GIVEN);
  add(track, state({ running: true }), GIVEN); // nothing new of that step
  assert.deepEqual([track.length, track.columns.action], [1, [1]]);
  add(track, state({ step: 1, action: 0, by: "person", reward: 3, episode_return: 3 }), GIVEN);
  add(track, state({ step: 2, action: 1, by: "agent", over: "terminated", advice: null }), GIVEN);
  assert.deepEqual(track.columns.action, [0, 1, -1]);
  assert.deepEqual(track.columns.by_person, [1, 0, NaN]);
  assert.deepEqual(track.columns.reward, [0, 3, 0]);
  assert.ok(Number.isNaN(track.columns.value[2]) && track.columns.scores[2].length === 2);
  add(track, state({ episode: 1 }), GIVEN);
  assert.deepEqual([track.length, track.life], [1, "1"]);
});

test("steps that did not come leave a new beginning, and no wrong action", () => {
  const track = new Track();
  add(track, state(), GIVEN);
  add(track, state({ step: 5, action: 0, by: "person" }), GIVEN);
  assert.deepEqual([track.first, track.columns.action], [5, [1]]);
});

test("steps and frames are told apart, and who plays", () => {
  assert.equal(standing(state({ step: 3, frames: 12, reward: 1, episode_return: 2 }), number, 4), "step 3, 12 frames · reward 1 · return 2");
  assert.equal(standing(state({ step: 3, frames: 3 }), number, 1), "step 3 · reward 0 · return 0");
  assert.equal(clock(state(), 1), "you play; a step for each key");
  assert.equal(clock(state({ turns: false, running: true }), 4), "you play, 15 steps/s (60 frames/s)");
  assert.equal(clock(state({ playing: "agent", running: true }), 1), "the agent plays, 15 steps/s");
  assert.equal(clock(state({ over: "truncated" }), 1), "episode over: truncated");
});

const HEADER = {
  title: "t", label: "t", kind: "probability", fps: 15, actions: "categorical", groups: [{ title: "", names: ["left", "right"], kind: "choice" }],
  agent: true, picture: { mime: "", width: 6, height: 4 }, shape: [], entries: [], saliency: null, note: "", frames_per_step: 1,
  speeds: [1, 2], keys: ["a", "Space"], legend: [["a", "left"]], reserved: { Tab: "hand over" }, pulled: false,
};

/** A game in a page that got its header and a first state. @param {object} changes @param {import("node:test").TestContext} test @param {object} header */
async function opened(changes, test, header = {}) {
  const el = place(), made = model({ label: "g" });
  const end = game.render({ model: made, el: /** @type {any} */ (el) });
  test.after(end);
  made.tell({ type: "moments", states: [state(changes)], mime: "image/png", header: { ...HEADER, ...header } });
  for (let turn = 0; turn < 5; turn++) await null;
  made.said.length = 0;
  const [stage] = el.all("wb-stage");
  const key = (/** @type {string} */ type, /** @type {string} */ name, more = {}) => {
    const event = Object.assign(new Event(type, { cancelable: true }), { key: name, ...more });
    stage.dispatchEvent(event);
    return event.defaultPrevented;
  };
  return { el, made, key, stage };
}

test("in turns a key is a step, and one that is held waits for the answer", async test => {
  const { made, key } = await opened({}, test);
  assert.ok(key("keydown", "A") && key("keydown", "a", { repeat: true }) && key("keyup", "a") === false);
  assert.deepEqual(made.said, [{ type: "press", held: ["a"] }]);
  made.tell({ type: "moments", states: [state({ step: 1, action: 0, by: "person" })], mime: "" });
  for (let turn = 0; turn < 5; turn++) await null;
  key("keydown", " ");
  assert.deepEqual(made.said[1], { type: "press", held: ["Space"] });
  assert.ok(!key("keydown", "x") && !key("keydown", "a", { ctrlKey: true }) && !key("keydown", "Tab", { shiftKey: true }));
  assert.equal(made.said.length, 2);
});

test("in real time keys are held and let go, and leaving lets time stand", async test => {
  const { made, key, stage } = await opened({ turns: false, running: true }, test);
  key("keydown", "a");
  key("keydown", "a", { repeat: true });
  key("keydown", " ");
  key("keyup", "a");
  stage.dispatchEvent(new Event("blur"));
  assert.deepEqual(made.said, [
    { type: "keys", held: ["a"], begin: true }, { type: "keys", held: ["a", "Space"], begin: true },
    { type: "keys", held: ["Space"] }, { type: "keys", held: [] }, { type: "do", name: "pause" },
  ]);
});

test("keys of its own hand over, and a problem is an alert", async test => {
  const { el, made, key } = await opened({}, test);
  assert.ok(key("keydown", "Tab"));
  assert.deepEqual(made.said, [{ type: "do", name: "agent" }]);
  made.tell({ type: "problem", text: "it broke" });
  const [note] = el.all("wb-note");
  assert.equal(note.textContent, "it broke");
  assert.equal(note.attributes.role, "alert");
});

test("without an agent Tab leaves the picture, as it does elsewhere", async test => {
  const { made, key } = await opened({}, test, { agent: false });
  assert.ok(!key("keydown", "Tab") && !key("keydown", "Enter") && key("keydown", "Escape"));
  assert.deepEqual(made.said, [{ type: "do", name: "run" }]);
});

test("an episode that is over says where it is kept, and takes no key", async test => {
  const { el, made, key } = await opened({ step: 3, over: "terminated", advice: null, kept: "/x/y", by_person: 2 }, test);
  assert.match(el.all("wb-note")[0].textContent, /over \(terminated\).*by you 2 of 3 steps.*wb.rollout\("\/x\/y"\)/);
  key("keydown", "a");
  assert.deepEqual(made.said, []);
  assert.ok(key("keydown", "Backspace"));
  assert.deepEqual(made.said, [{ type: "do", name: "restart" }]);
});
