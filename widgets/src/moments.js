// The states of a game as rows of a track: what was advised at each step, and then what was done. No DOM.

/**
 * @typedef {object} State  as workbench/playing/worker/game_server.py tells it
 * @property {number} episode
 * @property {number} seed
 * @property {number} step
 * @property {number} frames
 * @property {number} reward
 * @property {number} episode_return
 * @property {number | null} score  of the last step
 * @property {number | null} episode_score
 * @property {number | number[] | null} action  the last one
 * @property {string} by
 * @property {number} by_person
 * @property {string} over
 * @property {string} failure  what the environment said, where it failed
 * @property {{kind: string, scores: number[], action: number | number[], value: number} | null} advice
 * @property {number[] | null} observation
 * @property {string} playing
 * @property {boolean} running
 * @property {boolean} turns
 * @property {number} rate
 * @property {string | null} kept
 */

/**
 * Add a state to the track of its episode: a row for x_t, and what was done in the row before. Nothing where the step is
 * there already.
 * @param {import("./track.js").Track} track
 * @param {State} state
 * @param {{scores: number, none: number | number[], fps: number}} given  how many scores there are, what stands for no
 *   action, steps per second
 */
export function add(track, state, { scores, none, fps }) {
  const { step, advice } = state, life = String(state.episode), end = track.first + track.length;
  if (life === track.life && track.length && step < end) return;
  if (life === track.life && step === end && track.length) {
    track.columns.action[track.length - 1] = state.action;
    track.columns.by_person[track.length - 1] = Number(state.by === "person");
  }
  track.append({ life, first: step }, {
    time_s: [step / fps], reward: [state.reward], episode_return: [state.episode_return], by_person: [NaN],
    value: [advice?.value ?? NaN], scores: [advice?.scores ?? Array(scores).fill(NaN)],
    action: [advice?.action ?? none],
    ...(state.score === null ? {} : { score: [state.score] }),
    ...(state.observation ? { observation: [state.observation] } : {}),
  });
}

/** How a game stands, in words. @param {State} state @param {(value: number) => string} number @param {number} perStep */
export function standing(state, number, perStep) {
  const frames = perStep > 1 ? `, ${state.frames.toLocaleString("en")} frames` : "";
  const score = state.episode_score === null ? "" : ` · score ${number(state.episode_score)}`;
  return `step ${state.step.toLocaleString("en")}${frames} · reward ${number(state.reward)} · return ${number(state.episode_return)}${score}`;
}

/** Who plays and how time runs, in words. @param {State} state @param {number} perStep */
export function clock(state, perStep) {
  const rate = `${round(state.rate)} steps/s${perStep > 1 ? ` (${round(state.rate * perStep)} frames/s)` : ""}`;
  if (state.over) return `episode over: ${state.over}`;
  if (state.playing === "agent") return state.running ? `the agent plays, ${rate}` : "the agent has the controls; time stands";
  if (state.turns) return "you play; a step for each key";
  return state.running ? `you play, ${rate}` : "you play; time stands";
}

const round = (/** @type {number} */ rate) => Math.round(10 * rate) / 10;
