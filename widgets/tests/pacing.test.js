import assert from "node:assert/strict";
import { test } from "node:test";
import { Pacer } from "../src/pacing.js";

/** A pacer on a clock that jumps from one call to the next. */
function simulated() {
  const clock = { ms: 0, calls: /** @type {[number, () => void][]} */ ([]) };
  const pacer = new Pacer({
    share: 0.1, longestRestMs: 3000, now: () => clock.ms,
    later: (/** @type {() => void} */ call, /** @type {number} */ ms) => clock.calls.push([clock.ms + ms, call]),
  });
  const settle = async () => {
    while (clock.calls.length) {
      clock.calls.sort((one, other) => one[0] - other[0]);
      const [when, call] = /** @type {[number, () => void]} */ (clock.calls.shift());
      clock.ms = Math.max(clock.ms, when);
      call();
      for (let turn = 0; turn < 5; turn += 1) await Promise.resolve();
    }
  };
  return { clock, pacer, settle };
}

test("drawing takes a tenth of the time and each key is drawn once", async () => {
  const { clock, pacer, settle } = simulated();
  /** @type {[string, number][]} */
  const drawn = [];
  for (const key of ["a", "b", "a", "c"]) {
    pacer.ask(key, async () => {
      drawn.push([key, clock.ms]);
      clock.ms += 10;
      return false;
    });
  }
  await settle();
  assert.deepEqual(drawn, [["a", 0], ["b", 100], ["c", 200]]);
});

test("nobody rests after urgent work, nor longer than the longest rest", async () => {
  const { clock, pacer, settle } = simulated();
  /** @type {number[]} */
  const at = [];
  const work = (/** @type {number} */ ms, /** @type {boolean} */ urgent) => async () => {
    at.push(clock.ms);
    clock.ms += ms;
    return urgent;
  };
  pacer.ask("first", work(500, true));
  pacer.ask("slow", work(1000, false));
  pacer.ask("last", work(1, false));
  await settle();
  assert.deepEqual(at, [0, 500, 4500]);
});

test("a closed pacer does nothing more", async () => {
  const { pacer, settle } = simulated();
  pacer.ask("a", async () => assert.fail("it was closed"));
  pacer.close();
  await settle();
});

test("a rest ends when somebody looks", async () => {
  const { clock, pacer, settle } = simulated();
  /** @type {number[]} */
  const at = [];
  pacer.cancel = timer => { clock.calls = clock.calls.filter(call => call !== timer); };
  pacer.later = (call, ms) => {
    const timer = /** @type {[number, () => void]} */ ([clock.ms + ms, call]);
    clock.calls.push(timer);
    return timer;
  };
  const work = async () => {
    at.push(clock.ms);
    clock.ms += 100;
    return false;
  };
  pacer.hurry();
  pacer.ask("a", async () => {
    pacer.ask("b", work);
    clock.calls.push([150, () => pacer.hurry()]);
    return work();
  });
  await settle();
  assert.deepEqual(at, [0, 150]);
});
