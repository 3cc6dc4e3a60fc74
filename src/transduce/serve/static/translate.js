// The view in which one types and sees the translation as it is made.

import { alternatives, stream, translate, translateFile } from "./api.js";
import { element } from "./dom.js";
import { bars } from "./tokens.js";
import { TranslatedLine } from "./translation.js";

const PAUSE = 350; // milliseconds without a key before the server is asked

/** The view; `current()` is the chosen model, `ontext(text)` hears of what is typed. */
export class TranslateView {
  constructor({ current, ontext }) {
    this.current = current;
    this.ontext = ontext;
    this.input = element("textarea", {
      id: "text",
      rows: 6,
      dir: "auto",
      spellcheck: "false",
      placeholder: "Type or paste text",
      oninput: () => this.typed(),
    });
    this.glossary = element("textarea", {
      id: "glossary",
      rows: 3,
      dir: "auto",
      spellcheck: "false",
      placeholder: "dog = Hund",
      oninput: () => this.typed(),
    });
    this.file = element("input", {
      type: "file",
      id: "file",
      accept: ".txt,text/plain",
      onchange: () => this.upload(),
    });
    this.fileMessage = element("p", { role: "status" });
    this.output = element("div", {
      class: "output",
      "aria-live": "polite",
      "aria-label": "Translation",
      role: "region",
    });
    this.words = element("div", { class: "given" });
    this.menu = element("div", { class: "menu" });
    this.more = element("div", { class: "more" });
    this.message = element("p", { class: "message", role: "alert" });
    this.names = [element("span", {}), element("span", {})];
    this.node = element(
      "div",
      { class: "translate" },
      element(
        "div",
        { class: "sides" },
        element(
          "section",
          { class: "panel" },
          element("h2", {}, element("label", { for: "text" }, "Text ", this.names[0])),
          this.input,
          this.words,
        ),
        element(
          "section",
          { class: "panel" },
          element("h2", {}, "Translation ", this.names[1]),
          this.message,
          this.output,
          this.menu,
        ),
      ),
      this.more,
      element(
        "div",
        { class: "sides" },
        element(
          "section",
          { class: "panel" },
          element("h2", {}, element("label", { for: "glossary" }, "Glossary")),
          element("p", { class: "quiet" }, "A term a line: source = target; a source alone stays as it is."),
          this.glossary,
        ),
        element(
          "section",
          { class: "panel" },
          element("h2", {}, element("label", { for: "file" }, "A text file")),
          element("p", { class: "quiet" }, "Plain text, UTF-8; each line is translated."),
          this.file,
          this.fileMessage,
        ),
      ),
    );
  }

  /** Show a text, as from a link. */
  start(text) {
    if (text === this.input.value) return;
    this.input.value = text;
    this.ask();
  }

  /** The model has become another one. */
  changed() {
    const { source, target } = this.current();
    this.names[0].textContent = source ?? "";
    this.names[1].textContent = target ?? "";
    this.input.lang = source ?? "";
    this.ask();
  }

  typed() {
    clearTimeout(this.waiting);
    this.ontext(this.input.value);
    this.waiting = setTimeout(() => this.ask(), PAUSE);
  }

  /** Which model. */
  model() {
    const { name, source, target } = this.current();
    return { model: name, source: source ?? undefined, target: target ?? undefined };
  }

  /** Which model, and the terms of the glossary. */
  request() {
    const terms = this.glossary.value.split("\n").map((line) => line.split(/[=\t]/).map((part) => part.trim()));
    const glossary = terms.filter(([from]) => from).map(([from, to]) => [from, to || from]);
    return { ...this.model(), ...(glossary.length ? { glossary } : {}) };
  }

