// Numbers and times as people read them, the same as in workbench/tables.py.

/**
 * The number with at most so many significant digits, as Python's format(value, ".4g") has it: an exact tie goes to
 * the even digit, zeros at the end are left out.
 * @param {number} value
 * @param {number} digits
 */
export function general(value, digits) {
  const [mantissa, exponent] = nearest(value, digits).toExponential(digits - 1).split("e");
  const power = Number(exponent);
  const short = (/** @type {string} */ text) => text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  if (power < -4 || power >= digits) {
    return `${short(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  return short(nearest(value, digits).toFixed(digits - 1 - power));
}

/**
 * A number as people read it: 950, 12,400, 1.25 M, 10 T.
 * @param {number} value
 */
export function number(value) {
  const size = Math.abs(value);
  if (size >= 1e12) return `${grouped(general(value / 1e12, 4))} T`;
  if (size >= 1e9) return `${grouped(general(value / 1e9, 4))} G`;
  if (size >= 1e6) return `${grouped(general(value / 1e6, 4))} M`;
  return size >= 100 || Number.isInteger(value) ? grouped(whole(value)) : general(value, 3);
}

/**
 * A time in seconds as people say it: 12 s, 3 min, 4 h 10 min, 2 d 3 h.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 60) return `${whole(seconds)} s`;
  const minutes = Number(whole(seconds / 60));
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Python's rounding: a half goes to the even neighbour. @param {number} value */
function whole(value) {
  const below = Math.floor(value), rest = value - below;
  const rounded = rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
  return String(Object.is(rounded, -0) ? 0 : rounded);
}

/**
 * The number with so many significant digits that is nearest; of two that are equally near the even one, where
 * toExponential would take the larger.
 * @param {number} value
 * @param {number} digits
 */
function nearest(value, digits) {
  const [mantissa, exponent] = value.toExponential(60).split("e");
  const cut = mantissa.indexOf(".") + digits;
  const even = Number(mantissa[cut - (digits === 1 ? 2 : 1)]) % 2 === 0;
  return even && /^50*$/.test(mantissa.slice(cut)) ? Number(`${mantissa.slice(0, cut)}e${exponent}`) : value;
}

/** @param {string} text */
function grouped(text) {
  const [before, ...after] = text.split(/(?=[.e])/);
  return [before.replace(/\B(?=(\d{3})+$)/g, ","), ...after].join("");
}
