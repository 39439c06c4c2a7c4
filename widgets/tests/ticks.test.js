import assert from "node:assert/strict";
import { test } from "node:test";
import { decades, label, nearest, rounded, within, zoomed } from "../src/ticks.js";

test("ticks are round numbers within the range", () => {
  assert.deepEqual(rounded([0, 307200], 4), [0, 100000, 200000, 300000]);
  assert.deepEqual(rounded([-0.3, 0.31], 5), [-0.2, 0, 0.2]);
  assert.deepEqual(rounded([5, 5], 3), []);
  assert.deepEqual(decades([0.0008, 2]), [0.001, 0.01, 0.1, 1]);
  assert.equal(decades([1e-300, 1e300]).length < 9, true);
  assert.deepEqual(decades([6e-4, 7e-4]).every(tick => tick >= 6e-4 && tick <= 7e-4), true);
});

test("labels are short", () => {
  assert.deepEqual([0, 950, 12500, 1.2e6, 3e-5, 0.25, -4000, 2e13].map(label),
    ["0", "950", "12.5k", "1.2M", "3e-5", "0.25", "-4k", "2e+13"]);
});

test("a zoom keeps its value in place, stays within all there is, and ends at all there is", () => {
  assert.deepEqual(zoomed([0, 100], 25, 0.5, [0, 100]), [12.5, 62.5]);
  assert.deepEqual(zoomed([0, 50], 50, 1.5, [0, 60]), [0, 60]);
  assert.deepEqual(zoomed([10, 20], 10, 3, [0, 100]), [10, 40]);
  assert.deepEqual(zoomed([90, 100], 90, 2, [0, 100]), [80, 100]);
  assert.ok(zoomed([0, 1e-9], 0, 0.1, [0, 1])[1] >= 1e-6);
  assert.deepEqual(within([90, 130], [0, 100]), [60, 100]);
});

test("the nearest of sorted numbers", () => {
  assert.deepEqual([-5, 0.4, 0.6, 7, 99].map(value => nearest([0, 1, 2, 8], value)), [0, 0, 1, 3, 3]);
  assert.equal(nearest([], 1), -1);
  assert.equal(nearest([4], 9), 0);
});
