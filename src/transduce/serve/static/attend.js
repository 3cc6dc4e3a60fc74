// The view of one sentence's attention: everything in it shows one state, which the address keeps.

import { Ablation } from "./ablation.js";
import { attendLink } from "./attend_link.js";
import { openCell } from "./cell.js";
import { eachFrame, element } from "./dom.js";
import { picture, pixels, save } from "./export.js";
import { Grid } from "./grid.js";
import { Heat } from "./heat.js";
import { Lines } from "./lines.js";
import { dashed, headColour, onTheme, themed } from "./palette.js";
import { positionMap } from "./positions.js";
import { Readout, weightTable } from "./readout.js";
import { SentenceRecord, combined } from "./record.js";
import { Steps } from "./steps.js";
import { strip } from "./tokens.js";
import { Toolbar } from "./toolbar.js";

/** The view; `onoff` asks for the sentence without some heads, `onstate` hears of every change of what is shown. */
export class AttendView {
  constructor({ onoff = null, onstate }) {
    this.onoff = onoff;
    this.onstate = onstate;
    this.node = element("div", { class: "attend" });
    this.hovered = {};
    this.redraw = eachFrame(() => this.drawPointed());
    onTheme(() => this.record && this.draw());
  }

  /** Look at a record. What was looked at before stays chosen where it still exists. */
  show(json, wanted = {}) {
    this.record = new SentenceRecord(json);
    if (!json.off.length || !this.whole || this.whole.source.text !== json.source.text) this.whole = this.record;
    this.state = { ...attendLink.read({}), ...this.state, step: 0, pinned: null, ...wanted };
    const switching = this.ablation?.node.contains(document.activeElement);
    this.keepInside();
    this.build();
    this.change({});
    if (switching) this.ablation.focus();
  }

  allHeads() {
    return Array.from({ length: this.record.model.heads }, (_, head) => head);
  }

  keepInside() {
    const { state, record } = this;
    if (!(state.kind in record.json.attention)) state.kind = "encoder";
    state.layer = Math.max(0, Math.min(record.layers(state.kind) - 1, Math.trunc(state.layer) || 0));
    state.heads = state.heads.filter((head) => head >= 0 && head < record.model.heads);
    if (!state.heads.length) state.heads = this.allHeads();
    state.step = Math.max(0, Math.min(record.target.pieces.length, Math.trunc(state.step) || 0));
  }

  build() {
    const { record } = this;
    this.toolbar = new Toolbar(record, this.state, (part) => this.change(part));
    this.grid = new Grid(
      (layer, head) => this.change({ layer, heads: [head] }),
      (layer) => this.change({ layer, heads: this.allHeads() }),
    );
    this.lines = new Lines(
      (pointed) => this.point(pointed),
      (query) => this.pin(query),
    );
    this.heat = new Heat(
      (pointed) => this.point(pointed),
      (cell) => this.openCell(cell),
    );
    this.readout = new Readout();
    this.steps = new Steps(record, (step) => this.change({ step }));
    this.ablation = new Ablation(this.onoff);
    this.ablation.show(record, this.whole);
    this.caption = element("p", { class: "quiet caption", role: "status" });
    this.heatCaption = element("p", { class: "quiet caption" });
    this.cells = element("div", {});
    this.table = this.details("Weights as a table", () =>
      weightTable(this.view, this.weights, record.languages(this.state.kind)),
    );
    this.positions = this.details("Position encodings", () => positionMap(record));
    this.node.replaceChildren(
      strip(record, (step) => this.change({ step })),
      this.toolbar.node,
      element(
        "div",
        { class: "pictures" },
        element(
          "section",
          { class: "panel", "aria-label": "All heads" },
          element("h2", {}, "Heads"),
          this.grid.node,
          this.facts(),
        ),
        element(
          "section",
          { class: "panel wide", "aria-label": "Lines" },
          element("h2", {}, "Who looks at whom"),
          this.caption,
          this.lines.node,
        ),
        element(
          "section",
          { class: "panel wide", "aria-label": "Heat map" },
          element("h2", {}, "Weights"),
          this.heatCaption,
          this.heat.node,
        ),
      ),
      this.readout.node,
      this.cells,
      this.steps.node,
      this.ablation.node,
      this.table,
      this.positions,
      this.exports(),
    );
  }

  facts() {
    const { model } = this.record;
    const told = [
      `N = ${model.encoder_layers} + ${model.decoder_layers}`,
      `d_model = ${model.d_model}`,
      `h = ${model.heads}`,
      `d_k = ${model.d_k}`,
      `${model.norm}-norm`,
    ];
    return element(
      "p",
      { class: "quiet" },
      model.name ? element("strong", {}, model.name) : null,
      model.name ? ": " : null,
      told.join(", "),
    );
  }

  /** Content that is made when it is opened. */
  details(title, make) {
    const body = element("div", {});
    const node = element("details", { class: "panel" }, element("summary", {}, title), body);
    const fill = () => body.replaceChildren(...(node.open && this.view ? [make()] : []));
    node.addEventListener("toggle", fill);
    node.refill = fill;
    return node;
  }

