// Page elements in one call.

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [properties]  "class", "aria-…" and "data-…" become attributes
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class" || name === "role" || name.includes("-")) made.setAttribute(name, value);
    else /** @type {any} */ (made)[name] = value;
  }
  made.append(...children);
  return made;
}

/** Changes a text only where it is another, so that a screen reader says it once. @param {Element} shown @param {string} text */
export function setText(shown, text) {
  if (shown.textContent !== text) shown.textContent = text;
}

/** @param {string} text @param {string} style @param {() => void} click @param {string} [label] for screen readers */
export function button(text, style, click, label = "") {
  const made = element("button", { type: "button", class: style, ...(label ? { "aria-label": label } : {}) }, text);
  made.addEventListener("click", click);
  return made;
}
