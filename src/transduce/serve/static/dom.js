// Elements from text nodes and attributes: nothing that a model or a person wrote is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element; attributes that are null or false are left out, those that begin with "on" are listeners. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function shape(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** A row of choices of which one holds: native radio buttons, so that every key works. */
export function choices(legend, name, options, chosen, onchange) {
  const inputs = options.map(([value, label]) => {
    const input = element("input", { type: "radio", name, value, onchange: () => onchange(value) });
    input.checked = value === chosen;
    return element("label", {}, input, element("span", {}, label));
  });
  return element("fieldset", { class: "choices" }, element("legend", {}, legend), ...inputs);
}

/** Something that is on or off. */
export function check(label, on, onchange) {
  const input = element("input", { type: "checkbox", onchange: () => onchange(input.checked) });
  input.checked = on;
  return element("label", { class: "check" }, input, element("span", {}, label));
}

/** One tab stop for many: arrow keys move among the elements with data-stop, `columns()` of them in a row. */
export function roving(container, columns = () => 1) {
  container.addEventListener("keydown", (event) => {
    const stops = [...container.querySelectorAll("[data-stop]")];
    const at = stops.indexOf(document.activeElement);
    const row = columns();
    const moves = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: row,
      ArrowUp: -row,
      Home: -at,
      End: stops.length - 1 - at,
    };
    if (at < 0 || !(event.key in moves)) return;
    event.preventDefault();
    const next = stops[at + moves[event.key]];
    if (next) focusStop(container, next);
  });
}

/** Make an element the one that Tab comes to, and go there. */
export function focusStop(container, stop) {
  keepStop(container, stop);
  stop.focus();
}

/** Make an element the one that Tab comes to. */
export function keepStop(container, stop) {
  for (const other of container.querySelectorAll('[data-stop][tabindex="0"]')) other.tabIndex = -1;
  if (stop) stop.tabIndex = 0;
}

/** A canvas of so many CSS pixels, sharp on this screen, and its context in CSS pixels. */
export function sized(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Do something once before the next frame, however often it is asked for. */
export function eachFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** Draw again when an element has become wider or narrower. */
export function onWidth(node, draw) {
  let width = null;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    requestAnimationFrame(draw);
  }).observe(node);
}
