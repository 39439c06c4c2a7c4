import assert from "node:assert/strict";
import { test } from "node:test";

import { number } from "../src/numbers.js";
import { done, inWords, rowsOf } from "../src/policy.js";

const named = (/** @type {string} */ what, /** @type {number} */ count) => Array.from({ length: count }, (_, at) => `${what} ${at + 1}`);
const CHOICE = { actions: "categorical", groups: [{ title: "", names: ["LEFT", "RIGHT"], kind: "choice" }], kind: "probability" };
const PARTS = {
  actions: "multi_discrete", kind: "probability",
  groups: [{ title: "part 1", names: ["0", "1", "2"], kind: "choice" }, { title: "part 2", names: ["off", "on"], kind: "choice" }],
};
const SWITCHES = { actions: "bernoulli", groups: [{ title: "", names: ["jump", "run"], kind: "switches" }], kind: "probability" };
const MIXED = {
  actions: "mixed", kind: "probability", groups: [
    { title: "move", names: ["LEFT", "RIGHT"], kind: "choice" }, { title: "throttle", names: ["number 1"], kind: "numbers" },
  ],
};
const BUTTONS = { title: "buttons", names: ["A", "B"], kind: "switches" };
const NUMBERS = { actions: "tanh_normal", groups: [{ title: "", names: ["steer", "brake"], kind: "numbers" }], kind: "mean" };

test("nothing is done in the last frame, whatever an action is", () => {
  assert.deepEqual(done("categorical", 1), [1]);
  assert.equal(done("categorical", -1), null);
  assert.deepEqual(done("multi_discrete", new Int32Array([2, 0])), [2, 0]);
  assert.equal(done("bernoulli", new Int32Array([-1, -1])), null);
  assert.deepEqual(done("tanh_normal", new Float32Array([-1, -0.5])), [-1, -0.5]);
  assert.equal(done("tanh_normal", new Float32Array([NaN, NaN])), null);
  assert.deepEqual(done("mixed", new Float32Array([2, -0.5])), [2, -0.5]);
  assert.equal(done("mixed", new Float32Array([NaN, NaN])), null);
  assert.equal(done("categorical", undefined), null);
});

test("a choice has a bar for each action, and the chosen one is marked", () => {
  assert.deepEqual(rowsOf(CHOICE, [0.25, 0.75], 1, [0, 1], number), [
    { name: "LEFT", text: "25 %", place: { from: 0, to: 0.25 }, marked: false },
    { name: "RIGHT", text: "75 %", place: { from: 0, to: 0.75 }, marked: true },
  ]);
  const values = rowsOf({ ...CHOICE, kind: "q_value" }, [-1, 3], 0, [-1, 3], number);
  assert.deepEqual(values.map(one => "text" in one && one.text), ["-1", "3"]);
});

test("each part has its title and its own bars with the one chosen", () => {
  const rows = rowsOf(PARTS, [0.2, 0.3, 0.5, 0.9, 0.1], new Int32Array([2, 0]), [0, 1], number);
  assert.deepEqual(rows.map(one => ("title" in one ? one.title : "marked" in one && [one.name, one.text, one.marked])), [
    "part 1", ["0", "20 %", false], ["1", "30 %", false], ["2", "50 %", true],
    "part 2", ["off", "90 %", true], ["on", "10 %", false],
  ]);
});

test("a switch has one bar, of its probability to be on", () => {
  const rows = rowsOf(SWITCHES, [0.7, 0.02], new Int32Array([1, 0]), [0, 1], number);
  assert.deepEqual(rows.map(one => "marked" in one && [one.name, one.text, one.place.to, one.marked]), [
    ["jump", "70 % on", 0.7, true], ["run", "2.0 % off", 0.02, false],
  ]);
});

test("a number has an axis from -1 to 1 with its middle and what was done", () => {
  const rows = rowsOf(NUMBERS, [0, -1], new Float32Array([0.5, 1]), [0, 1], number);
  assert.deepEqual(rows, [
    { legend: true }, { ends: true }, { name: "steer", text: "0.5", middle: 0.5, taken: 0.75 }, { name: "brake", text: "1", middle: 0, taken: 1 },
  ]);
  const last = rowsOf(NUMBERS, [NaN, NaN], new Float32Array([NaN, NaN]), [0, 1], number);
  assert.deepEqual(last.slice(2).map(one => "taken" in one && [one.text, one.taken]), [["", NaN], ["", NaN]]);
});

