// The position under the pointer as a line in every chart that has the same axis of time.

/** @typedef {import("./card.js").Card} Card */

/** The value on the x axis at a place in the page, or null beside the plot. @param {Card} card @param {number} clientX */
export function valueAt(card, clientX) {
  const view = card.drawn?.view, plot = card.plotted();
  if (!view || !plot) return null;
  const place = clientX - card.plot.getBoundingClientRect().left - plot.left;
  return place < 0 || place > plot.width ? null : view.scale("x").invert(place);
}

/** Show the line at a value; null: hide it. @param {Iterable<Card>} cards @param {number | null} value */
export function showAt(cards, value) {
  for (const card of cards) {
    const plot = value === null || !card.visible ? null : card.plotted();
    const place = plot ? card.drawn.view.scale("x")(value) : NaN;
    const { line } = card;
    line.hidden = !plot || !(place >= 0 && place <= plot.width);
    if (plot && !line.hidden) {
      Object.assign(line.style, { left: `${plot.left + place}px`, top: `${plot.top}px`, height: `${plot.height}px` });
    }
  }
}
