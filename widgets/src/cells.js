// The elements of a table's cells; each is touched only where what it shows has changed.
import { element, setText } from "./elements.js";
import { cellText, sparkline, spoken } from "./rows.js";

const SPARK = { width: 96, height: 22 };
const SVG = "http://www.w3.org/2000/svg";

/** @param {HTMLElement} cell @param {any} value @param {import("./rows.js").Column} column
 * @param {number} now */
export function setCell(cell, value, { title, kind }, now) {
  if (kind === "sparkline") return setSparkline(cell, value, title);
  const text = cellText(value, kind, now);
  if (kind !== "state") return setText(cell, text);
  if (!cell.firstChild) cell.append(element("span", { class: "wb-badge" }));
  const badge = /** @type {HTMLElement} */ (cell.firstChild);
  setText(badge, text);
  badge.dataset.state = text;
}

/** @param {HTMLElement} cell @param {any} value @param {string} title */
function setSparkline(cell, value, title) {
  const given = JSON.stringify(value ?? null);
  if (cell.dataset.given === given) return;
  cell.dataset.given = given;
  const { width, height } = SPARK, shape = sparkline(value, width, height);
  if (!shape) return cell.replaceChildren();
  const size = { width, height, viewBox: `0 0 ${width} ${height}` };
  cell.replaceChildren(drawing("svg", { ...size, role: "img", "aria-label": `${title} ${spoken(value)}` },
    drawing("title", {}, spoken(value)), drawing("path", { d: shape.path }),
    drawing("circle", { cx: shape.x, cy: shape.y, r: 2 })));
}

/** The first line of a note, and the rest to be opened.
 * @param {HTMLElement} note @param {string} text @param {boolean} bad */
export function setNote(note, text, bad) {
  const given = `${bad}${text}`;
  if (note.dataset.given === given) return;
  note.dataset.given = given;
  note.hidden = !text;
  const [first, ...rest] = text.trim().split("\n");
  const said = element("div", { role: bad ? "alert" : "status", class: bad ? "wb-bad" : "" }, first);
  if (rest.length) said.append(element("details", {}, element("summary", {}, "details"), element("pre", { tabIndex: 0 }, rest.join("\n"))));
  note.firstElementChild?.replaceChildren(...(text ? [said] : []));
}

/** @param {string} name @param {Record<string, string | number>} attributes @param {(Node | string)[]} children */
function drawing(name, attributes, ...children) {
  const drawn = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) drawn.setAttribute(key, String(value));
  drawn.append(...children);
  return drawn;
}
