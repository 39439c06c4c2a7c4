// Observations as pixels. No DOM.

// Okabe & Ito's colours that stand out from black, one for each plane of an observation that is no picture.
const PLANES = [
  [86, 180, 233], [230, 159, 0], [240, 228, 66], [0, 158, 115], [213, 94, 0], [204, 121, 167], [0, 114, 178],
  [255, 255, 255],
];
const HEAT = [230, 60, 200];

/**
 * An observation [channels, height, width] as RGBA: one channel is grey, three are colours, others are planes that lie
 * over each other, each in a colour of its own.
 * @param {ArrayLike<number>} values
 * @param {number[]} shape
 */
export function toRgba(values, [channels, height, width]) {
  const size = height * width, rgba = new Uint8ClampedArray(size * 4).fill(255);
  for (let pixel = 0; pixel < size; pixel++) {
    for (let colour = 0; colour < 3; colour++) {
      rgba[pixel * 4 + colour] = channels === 1 ? values[pixel]
        : channels === 3 ? values[colour * size + pixel] : planes(values, pixel, size, channels, colour);
    }
  }
  return rgba;
}

/**
 * @param {ArrayLike<number>} values
 * @param {number} pixel
 * @param {number} size
 * @param {number} channels
 * @param {number} colour
 */
function planes(values, pixel, size, channels, colour) {
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
