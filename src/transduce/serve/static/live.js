// The page with a server behind it: two views of one sentence.

import { attend, KeyWanted, models, useKey } from "./api.js";
import { AttendView } from "./attend.js";
import { attendLink } from "./attend_link.js";
import { element } from "./dom.js";
import { linkWriter, readLink, writeLink } from "./link.js";
import { TranslateView } from "./translate.js";

const EXAMPLE = "The dog saw the lamp. It barked.";
const VIEWS = { translate: "Translate", attend: "Attend" };

let offered = [{ name: undefined, source: null, target: null }];
let chosen = 0;
let asked = { text: "", prefix: "", off: [] };
let shown = "translate";
let request = null;

const current = () => offered[chosen];
const translateView = new TranslateView({
  current,
  ontext: (text) => {
    field.text.value = firstLine(text);
    remember();
  },
  onerror: (error) => wantKey(error),
});
const attendView = new AttendView({
  onoff: (off) => look({ off }),
  onstate: linkWriter("attend", (state) => ({ ...sentence(), ...attendLink.write(state) })),
});

const field = {
  text: element("input", { id: "sentence", type: "text", dir: "auto", autocomplete: "off", spellcheck: "false" }),
  prefix: element("input", { id: "prefix", type: "text", dir: "auto", autocomplete: "off", spellcheck: "false" }),
  beam: element("input", { id: "beam", type: "number", min: 1, max: 16, placeholder: "as trained" }),
};
const message = element("p", { class: "message", role: "alert" });
const key = element("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false" });
const keyForm = element(
  "form",
  { class: "key-form", hidden: true, onsubmit: (event) => enterKey(event) },
  labelled("API key", key),
  element("button", { type: "submit" }, "Use key"),
);
const form = element(
  "form",
  {
    class: "ask",
    onsubmit: (event) => {
      event.preventDefault();
      look({ off: [] });
    },
  },
  labelled("Sentence", field.text, "grow"),
  labelled("Translation begins with", field.prefix),
  labelled("Beam", field.beam, "narrow"),
  element("button", { type: "submit", class: "main" }, "Look"),
);
const picker = element("select", { id: "model", onchange: () => pick(Number(picker.value)) });
const pickerField = element("label", { class: "field", for: "model" }, "Model", picker);
const links = Object.fromEntries(
  Object.entries(VIEWS).map(([view, name]) => [view, element("a", { href: `#/${view}` }, name)]),
);
const heading = element("h1", { class: "unseen" });
const main = element("main", {}, heading);

function labelled(label, input, more = "") {
  return element("label", { class: `field ${more}`, for: input.id }, label, input);
}

function firstLine(text) {
  return text.split("\n").find((line) => line.trim()) ?? "";
}

/** What a link needs to ask for the same sentence. */
function sentence() {
  const off = asked.off.map((head) => head.join(".")).join("_");
  return {
    text: field.text.value,
    prefix: field.prefix.value,
    beam: field.beam.value,
    off,
    model: offered.length > 1 ? current().name : "",
  };
}

function remember() {
  if (shown === "translate") writeLink("translate", { text: translateView.input.value, model: sentence().model });
}

/** Ask for the record of the sentence, and show it; `wanted` of the state, the rest as it was. */
async function look({ off, wanted = {} }) {
  const text = field.text.value.trim() ? field.text.value : EXAMPLE;
  field.text.value = text;
  request?.abort();
  const own = (request = new AbortController());
  message.textContent = "";
  asked = { text, prefix: field.prefix.value, off };
  const body = { text, model: current().name, off };
  if (field.prefix.value.trim()) body.prefix = field.prefix.value;
  if (field.beam.value) body.beam = Number(field.beam.value);
  attendView.node.setAttribute("aria-busy", "true");
  try {
    attendView.show(await attend(body, own.signal), wanted);
  } catch (error) {
    if (own.signal.aborted) return;
    message.textContent = `${error.message}`;
    wantKey(error);
  } finally {
    if (request === own) attendView.node.removeAttribute("aria-busy");
  }
}

/** Show the field for a key, if that is what an error is about. */
function wantKey(error) {
  if (error instanceof KeyWanted) keyForm.hidden = false;
}

function enterKey(event) {
  event.preventDefault();
  useKey(key.value.trim());
  if (shown === "attend") look({ off: asked.off });
  else translateView.ask();
}

/** Make a model the one that is asked, and name its languages; whether it was another. */
function choose(number) {
  const other = number !== chosen;
  chosen = number;
  picker.value = number;
  field.text.lang = current().source ?? "";
  field.prefix.lang = current().target ?? "";
  translateView.named();
  return other;
}

function pick(number) {
  choose(number);
  translateView.ask();
  if (shown === "attend") look({ off: [] });
  remember();
}

/** Follow the address: one without parameters keeps what is there, any other shows what it says and nothing else. */
function follow() {
  const { view, parameters } = readLink();
  const exact = Object.keys(parameters).length > 0;
  shown = view in VIEWS ? view : "translate";
  for (const [name, link] of Object.entries(links))
    link.setAttribute("aria-current", name === shown ? "page" : "false");
  heading.textContent = VIEWS[shown];
  document.title = `${VIEWS[shown]} · transduce`;
  const found = offered.findIndex(({ name }) => name === parameters.model);
  const again = exact && choose(Math.max(0, found));
  if (shown === "translate") {
    main.replaceChildren(heading, translateView.node);
    const typed = translateView.input.value;
    const kept = firstLine(typed) === field.text.value ? typed : field.text.value;
    translateView.start(exact ? (parameters.text ?? "") : kept, { again });
    field.text.value = firstLine(translateView.input.value);
    return;
  }
  main.replaceChildren(heading, form, message, attendView.node);
  if (!exact) {
    look({ off: [] });
    return;
  }
  for (const [name, input] of Object.entries(field)) input.value = parameters[name] ?? "";
  const off = (parameters.off ?? "").match(/(encoder|decoder|cross)\.\d+\.\d+/g) ?? [];
  look({
    off: off.map((place) => place.split(".").map((part, at) => (at ? Number(part) : part))),
    wanted: attendLink.read(parameters),
  });
}

async function begin() {
  document
    .getElementById("page")
    .append(
      element(
        "header",
        { class: "top" },
        element("p", { class: "brand" }, "transduce"),
        element("nav", { "aria-label": "Views" }, ...Object.values(links)),
        pickerField,
        keyForm,
      ),
      main,
    );
  try {
    offered = await models();
  } catch (error) {
    main.append(element("p", { class: "message", role: "alert" }, `${error.message}`));
    return;
  }
  picker.append(
    ...offered.map(({ name, source, target }, at) =>
      element("option", { value: at }, source && target ? `${name}: ${source} → ${target}` : name),
    ),
  );
  pickerField.hidden = offered.length < 2;
  addEventListener("hashchange", follow);
  choose(0);
  follow();
}

begin();
