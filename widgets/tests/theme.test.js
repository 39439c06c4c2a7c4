import assert from "node:assert/strict";
import { test } from "node:test";
import { vegaConfig } from "../src/theme.js";

test("charts have the page's colours and font, and nothing smaller than 12 px", () => {
  const config = vegaConfig({ text: "rgb(1, 2, 3)", background: "rgb(9, 9, 9)", font: "Some Sans", key: "" });
  assert.equal(config.axis.labelColor, "rgb(1, 2, 3)");
  assert.equal(config.legend.labelColor, "rgb(1, 2, 3)");
  assert.equal(config.background, "rgb(9, 9, 9)");
  assert.equal(config.font, "Some Sans");
  const sizes = JSON.stringify(config).match(/"\w*fontSize":\d+/gi) ?? [];
  assert.ok(sizes.length >= 4);
  for (const one of sizes) assert.ok(Number(one.split(":")[1]) >= 12, one);
});
