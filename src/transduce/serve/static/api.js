// Every call to the server. Paths are relative, so that the page works below any root path.

const KEPT = "transduce key"; // as long as the tab is open, and nowhere else

/** The server wants a key, or another one. */
export class KeyWanted extends Error {}

let key = null;

/** Send a key from now on; none, if it is empty. */
export function useKey(given) {
  key = given;
  try {
    sessionStorage.setItem(KEPT, given);
  } catch {
    // a browser that keeps nothing: the page does until it is left
  }
}

function credentials() {
  try {
    key ??= sessionStorage.getItem(KEPT);
  } catch {
    // as above
  }
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function call(path, body, signal) {
  return send(path, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
}

async function send(path, { headers = {}, ...request }) {
  const response = await fetch(path, { method: "POST", headers: { ...headers, ...credentials() }, ...request });
  if (response.ok) return response;
  const told = await reason(response);
  throw response.status === 401 || told.includes("API key") ? new KeyWanted(told) : new Error(told);
}

async function reason(response) {
  const text = await response.text();
  try {
    const told = JSON.parse(text);
    const message = told.error ?? told.message ?? told.detail;
    if (typeof message === "string") return message;
  } catch {
    // not JSON: the status has to do
  }
  return `the server answered ${response.status} ${response.statusText}`.trim();
}

/** What can be translated: [{ name, source, target, ... }]. */
export async function models() {
  const response = await fetch("api/models");
  if (!response.ok) throw new Error(await reason(response));
  return response.json();
}

/** Translations, with their tokens, alignments and alternatives; with `split` of texts, by their parts. */
export async function translate(request, signal) {
  const response = await call("api/translate", { tokens: true, alignments: true, n_best: 4, ...request }, signal);
  return response.json();
}

/** A translation as it is made: the text so far, again and again. */
export async function* stream(request, signal) {
  const response = await call("api/stream", request, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const data = event
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5))
        .join("\n");
      if (!data) continue;
      const told = JSON.parse(data);
      if (told.error) throw new Error(told.error);
      if (typeof told.text === "string") yield told.text;
    }
  }
}

/** How a translation may go on behind a prefix: [{ text, probability }]. */
export async function alternatives(request, signal) {
  const response = await call("api/alternatives", request, signal);
  return response.json();
}

/** The sentence record. */
export async function attend(request, signal) {
  const response = await call("api/attend", request, signal);
  return response.json();
}

/** The address of a translated text file. */
export async function translateFile(file, source, target) {
  const form = new FormData();
  form.append("file", file);
  form.append("source", source ?? "auto");
  form.append("target", target ?? "");
  const response = await send("translate_file", { body: form });
  const { translatedFileUrl } = await response.json();
  const url = new URL(translatedFileUrl, location.href);
  if (!["http:", "https:"].includes(url.protocol)) throw new Error("the server's answer is no address");
  return url.href;
}
