import assert from "node:assert/strict";
import { test } from "node:test";

import { heightAt, lastUpTo, nextSaved, savedAt, valueAt } from "../src/history.js";
import { number } from "../src/numbers.js";
import { said, Track } from "../src/track.js";
import { model, place } from "./page.js";

const { WhatIf } = await import("../src/whatif.js");
const { default: machine } = await import("../src/timemachine.js");

/** A screen as far as "what if" looks at it. @param {object} header @param {object} columns */
function screen(header, columns) {
  const track = new Track();
  track.append({ life: "", first: 0 }, /** @type {any} */ (columns));
  return /** @type {any} */ ({ track, header: { key: "one", why: "", branch: null, kind: "probability", ...header } });
}

const POLE = { actions: "categorical", groups: [{ title: "", names: ["LEFT", "RIGHT"], kind: "choice" }] };
const THREE = { time_s: [0, 1, 2], reward: [0, 1, 1], action: [1, 0, -1], value: [0.5, 1, NaN], scores: [[0.2, 0.8], [0.6, 0.4], [NaN, NaN]] };

/** @param {any} screens @param {number[]} steps */
function opened(screens, steps) {
  /** @type {any[]} */
  const told = [];
  const whatif = new WhatIf({ tell: content => told.push(content) > 0, redraw() {} });
  /** @type {any} */ (whatif.el).open = true;
  /** @type {any} */ (whatif.actions).querySelectorAll = () => /** @type {any} */ (whatif.actions).all("wb-action");
  whatif.show(screens, steps, false);
  return { whatif, told };
}

test("nothing is played before something is changed", () => {
  const { whatif, told } = opened([screen(POLE, THREE)], [1]);
  /** @type {any} */ (whatif.go).onclick();
  assert.equal(whatif.told.textContent, "Choose another action, or another observation, first.");
  assert.equal(whatif.told.className, "wb-told wb-error");
  assert.deepEqual(told, []);
  whatif.close();
});

test("an action is asked for at the step that is shown, as often as it says, and the button waits", () => {
  const { whatif, told } = opened([screen(POLE, THREE)], [1]);
  assert.match(whatif.at.textContent ?? "", /^At step 1 the policy did LEFT \(60 %\), value 1\.$/);
  const [field] = /** @type {any} */ (whatif.actions).all("wb-action");
  assert.equal(field.value, "0");
  field.value = "1";
  field.onchange();
  whatif.repeat.value = "3";
  /** @type {any} */ (whatif.go).onclick();
  assert.deepEqual(told, [{ type: "branch", index: 0, step: 1, action: [1, 1, 1], observation: null, hold: 1 }]);
  assert.ok(whatif.go.disabled && /^playing to step 1/.test(whatif.told.textContent ?? ""));
  whatif.say("no branch: it is no environment that repeats itself", true);
  assert.ok(!whatif.go.disabled && whatif.told.className === "wb-told wb-error");
  whatif.close();
});

test("at the last step no action is taken, and without an agent there is a reason", () => {
  const { whatif } = opened([screen(POLE, THREE)], [2]);
  assert.ok(whatif.go.disabled);
  assert.match(whatif.at.textContent ?? "", /^No action is taken/);
  whatif.close();
  const { whatif: other } = opened([screen({ ...POLE, why: "There was no agent." }, THREE)], [0]);
  assert.ok(other.form.hidden && !other.reason.hidden && other.reason.textContent === "There was no agent.");
  other.close();
});

