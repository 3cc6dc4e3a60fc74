// Every call to the server. Paths are relative, so that the page works below any root path.

async function call(path, body, signal) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(await reason(response));
  return response;
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

/** Translations of lines, with their tokens, alignments and alternatives. */
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
  const response = await fetch("translate_file", { method: "POST", body: form });
  if (!response.ok) throw new Error(await reason(response));
  const { translatedFileUrl } = await response.json();
  const url = new URL(translatedFileUrl, location.href);
  if (!["http:", "https:"].includes(url.protocol)) throw new Error("the server's answer is no address");
  return url.href;
}
