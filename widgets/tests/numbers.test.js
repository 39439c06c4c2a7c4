import assert from "node:assert/strict";
import { test } from "node:test";
import { duration, number } from "../src/numbers.js";

// tests/widgets/test_table.py compares thousands more with Python.
test("numbers are as people read them", () => {
  for (const [value, text] of [
    [0, "0"], [-21, "-21"], [950, "950"], [12400, "12,400"], [12400.5, "12,400"], [12401.5, "12,402"], [2.125, "2.12"],
    [0.045, "0.045"], [3.2e-5, "3.2e-05"], [1250000, "1.25 M"], [999999999, "1,000 M"], [1e9, "1 G"], [1e14, "100 T"],
  ]) assert.equal(number(/** @type {number} */ (value)), text);
});

test("times are as people say them", () => {
  for (const [seconds, text] of [
    [0, "0 s"], [59, "59 s"], [60, "1 min"], [3599, "1 h 0 min"], [15000, "4 h 10 min"], [183600, "2 d 3 h"],
  ]) assert.equal(duration(/** @type {number} */ (seconds)), text);
});
