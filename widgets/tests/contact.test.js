import assert from "node:assert/strict";
import { test } from "node:test";

import "./page.js";
import { Contact, Queue } from "../src/contact.js";

test("what is over is looked at still, and not asked for news", () => {
  const sent = /** @type {any[]} */ ([]);
  const contact = new Contact({ send: content => sent.push(content) }, "a", () => assert.fail("it was sent"));
  contact.ask(false);
  assert.deepEqual(sent, []);
  contact.heard -= 5_000;
  contact.told -= 11_000;
  contact.ask(true);
  assert.deepEqual(sent, [{ type: "seen" }]);
  contact.ask(false);
  assert.deepEqual(sent.slice(1), [{ type: "pull", view: "a" }]);
});

test("a question that is not answered is asked again after twice the time", () => {
  const sent = /** @type {any[]} */ ([]);
  const contact = new Contact({ send: content => sent.push(content) }, "a", () => assert.fail("it was sent"));
  const silent = (/** @type {number} */ seconds) => {
    [contact.heard, contact.told] = [performance.now() - seconds * 1000, performance.now()];
    contact.ask(false, { serial: 3 });
    return sent.splice(0);
  };
  assert.deepEqual(silent(5), [{ type: "pull", view: "a", serial: 3 }]);
  assert.deepEqual(silent(5), []);
  assert.equal(silent(9).length, 1);
  contact.hear();
  assert.equal(silent(5).length, 1);
});

test("a task that fails is said, and the next ones follow in their order", async () => {
  const said = /** @type {string[]} */ ([]), done = /** @type {number[]} */ ([]);
  const queue = new Queue(text => said.push(text));
  queue.add(async () => done.push(1));
  queue.add(() => { throw new Error("torn"); });
  queue.add(() => done.push(2));
  await queue.last;
  assert.deepEqual(done, [1, 2]);
  assert.match(said[0], /could not be shown: Error: torn/);
});
