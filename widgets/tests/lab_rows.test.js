import assert from "node:assert/strict";
import { test } from "node:test";
import { code, pathOf, shownBy } from "../src/lab_code.js";
import { changes, passes, progressOf, resultOf, share, stateOf } from "../src/lab_rows.js";

const run = (more = {}) => ({
  name: "pong", state: "training", problem: "", actions: [], created: 50, frames: 500, total_frames: 1000,
  frames_per_second: 99.6, eta_s: 5, episode_return: 3, best_return: 4, events: [], reason: "", curve: [], ...more,
});
const look = (runs, sweeps = [], now = 100) => ({ home: "/h", now, runs, sweeps, left_out: 0 });
const told = (before, after, expected) => changes(look([before]), look([after]), expected).map((piece) => piece.title);

test("nothing is news at the first look, nor what goes on as it did", () => {
  assert.deepEqual(changes(null, look([run({ state: "failed" })])), []);
  assert.deepEqual(told(run(), run({ frames: 600 })), []);
});

test("the end of a run is news, and where a person stopped it, it is not", () => {
  assert.deepEqual(told(run(), run({ state: "finished" })), ["pong has finished"]);
  assert.deepEqual(told(run(), run({ state: "failed" })), ["pong has failed"]);
  assert.deepEqual(told(run({ state: "stopping" }), run({ state: "stopped" })), ["pong has stopped"]);
  assert.deepEqual(told(run(), run({ state: "stopped" }), new Set(["run/pong"])), []);
  assert.deepEqual(told(run(), run({ state: "failed" }), new Set(["run/pong"])), ["pong has failed"]);
  assert.deepEqual(told(run({ state: "stopped" }), run({ state: "stopped" })), []);
});

test("of a sweep's trial only what goes wrong is news", () => {
  const trial = (more) => run({ sweep: "search", ...more });
  for (const state of ["finished", "stopped"]) assert.deepEqual(told(trial({}), trial({ state })), []);
  assert.deepEqual(told(trial({}), trial({ state: "failed" })), ["pong has failed"]);
  const collapse = { id: 7, kind: "collapse", message: "", time: 1 };
  assert.deepEqual(told(trial({}), trial({ events: [collapse] })), []);
});

test("a run that begins and fails between two looks is news, an old one that comes back from the trash is not", () => {
  const after = (created) => changes(look([]), look([run({ state: "failed", created })]));
  assert.equal(after(101).length, 1);
  assert.equal(after(50).length, 0);
});

test("a collapse, a recovery and a full disk are told once", () => {
  const collapse = { id: 7, kind: "collapse", message: "98 % below its best", time: 1 };
  const [piece] = changes(look([run()]), look([run({ events: [collapse] })]));
  assert.deepEqual([piece.title, piece.body, piece.bad], ["pong has collapsed", "98 % below its best", true]);
  assert.deepEqual(told(run({ events: [collapse] }), run({ events: [collapse] })), []);
  assert.deepEqual(told(run({ events: [collapse] }), run({ events: [collapse, { ...collapse, id: 9, kind: "recovered" }] })),
                   ["pong has recovered"]);
  const held = run({ state: "paused", waits_for_disk: true });
  assert.deepEqual(told(run(), held), ["pong waits for its disk"]);
  assert.deepEqual(told(held, held), []);
  assert.equal(stateOf(held), "waits for its disk");
});

test("another run that has taken the name of a deleted one is no news of it", () => {
  assert.deepEqual(told(run(), run({ created: 90, state: "stopped" })), []);
});

test("rows are told in words", () => {
  assert.equal(progressOf(run()), "500 of 1,000 frames · 100 frames/s · 5 s left");
  assert.equal(resultOf(run()), "return 3 · best 4");
  assert.equal(resultOf(run({ best_return: 3 })), "return 3");
  assert.equal(resultOf(run({ episode_return: null, best_return: null })), "");
  assert.equal(share(run()), 0.5);
  const sweep = { name: "s", state: "running", problem: "", actions: [], trials: 20, over: 5, running: 2,
                  metric: "episode_return", best_value: 300, best_run: "s-1" };
  assert.equal(progressOf(sweep), "5 of 20 trials · 2 running");
  assert.equal(resultOf(sweep), "best episode_return 300 (s-1)");
  assert.equal(share(sweep), 0.25);
  assert.equal(progressOf({ name: "x", state: "damaged", problem: "bad", actions: [] }), "");
});

test("filters", () => {
  const shown = (row) => ["all", "going", "ended", "trouble"].filter((filter) => passes(row, filter)).join();
  assert.equal(shown(run()), "all,going");
  assert.equal(shown(run({ state: "dead" })), "all,ended,trouble");
  assert.equal(shown(run({ collapsed: true })), "all,going,trouble");
});

test("what a tab shows stands in the path of its session, and no other console is one of ours", () => {
  for (const [kind, names] of [["run", ["a-b.c_1"]], ["compare", ["a", "b-run-2"]], ["sweep", ["s"]]]) {
    assert.deepEqual(shownBy(pathOf(kind, names)), { kind, names });
  }
  for (const path of ["console-1", "x/workbench-panel-run-a", "workbench-panel-run-a\"b", ""]) assert.equal(shownBy(path), null);
});

test("Python is written with names as strings", () => {
  assert.equal(code("run", ["a"]), 'import workbench as wb\n\nrun = wb.attach("a")\nrun');
  assert.equal(code("compare", ["a", "b"]), 'import workbench as wb\n\nwb.compare(["a", "b"])');
});
