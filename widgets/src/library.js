// Vega once per page: a widget without a view, which the charts ask for (host.getWidget). It holds Vega's source as text
// and loads it when it is first wanted, because anywidget gives up on a module that is not there within two seconds,
// and a busy machine takes longer for a megabyte.

/** @param {string} source @returns {Promise<import("./card.js").Vega>} */
async function load(source) {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
}

export default {
  /** @param {{model: any}} context */
  initialize({ model }) {
    /** @type {Promise<import("./card.js").Vega> | undefined} */
    let vega;
    return { vega: () => (vega ??= load(model.get("source"))) };
  },
  render() {},
};
