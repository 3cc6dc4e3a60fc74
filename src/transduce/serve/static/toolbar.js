// What is shown of the attention: which kind, which heads, and how.

import { check, choices, element } from "./dom.js";
import { headColour } from "./palette.js";

const KINDS = [
  ["encoder", "Encoder"],
  ["decoder", "Decoder"],
  ["cross", "Decoder to encoder"],
];
const WAYS = [
  ["each", "Each in its colour"],
  ["mean", "Mean"],
  ["max", "Maximum"],
];

/** The controls above the pictures; `change(part)` takes what of the state becomes different. */
export class Toolbar {
  constructor(record, state, change) {
    this.state = state;
    this.change = change;
    this.chips = Array.from({ length: record.model.heads }, (_, head) => this.chip(head));
    const heads = element("div", { class: "chips", role: "group", "aria-label": "Heads" }, ...this.chips);
    this.layers = element("select", {
      "aria-label": "Layer",
      onchange: () => change({ layer: Number(this.layers.value) }),
    });
    this.node = element(
      "div",
      { class: "toolbar" },
      choices("Attention", "kind", KINDS, state.kind, (kind) => change({ kind })),
      element("div", { class: "field" }, element("span", { "aria-hidden": "true" }, "Layer"), this.layers),
      element("div", { class: "field" }, element("span", { "aria-hidden": "true" }, "Heads"), heads),
      choices("Show heads", "combine", WAYS, state.combine, (combine) => change({ combine })),
      element(
        "div",
        { class: "checks" },
        check("Whole words", state.words, (words) => change({ words })),
        check("Punctuation", state.marks, (marks) => change({ marks })),
        check("Specials", state.specials, (specials) => change({ specials })),
      ),
    );
    this.layerCount = (kind) => record.layers(kind);
    this.mark();
  }

  chip(head) {
    const label = `Head ${head + 1}`;
    return element(
      "button",
      { type: "button", class: "chip", "aria-label": label, title: label, onclick: () => this.toggle(head) },
      `${head + 1}`,
    );
  }

  /** From all heads to this one, from this one alone to all, else in or out. */
  toggle(head) {
    const { heads } = this.state;
    const all = this.chips.map((_, at) => at);
    if (heads.length === all.length) this.change({ heads: [head] });
    else if (heads.length === 1 && heads[0] === head) this.change({ heads: all });
    else this.change({ heads: all.filter((at) => (at === head) !== heads.includes(at)) });
  }

  /** Show the state. */
  mark() {
    const { kind, layer, heads } = this.state;
    const count = this.layerCount(kind);
    if (this.layers.length !== count) {
      this.layers.replaceChildren(
        ...Array.from({ length: count }, (_, at) => element("option", { value: at }, `${at + 1} of ${count}`)),
      );
    }
    this.layers.value = layer;
    this.chips.forEach((chip, head) => {
      chip.setAttribute("aria-pressed", heads.includes(head));
      chip.style.setProperty("--head", headColour(head));
    });
    for (const input of this.node.querySelectorAll('input[name="kind"]')) input.checked = input.value === kind;
    for (const input of this.node.querySelectorAll('input[name="combine"]'))
      input.checked = input.value === this.state.combine;
  }
}
