// What a view that follows something says to the kernel: that somebody looks, and a question where nothing came.

const SILENCE_S = 4; // without news, it asks; doubled while no answer comes
const LONGEST_SILENCE_S = 60;
const HEARD_S = 10; // how often it says that it is looked at
const GONE = "This page's kernel has gone, and the view stands still. Run the cell again.";

export class Contact {
  /**
   * @param {{send(content: object): void}} model
   * @param {string} view
   * @param {(text: string) => void} lost  shows why nothing moves
   */
  constructor(model, view, lost) {
    this.model = model;
    this.view = view;
    this.lost = lost;
    this.heard = this.told = performance.now(); // from the kernel, and to it
    this.patience = SILENCE_S;
  }

  /** Whether it could be sent: a kernel that restarts or has gone takes nothing. @param {object} content */
  tell(content) {
    try {
      this.model.send(content);
      return true;
    } catch {
      this.lost(GONE);
      return false;
    }
  }

  /** News have come. */
  hear() {
    this.heard = performance.now();
    this.patience = SILENCE_S;
  }

  /**
   * Called once a second: asks for news where none came, and says now and then that somebody looks.
   * @param {boolean} over  whether no news are to be expected, until a run goes on
   * @param {object} [more]  of the question
   */
  ask(over, more = {}) {
    if (document.hidden) return;
    const now = performance.now();
    if (!over && now - this.heard > this.patience * 1000) {
      this.heard = now;
      this.patience = Math.min(2 * this.patience, LONGEST_SILENCE_S);
      this.tell({ type: "pull", view: this.view, ...more });
    } else if (now - this.told > HEARD_S * 1000) {
      this.told = now;
      this.tell({ type: "seen" });
    }
  }
}

/** Tasks one after the other, such as messages that are unpacked; one that fails is said, and the next ones go on. */
export class Queue {
  /** @param {(text: string) => void} failed */
  constructor(failed) {
    this.failed = failed;
    this.last = Promise.resolve();
  }

  /** @param {() => any} task */
  add(task) {
    this.last = this.last.then(task).catch(error => this.failed(`Something that came could not be shown: ${error}`));
  }
}
