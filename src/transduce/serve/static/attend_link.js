// What of the view of attention a link holds.

/** The state of the view in the parameters of a link, and back. */
export const attendLink = {
  write: ({ kind, layer, heads, combine, words, marks, specials, step }) => ({
    kind,
    layer: layer + 1,
    heads: heads.map((head) => head + 1).join("."),
    combine,
    hide: [words ? "" : "words", marks ? "" : "marks", specials ? "" : "specials"].filter(Boolean).join("."),
    step: step || "",
  }),
  read: (parameters) => {
    const state = {};
    if (parameters.kind) state.kind = parameters.kind;
    if (parameters.layer) state.layer = Number(parameters.layer) - 1;
    if (parameters.heads) state.heads = parameters.heads.split(".").map((head) => Number(head) - 1);
    if (["each", "mean", "max"].includes(parameters.combine)) state.combine = parameters.combine;
    for (const name of (parameters.hide ?? "").split("."))
      if (["words", "marks", "specials"].includes(name)) state[name] = false;
    if (parameters.step) state.step = Number(parameters.step);
    return state;
  },
};
