// A view that gets new rows again and again keeps nothing of the old ones.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as vega from "vega";
import { compile } from "vega-lite";
import { CLEAN_AFTER } from "../src/vega.js";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");

async function heapMb() {
  for (let i = 0; i < 4; i++) {
    await new Promise(done => setTimeout(done, 20));
    collect();
  }
  return process.memoryUsage().heapUsed / 2 ** 20;
}

const spec = {
  data: { name: "rows" }, transform: [{ calculate: "datum.y * 2", as: "z" }], layer: [
    { mark: "line", encoding: { x: { field: "x", type: "quantitative" }, y: { field: "y", type: "quantitative" } } },
    { mark: "point", transform: [{ calculate: "datum.z + 1", as: "w" }],
      encoding: { x: { field: "x", type: "quantitative" }, y: { field: "w", type: "quantitative" } } },
  ], datasets: { rows: [] }, width: 300, height: 200,
};

/** Megabytes that as many updates of as many rows leave behind. @param {number} updates @param {number} count */
async function left(updates, count) {
  const view = new vega.View(vega.parse(compile(/** @type {any} */ (spec)).spec), { renderer: "none" });
  /** @type {any} */ (view).cleanThreshold = CLEAN_AFTER; // as `embed` does
  let at = 0;
  const update = async (/** @type {number} */ times) => {
    for (const end = at + times; at < end; at++) {
      const rows = Array.from({ length: count }, (_, x) => ({ x: x * (1 + at / 10), y: at * Math.sin(x + at) }));
      await view.change("rows", vega.changeset().remove(() => true).insert(rows)).runAsync();
    }
  };
  await update(100);
  const before = await heapMb();
  await update(updates);
  const after = await heapMb();
  view.finalize();
  return after - before;
}

test("rows that are gone leave no memory behind", async () => {
  assert.ok(await left(1000, 50) < 2);
});

test("labels of an axis that are gone leave no memory behind", async () => {
  assert.ok(await left(600, 3) < 1);
});
