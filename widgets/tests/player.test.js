import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";

import { bytes, inflated, rows } from "../src/columns.js";
import { number } from "../src/numbers.js";
import { heat, PLANES, toRgba } from "../src/pixels.js";
import { bars, columnsOf, extent, fitted, linear, pixelOf, shown, stepAt } from "../src/scales.js";
import { factor, follow, frameAt, gapOf, nextReward, rate } from "../src/timeline.js";
import { MOST_LIVE, said, Track } from "../src/track.js";
import { model, place } from "./page.js";

const { default: player } = await import("../src/player.js");

test("a moment shows the last frame that is not after it", () => {
  const times = [0, 0.1, 0.2, 0.3];
  assert.deepEqual([-1, 0, 0.05, 0.1, 0.25, 9].map(time => frameAt(times, time)), [0, 0, 0, 1, 2, 3]);
  assert.equal(frameAt([], 1), 0);
});

test("every frame's own time shows that frame", () => {
  const times = Array.from({ length: 1000 }, (_, i) => i / 15);
  times.forEach((time, i) => assert.equal(frameAt(times, time), i));
});

test("the nearest reward is found in both directions, of any sign, and none at the ends", () => {
  const rewards = [0, 1, 0, 0, -1, NaN, 0];
  assert.equal(nextReward(rewards, 0, 1), 1);
  assert.equal(nextReward(rewards, 1, 1), 4);
  assert.equal(nextReward(rewards, 4, 1), null);
  assert.equal(nextReward(rewards, 6, -1), 4);
  assert.equal(nextReward(rewards, 1, -1), null);
});

test("the fastest speed is the same for every environment", () => {
  assert.equal(factor("0.25", 15), 0.25);
  assert.equal(factor("max", 15) * 15, factor("max", 60) * 60);
});

test("the rate is that of the newest steps", () => {
  assert.ok(Math.abs(rate(Array.from({ length: 100 }, (_, i) => i / 40)) - 40) < 1e-9);
  assert.equal(rate([3]), 15);
});

test("a live view keeps its distance, goes no further than the newest step, and jumps after a long gap", () => {
  const gap = 0.5;
  let at = 100, newest = 100, arrived = 0, worst = 0;
  for (let i = 0; i < 6000; i++) { // a minute at 100 Hz; steps come in batches each half second
    arrived += 0.01;
    if (arrived >= gap) [newest, arrived] = [newest + arrived, 0];
    const next = follow({ at, passed: 0.01, oldest: 0, newest, arrived, gap });
    assert.ok(next <= newest && next >= at, "it went back, or ahead of what is known");
    if (i > 1000) worst = Math.max(worst, next - at);
    at = next;
  }
  assert.ok(worst < 0.02, `it moved in leaps of ${worst} s`);
  const behind = newest + arrived - at;
  assert.ok(behind > 0.5 && behind < 1.5, `${behind} s behind`);
  assert.ok(follow({ at, passed: 0.01, oldest: 0, newest: newest + 60, arrived: 0, gap }) > newest + 58);
  assert.equal(follow({ at, passed: 0.01, oldest: at + 5, newest: at + 5, arrived: 30, gap }), at + 5);
});

test("the gap is the longest of the latest, within bounds", () => {
  assert.equal(gapOf([0]), 1);
  assert.equal(gapOf([0, 1, 1.5, 2, 2.5, 3, 3.5]), 0.5);
  assert.equal(gapOf([0, 60]), 4);
});

test("an extent passes over what is not finite and is never empty", () => {
  assert.deepEqual(extent([3, NaN, -1]), [-1, 3]);
  assert.deepEqual(extent([2, 2]), [1.5, 2.5]);
  assert.deepEqual(extent([]), [0, 1]);
  assert.deepEqual(extent([2, 3], true), [0, 3]);
});

test("bars go from zero to the value and stay inside", () => {
  assert.deepEqual(bars([0.5, 1], [0, 1]), [{ from: 0, to: 0.5 }, { from: 0, to: 1 }]);
  assert.deepEqual(bars([-1, 3, 9, NaN], [-1, 3]), [
    { from: 0, to: 0.25 }, { from: 0.25, to: 1 }, { from: 0.25, to: 1 }, { from: 0.25, to: 0.25 },
  ]);
  assert.deepEqual(bars([12], [10, 20]), [{ from: 0, to: 0.2 }]);
});

