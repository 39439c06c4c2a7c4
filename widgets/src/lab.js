// The entry of the JupyterLab extension: a federated module by hand, which takes the application's own libraries from
// its shared scope, so that none is bundled. `workbench/widgets/side_panel` answers on the server.
import { plugin } from "./lab_plugin.js";

/** @typedef {Record<string, Record<string, {get: () => Promise<() => any>}>>} Scope */

const NAME = "rl-workbench";
/** @type {Scope} */
let scope = {};

/** A library of the application. @param {string} name @returns {Promise<any>} */
async function library(name) {
  const entry = Object.values(scope[name] ?? {})[0];
  if (!entry) throw new Error(`${NAME}: this JupyterLab does not share ${name}`);
  return (await entry.get())();
}

/** @type {any} */ (window)._JUPYTERLAB = {
  .../** @type {any} */ (window)._JUPYTERLAB,
  [NAME]: {
    /** @param {Scope} shared */
    init(shared) {
      scope = shared;
    },
    async get() {
      const built = await plugin(library);
      return () => ({ __esModule: true, default: built });
    },
  },
};