  async ask(prefix = "") {
    clearTimeout(this.waiting);
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    this.menu.replaceChildren();
    this.more.replaceChildren();
    this.message.textContent = "";
    const lines = this.input.value.split("\n");
    if (!this.input.value.trim()) {
      this.output.replaceChildren();
      this.words.replaceChildren();
      return;
    }
    this.output.setAttribute("aria-busy", "true");
    try {
      await this.grow(lines, prefix, asked.signal);
      const text = prefix ? lines[0] : lines;
      const { translations, engine } = await translate(
        { ...this.request(), text, ...(prefix ? { prefix } : {}) },
        asked.signal,
      );
      this.show(lines, translations, engine);
    } catch (error) {
      if (!asked.signal.aborted) this.message.textContent = `${error.message}`;
    } finally {
      if (!asked.signal.aborted) this.output.removeAttribute("aria-busy");
    }
  }

  /** Show each line as it is made. */
  async grow(lines, prefix, signal) {
    const { target } = this.current();
    const shown = lines.map(() => element("p", { dir: "auto", lang: target }));
    this.output.replaceChildren(...shown);
    this.words.replaceChildren();
    for (const [at, line] of lines.entries()) {
      if (!line.trim()) continue;
      const request = { ...this.request(), text: line, ...(prefix && at === 0 ? { prefix } : {}) };
      for await (const text of stream(request, signal)) shown[at].textContent = text;
    }
  }

  show(lines, translations, engine) {
    const { source, target } = this.current();
    const made = translations.map((translation, at) => {
      const ask = (prefix) => this.alternatives(lines[at], prefix, lines.length === 1);
      return new TranslatedLine(lines[at], translation, { source, target }, ask);
    });
    this.output.replaceChildren(...made.map((line) => line.target));
    this.words.replaceChildren(...made.map((line) => line.source));
    this.message.textContent = translations
      .map(({ error, warning }) => error ?? warning ?? "")
      .filter(Boolean)
      .join(" ");
    const others = made.flatMap((line) => line.others());
    this.more.replaceChildren(
      element(
        "details",
        { class: "panel" },
        element("summary", {}, "Probability of each token"),
        ...made.map((line) => line.table()),
      ),
      others.length
        ? element(
            "details",
            { class: "panel" },
            element("summary", {}, "Other translations"),
            element("ol", { class: "others" }, ...others),
          )
        : "",
      element(
        "p",
        { class: "quiet" },
        `Point at a word to see what it translates; choose one to see other words. Engine: ${engine ?? "unknown"}.`,
      ),
    );
  }

  async alternatives(line, prefix, canChoose) {
    try {
      const found = await alternatives({ ...this.model(), text: line, prefix });
      const rows = found.map(({ text, probability }) => ({ label: text, share: probability }));
      const list = bars(rows, this.current().target);
      if (canChoose) {
        [...list.children].forEach((row, at) => {
          const choose = element(
            "button",
            { type: "button", class: "choose", onclick: () => this.choose(found[at].text, prefix) },
            "Use",
          );
          choose.setAttribute("aria-label", `Use: ${found[at].text}`);
          row.append(choose);
        });
      }
      const behind = prefix ? [" behind ", element("q", { dir: "auto" }, prefix)] : [" at the beginning"];
      const close = element("button", { type: "button", onclick: () => this.menu.replaceChildren() }, "Close");
      this.menu.replaceChildren(element("h3", {}, "Other words", ...behind), list, close);
      (list.querySelector("button") ?? close).focus();
    } catch (error) {
      this.message.textContent = `${error.message}`;
    }
  }

  /** Translate again so that the output begins as this one does, up to and with its next word. */
  choose(text, prefix) {
    const count = prefix.split(/\s+/).filter(Boolean).length + 1;
    this.ask(text.split(/\s+/).slice(0, count).join(" "));
  }

  async upload() {
    const [file] = this.file.files;
    if (!file) return;
    const { source, target } = this.current();
    this.fileMessage.textContent = `Translating ${file.name} …`;
    try {
      const href = await translateFile(file, source, target);
      this.fileMessage.replaceChildren(
        element("a", { href, download: "" }, `Download the translation of ${file.name}`),
      );
    } catch (error) {
      this.fileMessage.textContent = `${error.message}`;
    }
  }
}
