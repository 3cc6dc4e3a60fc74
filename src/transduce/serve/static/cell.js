// One cell of a heat map, opened to its arithmetic (equation 1 of the paper).

import { element } from "./dom.js";
import { signed, weight } from "./numbers.js";
import { arithmetic } from "./record.js";

/** The steps from a query and a key to their weight; `cell` is { query, key } of a view. */
export function openCell(record, view, cell, head) {
  const [queries, keys] = record.sides(view.kind);
  const [from, to] = [view.queries[cell.query].places, view.keys[cell.key].places];
  const node = element("section", { class: "cell panel", "aria-label": "Arithmetic of a cell", tabindex: -1 });
  const chosen = { head, from: from[0], to: to[0] };
  const draw = () => {
    const found = arithmetic(record, view.kind, view.layer, chosen.head, chosen.from, chosen.to);
    body.replaceChildren(...steps(record, found, queries.pieces[chosen.from], keys.pieces[chosen.to]));
  };
  const pick = (label, places, pieces, name) => {
    const options = places.map((place) => element("option", { value: place }, pieces[place]));
    const change = (event) => {
      chosen[name] = Number(event.target.value);
      draw();
    };
    return element("label", { class: "field" }, label, element("select", { onchange: change }, ...options));
  };
  const heads = Array.from({ length: record.model.heads }, (_, at) => element("option", { value: at }, `${at + 1}`));
  heads[head].selected = true;
  const changeHead = (event) => {
    chosen.head = Number(event.target.value);
    draw();
  };
  const body = element("div", { class: "steps", "aria-live": "polite" });
  node.append(
    element(
      "h3",
      {},
      `Layer ${view.layer + 1}: `,
      quote(view.queries[cell.query].label),
      " looks at ",
      quote(view.keys[cell.key].label),
    ),
    element(
      "div",
      { class: "row" },
      element("label", { class: "field" }, "Head", element("select", { onchange: changeHead }, ...heads)),
      from.length > 1 ? pick("Query token", from, queries.pieces, "from") : null,
      to.length > 1 ? pick("Key token", to, keys.pieces, "to") : null,
      element("button", { type: "button", onclick: () => node.remove() }, "Close"),
    ),
    body,
  );
  draw();
  return node;
}

function quote(label) {
  return element("bdi", {}, `“${label}”`);
}

function steps(record, found, query, key) {
  const { attention, d_k: width } = record.model;
  const additive = attention === "additive";
  const terms = additive ? [] : [termTable(found, query, key)];
  const scaled =
    attention === "scaled"
      ? line("q · k / √d_k", `${signed(found.product)} / √${width} = ${signed(found.score)}`)
      : line("score", signed(found.score), attention);
  const softmax = found.seen
    ? line(
        "softmax",
        `exp(${signed(found.score)} − ${signed(found.highest)}) / ${found.sum.toFixed(3)} = ${weight(found.exponential / found.sum)}`,
      )
    : line("softmax", "0", "the mask: a later token is not seen");
  return [
    element(
      "dl",
      {},
      additive ? null : line("q · k", signed(found.product), `the sum of ${width} products`),
      scaled,
      softmax,
      line("weight", weight(found.weight), "as the model computed it"),
      line("‖v‖", found.valueNorm.toFixed(3), "the length of the value"),
      line("weight · ‖v‖", (found.weight * found.valueNorm).toFixed(3), "how much of it the head takes in"),
    ),
    ...terms,
    element("p", { class: "quiet" }, "Queries and keys are kept in half precision: last digits may differ."),
  ];
}

function line(name, value, note = "") {
  return element(
    "div",
    {},
    element("dt", {}, name),
    element("dd", {}, value, note ? element("span", { class: "quiet" }, ` ${note}`) : null),
  );
}

function termTable({ q, k }, query, key) {
  const products = Array.from(q, (value, at) => value * k[at]);
  const largest = Math.max(...products.map(Math.abs), 1e-9);
  const rows = products.map((product, at) => {
    const bar = element("span", { class: product < 0 ? "bar negative" : "bar" });
    bar.style.width = `${(44 * Math.abs(product)) / largest}%`;
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, `${at + 1}`),
      element("td", {}, signed(q[at])),
      element("td", {}, signed(k[at])),
      element("td", {}, signed(product)),
      element("td", { class: "bars", "aria-hidden": "true" }, bar),
    );
  });
  const head = ["i", `q of ${query}`, `k of ${key}`, "product", ""].map((text) =>
    text ? element("th", { scope: "col" }, text) : element("td", {}),
  );
  return element(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": "Products of query and key" },
    element(
      "table",
      { class: "numbers" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    ),
  );
}
