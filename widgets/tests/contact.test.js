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