test("numbers that are changed are sent by their position, and others are not", () => {
  const { whatif } = opened([screen(POLE, THREE)], [0]);
  whatif.looked({ index: 0, step: 0, shape: [3], entries: ["x[0]", "x[1]", "x[2]"], values: [0.25, -1, 3] });
  assert.equal(whatif.observation, null);
  const fields = /** @type {any} */ (whatif.sight).all("wb-number");
  assert.deepEqual(fields.map((/** @type {any} */ one) => one.value), ["0.25", "-1", "3"]);
  fields[1].value = "0.5";
  fields[1].oninput();
  assert.deepEqual(whatif.observation, { 1: 0.5 });
  whatif.looked({ index: 0, step: 1, shape: [3], entries: ["x[0]", "x[1]", "x[2]"], values: [9, 9, 9] });
  assert.deepEqual(/** @type {any} */ (whatif.sight).all("wb-number").map((/** @type {any} */ one) => one.value), ["9", "0.5", "9"]);
  whatif.close();
});

test("what the policy saw is asked anew when the screens show another episode", () => {
  const { whatif } = opened([screen(POLE, THREE)], [1]);
  whatif.looked({ index: 0, step: 1, shape: [3], entries: ["x[0]", "x[1]", "x[2]"], values: [0.25, -1, 3] });
  whatif.settling = 0;
  whatif.show([screen({ ...POLE, key: "one" }, THREE)], [1], false);
  assert.notEqual(whatif.settling, 0);
  whatif.close();
});

test("every part of an action is a field of its own", () => {
  for (const [header, action, sent] of /** @type {[any, any, any][]} */ ([
    [{ actions: "multi_discrete", groups: [{ title: "arm", names: ["0", "1", "2"], kind: "choice" }, { title: "leg", names: ["0", "1"], kind: "choice" }] }, [2, 1], [[2, 1]]],
    [{ actions: "bernoulli", groups: [{ title: "", names: ["fire", "jump"], kind: "switches" }] }, [0, 1], [[0, 1]]],
    [{ actions: "tanh_normal", groups: [{ title: "", names: ["torque"], kind: "numbers" }] }, [-0.5], [[-0.5]]],
    [{ actions: "mixed", groups: [{ title: "move", names: ["LEFT", "RIGHT"], kind: "choice" }, { title: "b", names: ["A", "B"], kind: "switches" },
      { title: "throttle", names: ["number 1"], kind: "numbers" }] }, [1, 0, 1, -0.5], [[1, 0, 1, -0.5]]],
  ])) {
    const { whatif } = opened([screen(header, { ...THREE, action: [action, action, action] })], [0]);
    assert.equal(whatif.action, null);
    whatif.force.checked = true;
    assert.deepEqual(whatif.action, sent);
    whatif.close();
  }
});

test("with two episodes it says of which the future is", () => {
  const branch = { parent: "one", at: 1, change: "action RIGHT" };
  const { whatif } = opened([screen(POLE, THREE), screen({ ...POLE, key: "1-ab", branch }, THREE)], [0, 0]);
  assert.ok(!whatif.whichLabel.hidden);
  assert.deepEqual([...whatif.which.children].map(one => one.textContent), ["the recorded episode", "the branch at step 1"]);
  whatif.close();
});

test("what was forced and edited is said of its step", () => {
  const track = new Track();
  track.append({ life: "", first: 0 }, { time_s: [0, 1], reward: [0, 1], action: [1, -1], value: [0.5, NaN], scores: [[0.25, 0.75], [NaN, NaN]], forced: [1, 0], edited: [1, 0] });
  assert.equal(said(track, 0, { ...POLE, kind: "probability" }, number),
    "action RIGHT (75 %), value 0.5, reward 0, this action was forced, the policy saw another observation");
  assert.equal(said(track, 1, { ...POLE, kind: "probability" }, number), "reward 1");
});

// --- the time machine -------------------------------------------------------------------------------------------------

const SAVED = [{ name: "a", frames: 100, value: 1 }, { name: "b", frames: 250, value: null }, { name: "c", frames: 400, value: 9 }];

