// As much of a page as the charts and the player touch, for node: elements in a tree, and observers that see all of it.

class FakeElement extends EventTarget {
  constructor(/** @type {string} */ tag) {
    super();
    this.tag = tag;
    /** @type {any[]} */
    this.children = [];
    this.style = { setProperty() {} };
    this.dataset = {};
    this.attributes = {};
    this.text = "";
    this.hidden = false;
    this.isConnected = true;
    this.offsetParent = this;
    this.clientWidth = 400;
    this.classList = { toggle() {}, add() {} };
  }

  get textContent() {
    return this.text + this.children.map(one => (typeof one === "string" ? one : one.textContent)).join("");
  }

  set textContent(text) {
    [this.text, this.children] = [text, []];
  }

  append(/** @type {any[]} */ ...more) { this.children.push(...more); }
  replaceChildren(/** @type {any[]} */ ...more) { this.children = more; }
  insertBefore(/** @type {any} */ one, /** @type {any} */ before) {
    this.children = this.children.filter(other => other !== one);
    this.children.splice(before ? this.children.indexOf(before) : this.children.length, 0, one);
  }
  remove() { this.isConnected = false; }
  contains() { return false; }
  closest() { return null; }
  focus() {}
  setAttribute(/** @type {string} */ name, /** @type {string} */ value) { this.attributes[name] = value; }
  removeAttribute(/** @type {string} */ name) { delete this.attributes[name]; }
  getAttribute(/** @type {string} */ name) { return this.attributes[name] ?? null; }
  getContext() { return new Proxy({}, { get: () => () => ({ width: 0 }), set: () => true }); }

  /** All below it that have this class. @param {string} name @returns {FakeElement[]} */
  all(name) {
    return this.children.filter(one => one instanceof FakeElement).flatMap(
      one => [...((one.attributes.class ?? "").split(" ").includes(name) ? [one] : []), ...one.all(name)]);
  }

  querySelector(/** @type {string} */ selector) { return this.all(selector.slice(1))[0] ?? null; }
}

/** Observers call for what they are given at once. */
class Observer {
  constructor(/** @type {(entries: any[]) => void} */ call) { this.call = call; }
  observe(/** @type {any} */ target) { queueMicrotask(() => this.call([{ target, isIntersecting: true }])); }
  unobserve() {}
  disconnect() {}
}

class Silent {
  observe() {}
  disconnect() {}
}

const node = (/** @type {string} */ tag) => new FakeElement(tag);
Object.assign(globalThis, {
  document: Object.assign(node("document"), { createElement: node, body: node("body"), documentElement: node("html") }),
  window: globalThis, IntersectionObserver: Observer, ResizeObserver: Observer, MutationObserver: Silent,
  getComputedStyle: () => ({ color: "rgb(0, 0, 0)", backgroundColor: "white", fontFamily: "sans" }),
  requestAnimationFrame: () => 0, cancelAnimationFrame() {},
});

/** Where a widget is put. */
export const place = () => node("div");

/** A widget's model: what the page says is in `said`; `tell` is the kernel's side. @param {Record<string, any>} values */
export function model(values) {
  /** @type {any} */
  let receive = null;
  const made = {
    said: /** @type {any[]} */ ([]), gone: false,
    get: (/** @type {string} */ name) => values[name],
    set: (/** @type {string} */ name, /** @type {any} */ value) => (values[name] = value), save_changes: () => {},
    on: (/** @type {string} */ _, /** @type {any} */ call) => (receive = call), off: () => (receive = null),
    send: (/** @type {any} */ content) => {
      if (made.gone) throw new Error("the kernel has gone");
      made.said.push(content);
    },
    tell: (/** @type {any} */ content, /** @type {any[]} */ buffers = []) => receive(content, buffers),
  };
  return made;
}
