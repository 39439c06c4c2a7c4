// Vega, Vega-Lite and Vega-Embed: a plain module, which library.js loads. A view that gets new rows every second must not
// keep anything of the old ones: Vega 6.4 keeps 20 to 90 kB of an update, for two reasons, which are mended here.
import { transforms, tupleid } from "vega";
import vegaEmbed from "vega-embed";

export { changeset } from "vega";

// Marks of one kind (points, labels of an axis) that went away, until they are forgotten; Vega waits for 10,000.
export const CLEAN_AFTER = 100;

/** As vega-embed, with a view that forgets. @param {Parameters<typeof vegaEmbed>} given */
export async function embed(...given) {
  const made = await vegaEmbed(...given);
  /** @type {any} */ (made.view).cleanThreshold = CLEAN_AFTER;
  return made;
}

// A row that a transform passes on changed leaves its key behind when it goes.
const relay = /** @type {any} */ (transforms).relay.prototype, relayed = relay.transform;
/** @param {any} parameters @param {any} pulse */
relay.transform = function (parameters, pulse) {
  const out = relayed.call(this, parameters, pulse);
  if (parameters.derive) pulse.visit(pulse.REM, (/** @type {any} */ row) => delete this.value[tupleid(row)]);
  return out;
};