test("a moment has the checkpoint before it, and arrows go from one to the next", () => {
  assert.deepEqual([0, 100, 249, 250, 999].map(at => savedAt(SAVED, at)), [0, 0, 0, 1, 2]);
  assert.equal(savedAt([], 5), -1);
  assert.deepEqual([0, 100, 260, 400, 999].map(at => nextSaved(SAVED, at, 1)), [0, 1, 2, 2, 2]);
  assert.deepEqual([0, 100, 260, 400, 999].map(at => nextSaved(SAVED, at, -1)), [0, 0, 1, 1, 2]);
  assert.equal(lastUpTo([1, 2, 2, 5], 2), 2);
});

test("the curve has a height between its points, and none outside", () => {
  assert.deepEqual([10, 15, 20].map(at => heightAt([10, 20], [1, 3], at)), [1, 2, 3]);
  assert.ok([9, 21].every(at => Number.isNaN(heightAt([10, 20], [1, 3], at))));
  assert.ok(Number.isNaN(heightAt([], [], 1)));
});

test("a hyperparameter has the value that was in force, with what it was before", () => {
  const field = { name: "learning_rate", help: "", values: /** @type {[number, string][]} */ ([[0, "0.001"], [300, "0.0003"]]) };
  assert.deepEqual(valueAt(field, 299), { text: "0.001", since: 0, changed: false, before: "" });
  assert.deepEqual(valueAt(field, 300), { text: "0.0003", since: 300, changed: true, before: "0.001" });
});

/** What the kernel tells of a run. @param {object} [more] @returns {[object, ArrayBuffer[]]} */
function course(more = {}) {
  const frames = new Float64Array([100, 400, 1, 9, 5, 60]); // frames, value, time_s
  const columns = ["frames", "value", "time_s"].map((name, at) => ({ name, dtype: "float64", shape: [2], offset: 16 * at }));
  const fields = [{ name: "learning_rate", help: "", values: [[0, "0.001"], [300, "0.0003"]] }];
  return [{ type: "course", saved: SAVED, fields, columns, y: "mean return", ...more }, [frames.buffer]];
}

test("a page that is loaded anew has its cursor where it was, and follows that of another page", async () => {
  const made = model({ label: "Time machine of pong" }), el = place();
  const close = machine.render({ model: made, el: /** @type {any} */ (el) });
  const [{ view }] = made.said;
  const [slider] = el.all("wb-time");
  const rests = async (/** @type {string} */ name) => {
    slider.dispatchEvent(Object.assign(new Event("keydown"), { key: name }));
    await new Promise(resolve => setTimeout(resolve, 350));
    const { type, checkpoint, frames } = made.said.at(-1);
    return [type, checkpoint, frames];
  };
  made.tell(...course({ view, at: 250 }));
  assert.deepEqual(await rests("ArrowRight"), ["at", "c", 400]);
  made.tell({ type: "at", frames: 400, by: view });
  made.tell({ type: "at", frames: 100, by: "another" });
  assert.deepEqual(await rests("ArrowRight"), ["at", "b", 250]);
  made.tell({ type: "at", frames: 100, by: view }); // of before: the person has gone on
  assert.deepEqual(await rests("ArrowRight"), ["at", "c", 400]);
  close();
});

test("arrows move the cursor by checkpoint, the kernel hears where it rests, and a screen reader what is there", async () => {
  const made = model({ label: "Time machine of pong" }), el = place();
  const close = machine.render({ model: made, el: /** @type {any} */ (el) });
  made.tell(...course());
  const [slider] = el.all("wb-time");
  const key = (/** @type {string} */ name) => slider.dispatchEvent(Object.assign(new Event("keydown"), { key: name }));
  key("ArrowLeft");
  await new Promise(resolve => setTimeout(resolve, 350));
  assert.deepEqual(made.said.at(-1).checkpoint, "b");
  key("Home");
  key("End");
  await new Promise(resolve => setTimeout(resolve, 350));
  assert.deepEqual(made.said.at(-1).checkpoint, "c");
  assert.equal(slider.getAttribute("aria-label"), "moment of the run");
  close();
});
