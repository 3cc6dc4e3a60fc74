// Half-precision numbers, and numbers as people read them.

let table = null;

/** The value of every half-precision number, by its bits. */
function halves() {
  if (table) return table;
  table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) table[bits] = fraction ? NaN : sign * Infinity;
    else table[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return table;
}

/** The numbers of a packed array. */
export function unpack(packed) {
  const values = halves();
  const bytes = atob(packed.float16);
  const numbers = new Float32Array(bytes.length / 2);
  for (let at = 0; at < numbers.length; at++) {
    numbers[at] = values[bytes.charCodeAt(2 * at) | (bytes.charCodeAt(2 * at + 1) << 8)];
  }
  return numbers;
}

/** A probability or a weight: three digits behind the point. */
export function weight(value) {
  return value.toFixed(3);
}

/** A signed number with a real minus. */
export function signed(value, digits = 3) {
  return value.toFixed(digits).replace("-", "−");
}

/** A share in per cent, such as 97 % or 0.4 %. */
export function percent(value) {
  const hundred = 100 * value;
  return `${hundred >= 10 ? hundred.toFixed(0) : hundred >= 0.1 ? hundred.toFixed(1) : "< 0.1"} %`;
}
