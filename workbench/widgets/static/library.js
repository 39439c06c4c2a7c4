// src/library.js
async function load(source) {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
}
var library_default = {
  /** @param {{model: any}} context */
  initialize({ model }) {
    let vega;
    return { vega: () => vega ??= load(model.get("source")) };
  },
  render() {
  }
};
export {
  library_default as default
};