  exports() {
    const name = (kind) => `attention.${kind}`;
    const now = () => picture(this.view, this.series, this.weights, this.pointed());
    const button = (label, onclick) => element("button", { type: "button", onclick }, label);
    const copied = element("span", { class: "quiet", role: "status" });
    const copy = async () => {
      this.onstate(this.state, { atOnce: true });
      try {
        await navigator.clipboard.writeText(location.href);
        copied.textContent = "Copied.";
      } catch {
        copied.textContent = "The address bar has the link.";
      }
    };
    return element(
      "div",
      { class: "row exports" },
      button("Save SVG", () => save(name("svg"), [now().text], "image/svg+xml")),
      button("Save PNG", async () => save(name("png"), [await pixels(now())], "image/png")),
      button("Save JSON", () => save(name("json"), [JSON.stringify(this.record.json)], "application/json")),
      button("Copy link", copy),
      copied,
    );
  }

  /** Take over a part of the state and show it. */
  change(part) {
    const before = { ...this.state };
    Object.assign(this.state, part);
    this.keepInside();
    const { kind, words, marks, specials } = this.state;
    const newGrid =
      !this.views || ["kind", "words", "marks", "specials"].some((key) => before[key] !== this.state[key]);
    if (newGrid || this.views.record !== this.record) {
      this.views = Array.from({ length: this.record.layers(kind) }, (_, layer) =>
        this.record.view(kind, layer, { words, marks, specials }),
      );
      this.views.record = this.record;
      this.hovered = {};
      if (!("pinned" in part)) this.state.pinned = null;
      this.grid.show(this.views);
      this.cells.replaceChildren();
    }
    const onlyStep =
      Object.keys(part).every((key) => key === "step" || key === "pinned") && Object.keys(part).length > 0;
    if ("step" in part) this.followStep();
    if (onlyStep) this.redraw();
    else this.draw();
    if (!onlyStep || "step" in part) this.steps.show(this.state.step);
    this.onstate(this.state);
  }

  followStep() {
    const { kind, step } = this.state;
    if (kind === "encoder") return;
    const row = this.views[0].queries.findIndex(({ places }) => places.includes(step - 1));
    this.state.pinned = step && row >= 0 ? row : null;
  }

  draw() {
    const { state } = this;
    this.view = this.views[state.layer];
    if (this.state.step && this.state.pinned === null) this.followStep();
    this.weights = combined(this.view, state.heads, state.combine);
    this.series = this.makeSeries();
    const colour = state.heads.length === 1 ? headColour(state.heads[0]) : themed("--heat");
    this.toolbar.mark();
    this.grid.mark(
      state.layer,
      state.heads,
      this.record.json.off.filter(([kind]) => kind === state.kind).map(([, layer, head]) => [layer, head]),
    );
    this.lines.show(this.view, this.series, this.record.languages(state.kind));
    this.heat.show(this.view, this.weights, colour);
    this.readout.node.classList.toggle("follows", Math.max(this.view.queries.length, this.view.keys.length) > 24);
    this.ablation.choose(state.kind, state.layer, state.heads);
    this.caption.textContent = this.told();
    this.heatCaption.textContent = `Of each word, ${this.summed()}.`;
    this.table.refill();
    this.drawPointed();
  }

  makeSeries() {
    const { heads, combine } = this.state;
    if (combine !== "each" && heads.length > 1) {
      return [
        { weights: this.weights, colour: themed("--ink"), head: null, name: combine === "mean" ? "mean" : "maximum" },
      ];
    }
    return heads.map((head) => ({
      weights: this.view.heads[head],
      colour: headColour(head),
      head,
      name: `head ${head + 1}${dashed(head) ? " (dashed)" : ""}`,
    }));
  }

  told() {
    const { kind, layer, heads, combine, marks, specials } = this.state;
    const sides = {
      encoder: "The sentence looks at itself",
      decoder: "The translation looks at what was written before",
      cross: "The translation looks at the sentence",
    };
    const which =
      heads.length === 1
        ? `head ${heads[0] + 1}`
        : `${heads.length} heads${combine === "each" ? "" : combine === "mean" ? ", their mean" : ", the largest of each"}`;
    const hidden = marks && specials ? "" : " Weights on what is hidden are shared out among the rest.";
    return `${sides[kind]}: layer ${layer + 1}, ${which}.${hidden}`;
  }

  /** Which one number stands for a cell in the heat map, the table and the readout. */
  summed() {
    const { heads, combine } = this.state;
    if (heads.length === 1) return `head ${heads[0] + 1}`;
    return `${combine === "max" ? "the largest" : "the mean"} of ${heads.length} heads`;
  }

  pointed() {
    const hovering = Number.isInteger(this.hovered.query) || Number.isInteger(this.hovered.key);
    if (hovering) return this.hovered;
    return this.state.pinned === null ? {} : { query: this.state.pinned };
  }

  point(pointed) {
    this.hovered = pointed;
    this.redraw();
  }

  drawPointed() {
    const pointed = this.pointed();
    this.lines.point(pointed);
    this.heat.point(pointed);
    this.readout.tell(this.view, this.weights, this.series, this.summed(), pointed);
  }

  pin(query) {
    const { kind, pinned } = this.state;
    if (pinned === query) this.change({ pinned: null, ...(kind === "encoder" ? {} : { step: 0 }) });
    else if (kind === "encoder") this.change({ pinned: query });
    else this.change({ step: this.view.queries[query].places[0] + 1 });
  }

  openCell(cell) {
    const head = this.state.heads.length === 1 ? this.state.heads[0] : this.strongest(cell);
    const opened = openCell(this.record, this.view, cell, head);
    this.cells.replaceChildren(opened);
    opened.focus();
  }

  /** The head among those shown that gives a cell most. */
  strongest({ query, key }) {
    const at = query * this.view.keys.length + key;
    return this.state.heads.reduce((best, head) =>
      this.view.heads[head][at] > this.view.heads[best][at] ? head : best,
    );
  }
}