test("a mixed action has the rows of each part under its name", () => {
  const rows = rowsOf({ ...MIXED, groups: [...MIXED.groups, BUTTONS] }, [0.2, 0.8, -1, 0.7, 0.3], new Float32Array([1, 0.5, 0, 1]), [0, 1], number);
  assert.deepEqual(rows, [
    { title: "move" }, { name: "LEFT", text: "20 %", place: { from: 0, to: 0.2 }, marked: false },
    { name: "RIGHT", text: "80 %", place: { from: 0, to: 0.8 }, marked: true },
    { title: "throttle" }, { legend: true }, { ends: true }, { name: "number 1", text: "0.5", middle: 0, taken: 0.75 },
    { title: "buttons" }, { name: "A", text: "70 % off", place: { from: 0, to: 0.7 }, marked: false },
    { name: "B", text: "30 % on", place: { from: 0, to: 0.3 }, marked: true },
  ]);
});

test("every row of many actions is there, and of thousands the best", () => {
  const count = 19, many = { ...CHOICE, groups: [{ title: "", names: named("action", count), kind: "choice" }] };
  assert.equal(rowsOf(many, new Float32Array(count), 3, [0, 1], number).length, count);
  const all = { ...CHOICE, groups: [{ title: "", names: named("action", 5000), kind: "choice" }] };
  const rows = rowsOf(all, Float32Array.from({ length: 5000 }, (_, at) => at), 7, [0, 5000], number);
  assert.equal(rows.length, 400);
  assert.ok(rows.some(one => "marked" in one && one.marked && one.name === "action 8"));
});

test("what was done is said in words, with what was said of each of a few parts", () => {
  assert.equal(inWords(CHOICE, [0.25, 0.75], 1, number), "RIGHT (75 %)");
  assert.equal(inWords(PARTS, [0.2, 0.3, 0.5, 0.9, 0.1], [2, 0], number), "part 1: 2 (50 %), part 2: off (90 %)");
  assert.equal(inWords(SWITCHES, [0.7, 0.02], [1, 0], number), "jump on (70 %), run off (2 %)");
  assert.equal(inWords(NUMBERS, [0.284, -0.001], [0.311, -1], number), "steer 0.31 (middle 0.28), brake -1 (middle 0)");
  assert.equal(inWords(NUMBERS, [NaN, NaN], [NaN, NaN], number), "");
  assert.equal(inWords(MIXED, [0.2, 0.8, 0.284], [1, 0.311], number), "move: RIGHT (80 %), throttle: 0.31 (middle 0.28)");
  const three = { ...MIXED, groups: [...MIXED.groups, BUTTONS] };
  assert.equal(inWords(three, [0.2, 0.8, 0.284, 0.7, 0.3], [1, 0.311, 0, 1], number),
    "move: RIGHT (80 %); throttle: 0.31 (middle 0.28); buttons: A off (70 %), B on (30 %)");
  const more = { ...MIXED, groups: [...three.groups, { title: "grid", names: ["number 1", "number 2"], kind: "numbers" }] };
  assert.equal(inWords(more, [], [1, 0.311, 0, 1, 0.5, 1], number), "move: RIGHT; throttle: 0.31; buttons: B; grid: 0.5, 1");
  const five = { ...NUMBERS, groups: [{ title: "", names: named("number", 5), kind: "numbers" }] };
  assert.equal(inWords(five, [0, 0, 0, 0, 0], [0.1, 0, -0.5, 1, 0], number), "0.1, 0, -0.5, 1, 0");
  const switches = { ...SWITCHES, groups: [{ title: "", names: named("switch", 5), kind: "switches" }] };
  assert.equal(inWords(switches, [0, 0, 0, 0, 0], [0, 1, 0, 0, 1], number), "switch 2, switch 5");
  assert.equal(inWords(switches, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], number), "all off");
});
