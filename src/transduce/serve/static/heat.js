// A heat map: a row for each word that attends, a column for each that is attended to.

import { element, onWidth, sized } from "./dom.js";
import { rgb, themed } from "./palette.js";

const SMALLEST_LABEL = 11; // cells below this many pixels have no labels of their own

/** The map; `onpoint({ query, key })` hears of the cell under pointer or cursor, `onopen` of one that is chosen. */
export class Heat {
  constructor(onpoint, onopen) {
    this.map = element("canvas", { "aria-hidden": "true" });
    this.over = element("canvas", {
      class: "over",
      tabindex: 0,
      role: "application",
      "aria-label": "Heat map of the weights. Arrow keys move from cell to cell, Enter opens one.",
    });
    this.node = element("div", { class: "heat" }, this.map, this.over);
    this.image = document.createElement("canvas");
    this.pointed = {};
    this.cursor = null; // where the keyboard is
    this.over.addEventListener("pointermove", (event) => onpoint(this.cell(event)));
    this.over.addEventListener("pointerleave", () => onpoint({}));
    this.over.addEventListener("blur", () => onpoint({}));
    this.over.addEventListener("click", (event) => this.open(this.cell(event), onopen));
    this.over.addEventListener("keydown", (event) => this.key(event, onpoint, onopen));
    onWidth(this.node, () => this.draw());
  }

  open(cell, onopen) {
    if (Number.isInteger(cell.query) && Number.isInteger(cell.key)) onopen(cell);
  }

  key(event, onpoint, onopen) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in moves) {
      event.preventDefault();
      const [down, across] = this.cursor ? moves[event.key] : [0, 0];
      const { query, key } = this.cursor ?? { query: 0, key: 0 };
      const clamp = (at, count) => Math.max(0, Math.min(count - 1, at));
      this.cursor = {
        query: clamp(query + down, this.view.queries.length),
        key: clamp(key + across, this.view.keys.length),
      };
      onpoint(this.cursor);
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor) {
      event.preventDefault();
      this.open(this.cursor, onopen);
    }
  }

  cell(event) {
    const [left, top] = this.corner;
    const box = this.over.getBoundingClientRect();
    const key = Math.floor((event.clientX - box.left - left) / this.side);
    const query = Math.floor((event.clientY - box.top - top) / this.side);
    const inside = key >= 0 && query >= 0 && key < this.view.keys.length && query < this.view.queries.length;
    return inside ? { query, key } : {};
  }

  /** Show one matrix in a colour. */
  show(view, weights, colour) {
    const [width, height] = [view.keys.length, view.queries.length];
    if (this.image.width !== width || this.image.height !== height) this.cursor = null;
    this.view = view;
    this.image.width = width;
    this.image.height = height;
    const pixels = new ImageData(width, height);
    const [red, green, blue] = rgb(colour);
    weights.forEach((weight, at) => pixels.data.set([red, green, blue, Math.round(255 * Math.min(1, weight))], 4 * at));
    this.image.getContext("2d").putImageData(pixels, 0, 0);
    this.draw();
  }

  draw() {
    if (!this.view || !this.node.clientWidth) return;
    const { queries, keys } = this.view;
    const available = this.node.clientWidth;
    const labelled = (available - 110) / keys.length >= SMALLEST_LABEL;
    const room = labelled ? this.room() : [0, 0];
    this.side = Math.max(2, Math.min(28, Math.floor((available - room[0] - 1) / keys.length)));
    this.corner = room;
    const [width, height] = [room[0] + this.side * keys.length + 1, room[1] + this.side * queries.length + 1];
    const context = sized(this.map, width, height);
    context.imageSmoothingEnabled = false;
    context.fillStyle = themed("--well");
    context.fillRect(...room, this.side * keys.length, this.side * queries.length);
    context.drawImage(this.image, ...room, this.side * keys.length, this.side * queries.length);
    if (labelled) this.labels(context);
    this.size = [width, height];
    this.ink = themed("--ink");
    this.point(this.pointed);
  }

  room() {
    const context = this.map.getContext("2d");
    context.font = this.font;
    const longest = (units) => Math.max(...units.map(({ label }) => context.measureText(label).width));
    return [Math.min(110, longest(this.view.queries) + 8), Math.min(110, longest(this.view.keys) + 8)];
  }

  get font() {
    return `12px ${themed("--face")}`;
  }

  labels(context) {
    const [left, top] = this.corner;
    context.font = this.font;
    context.fillStyle = themed("--quiet");
    context.textBaseline = "middle";
    context.textAlign = "right";
    this.view.queries.forEach(({ label }, at) =>
      context.fillText(label, left - 5, top + (at + 0.5) * this.side, left - 6),
    );
    context.textAlign = "left";
    this.view.keys.forEach(({ label }, at) => {
      context.save();
      context.translate(left + (at + 0.5) * this.side, top - 5);
      context.rotate(-Math.PI / 2);
      context.fillText(label, 0, 0, top - 6);
      context.restore();
    });
  }

  /** Frame a row, a column or a cell. */
  point(pointed) {
    this.pointed = pointed;
    if (!this.view || !this.size) return;
    const context = sized(this.over, ...this.size);
    const { query = null, key = null } = pointed;
    const [left, top] = this.corner;
    const [width, height] = [this.side * this.view.keys.length, this.side * this.view.queries.length];
    context.strokeStyle = this.ink;
    context.lineWidth = 1;
    context.globalAlpha = query !== null && key !== null ? 0.35 : 1;
    if (query !== null) context.strokeRect(left + 0.5, top + query * this.side + 0.5, width, this.side);
    if (key !== null) context.strokeRect(left + key * this.side + 0.5, top + 0.5, this.side, height);
    if (query === null || key === null) return;
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(left + key * this.side + 0.5, top + query * this.side + 0.5, this.side, this.side);
  }
}
