// How cards share the width of a grid, so that their edges are aligned and no row has a hole. No DOM.

export const NARROWEST = 240, GAP = 10; // px of a card, and between two

/**
 * The columns of a grid, and how many of them the first and the last card take; all others take one.
 * @param {number} width  of the grid, in px
 * @param {number} count  of cards
 * @param {boolean} wide  whether the first card is to be larger than the others, where there is room
 * @returns {{columns: number, first: number, last: number}}
 */
export function arranged(width, count, wide) {
  const most = Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP)));
  if (count < 2 || most < 2) return { columns: 1, first: 1, last: 1 };
  if (wide) {
    if (most > count) return { columns: count + 1, first: 2, last: 1 };
    if (count > 2 && most >= count - 1) return { columns: count - 1, first: count - 1, last: 1 };
    return { columns: 2, first: count % 2 ? 2 : 1, last: 1 };
  }
  // The largest number, or one less where that leaves a smaller hole.
  const largest = Math.min(most, count), hole = (/** @type {number} */ columns) => columns - 1 - ((count - 1) % columns);
  const columns = largest > 2 && hole(largest - 1) < hole(largest) ? largest - 1 : largest;
  return { columns, first: 1, last: 1 + hole(columns) };
}
