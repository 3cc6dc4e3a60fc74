// Heads that are switched off, and what becomes of the translation.

import { showDifference } from "./diff.js";
import { element } from "./dom.js";

const NAMES = { encoder: "encoder", decoder: "decoder", cross: "decoder-to-encoder" };

function named([kind, layer, head]) {
  return `${NAMES[kind]} layer ${layer + 1} head ${head + 1}`;
}

function same(one, other) {
  return one.every((part, at) => part === other[at]);
}

/** The panel; with `onoff(heads)` the model is asked again, without it only what was recorded can be shown. */
export class Ablation {
  constructor(onoff) {
    this.onoff = onoff;
    this.button = element("button", { type: "button", onclick: () => this.toggle() });
    this.hint = element("span", { class: "quiet" });
    this.list = element("div", { class: "off-list" });
    this.result = element("div", { role: "status" });
    this.node = element(
      "section",
      { class: "ablation panel", "aria-label": "Switch a head off" },
      element("h2", {}, "Without a head"),
      element("div", { class: "row" }, this.button, this.hint),
      this.list,
      this.result,
    );
  }

  /** Show the record that is looked at; `whole` is that of the model with all its heads. */
  show(record, whole) {
    this.record = record;
    this.off = record.json.off;
    this.whole = whole;
    const { lang, text } = { lang: record.model.target, text: whole.target.text };
    this.list.replaceChildren(...(this.onoff ? this.off.map((head) => this.offButton(head)) : []));
    this.result.replaceChildren(...(this.off.length ? this.difference(text, record.target.text, lang) : []));
  }

  offButton(head) {
    const on = () => this.onoff(this.off.filter((other) => !same(other, head)));
    return element(
      "button",
      { type: "button", class: "off-head", onclick: on, title: "Switch it on again" },
      `${named(head)} is off ✕`,
    );
  }

  difference(old, fresh, lang) {
    const told = old === fresh ? "The translation stays the same." : "The translation changes:";
    return [element("p", {}, told), old === fresh ? null : showDifference(old, fresh, lang)].filter(Boolean);
  }

  /** Which head the button is for: the one that is shown alone, if it is one. */
  choose(kind, layer, heads) {
    this.head = heads.length === 1 ? [kind, layer, heads[0]] : null;
    const off = this.head && this.off.some((other) => same(other, this.head));
    this.button.disabled = !this.head;
    this.button.textContent = this.head ? `Switch ${off ? "on" : "off"} ${named(this.head)}` : "Switch off";
    this.hint.textContent = this.head ? "" : "Choose one head above to switch it off.";
  }

  /** Go to what can be switched. */
  focus() {
    (this.button.disabled ? this.list.querySelector("button") : this.button)?.focus();
  }

  toggle() {
    const off = this.off.filter((other) => !same(other, this.head));
    if (this.onoff) this.onoff(off.length < this.off.length ? off : [...off, this.head]);
    else this.recorded();
  }

  recorded() {
    const found = this.record.json.ablations?.find(({ off }) => same(off, this.head));
    if (!found) return;
    const without = element("p", { class: "quiet" }, `Without ${named(this.head)}:`);
    this.result.replaceChildren(
      without,
      ...this.difference(this.whole.target.text, found.text, this.record.model.target),
    );
  }
}
