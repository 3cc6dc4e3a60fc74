// The search step by step: a slider, the likeliest tokens of the step, and the beam tree.

import { element } from "./dom.js";
import { bars, written } from "./tokens.js";
import { percent } from "./numbers.js";
import { BeamTree } from "./tree.js";

/** The panel of a record; `onstep(step)` hears of the slider, from 1; 0 is the whole sentence. */
export class Steps {
  constructor(record, onstep) {
    this.record = record;
    this.lang = record.model.target;
    this.tree = new BeamTree(record.tree, this.lang);
    const last = record.target.pieces.length;
    this.slider = element("input", {
      type: "range",
      min: 0,
      max: last,
      step: 1,
      id: "step",
      oninput: () => onstep(Number(this.slider.value)),
    });
    this.slider.value = 0;
    this.told = element("output", { for: "step" });
    this.likely = element("div", {});
    this.ranked = element("div", {});
    this.node = element(
      "section",
      { class: "steps-panel panel", "aria-label": "Decoding steps" },
      element("h2", {}, "Step by step"),
      element("div", { class: "row slider" }, element("label", { for: "step" }, "Step"), this.slider, this.told),
      element("div", { class: "columns" }, this.likely, this.ranked),
      element("h3", {}, `Beam of ${record.json.beam}`),
      element(
        "p",
        { class: "legend quiet" },
        key("best", "the translation"),
        key("kept", "went on"),
        key("finished", "ended"),
        key("pruned", "was pruned"),
        "The likelier, the higher.",
      ),
      this.tree.node,
    );
    this.show(0);
  }

  /** Tell of a step. */
  show(step) {
    const { target } = this.record;
    this.slider.value = step;
    this.tree.show(step);
    const chosen = step ? target.pieces[step - 1] : "";
    const told = step
      ? `${step} of ${target.pieces.length}: “${written(chosen).trim()}”, ${percent(target.probabilities[step - 1])}`
      : "the whole sentence";
    this.told.textContent = told;
    this.slider.setAttribute("aria-valuetext", told);
    this.likely.replaceChildren(...(step ? this.alternatives(step, chosen) : []));
    this.ranked.replaceChildren(...(step ? this.candidates(step) : []));
  }

  alternatives(step, chosen) {
    const rows = this.record.target.alternatives[step - 1].map(({ piece, probability }) => ({
      label: piece,
      share: probability,
      chosen: piece === chosen,
    }));
    return [element("h3", {}, "Likeliest tokens"), bars(rows, this.lang)];
  }

  candidates(step) {
    const rows = this.tree
      .candidates(step)
      .map(({ words, piece, probability, fate, best }) =>
        element(
          "tr",
          { class: best ? "chosen" : fate },
          element(
            "td",
            { dir: "auto", lang: this.lang },
            element("span", { class: "quiet" }, words ? `${words} ` : ""),
            element("strong", {}, written(piece).trim() || "␣"),
          ),
          element("td", { class: "number" }, probability),
          element("td", {}, best ? "the translation" : fate),
        ),
      );
    return [
      element("h3", {}, "What the beam ranked"),
      element(
        "div",
        { class: "scroll", tabindex: 0, role: "group", "aria-label": "Candidates of the step" },
        element("table", { class: "ranked" }, element("tbody", {}, ...rows)),
      ),
    ];
  }
}

function key(fate, label) {
  return element("span", { class: `fate ${fate}` }, label);
}
