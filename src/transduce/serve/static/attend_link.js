// What of the view of attention a link holds.

/** As a layer: whichever is the last. */
export const LAST = 1e9;

/** The state of the view in the parameters of a link, and back: what a link does not hold is as it is at first. */
export const attendLink = {
  write: ({ kind, layer, heads, combine, words, marks, specials, step }) => ({
    kind,
    layer: layer + 1,
    heads: heads.map((head) => head + 1).join("."),
    combine,
    hide: [words ? "" : "words", marks ? "" : "marks", specials ? "" : "specials"].filter(Boolean).join("."),
    step: step || "",
  }),
  read: ({ kind, layer, heads, combine, hide, step }) => {
    const hidden = (hide ?? "").split(".");
    return {
      kind: kind ?? "encoder",
      layer: layer ? Number(layer) - 1 : LAST,
      heads: heads ? heads.split(".").map((head) => Number(head) - 1) : [],
      combine: ["each", "mean", "max"].includes(combine) ? combine : "each",
      words: !hidden.includes("words"),
      marks: !hidden.includes("marks"),
      specials: !hidden.includes("specials"),
      step: Number(step ?? 0),
    };
  },
};
