// Which keys are held, as a game counts them. No DOM.

/**
 * The name of a key as workbench/playing/by_hand/keyboard.py has it.
 * @param {string} key  of a keyboard event
 */
export const nameOf = key => (key === " " ? "Space" : key.length === 1 ? key.toLowerCase() : key);

/** The keys that are held, oldest first. */
export class Held {
  /** @param {string[]} known  keys that mean something */
  constructor(known) {
    this.known = new Set(known);
    /** @type {string[]} */
    this.keys = [];
  }

  /** Whether the key means something. @param {string} key */
  down(key) {
    if (!this.known.has(key)) return false;
    if (!this.keys.includes(key)) this.keys = [...this.keys, key];
    return true;
  }

  /** Whether it was held. @param {string} key */
  up(key) {
    const before = this.keys.length;
    this.keys = this.keys.filter(one => one !== key);
    return this.keys.length < before;
  }

  /** Whether any was held. */
  release() {
    const any = this.keys.length > 0;
    this.keys = [];
    return any;
  }
}

const ARROWS = new Map([["ArrowUp", "↑"], ["ArrowDown", "↓"], ["ArrowLeft", "←"], ["ArrowRight", "→"]]);

/** What stands on keys. @param {string} keys  such as "ArrowUp, w" */
export const caps = keys => keys.split(", ").map(one => ARROWS.get(one) ?? (one.length === 1 ? one.toUpperCase() : one));