test("of many actions the best are shown, and always the chosen one", () => {
  assert.deepEqual(shown([1, 2, 3], 0, 3), [0, 1, 2]);
  assert.deepEqual(shown([5, 1, 4, 3, 2], 1, 3), [0, 1, 2]);
  assert.deepEqual(shown([5, 1, 4, 3, 2], 3, 3), [0, 2, 3]);
});

test("a line of any length becomes the extremes of each pixel column", () => {
  const values = Array.from({ length: 10_000 }, (_, i) => (i === 5000 ? 99 : i === 7000 ? NaN : 0));
  const columns = columnsOf(values, 100);
  assert.equal(columns.length, 100);
  assert.equal(Math.max(...columns.map(column => column?.[1] ?? 0)), 99);
  const half = columnsOf([1, 2], 5, 9);
  assert.deepEqual(half, [[1, 1], [2, 2], null, null, null]);
});

test("a pixel's step and a step's pixel are inverse where there are more pixels than steps", () => {
  for (let step = 0; step < 50; step++) assert.equal(stepAt(pixelOf(step, 300, 50), 300, 50), step);
  assert.equal(stepAt(-5, 300, 50), 0);
  assert.equal(stepAt(999, 300, 50), 49);
  assert.equal(linear([0, 10], 100, 0)(5), 50);
});

test("a picture grows in whole multiples and shrinks as it must", () => {
  assert.deepEqual(fitted(84, 84, 400, 400), { width: 336, height: 336 });
  assert.deepEqual(fitted(600, 400, 300, 400), { width: 300, height: 200 });
});

test("one channel is grey, three are colours, more are planes in colours of their own", () => {
  assert.deepEqual([...toRgba([7], [1, 1, 1])], [7, 7, 7, 255]);
  assert.deepEqual([...toRgba([1, 2, 3, 4, 5, 6], [3, 1, 2])], [1, 3, 5, 255, 2, 4, 6, 255]);
  const two = [...toRgba([255, 0, 0, 0, 255, 0], [2, 1, 3])];
  assert.notDeepEqual(two.slice(0, 3), two.slice(4, 7));
  assert.deepEqual(two.slice(8), [0, 0, 0, 255]);
});

test("of planes that are lit in one place, the one that is lit in the fewest places is seen", () => {
  const [pitch, team, ball] = [[255, 255, 255, 0], [0, 255, 255, 0], [0, 0, 255, 0]];
  const seen = toRgba([...pitch, ...team, ...ball, 0, 0, 0, 0], [4, 1, 4]);
  assert.deepEqual([0, 4, 8, 12].map(at => [...seen.slice(at, at + 3)]), [PLANES[0], PLANES[1], PLANES[2], [0, 0, 0]]);
  assert.equal(new Set(PLANES.map(String)).size, 23, "colours of their own");
});

test("what counts more hides more", () => {
  const shades = heat([0, 128, 255], 0.5);
  assert.deepEqual([shades[3], shades[7], shades[11]], [0, 64, 128]);
});

test("columns are read as Python packs them, wherever a front end puts the buffer", () => {
  const data = new ArrayBuffer(40);
  new Float64Array(data, 8, 2).set([1.5, 2.5]);
  new Float32Array(data, 24, 4).set([1, 2, 3, 4]);
  const table = [
    { name: "time_s", dtype: "float64", shape: [2], offset: 0 }, { name: "scores", dtype: "float32", shape: [2, 2], offset: 16 },
  ];
  const found = rows(table, bytes(new DataView(data, 8)));
  assert.deepEqual(found.time_s, [1.5, 2.5]);
  assert.deepEqual(found.scores.map(one => [...one]), [[1, 2], [3, 4]]);
});

test("what zlib compressed is inflated", async () => {
  const packed = deflateSync(new Uint8Array([1, 2, 3]));
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  assert.deepEqual([...new Uint8Array(await inflated(bytes(view)))], [1, 2, 3]);
});

const steps = (/** @type {number} */ first, /** @type {number} */ count) => {
  const numbers = Array.from({ length: count }, (_, i) => first + i);
  return { time_s: numbers, reward: numbers.map(() => 0), action: [...numbers] };
};

