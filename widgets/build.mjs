// Bundles every module of src/ that is an entry into one file that needs nothing else.
// node build.mjs [FOLDER]: where to, instead of workbench/widgets/static; the extension of JupyterLab in FOLDER/lab then,
// instead of jupyter/labextensions/rl-workbench.
import { createHash } from "node:crypto";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { build } from "esbuild";
import { fileURLToPath } from "node:url";

// vega.js holds a library, and is small only when minified; the others can be read as they are sent.
const ENTRIES = {
  "vega.js": true, "library.js": false, "charts.js": false, "table.js": false, "player.js": false,
  "game.js": false, "wall.js": false, "share.js": true, "timemachine.js": false,
};

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? fileURLToPath(new URL("../workbench/widgets/static", import.meta.url));
const lab = process.argv[2] ? `${folder}/lab` : fileURLToPath(new URL("../jupyter/labextensions/rl-workbench", import.meta.url));

const common = {
  bundle: true, target: "es2022", charset: "utf8", legalComments: "none", absWorkingDir: here, logLevel: "warning",
};

for (const [entry, minify] of Object.entries(ENTRIES)) {
  await build({ ...common, entryPoints: [`${here}src/${entry}`], outfile: `${folder}/${entry}`, minify, format: "esm" });
}
await buildLab();

/** The extension of JupyterLab. The hash in the file's name lets no browser keep an older one. */
async function buildLab() {
  const { outputFiles: [file] } = await build({
    ...common, entryPoints: [`${here}src/lab.js`], format: "iife", loader: { ".css": "text" }, write: false,
  });
  const name = `remoteEntry.${createHash("sha256").update(file.contents).digest("hex").slice(0, 12)}.js`;
  await rm(lab, { recursive: true, force: true });
  await mkdir(`${lab}/static`, { recursive: true });
  await writeFile(`${lab}/static/${name}`, file.contents);
  const about = {
    name: "rl-workbench", version: "0.1.0", license: "Apache-2.0",
    description: "Runs and sweeps of RL Workbench in JupyterLab's sidebar",
    jupyterlab: { extension: true, _build: { load: `static/${name}`, extension: "./extension" } },
  };
  await writeFile(`${lab}/package.json`, `${JSON.stringify(about, null, 1)}\n`);
  const installed = { packageManager: "python", packageName: "rl-workbench",
                      uninstallInstructions: "pip uninstall rl-workbench" };
  await writeFile(`${lab}/install.json`, `${JSON.stringify(installed, null, 1)}\n`);
}
