// src/player.js
var player_default = { render() {
} };
export {
  player_default as default
};
