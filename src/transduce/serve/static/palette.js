// The colours of heads: Paul Tol's schemes, which stay apart for colour-blind readers; "muted" on white as in the
// figures of the package, "light" on black. Heads beyond the ninth are dashed.

const ON_WHITE = ["#332288", "#CC6677", "#117733", "#88CCEE", "#882255", "#999933", "#44AA99", "#AA4499", "#DDCC77"];
const ON_BLACK = ["#77AADD", "#EE8866", "#BBCC33", "#99DDFF", "#FFAABB", "#EEDD88", "#44BB99", "#DDDDDD", "#AAAA00"];

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The colour of a head, the same in every picture. */
export function headColour(head, scheme = dark.matches ? ON_BLACK : ON_WHITE) {
  return scheme[head % scheme.length];
}

/** As headColour, for a picture on white paper whatever the screen is like. */
export function printedColour(head) {
  return headColour(head, ON_WHITE);
}

/** Whether a head's lines are dashed. */
export function dashed(head) {
  return head >= ON_WHITE.length;
}

/** The value of a custom property of the page, such as --ink. */
export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Call back when light becomes dark or the other way round. */
export function onTheme(change) {
  dark.addEventListener("change", change);
}

/** [red, green, blue] of #rrggbb. */
export function rgb(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}
