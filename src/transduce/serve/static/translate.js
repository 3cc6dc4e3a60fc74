// The view in which one types and sees the translation as it is made.

import { alternatives, stream, translate, translateFile } from "./api.js";
import { element } from "./dom.js";
import { bars } from "./tokens.js";
import { TranslatedLine } from "./translation.js";

const PAUSE = 350; // milliseconds without a key before the server is asked

/** The view; `current()` is the chosen model, `ontext(text)` hears of what is typed, `onerror(error)` of what fails. */
export class TranslateView {
  constructor({ current, ontext, onerror }) {
    this.current = current;
    this.ontext = ontext;
    this.onerror = onerror;
    this.parts = [];
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
      dir: "auto",
      "aria-live": "polite",
      "aria-label": "Translation",
      role: "region",
    });
    this.words = element("div", { class: "given", dir: "auto" });
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
          element("p", { class: "quiet" }, "Plain text, UTF-8; its lines stay lines."),
          this.file,
          this.fileMessage,
        ),
      ),
    );
  }

  /** Show a text, as from a link; `again` even if it is the same. */
  start(text, { again = false } = {}) {
    if (text === this.input.value && !again) return;
    this.input.value = text;
    this.ask();
  }

  /** The model has become another one. */
  named() {
    const { source, target } = this.current();
    this.names[0].textContent = source ?? "";
    this.names[1].textContent = target ?? "";
    this.input.lang = source ?? "";
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

  async ask() {
    clearTimeout(this.waiting);
    this.asked?.abort();
    const asked = (this.asked = new AbortController());
    this.menu.replaceChildren();
    this.more.replaceChildren();
    this.message.textContent = "";
    if (!this.input.value.trim()) {
      this.output.replaceChildren();
      this.words.replaceChildren();
      return;
    }
    this.output.setAttribute("aria-busy", "true");
    const request = { ...this.request(), text: this.input.value, split: true };
    try {
      await this.grow(request, asked.signal);
      const { translations, engine } = await translate(request, asked.signal);
      this.show(translations[0], engine);
    } catch (error) {
      if (!asked.signal.aborted) this.failed(error);
    } finally {
      if (!asked.signal.aborted) this.output.removeAttribute("aria-busy");
    }
  }

  failed(error) {
    this.message.textContent = `${error.message}`;
    this.onerror(error);
  }

  /** Show the text as it is made. */
  async grow(request, signal) {
    const shown = element("p", { lang: this.current().target });
    this.output.replaceChildren(shown);
    this.words.replaceChildren();
    for await (const text of stream(request, signal)) shown.textContent = text;
  }

  /** Show a translation by its parts: sentences, and what stands between them. */
  show({ parts, warning, error }, engine) {
    const { source, target } = this.current();
    this.parts = parts;
    const lines = parts.map((part, at) =>
      part.source === undefined
        ? null
        : new TranslatedLine(part.source, part, { source, target }, (prefix) => this.alternatives(at, prefix)),
    );
    const made = lines.filter(Boolean);
    const gap = (at) => (lines[at] && lines[at + 1] ? " " : "");
    const side = (name) => lines.flatMap((line, at) => [line ? line[name] : parts[at].text, gap(at)]);
    this.output.replaceChildren(...side("target"));
    this.words.replaceChildren(...side("source"));
    this.message.textContent = [error, warning].filter(Boolean).join(" ");
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

  async alternatives(at, prefix) {
    try {
      const found = await alternatives({ ...this.model(), text: this.parts[at].source, prefix });
      const rows = found.map(({ text, probability }) => ({ label: text, share: probability }));
      const list = bars(rows, this.current().target);
      [...list.children].forEach((row, place) => {
        const { text } = found[place];
        const choose = () => this.choose(at, text, prefix);
        row.append(
          element(
            "button",
            { type: "button", class: "choose", onclick: choose, "aria-label": `Use: ${text}` },
            "Use",
          ),
        );
      });
      const behind = prefix ? [" behind ", element("q", { dir: "auto" }, prefix)] : [" at the beginning"];
      const close = element("button", { type: "button", onclick: () => this.menu.replaceChildren() }, "Close");
      this.menu.replaceChildren(element("h3", {}, "Other words", ...behind), list, close);
      (list.querySelector("button") ?? close).focus();
    } catch (error) {
      this.failed(error);
    }
  }

  /** Translate a sentence again so that it begins as this text does, up to and with the word after the prefix. */
  async choose(at, text, prefix) {
    const count = prefix.split(/\s+/).filter(Boolean).length + 1;
    const { signal } = this.asked;
    const { source } = this.parts[at];
    const begin = text.split(/\s+/).slice(0, count).join(" ");
    try {
      const { translations, engine } = await translate({ ...this.request(), text: source, prefix: begin }, signal);
      this.menu.replaceChildren();
      const parts = this.parts.map((part, place) => (place === at ? { ...translations[0], source } : part));
      this.show({ parts }, engine);
    } catch (error) {
      if (!signal.aborted) this.failed(error);
    }
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
      this.onerror(error);
    }
  }
}
