import assert from "node:assert/strict";
import { test } from "node:test";
import { equal, rows, unpack } from "../src/tables.js";

/** @param {number[]} numbers @param {number} before bytes in front, as a message has them */
function received(numbers, before) {
  const bytes = new Uint8Array(before + numbers.length * 8);
  bytes.set(new Uint8Array(new Float64Array(numbers).buffer), before);
  return new DataView(bytes.buffer, before);
}

test("columns come out of a buffer that is not aligned", () => {
  const packed = { length: 2, numbers: ["x", "y"], texts: { kind: ["tune", "pause"] }, buffer: 0 };
  const table = unpack(packed, [received([1, 2, 0.5, NaN], 3)]);
  assert.deepEqual(rows(table), [{ kind: "tune", x: 1, y: 0.5 }, { kind: "pause", x: 2, y: null }]);
});

test("a table of strings alone needs no buffer, and an empty one has no rows", () => {
  assert.deepEqual(rows(unpack({ length: 1, numbers: [], texts: { kind: ["tune"] }, buffer: null }, [])), [{ kind: "tune" }]);
  assert.deepEqual(rows(unpack({ length: 0, numbers: ["x"], texts: {}, buffer: 0 }, [received([], 0)])), []);
});

test("tables are equal where all of their values are, gaps included", () => {
  const table = (/** @type {(number | string)[]} */ ...values) => ({ length: values.length, columns: { x: values } });
  assert.ok(equal(table(1, NaN, "a"), table(1, NaN, "a")));
  for (const other of [table(1, NaN), table(1, 2, "a"), table(1, NaN, "b"), { length: 3, columns: { y: [1, NaN, "a"] } }]) {
    assert.ok(!equal(table(1, NaN, "a"), other));
  }
});
