// What is shown, as a file: SVG and PNG of the pictures on white paper, JSON of the whole record.

import { shape } from "./dom.js";
import { dashed, printedColour } from "./palette.js";

const [ROW, FONT, GAP, MARGIN] = [22, 13, 220, 16];
const INK = "#222222";

/** Offer a file to be saved. */
export function save(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** The lines and the heat map beside them; `pointed` limits the lines to those of one word. */
export function picture(view, series, weights, pointed) {
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = `${FONT}px system-ui, sans-serif`;
  const widest = (units) => Math.ceil(Math.max(...units.map(({ label }) => measure.measureText(label).width))) + 8;
  const [left, right] = [widest(view.queries), widest(view.keys)];
  const side = ROW * 0.9;
  const top = MARGIN + right;
  const heatLeft = MARGIN + left + GAP + right + 40 + left;
  const rows = Math.max(view.queries.length, view.keys.length);
  const size = {
    width: Math.ceil(heatLeft + side * view.keys.length + MARGIN),
    height: Math.ceil(top + rows * ROW + MARGIN),
  };
  const text = (x, y, label, anchor, transform) =>
    shape("text", { x, y, fill: INK, "text-anchor": anchor, "dominant-baseline": "central", transform }, label);
  const marks = [shape("rect", { ...size, fill: "#FFFFFF" })];
  const middle = (row) => top + (row + 0.5) * ROW;
  view.queries.forEach(({ label }, row) => {
    marks.push(text(MARGIN + left - 6, middle(row), label, "end"));
    marks.push(text(heatLeft - 6, top + (row + 0.5) * side, label, "end"));
  });
  view.keys.forEach(({ label }, column) => {
    const x = heatLeft + (column + 0.5) * side;
    marks.push(text(MARGIN + left + GAP + 6, middle(column), label, "start"));
    marks.push(text(x, top - 6, label, "start", `rotate(-90 ${x} ${top - 6})`));
  });
  marks.push(
    ...lineMarks(view, series, pointed, MARGIN + left, middle),
    ...heatMarks(view, weights, heatLeft, top, side),
  );
  const svg = shape(
    "svg",
    { ...size, viewBox: `0 0 ${size.width} ${size.height}`, "font-family": "system-ui, sans-serif", "font-size": FONT },
    ...marks,
  );
  return { text: new XMLSerializer().serializeToString(svg), ...size };
}

function lineMarks(view, series, { query = null, key = null }, left, middle) {
  const marks = [];
  for (const { weights, head } of series) {
    for (let at = 0; at < weights.length; at++) {
      const [row, column] = [Math.floor(at / view.keys.length), at % view.keys.length];
      if (weights[at] < 0.01 || (query !== null && row !== query) || (key !== null && column !== key)) continue;
      marks.push(
        shape("line", {
          x1: left,
          y1: middle(row),
          x2: left + GAP,
          y2: middle(column),
          stroke: head === null ? INK : printedColour(head),
          "stroke-width": 1.8,
          "stroke-opacity": weights[at].toFixed(3),
          "stroke-dasharray": head !== null && dashed(head) ? "5 3" : null,
        }),
      );
    }
  }
  return marks;
}

function heatMarks(view, weights, left, top, side) {
  const marks = [];
  weights.forEach((weight, at) => {
    if (weight < 0.005) return;
    const [row, column] = [Math.floor(at / view.keys.length), at % view.keys.length];
    marks.push(
      shape("rect", {
        x: left + column * side,
        y: top + row * side,
        width: side,
        height: side,
        fill: "#004488",
        "fill-opacity": weight.toFixed(3),
      }),
    );
  });
  return marks;
}

/** The picture in pixels, two for each of CSS's. */
export async function pixels({ text, width, height }) {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
