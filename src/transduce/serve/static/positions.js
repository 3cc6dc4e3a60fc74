// The position encodings that are added to the embeddings (section 3.5), as the model has them.

import { element, onWidth, sized } from "./dom.js";
import { signed } from "./numbers.js";
import { rgb, themed } from "./palette.js";

/** A map of positions (down) and dimensions (across), to be hovered over or walked through with arrow keys. */
export function positionMap(record) {
  const [rows, columns] = record.json.positions.shape;
  const numbers = record.positions();
  const canvas = element("canvas", {
    tabindex: 0,
    role: "application",
    "aria-label": "Position encodings. Arrow keys move: down to the next position, right to the next dimension.",
  });
  const readout = element("p", { class: "readout-line", role: "status" }, "Point at a number to read it.");
  const image = document.createElement("canvas");
  [image.width, image.height] = [columns, rows];
  let at = null;

  const draw = () => {
    const width = frame.clientWidth;
    if (!width) return;
    const pixels = new ImageData(columns, rows);
    const [positive, negative] = ["--positive", "--negative"].map((name) => rgb(themed(name)));
    numbers.forEach((value, place) =>
      pixels.data.set([...(value < 0 ? negative : positive), 255 * Math.min(1, Math.abs(value))], 4 * place),
    );
    image.getContext("2d").putImageData(pixels, 0, 0);
    const height = rows * Math.max(4, Math.min(16, 320 / rows));
    const context = sized(canvas, width, height);
    context.imageSmoothingEnabled = false;
    context.fillStyle = themed("--well");
    context.fillRect(0, 0, width, height);
    context.drawImage(image, 0, 0, width, height);
    if (!at) return;
    context.strokeStyle = themed("--ink");
    context.strokeRect((at[1] * width) / columns, (at[0] * height) / rows, Math.max(2, width / columns), height / rows);
  };
  const point = (row, column) => {
    at = [Math.max(0, Math.min(rows - 1, row)), Math.max(0, Math.min(columns - 1, column))];
    readout.textContent = told(record.model, numbers[at[0] * columns + at[1]], ...at);
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    point(
      Math.floor(((event.clientY - box.top) / box.height) * rows),
      Math.floor(((event.clientX - box.left) / box.width) * columns),
    );
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    point(...(at ? [at[0] + move[0], at[1] + move[1]] : [0, 0]));
  });
  const frame = element("div", { class: "position-map" }, canvas);
  onWidth(frame, draw);
  const key =
    record.model.positions === "learned"
      ? "One learned vector for each position."
      : "PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same).";
  return element(
    "div",
    {},
    element("p", { class: "quiet" }, `${key} Positions go down, dimensions across.`),
    frame,
    readout,
  );
}

function told({ d_model: width, positions }, value, position, dimension) {
  const place = `PE(${position}, ${dimension}) = ${signed(value, 2)}`;
  if (positions === "learned") return place;
  const wave = 2 * Math.PI * 10000 ** ((dimension - (dimension % 2)) / width);
  return `${place}, ${dimension % 2 ? "cosine" : "sine"} of wavelength ${wave < 1000 ? wave.toFixed(1) : Math.round(wave).toLocaleString("en")}`;
}
