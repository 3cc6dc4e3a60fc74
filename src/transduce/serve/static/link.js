// The state of the page in its address, so that a link shows the same.

/** The view that the address names, and its parameters. */
export function readLink() {
  const [, view, query] = /^#\/(\w*)\??(.*)$/.exec(location.hash) ?? [null, "", ""];
  return { view, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/** Put a state into the address; what is empty is left out. */
export function writeLink(view, parameters) {
  const told = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(told).toString();
  history.replaceState(null, "", `#/${view}${query ? `?${query}` : ""}`);
}

/** A function that puts states into the address, when they have stopped changing or at once. */
export function linkWriter(view, parametersOf) {
  let waiting = null;
  return (state, { atOnce = false } = {}) => {
    clearTimeout(waiting);
    const write = () => writeLink(view, parametersOf(state));
    if (atOnce) write();
    else waiting = setTimeout(write, 200);
  };
}
