// A translated sentence: its words, how they are aligned, how sure the model was, and what else it could be.

import { element, keepStop, roving } from "./dom.js";
import { percent } from "./numbers.js";
import { bars, token, written } from "./tokens.js";

/** A sentence and its translation as words that belong together; `onalternatives(prefix)` asks for other ways to go on. */
export class TranslatedLine {
  constructor(source, translation, languages, onalternatives) {
    this.translation = translation;
    this.languages = languages;
    this.onalternatives = onalternatives;
    const given = source.split(/\s+/).filter(Boolean);
    const made = wordsOf(translation);
    this.links = translation.alignment ?? [];
    this.given = given.map((word, at) => this.sourceWord(word, at));
    this.made = made.map((tokens, at) => this.targetWord(tokens, at, made));
    this.source = this.line("The sentence, word by word", this.given, languages.source);
    this.target = this.line("The translation, word by word", this.made, languages.target);
  }

  line(label, words, lang) {
    const node = element(
      "span",
      { class: "words", role: "group", "aria-label": label, lang },
      ...words.flatMap((word, at) => (at ? [" ", word] : [word])),
    );
    if (words[0]) words[0].tabIndex = 0;
    roving(node);
    node.addEventListener("focusin", (event) => keepStop(node, event.target.closest("[data-stop]")));
    return node;
  }

  sourceWord(word, at) {
    const listeners = this.listeners(() =>
      this.light(
        [at],
        this.links.filter(([from]) => from === at).map(([, to]) => to),
      ),
    );
    return element("span", { class: "word-box", role: "button", "data-stop": "", tabindex: -1, ...listeners }, word);
  }

  targetWord(tokens, at, words) {
    const listeners = this.listeners(() =>
      this.light(
        this.links.filter(([, to]) => to === at).map(([from]) => from),
        [at],
      ),
    );
    const prefix = words.slice(0, at).map(textOf).join(" ");
    const sure = tokens.map(({ piece, probability }) =>
      probability === null ? element("span", { class: "token" }, piece) : token(piece, probability),
    );
    const least = Math.min(...tokens.map(({ probability }) => probability ?? 1));
    const label = `${textOf(tokens)}, at least ${percent(least)} sure; other words`;
    const open = (event) => this.onalternatives(prefix, event.currentTarget);
    return element(
      "button",
      {
        type: "button",
        class: "word-box",
        "data-stop": "",
        tabindex: -1,
        "aria-label": label,
        onclick: open,
        ...listeners,
      },
      ...sure,
    );
  }

  listeners(light) {
    const dim = () => this.light([], []);
    return { onpointerenter: light, onfocus: light, onpointerleave: dim, onblur: dim };
  }

  light(given, made) {
    this.given.forEach((word, at) => word.classList.toggle("linked", given.includes(at)));
    this.made.forEach((word, at) => word.classList.toggle("linked", made.includes(at)));
  }

  /** The tokens and their probabilities as a table. */
  table() {
    const rows = (this.translation.tokens ?? []).map(({ piece, probability }) => ({
      label: piece,
      share: probability,
    }));
    return bars(rows, this.languages.target);
  }

  /** The other translations that the search found. */
  others() {
    const others = (this.translation.n_best ?? []).slice(1);
    return others.map(({ text, score }) =>
      element(
        "li",
        {},
        element("span", { dir: "auto", lang: this.languages.target }, text),
        element("span", { class: "number quiet" }, ` ${score.toFixed(2)}`),
      ),
    );
  }
}

/** The tokens of each word that spaces separate; without tokens, the words themselves. */
function wordsOf({ text, tokens }) {
  const shown = (tokens ?? []).filter(({ piece }) => piece !== "</s>");
  if (!shown.some(({ piece }) => piece.startsWith("▁"))) {
    const one = shown.length === text.split(/\s+/).filter(Boolean).length;
    return one
      ? shown.map((each) => [each])
      : text
          .split(/\s+/)
          .filter(Boolean)
          .map((piece) => [{ piece, probability: null }]);
  }
  const words = [];
  for (const each of shown) {
    if (!words.length || each.piece.startsWith("▁")) words.push([]);
    words.at(-1).push(each);
  }
  return words.filter((word) => textOf(word));
}

function textOf(tokens) {
  return tokens
    .map(({ piece }) => written(piece))
    .join("")
    .trim();
}
