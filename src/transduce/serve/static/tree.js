// The beam search as a tree: a column for each step, the likelier the higher; what was pruned is faint.

import { element, shape } from "./dom.js";
import { percent } from "./numbers.js";

const [COLUMN, ROW, TOP, LEFT, LETTER] = [100, 26, 18, 12, 7.5];
const FATES = { kept: "kept", pruned: "pruned", finished: "finished" };

/** The tree of a record; `show(step)` moves the frame to a step. */
export class BeamTree {
  constructor(tree, lang) {
    this.tree = tree;
    this.lang = lang;
    this.byStep = [];
    tree.steps.forEach((step, place) => (this.byStep[step] ??= []).push(place));
    for (const places of this.byStep) places.sort((a, b) => tree.log_probabilities[b] - tree.log_probabilities[a]);
    this.rank = new Map(this.byStep.flatMap((places) => places.map((place, rank) => [place, rank])));
    this.best = new Set(tree.best);
    this.frame = element("div", { class: "step", hidden: true });
    this.frame.style.width = `${COLUMN}px`;
    this.node = element(
      "div",
      { class: "tree", tabindex: 0, role: "group", "aria-label": "Beam tree, scrolls sideways" },
      this.frame,
      this.draw(),
    );
  }

  at(place) {
    return [LEFT + this.tree.steps[place] * COLUMN, TOP + this.rank.get(place) * ROW];
  }

  draw() {
    const width = LEFT + this.byStep.length * COLUMN;
    const height = TOP + Math.max(...this.byStep.map((places) => places.length)) * ROW;
    const places = [...this.rank.keys()];
    const label = `Beam tree of ${this.byStep.length - 1} steps; the list above has the words of each step.`;
    return shape(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
      ...places.filter((place) => place > 0).map((place) => this.edge(place)),
      ...places.map((place) => this.word(place)),
    );
  }

  classOf(place) {
    return `${FATES[this.tree.fates[place]]}${this.best.has(place) ? " best" : ""}`;
  }

  edge(place) {
    const [x, y] = this.at(place);
    const [fromX, fromY] = this.at(this.tree.parents[place]);
    const start = fromX + 9 + LETTER * Math.min(8, this.tree.pieces[this.tree.parents[place]].length);
    const middle = (start + x - 10) / 2;
    const path = `M${start} ${fromY}C${middle} ${fromY} ${middle} ${y} ${x - 10} ${y}`;
    return shape("path", { class: this.classOf(place), d: path });
  }

  word(place) {
    const [x, y] = this.at(place);
    const { pieces, log_probabilities: sums, fates } = this.tree;
    const piece = pieces[place].length > 8 ? `${pieces[place].slice(0, 7)}…` : pieces[place];
    return shape(
      "g",
      { class: this.classOf(place) },
      shape("title", {}, `${pieces[place]}: ${fates[place]}, log-probability so far ${sums[place].toFixed(2)}`),
      shape("circle", { cx: x - 5, cy: y, r: 4 }),
      shape("text", { x: x + 4, y, "dominant-baseline": "central", lang: this.lang }, piece),
    );
  }

  /** Frame the candidates of a step, from 1; 0: none. */
  show(step) {
    const left = LEFT + step * COLUMN;
    this.frame.hidden = !step;
    this.frame.style.transform = `translateX(${left - 14}px)`;
    const { scrollLeft, clientWidth } = this.node;
    if (step && (left < scrollLeft || left > scrollLeft + clientWidth - COLUMN)) {
      this.node.scrollLeft = left - clientWidth / 2;
    }
  }

  /** What a step ranked, likeliest first: [{ words, piece, probability of the whole, fate, best }]. */
  candidates(step) {
    return (this.byStep[step] ?? []).map((place) => ({
      words: this.path(this.tree.parents[place]),
      piece: this.tree.pieces[place],
      probability: percent(Math.exp(this.tree.log_probabilities[place])),
      fate: this.tree.fates[place],
      best: this.best.has(place),
    }));
  }

  path(place) {
    const { parents, pieces } = this.tree;
    const before = [];
    for (let at = place; at; at = parents[at]) before.unshift(pieces[at]);
    return before.join("").replaceAll("▁", " ").trim();
  }
}
