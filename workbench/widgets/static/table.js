// src/table.js
var table_default = { render() {
} };
export {
  table_default as default
};
