import assert from "node:assert/strict";
import { test } from "node:test";
import { model, place } from "./page.js";

const { default: charts } = await import("../src/charts.js");

/** A page of charts over a Vega that counts: what was embedded and finalized, and what each view was given.
 * @param {import("node:test").TestContext} t @param {boolean} [pulls] */
async function page(t, pulls = false) {
  const seen = { embedded: 0, finalized: 0, changed: /** @type {string[]} */ ([]), broken: false };
  const changeset = () => ({ remove: () => ({ insert: (/** @type {any} */ rows) => rows }) });
  const view = {
    change: (/** @type {string} */ name) => { seen.changed.push(name); }, width: () => {}, resize: () => view,
    runAsync: async () => {}, signal: () => {},
  };
  const embed = async () => {
    if (seen.broken) throw new Error("no such scale");
    seen.embedded += 1;
    return { view, finalize: () => { seen.finalized += 1; } };
  };
  const shown = model({ label: "Charts", lib: "", pulls }), el = place();
  const close = await charts.render({
    model: shown, el: /** @type {any} */ (el), host: { getWidget: async () => ({ exports: { vega: async () => ({ embed, changeset }) } }) },
  });
  t.after(close);
  return { seen, shown, el };
}

const figure = (/** @type {string} */ mark) => ({ title: "One", wide: false, spec: { mark } });
const labels = (/** @type {string} */ one) => ({ length: 1, numbers: [], texts: { text: [one] }, buffer: null });
const whole = (/** @type {object} */ more = {}) => ({
  type: "show", view: null, serial: 1, whole: true, order: ["one"], figures: { one: figure("bar") },
  tables: { one: { labels: labels("a"), kinds: labels("b") } }, ...more,
});
const newer = (/** @type {number} */ serial, /** @type {string} */ text) =>
  whole({ serial, whole: false, figures: {}, tables: { one: { labels: labels(text) } } });
const drawn = () => new Promise(done => setTimeout(done, 60));
const until = async (/** @type {() => boolean} */ check) => {
  for (let tries = 0; !check() && tries < 200; tries += 1) await drawn();
};

test("a page says who it is and takes no answer to another", async (t) => {
  const { seen, shown } = await page(t);
  const [{ type, view }] = shown.said;
  assert.equal(type, "hello");
  shown.tell(whole({ view: "another" }));
  await drawn();
  assert.equal(seen.embedded, 0);
  shown.tell(whole({ view }));
  await drawn();
  assert.equal(seen.embedded, 1);
});

test("a page that is looked at says so now and then, and asks ever more rarely where nothing comes", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { shown, el } = await page(t, true);
  const wait = (/** @type {number} */ seconds) => {
    for (let at = 0; at < seconds; at += 1) {
      now += 1000;
      t.mock.timers.tick(1000);
    }
    return shown.said.splice(0).map((/** @type {any} */ content) => content.type);
  };
  wait(0);
  assert.deepEqual(wait(33), ["pull", "seen", "pull", "seen", "pull", "seen"]);
  shown.tell(whole());
  assert.deepEqual(wait(5), ["pull"]);
  const [grid] = el.children[0].children;
  grid.offsetParent = null;
  assert.deepEqual(wait(60), [], "it is not on the screen");
  grid.offsetParent = grid;
  assert.deepEqual(wait(1), ["pull"]);
});

test("everything once more redraws only what has changed", async (t) => {
  const { seen, shown } = await page(t);
  shown.tell(whole());
  await drawn();
  shown.tell(whole({ serial: 2 }));
  await drawn();
  assert.deepEqual([seen.embedded, seen.finalized, seen.changed], [1, 0, []]);
  shown.tell(whole({ serial: 3, tables: { one: { labels: labels("c"), kinds: labels("b") } } }));
  await drawn();
  assert.deepEqual([seen.embedded, seen.finalized, seen.changed], [1, 0, ["labels"]]);
  shown.tell(whole({ serial: 4, figures: { one: figure("line") } }));
  await drawn();
  assert.deepEqual([seen.embedded, seen.finalized], [2, 1]);
});

test("a chart that could not be drawn says so, and is tried again with new data", async (t) => {
  const { seen, shown, el } = await page(t);
  seen.broken = true;
  shown.tell(whole());
  await drawn();
  const [problem] = el.all("workbench-card-problem"), [plot] = el.all("workbench-card-plot");
  assert.equal(problem.textContent, "This chart cannot be drawn: no such scale");
  assert.deepEqual([problem.hidden, plot.hidden], [false, true]);
  seen.broken = false;
  shown.tell(newer(2, "c"));
  await until(() => seen.embedded === 1);
  assert.deepEqual([seen.embedded, problem.hidden, plot.hidden], [1, true, false]);
});

test("a chart of several views, which keeps its own size and scrolls, is reached by Tab; no other is", async (t) => {
  const { shown, el } = await page(t);
  const [plot] = (shown.tell(whole()), el.all("workbench-card-plot"));
  assert.equal(plot.tabIndex, undefined);
  shown.tell(whole({ serial: 2, figures: { one: { ...figure("bar"), spec: { hconcat: [] } } } }));
  assert.equal(plot.tabIndex, 0);
});

test("a page that missed a message says hello, and an answer without news is none", async (t) => {
  const { shown } = await page(t);
  shown.tell(whole());
  shown.tell(newer(1, "a"));
  assert.equal(shown.said.length, 1);
  shown.tell(newer(3, "c"));
  assert.deepEqual(shown.said.map(one => one.type), ["hello", "hello"]);
});

test("figures of a group are in a section, which the kernel remembers as open", async (t) => {
  const { seen, shown, el } = await page(t);
  const order = ["one", "two", "three"], group = { ...figure("bar"), group: "System" };
  const both = { order, figures: { one: figure("bar"), two: group, three: group }, tables: {} };
  shown.tell(whole(both));
  await until(() => seen.embedded === 3);
  assert.equal(seen.embedded, 3);
  const [section] = el.all("workbench-charts-section"), [heading] = el.all("workbench-charts-count");
  assert.deepEqual([section.open, section.all("workbench-card").length, heading.textContent], [false, 2, "2 charts"]);
  section.open = true;
  section.dispatchEvent(new Event("toggle"));
  assert.deepEqual(shown.get("opened"), ["System"]);
  shown.tell(whole({ ...both, serial: 2 }));
  assert.equal(el.all("workbench-charts-section")[0].open, true, "a refresh leaves it open");
});

test("all charts that have news are drawn in one go", async (t) => {
  const { seen, shown } = await page(t);
  const order = ["one", "two"], figures = { one: figure("bar"), two: figure("line") };
  const told = (/** @type {number} */ serial, /** @type {string} */ text) => whole({
    serial, order, figures, tables: { one: { labels: labels(text) }, two: { others: labels(text) } } });
  shown.tell(told(1, "a"));
  await until(() => seen.embedded === 2);
  shown.tell(told(2, "b"));
  await until(() => seen.changed.length === 2);
  assert.deepEqual(seen.changed, ["labels", "others"]);
});
