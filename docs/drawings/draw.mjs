// Draws every .dot file of this folder by Graphviz. node draw.mjs [FOLDER]: where to, instead of docs.
import { instance } from "@viz-js/viz";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url));
const graphviz = await instance();
for (const name of readdirSync(here).filter((one) => one.endsWith(".dot"))) {
  const drawn = graphviz.renderString(readFileSync(here + name, "utf8"), { format: "svg" });
  writeFileSync(`${folder}/${name.replace(/dot$/, "svg")}`, drawn);
}
