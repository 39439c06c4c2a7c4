// Bundles every module of src/ that is an entry into one file that needs nothing else.
// node build.mjs [FOLDER]: where to, instead of workbench/widgets/static.
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

// vega.js holds a library, and is small only when minified; the others can be read as they are sent.
const ENTRIES = {
  "vega.js": true, "library.js": false, "charts.js": false, "table.js": false, "player.js": false,
  "game.js": false, "wall.js": false, "share.js": true, "timemachine.js": false,
};

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? fileURLToPath(new URL("../workbench/widgets/static", import.meta.url));

for (const [entry, minify] of Object.entries(ENTRIES)) {
  await build({
    entryPoints: [`${here}src/${entry}`], outfile: `${folder}/${entry}`, bundle: true, minify, format: "esm",
    target: "es2022", charset: "utf8", legalComments: "none", absWorkingDir: here, logLevel: "warning",
  });
}
