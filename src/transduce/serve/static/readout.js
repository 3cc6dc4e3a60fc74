// The exact weights of what is pointed at, and all of them as a table.

import { element } from "./dom.js";
import { weight } from "./numbers.js";

const SHOWN = 8; // words; of heads all are
const HINT =
  "Point at a word or a cell to read its weights; with the keyboard, Tab to the words and use the arrow keys.";

/** Says the weights of a word or a cell. */
export class Readout {
  constructor() {
    this.title = element("p", { class: "title" }, HINT);
    this.rows = [];
    this.list = element("ul", { class: "bar-list" });
    const scroll = element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Weights" }, this.list);
    this.node = element("div", { class: "readout panel", role: "status" }, this.title, scroll);
  }

  row() {
    const row = {
      label: element("bdi", { class: "label" }),
      bar: element("span", { class: "bar" }),
      number: element("span", { class: "number" }),
    };
    const track = element("span", { class: "track", "aria-hidden": "true" }, row.bar);
    row.node = element("li", {}, row.label, track, row.number);
    this.list.append(row.node);
    return row;
  }

  /** Tell of { query, key }: `weights` is what the heat map shows, `summed` says of what, series the heads one by one. */
  tell(view, weights, series, summed, { query = null, key = null }) {
    const [queries, keys] = [view.queries, view.keys];
    if (query === null && key === null) return this.fill(HINT, []);
    if (query !== null && key !== null) {
      const at = query * keys.length + key;
      const found = series.map(({ weights: own, name }) => [name, own[at]]);
      const title = `“${queries[query].label}” looks at “${keys[key].label}”: ${weight(weights[at])} (${summed})`;
      return this.fill(title, found);
    }
    const found =
      query !== null
        ? keys.map(({ label }, column) => [label, weights[query * keys.length + column]])
        : queries.map(({ label }, row) => [label, weights[row * keys.length + key]]);
    found.sort((a, b) => b[1] - a[1]);
    const title = query !== null ? `“${queries[query].label}” looks at` : `“${keys[key].label}” is looked at by`;
    return this.fill(`${title} (${summed})`, found.slice(0, SHOWN));
  }

  fill(title, found) {
    this.title.textContent = title;
    while (this.rows.length < found.length) this.rows.push(this.row());
    this.rows.forEach((row, at) => {
      row.node.hidden = at >= found.length;
      if (row.node.hidden) return;
      const [label, value] = found[at];
      row.label.textContent = label;
      row.number.textContent = weight(value);
      row.bar.style.width = `${100 * Math.min(1, value)}%`;
    });
  }
}

/** All weights of a matrix as a table. */
export function weightTable(view, weights, languages) {
  const heads = view.keys.map(({ label }) => element("th", { scope: "col", dir: "auto", lang: languages[1] }, label));
  const rows = view.queries.map(({ label }, row) =>
    element(
      "tr",
      {},
      element("th", { scope: "row", dir: "auto", lang: languages[0] }, label),
      ...view.keys.map((_, column) => element("td", {}, weight(weights[row * view.keys.length + column]))),
    ),
  );
  return element(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": "Table of the weights" },
    element(
      "table",
      { class: "numbers" },
      element("caption", {}, "Rows attend to columns."),
      element("thead", {}, element("tr", {}, element("td", {}), ...heads)),
      element("tbody", {}, ...rows),
    ),
  );
}
