// Tokens with their probabilities: the surer the model was, the longer the line under them.

import { element, roving } from "./dom.js";
import { percent } from "./numbers.js";

/** A token as text: the mark of a word's beginning becomes a space. */
export function written(piece) {
  return piece.replaceAll("▁", " ");
}

/** A token over the line that shows its probability. */
export function token(piece, probability, attributes = {}, tag = "span") {
  const text = written(piece);
  const line = element("span", { class: "sure", "aria-hidden": "true" });
  line.style.width = `${100 * probability}%`;
  const label = `${text.trim() || "space"}, probability ${percent(probability)}`;
  const begins = text.startsWith(" ") || piece === "</s>" ? " begins" : "";
  const named = tag === "button" ? { "aria-label": label } : {};
  return element(tag, { class: `token${begins}`, title: label, ...named, ...attributes }, text.trim() || "␣", line);
}

/** The sentence and its translation; `onstep(step)` hears of the token that is chosen, from 1. */
export function strip(record, onstep) {
  const { source, target, model } = record;
  const buttons = target.pieces.map((piece, at) =>
    token(
      piece,
      target.probabilities[at],
      { type: "button", "data-stop": "", tabindex: at ? -1 : 0, onclick: () => onstep(at + 1) },
      "button",
    ),
  );
  const list = element(
    "div",
    { class: "tokens", role: "group", "aria-label": "Translation, token by token", dir: "auto", lang: model.target },
    ...buttons,
  );
  roving(list);
  return element(
    "div",
    { class: "strip" },
    element("p", { class: "sentence", dir: "auto", lang: model.source }, source.text),
    list,
  );
}

/** Rows of a label, a number and a bar. */
export function bars(rows, lang) {
  return element(
    "ul",
    { class: "bar-list" },
    ...rows.map(({ label, share, note = "", chosen = false }) => {
      const bar = element("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = `${100 * share}%`;
      return element(
        "li",
        { class: chosen ? "chosen" : null },
        element("bdi", { class: "label", lang }, label),
        element("span", { class: "track", "aria-hidden": "true" }, bar),
        element("span", { class: "number" }, note || percent(share)),
      );
    }),
  );
}
