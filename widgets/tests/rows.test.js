import assert from "node:assert/strict";
import { test } from "node:test";
import { cellText, nextSort, ordered, question, sparkline, spoken, unmoved } from "../src/rows.js";

const columns = [
  { name: "name", title: "name", kind: "text", unit: "", help: "" },
  { name: "frames", title: "frames", kind: "number", unit: "", help: "" },
  { name: "launched", title: "launched", kind: "ago", unit: "", help: "" },
  { name: "curve", title: "return", kind: "sparkline", unit: "", help: "" },
];
const rows = new Map([
  ["a", { key: "a", name: "pong-10", frames: 5, launched: 100, curve: [[0, 1], [1, 7]] }],
  ["b", { key: "b", name: "pong-2", frames: null, launched: 300, curve: [] }],
  ["c", { key: "c", name: "Breakout", frames: 1e6, launched: 200, curve: [[0, 9], [1, null], [2, 3]] }],
]);
const by = (column, descending = false) => ordered(rows, [...rows.keys()], { column, descending }, columns).join("");

test("text is sorted as people count, and without regard to case", () => assert.equal(by("name"), "cba"));

test("what has no value comes last in both directions", () => {
  assert.equal(by("frames"), "acb");
  assert.equal(by("frames", true), "cab");
});

test("ages grow from the latest moment", () => assert.equal(by("launched"), "bca"));

test("sparklines are sorted by where they end", () => assert.equal(by("curve", true), "acb"));

test("without a sort, or by a column that is not there, rows stay as given", () => {
  assert.deepEqual(ordered(rows, ["c", "a", "b"], null, columns), ["c", "a", "b"]);
  assert.deepEqual(ordered(rows, ["c", "a", "b"], { column: "gone", descending: true }, columns), ["c", "a", "b"]);
});

test("equal rows keep the order in which they were given", () => {
  const same = new Map([["x", { key: "x", frames: 1 }], ["y", { key: "y", frames: 1 }]]);
  assert.deepEqual(ordered(same, ["y", "x"], { column: "frames", descending: true }, columns), ["y", "x"]);
});

test("clicks on a header sort one way, the other way, and not at all", () => {
  const [name, frames] = columns;
  const first = nextSort(null, frames);
  assert.deepEqual(first, { column: "frames", descending: true });
  assert.deepEqual(nextSort(first, frames), { column: "frames", descending: false });
  assert.equal(nextSort(nextSort(first, frames), frames), null);
  assert.deepEqual(nextSort(first, name), { column: "name", descending: false });
});

test("rows under a pointer stay where they are; new ones come after them", () => {
  assert.deepEqual(unmoved(["new", "b", "a"], ["a", "gone", "b"]), ["a", "b", "new"]);
});

test("cells are formatted by their kind", () => {
  assert.equal(cellText(1250000, "number", 0), "1.25 M");
  assert.equal(cellText(100, "ago", 280), "3 min ago");
  assert.equal(cellText(300, "ago", 280), "0 s ago");
  assert.equal(cellText("training", "state", 0), "training");
  assert.equal(cellText(true, "text", 0), "yes");
  assert.equal(cellText(null, "number", 0), "—");
  assert.equal(cellText(undefined, "ago", 0), "");
});

test("a question names the row", () => {
  assert.equal(question("Stop {key}?", { key: "pong-1" }), "Stop pong-1?");
  assert.equal(question("Kill {name} ({gone})?", { key: "3", name: "actor 3" }), "Kill actor 3 (3)?");
});

test("a sparkline goes from edge to edge, high values up, and marks its end", () => {
  assert.deepEqual(sparkline([0, 10, 5], 104, 24), { path: "M2 22L52 2L102 12", x: 102, y: 12 });
  assert.equal(sparkline([[0, 0], [9, 1], [10, 1]], 104, 24)?.path, "M2 22L92 2L102 2");
});

test("a sparkline has gaps where there is no number", () => {
  assert.equal(sparkline([0, null, NaN, 10], 104, 24)?.path, "M2 22M102 2");
  assert.equal(sparkline([0, 5, null, 10, 10], 104, 24)?.path, "M2 22L27 12M77 2L102 2");
});

test("a sparkline that never changes is a line in the middle; of nothing there is none", () => {
  assert.equal(sparkline([3, 3], 104, 24)?.path, "M2 12L102 12");
  assert.deepEqual(sparkline([3], 104, 24), { path: "M102 12", x: 102, y: 12 });
  assert.equal(sparkline([], 104, 24), null);
  assert.equal(sparkline(null, 104, 24), null);
  assert.equal(sparkline([null, NaN], 104, 24), null);
});

test("a sparkline is said in words", () => {
  assert.equal(spoken([[0, -21], [1, null], [2, 18.25], [3, 12]]), "from -21 to 12, lowest -21, highest 18.2");
  assert.equal(spoken([]), "no values yet");
});