test("live steps follow each other once, though they may come twice", () => {
  const track = new Track();
  track.append({ life: "a", first: 3 }, steps(3, 4));
  track.append({ life: "a", first: 5 }, steps(5, 4));
  track.append({ life: "a", first: 3 }, steps(3, 4));
  assert.deepEqual(track.columns.action, [3, 4, 5, 6, 7, 8]);
  assert.equal(track.first, 3);
});

test("steps after a gap, or of another life, begin anew", () => {
  const track = new Track();
  track.append({ life: "a", first: 0 }, steps(0, 4));
  assert.equal(track.append({ life: "a", first: 6 }, steps(6, 2)), 4);
  assert.deepEqual([track.first, track.columns.action], [6, [6, 7]]);
  track.append({ life: "b", first: 0 }, steps(0, 1));
  assert.deepEqual(track.columns.action, [0]);
});

test("a live view forgets its oldest steps", () => {
  const track = new Track();
  track.append({ life: "a", first: 0 }, steps(0, MOST_LIVE));
  assert.equal(track.append({ life: "a", first: MOST_LIVE }, steps(MOST_LIVE, 10)), 10);
  assert.equal(track.length, MOST_LIVE);
  assert.equal(track.columns.action[0], 10);
  assert.equal(track.first, 10);
});

test("a column without anything in it is none", () => {
  const track = new Track();
  track.append({ life: "", first: 0 }, { time_s: [0, 1], reward: [0, 1], state_norm: [NaN, NaN] });
  assert.deepEqual(track.column("state_norm"), []);
  assert.deepEqual(track.column("nothing"), []);
  assert.deepEqual(track.column("reward"), [0, 1]);
});

test("a step is said in words", () => {
  const track = new Track();
  track.append({ life: "", first: 0 }, {
    time_s: [0, 1], reward: [0, 1], action: [1, -1], value: [0.5, NaN], scores: [[0.25, 0.75], [NaN, NaN]],
    episode_return: [0, 1],
  });
  const policy = { actions: "categorical", groups: [{ title: "", names: ["LEFT", "RIGHT"], kind: "choice" }], kind: "probability" };
  assert.equal(said(track, 0, policy, number), "action RIGHT (75 %), value 0.5, reward 0, return 0");
  assert.equal(said(track, 0, { ...policy, kind: "q_value" }, number), "action RIGHT (Q 0.75), value 0.5, reward 0, return 0");
  assert.equal(said(track, 1, policy, number), "reward 1, return 1");
});

/** @param {boolean} gone */
function opened(gone) {
  const made = model({ mode: "rollouts", label: "Rollout player" }), el = place();
  made.gone = gone;
  return { made, el, close: player.render({ model: made, el: /** @type {any} */ (el) }) };
}

test("a player is there though the kernel has gone, and says that nothing can be saved", async () => {
  const { made, el, close } = opened(true);
  const header = {
    title: "", label: "", actions: "categorical", groups: [{ title: "", names: ["NOOP"], kind: "choice" }], kind: "probability", fps: 15,
    picture: null, shape: [1], entries: ["x[0]"], saliency: null, note: "",
  };
  const buffer = new Uint8Array(deflateSync(new Uint8Array(new Float64Array([0, 0]).buffer))).buffer;
  const columns = ["time_s", "reward"].map((name, at) => ({ name, dtype: "float64", shape: [1], offset: 8 * at }));
  made.tell({ type: "episode", index: 0, count: 1, header, columns }, [buffer, new ArrayBuffer(0), new ArrayBuffer(0)]);
  while (!el.all("wb-save-mp4").length) await new Promise(resolve => setTimeout(resolve, 1));
  /** @type {any} */ (el.all("wb-save-mp4")[0]).onclick();
  const [told] = el.all("wb-saved");
  assert.equal(told.textContent, "not saved: the kernel has gone");
  assert.equal(told.className, "wb-saved wb-error");
  close();
});

test("a player that is shown says hello with its name", () => {
  const { made, close } = opened(false);
  assert.deepEqual(made.said.map(({ type, view }) => [type, typeof view]), [["hello", "string"]]);
  close();
});
