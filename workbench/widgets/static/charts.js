// src/charts.js
var charts_default = { render() {
} };
export {
  charts_default as default
};
