// Draws an environment from a few numbers. Python is workbench/environments/sketches.py.

/** @typedef {{role: "line" | "data" | "mark", points: number[][], width: number}} Shape */
/** @typedef {{box: number[], shapes: Shape[]}} Sketch */

/** Height by width. @param {Sketch} sketch */
export const ratioOf = ({ box: [left, bottom, right, top] }) => (top - bottom) / (right - left);

/**
 * @param {CanvasRenderingContext2D} context  cleared, in CSS pixels
 * @param {import("./canvas.js").Ink} ink
 * @param {Sketch} sketch
 * @param {ArrayLike<number>} pose  x, y and angle of each shape
 * @param {number} width
 */
export function drawSketch(context, ink, { box: [left, , right, top], shapes }, pose, width) {
  const scale = width / (right - left), colours = { line: ink.faint, data: ink.data, mark: ink.mark };
  shapes.forEach(({ role, points, width: stroke }, at) => {
    context.save();
    context.translate((pose[3 * at] - left) * scale, (top - pose[3 * at + 1]) * scale);
    context.rotate(-pose[3 * at + 2]); // y is downward here
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(x * scale, -y * scale));
    context.fillStyle = context.strokeStyle = colours[role];
    context.lineWidth = Math.max(1, stroke * scale);
    if (stroke) context.stroke();
    else context.fill();
    context.restore();
  });
}
