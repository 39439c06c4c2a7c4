// Draws one thing after the other, and rests between, so that all drawing takes a small share of a core.

export class Pacer {
  /** @param {{share?: number, longestRestMs?: number, now?: () => number,
   *           later?: (call: () => void, ms: number) => any, cancel?: (timer: any) => void}} [how] */
  constructor({
    share = 0.08, longestRestMs = 3000, now = () => performance.now(), later = (call, ms) => setTimeout(call, ms),
    cancel = (timer) => clearTimeout(timer),
  } = {}) {
    this.share = share;
    this.longestRestMs = longestRestMs;
    this.now = now;
    this.later = later;
    this.cancel = cancel;
    /** @type {Map<unknown, () => Promise<boolean>>} */
    this.waiting = new Map();
    this.busy = false;
    this.closed = false;
    /** @type {any} what ends the rest, while there is one */
    this.rest = null;
  }

  /** Do `task` when it is its turn; one that waits under the same key is done once. It resolves to whether it is urgent
   * work, such as a first drawing, after which nobody rests.
   * @param {unknown} key @param {() => Promise<boolean>} task */
  ask(key, task) {
    this.waiting.set(key, task);
    if (!this.busy && !this.closed) {
      this.busy = true;
      this.later(() => void this.next(), 0);
    }
  }

  async next() {
    this.rest = null;
    const first = this.waiting.entries().next();
    if (first.done || this.closed) {
      this.busy = false;
      return;
    }
    const [key, task] = first.value;
    this.waiting.delete(key);
    const began = this.now();
    const urgent = await task();
    const took = this.now() - began;
    const rest = urgent ? 0 : Math.min(took / this.share - took, this.longestRestMs);
    this.rest = this.later(() => void this.next(), rest);
  }

  /** End a rest: somebody looks at what waits. */
  hurry() {
    if (this.rest === null || !this.waiting.size) return;
    this.cancel(this.rest);
    this.rest = null;
    this.later(() => void this.next(), 0);
  }

  close() {
    this.closed = true;
    this.waiting.clear();
  }
}
