import assert from "node:assert/strict";
import { test } from "node:test";
import { Pictures } from "../src/frames.js";

test("a step without a picture shows the one before it", async () => {
  /** @type {number[]} */
  const sizes = [];
  Object.assign(globalThis, {
    createImageBitmap: async (/** @type {Blob} */ file) => {
      sizes.push(file.size);
      return { size: file.size, close() {} };
    },
  });
  const pictures = new Pictures(new ArrayBuffer(60), [10, 10, 10, 30, 30, 60], "image/jpeg", () => {});
  pictures.at(0);
  await new Promise(done => setTimeout(done, 5));
  const shown = [0, 1, 2, 3, 4, 5].map(step => /** @type {any} */ (pictures.at(step))?.size);
  assert.deepEqual(shown, [10, 10, 10, 20, 20, 30]);
  assert.deepEqual(sizes, [10, 20, 30], "each picture is decoded once");
  pictures.close();
});
