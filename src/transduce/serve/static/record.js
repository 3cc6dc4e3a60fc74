// A sentence record (explain/sentence_record.py) and the views of its attention that a reader may choose.

import { unpack } from "./numbers.js";

const FORMAT = 1;
const SPECIALS = new Set(["<pad>", "<unk>", "<s>", "</s>"]);
const MARK = /^[^\p{L}\p{N}]+$/u;
const KEPT = 24; // views in memory

/** A record whose attention can be looked at. */
export class SentenceRecord {
  constructor(json) {
    if (!(json.format <= FORMAT)) throw new Error(`a record of format ${json.format}: this page reads ${FORMAT}`);
    this.json = json;
    this.model = json.model;
    this.source = json.source;
    this.read = json.read;
    this.target = json.target;
    this.tree = json.tree;
    this.opened = new Map();
    this.views = new Map();
  }

  /** The sides of a kind of attention: who attends, and what is attended to. */
  sides(kind) {
    if (kind === "encoder") return [this.source, this.source];
    return [this.target, kind === "decoder" ? this.read : this.source];
  }

  /** The languages of these sides. */
  languages(kind) {
    const { source, target } = this.model;
    if (kind === "encoder") return [source, source];
    return [target, kind === "decoder" ? target : source];
  }

  layers(kind) {
    return this.json.attention[kind].weights.shape[0];
  }

  /** The numbers of an array (weights, queries, keys, value_norms, scores) of one layer and head. */
  numbers(kind, name, layer, head) {
    const packed = this.json.attention[kind][name];
    const key = `${kind} ${name}`;
    if (!this.opened.has(key)) this.opened.set(key, unpack(packed));
    const size = packed.shape.slice(2).reduce((product, each) => product * each, 1);
    const start = (layer * packed.shape[1] + head) * size;
    return this.opened.get(key).subarray(start, start + size);
  }

  /** What a layer attends to, by tokens or words, without marks or specials if they shall be hidden. */
  view(kind, layer, options) {
    const key = [kind, layer, options.words, options.marks, options.specials].join(" ");
    if (!this.views.has(key)) {
      if (this.views.size >= KEPT) this.views.delete(this.views.keys().next().value);
      this.views.set(key, this.look(kind, layer, options));
    }
    return this.views.get(key);
  }

  look(kind, layer, options) {
    const [querySide, keySide] = this.sides(kind);
    const queries = units(querySide, options);
    const keys = units(keySide, options);
    const heads = [];
    for (let head = 0; head < this.model.heads; head++) {
      const weights = this.numbers(kind, "weights", layer, head);
      heads.push(merged(weights, keySide.pieces.length, queries, keys, options));
    }
    return { kind, layer, queries, keys, heads };
  }

  /** The numbers of the position encodings, row by row. */
  positions() {
    if (!this.opened.has("positions")) this.opened.set("positions", unpack(this.json.positions));
    return this.opened.get("positions");
  }
}

/** What a side is shown as: tokens or words, each with its label and the places of its tokens. */
function units(side, { words, marks, specials }) {
  const whole = (places, at) => ({ label: side.labels[at], places });
  const all = words
    ? side.words.map((places, at) => (marks ? whole(places, at) : unmarked(side, whole(places, at))))
    : side.pieces.map((piece, at) => ({ label: piece, places: [at] }));
  const shown = all.filter(({ label }) => {
    if (SPECIALS.has(label)) return specials;
    return marks || !MARK.test(label.replaceAll("▁", ""));
  });
  return shown.length ? shown : all;
}

/** A word without the marks before and behind it, where they are tokens of their own. */
function unmarked(side, { label, places }) {
  const texts = places.map((at) => side.pieces[at].replaceAll("▁", ""));
  let [from, to] = [0, places.length];
  const marks = (at) => MARK.test(texts[at]) && !SPECIALS.has(texts[at]);
  while (from < to && (marks(from) || (!texts[from] && marks(from + 1)))) from++;
  while (to > from && marks(to - 1)) to--;
  if (from === to) return { label, places };
  const [before, behind] = [texts.slice(0, from).join(""), texts.slice(to).join("")];
  const start = label.startsWith(before) ? before.length : 0;
  const end = label.length - (label.endsWith(behind) ? behind.length : 0);
  return { label: label.slice(start, end) || label, places: places.slice(from, to) };
}

/** Weights add up over what is attended to, are averaged over who attends, and sum to 1 again if some are hidden. */
function merged(weights, width, queries, keys, { marks, specials }) {
  const found = new Float32Array(queries.length * keys.length);
  queries.forEach((query, row) => {
    let total = 0;
    keys.forEach((key, column) => {
      let sum = 0;
      for (const from of query.places) for (const to of key.places) sum += weights[from * width + to];
      found[row * keys.length + column] = sum / query.places.length;
      total += sum / query.places.length;
    });
    if ((marks && specials) || total === 0) return;
    for (let column = 0; column < keys.length; column++) found[row * keys.length + column] /= total;
  });
  return found;
}

/** One matrix of several heads: their mean, or the largest of each cell. */
export function combined(view, heads, how) {
  const found = new Float32Array(view.queries.length * view.keys.length);
  for (const head of heads) {
    const weights = view.heads[head];
    for (let at = 0; at < found.length; at++) {
      if (how === "max") found[at] = Math.max(found[at], weights[at]);
      else found[at] += weights[at] / heads.length;
    }
  }
  return found;
}

/** The cell of two tokens taken apart: equation 1 of the paper, from the recorded queries and keys. */
export function arithmetic(record, kind, layer, head, from, to) {
  const { d_k: width, attention, window } = record.model;
  const keys = record.sides(kind)[1].pieces.length;
  const q = record.numbers(kind, "queries", layer, head).subarray(from * width, (from + 1) * width);
  const allKeys = record.numbers(kind, "keys", layer, head);
  const scale = attention === "scaled" ? Math.sqrt(width) : 1;
  const seen = (key) => {
    if (kind === "decoder" && key > from) return false;
    return window === null || kind === "cross" || Math.abs(from - key) <= Math.floor(window / 2);
  };
  const scores = [];
  for (let key = 0; key < keys; key++) {
    if (attention === "additive") {
      scores.push(record.numbers(kind, "scores", layer, head)[from * keys + key]);
      continue;
    }
    let product = 0;
    for (let at = 0; at < width; at++) product += q[at] * allKeys[key * width + at];
    scores.push(product / scale);
  }
  const highest = Math.max(...scores.filter((_, key) => seen(key)));
  const exponentials = scores.map((score, key) => (seen(key) ? Math.exp(score - highest) : 0));
  return {
    q,
    k: allKeys.subarray(to * width, (to + 1) * width),
    scale,
    seen: seen(to),
    product: scores[to] * scale,
    score: scores[to],
    highest,
    exponential: exponentials[to],
    sum: exponentials.reduce((sum, each) => sum + each, 0),
    weight: record.numbers(kind, "weights", layer, head)[from * keys + to],
    valueNorm: record.numbers(kind, "value_norms", layer, head)[to],
  };
}
