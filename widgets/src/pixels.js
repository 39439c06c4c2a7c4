// Observations as pixels. No DOM.

// Okabe & Ito's colours that stand out from black, then the same darker, then paler: planes of an observation that is no
// picture. workbench/environments/observations.py has the same.
const BRIGHT = [
  [86, 180, 233], [230, 159, 0], [255, 255, 255], [240, 228, 66], [0, 158, 115], [213, 94, 0], [204, 121, 167],
  [0, 114, 178],
];
export const PLANES = [
  ...BRIGHT, ...BRIGHT.map(one => one.map(value => Math.floor((55 * value) / 100))),
  ...BRIGHT.filter(one => one.some(value => value < 255)).map(one => one.map(value => value + Math.floor((255 - value) / 2))),
];
const HEAT = [230, 60, 200];

/**
 * An observation [channels, height, width] as RGBA: one channel is grey, three are colours, others are planes, each in a
 * colour of its own. Where all are 0 or 255 and several are lit in one place, the one that is lit in the fewest places
 * is seen there; else the brightest of each colour.
 * @param {ArrayLike<number>} values
 * @param {number[]} shape
 */
export function toRgba(values, [channels, height, width]) {
  const size = height * width, rgba = new Uint8ClampedArray(size * 4).fill(255);
  const lit = channels === 1 || channels === 3 ? null : counts(values, channels, size);
  for (let pixel = 0; pixel < size; pixel++) {
    for (let colour = 0; colour < 3; colour++) {
      rgba[pixel * 4 + colour] = channels === 1 ? values[pixel]
        : channels === 3 ? values[colour * size + pixel]
          : lit ? rarest(values, pixel, size, lit)[colour] : brightest(values, pixel, size, channels, colour);
    }
  }
  return rgba;
}

/**
 * In how many places each plane is lit; null where any is lit in part.
 * @param {ArrayLike<number>} values
 * @param {number} channels
 * @param {number} size
 */
function counts(values, channels, size) {
  const found = new Array(channels).fill(0);
  for (let at = 0; at < channels * size; at++) {
    if (values[at] === 255) found[Math.floor(at / size)] += 1;
    else if (values[at] !== 0) return null;
  }
  return found;
}

/**
 * @param {ArrayLike<number>} values
 * @param {number} pixel
 * @param {number} size
 * @param {number[]} lit
 */
function rarest(values, pixel, size, lit) {
  let best = -1;
  lit.forEach((count, plane) => {
    if (values[plane * size + pixel] && (best < 0 || count < lit[best])) best = plane;
  });
  return best < 0 ? [0, 0, 0] : PLANES[best % PLANES.length];
}

/**
 * @param {ArrayLike<number>} values
 * @param {number} pixel
 * @param {number} size
 * @param {number} channels
 * @param {number} colour
 */
function brightest(values, pixel, size, channels, colour) {
  let light = 0;
  for (let plane = 0; plane < channels; plane++) {
    const value = values[plane * size + pixel];
    if (value) light = Math.max(light, (PLANES[plane % PLANES.length][colour] * value) / 255);
  }
  return light;
}

/**
 * Saliency [height, width] of 0…255 as RGBA to lie over a picture: the more it counts, the less one sees through.
 * @param {ArrayLike<number>} values
 * @param {number} opacity  of what counts most, 0…1
 */
export function heat(values, opacity) {
  const rgba = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) rgba.set([...HEAT, values[i] * opacity], i * 4);
  return rgba;
}
