import assert from "node:assert/strict";
import { test } from "node:test";
import { arranged, GAP, NARROWEST } from "../src/arrangement.js";

test("no row of a grid has a hole and no card is too narrow", () => {
  for (const wide of [true, false]) {
    for (let width = 200; width < 1800; width += 35) {
      for (let count = 1; count < 14; count += 1) {
        const { columns, first, last } = arranged(width, count, wide);
        const taken = first + last + Math.max(0, count - 2) - (count === 1 ? 1 : 0);
        assert.equal(taken % columns, 0, JSON.stringify({ width, count, wide, columns, first, last }));
        assert.ok(columns === 1 || (width - GAP * (columns - 1)) / columns >= NARROWEST, `${width} ${count}`);
      }
    }
  }
});

test("four charts are one row with a large first one, or that one over three, or two by two", () => {
  assert.deepEqual(arranged(1300, 4, true), { columns: 5, first: 2, last: 1 });
  assert.deepEqual(arranged(900, 4, true), { columns: 3, first: 3, last: 1 });
  assert.deepEqual(arranged(600, 4, true), { columns: 2, first: 1, last: 1 });
  assert.deepEqual(arranged(400, 4, true), { columns: 1, first: 1, last: 1 });
});

test("cards that are equal are in rows as equal as can be", () => {
  assert.deepEqual([4, 6, 7, 9, 11].map(count => arranged(1040, count, false).columns), [4, 3, 4, 3, 4]);
  assert.deepEqual([4, 6, 7, 9, 11].map(count => arranged(1040, count, false).last), [1, 1, 2, 1, 2]);
});
