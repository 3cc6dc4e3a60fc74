// The difference between two translations, word by word.

import { element } from "./dom.js";

/** The words of both texts in order, each in "both", only in the "old" or only in the "new". */
export function difference(old, fresh) {
  const [a, b] = [old, fresh].map((text) => text.split(" ").filter(Boolean));
  const longest = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(["both", a[i++]]);
      j++;
    } else if (j >= b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) found.push(["old", a[i++]]);
    else found.push(["new", b[j++]]);
  }
  return found;
}

/** The difference as text with deletions and insertions. */
export function showDifference(old, fresh, lang) {
  const tags = { both: "span", old: "del", new: "ins" };
  const words = difference(old, fresh).flatMap(([which, word]) => [element(tags[which], {}, word), " "]);
  return element("p", { class: "difference", dir: "auto", lang }, ...words);
}
