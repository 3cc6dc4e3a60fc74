// Two columns of words with lines between them, coloured by head as in Figures 3 to 5 of the paper.
//
// All lines are drawn once; a word that is pointed at has its own drawn over them, so that a hover costs little.

import { element, focusStop, keepStop, onWidth, roving, sized } from "./dom.js";
import { dashed } from "./palette.js";

const LEVELS = 24; // of opacity: lines of one level are one stroke
const FAINTEST = { all: 0.03, own: 0.01 };
const SQUARE = 7;

/** The picture; `onpoint({ query, key })` hears which word is hovered over or focused, `onpin(query)` which is clicked. */
export class Lines {
  constructor(onpoint, onpin) {
    this.columns = { query: this.column("query", onpoint, onpin), key: this.column("key", onpoint, onpin) };
    this.all = element("canvas", { "aria-hidden": "true" });
    this.own = element("canvas", { class: "over", "aria-hidden": "true" });
    this.between = element("div", { class: "between" }, this.all, this.own);
    this.node = element("div", { class: "lines" }, this.columns.query, this.between, this.columns.key);
    this.pointed = {};
    onWidth(this.between, () => this.drawAll());
  }

  column(side, onpoint, onpin) {
    const label = side === "query" ? "Words that attend" : "Words attended to";
    const list = element("div", { class: `column ${side}`, role: "listbox", "aria-label": label });
    const place = (target) => {
      const word = target.closest("[data-stop]");
      return word ? Number(word.dataset.stop) : null;
    };
    list.addEventListener("pointermove", (event) => onpoint({ [side]: place(event.target) }));
    list.addEventListener("pointerleave", () => onpoint({}));
    list.addEventListener("focusin", (event) => {
      keepStop(list, event.target.closest("[data-stop]"));
      onpoint({ [side]: place(event.target) });
    });
    list.addEventListener("focusout", () => onpoint({}));
    list.addEventListener("click", (event) => {
      const at = place(event.target);
      if (at === null) return;
      focusStop(list, event.target.closest("[data-stop]"));
      if (side === "query") onpin(at);
    });
    roving(list);
    return list;
  }

  /** Show a view; series are [{ weights, colour, head }], lanes of the squares beside the words. */
  show(view, series, languages) {
    this.view = view;
    this.series = series;
    const longest = Math.max(view.queries.length, view.keys.length);
    this.row = longest <= 24 ? 28 : longest <= 48 ? 22 : 15;
    this.node.style.setProperty("--row", `${this.row}px`);
    this.node.classList.toggle("dense", this.row < 20);
    this.fill(this.columns.query, view.queries, languages[0]);
    this.fill(this.columns.key, view.keys, languages[1]);
    this.drawAll();
  }

  fill(list, units, lang) {
    const written = units.map(({ label }) => label).join("\u0000");
    if (list.dataset.written === written) return;
    list.dataset.written = written;
    list.replaceChildren(
      ...units.map(({ label }, at) =>
        element(
          "div",
          {
            class: "word",
            role: "option",
            "aria-selected": "false",
            "data-stop": at,
            tabindex: at ? -1 : 0,
            dir: "auto",
            lang,
          },
          label,
        ),
      ),
    );
  }

  drawAll() {
    if (!this.view) return;
    const height = Math.max(this.view.queries.length, this.view.keys.length) * this.row;
    this.size = [this.between.clientWidth, height];
    const context = sized(this.all, ...this.size);
    this.strokes(context, FAINTEST.all, {});
    this.point(this.pointed);
  }

  /** Show what one word attends to, or by which words one is attended to. */
  point(pointed) {
    const before = this.pointed;
    this.pointed = pointed;
    if (!this.view) return;
    this.mark("query", before.query, false);
    this.mark("key", before.key, false);
    const { query = null, key = null } = pointed;
    const any = query !== null || key !== null;
    this.node.classList.toggle("pointed", any);
    const context = sized(this.own, ...this.size);
    if (!any) return;
    this.mark("query", query, true);
    this.mark("key", key, true);
    this.strokes(context, FAINTEST.own, { query, key });
    const [queries, keys] = [this.view.queries.length, this.view.keys.length];
    if (key === null) this.squares(context, keys, (weights, at) => weights[query * keys + at], true);
    if (query === null) this.squares(context, queries, (weights, at) => weights[at * keys + key], false);
  }

  mark(side, at, on) {
    if (at === null || at === undefined) return;
    this.columns[side].children[at]?.setAttribute("aria-selected", on);
  }

  get lane() {
    return Math.min(SQUARE, 56 / this.series.length);
  }

  /** The lines of all words, of one query or of one key. */
  strokes(context, faintest, { query = null, key = null }) {
    const [width] = this.size;
    const margin = this.series.length * this.lane + 6;
    const keys = this.view.keys.length;
    const middle = this.row / 2;
    context.lineWidth = this.row < 20 ? 1.2 : 1.8;
    for (const { weights, colour, head } of this.series) {
      const paths = new Array(LEVELS + 1);
      for (let row = query ?? 0; row <= (query ?? this.view.queries.length - 1); row++) {
        for (let column = key ?? 0; column <= (key ?? keys - 1); column++) {
          const weight = weights[row * keys + column];
          if (weight < faintest) continue;
          const level = Math.min(LEVELS, Math.ceil(weight * LEVELS));
          paths[level] ??= new Path2D();
          paths[level].moveTo(margin, row * this.row + middle);
          paths[level].lineTo(width - margin, column * this.row + middle);
        }
      }
      context.strokeStyle = colour;
      context.setLineDash(dashed(head) ? [5, 3] : []);
      paths.forEach((path, level) => {
        context.globalAlpha = level / LEVELS;
        context.stroke(path);
      });
    }
    context.globalAlpha = 1;
  }

  squares(context, count, weightOf, right) {
    const [width] = this.size;
    const side = Math.min(this.row - 4, 14);
    this.series.forEach(({ weights, colour }, lane) => {
      context.fillStyle = colour;
      const x = right ? width - (this.series.length - lane) * this.lane - 2 : lane * this.lane + 2;
      for (let at = 0; at < count; at++) {
        const weight = weightOf(weights, at);
        if (weight < FAINTEST.own) continue;
        context.globalAlpha = Math.min(1, weight);
        context.fillRect(x, at * this.row + (this.row - side) / 2, this.lane - 1, side);
      }
    });
    context.globalAlpha = 1;
  }
}
