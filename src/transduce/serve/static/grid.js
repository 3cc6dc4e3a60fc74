// A thumbnail for each head of each layer.

import { element, keepStop, roving } from "./dom.js";
import { headColour, rgb } from "./palette.js";

/** The grid; `onhead(layer, head)` hears of a thumbnail that is chosen, `onlayer(layer)` of a whole row. */
export class Grid {
  constructor(onhead, onlayer) {
    this.onhead = onhead;
    this.onlayer = onlayer;
    this.node = element("div", { class: "thumbnails", role: "group", "aria-label": "Heads by layer" });
    roving(this.node, () => this.heads + 1);
  }

  /** Draw all heads of a kind; `views` has one view a layer. */
  show(views) {
    this.heads = views[0].heads.length;
    this.node.style.setProperty("--heads", this.heads);
    this.buttons = views.map((view, layer) =>
      view.heads.map((weights, head) => this.thumbnail(view, weights, layer, head)),
    );
    this.rows = views.map((_, layer) =>
      this.stop(`Layer ${layer + 1}, all heads`, `${layer + 1}`, () => this.onlayer(layer)),
    );
    const corner = element("span", { class: "axis", "aria-hidden": "true" }, "layer");
    const top = Array.from({ length: this.heads }, (_, head) => {
      const label = element("span", { class: "axis", "aria-hidden": "true" }, `${head + 1}`);
      label.style.setProperty("--head", headColour(head));
      return label;
    });
    this.node.replaceChildren(
      corner,
      ...top,
      ...this.buttons.flatMap((buttons, layer) => [this.rows[layer], ...buttons]),
    );
    keepStop(this.node, this.rows[0]);
  }

  stop(label, text, onclick) {
    return element(
      "button",
      { type: "button", "data-stop": "", tabindex: -1, "aria-label": label, title: label, onclick },
      text,
    );
  }

  thumbnail(view, weights, layer, head) {
    const canvas = element("canvas", { width: view.keys.length, height: view.queries.length, "aria-hidden": "true" });
    const pixels = new ImageData(view.keys.length, view.queries.length);
    const [red, green, blue] = rgb(headColour(head));
    for (let at = 0; at < weights.length; at++) {
      // the root makes faint patterns visible; exact weights are in the large pictures
      pixels.data.set([red, green, blue, Math.round(255 * Math.sqrt(Math.min(1, weights[at])))], 4 * at);
    }
    canvas.getContext("2d").putImageData(pixels, 0, 0);
    const button = this.stop(`Layer ${layer + 1}, head ${head + 1}`, "", () => this.onhead(layer, head));
    button.append(canvas);
    return button;
  }

  /** Frame what is shown large, and cross out what is switched off. */
  mark(layer, heads, off) {
    this.buttons.forEach((buttons, at) =>
      buttons.forEach((button, head) => {
        button.setAttribute("aria-pressed", at === layer && heads.includes(head));
        button.classList.toggle(
          "off",
          off.some(([l, h]) => l === at && h === head),
        );
      }),
    );
    this.rows.forEach((row, at) => row.setAttribute("aria-pressed", at === layer && heads.length === this.heads));
    keepStop(this.node, heads.length === 1 ? this.buttons[layer][heads[0]] : this.rows[layer]);
  }
}
