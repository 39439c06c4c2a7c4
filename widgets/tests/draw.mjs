// Draws Vega-Lite specifications without a browser: {name: spec} on stdin, {name: {problems, marks}} on stdout.
import { readFileSync } from "node:fs";
import * as vega from "vega";
import { compile } from "vega-lite";

const found = {};
for (const [name, spec] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  const problems = [];
  const note = (...said) => problems.push(said.join(" "));
  const logger = { level: () => logger, warn: (...said) => (note(...said), logger), info: () => logger,
    debug: () => logger, error: (...said) => (note(...said), logger) };
  try {
    const { spec: compiled } = compile({ ...spec, width: 300, height: 200 }, { logger });
    const view = new vega.View(vega.parse(compiled), { renderer: "none", logger });
    const svg = await view.toSVG();
    found[name] = { problems: problems.filter((one) => !one.includes("Infinite extent")), marks: svg.split("<path").length };
    view.finalize();
  } catch (error) {
    found[name] = { problems: [String(error)], marks: 0 };
  }
}
console.log(JSON.stringify(found));
