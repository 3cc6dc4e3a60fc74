"""How long a frame of the page takes while a pointer moves over words and cells, and while the slider moves.

In headless Chromium; weights are random.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page, sync_playwright

from benchmarks.results import Frames, this_machine
from transduce.explain.head import KINDS
from transduce.explain.offline_page import page_of
from transduce.explain.sentence_record import FORMAT, Record, pack

FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage", "--disable-gpu"]
WORD_LENGTHS = (3, 11)
BEAM = 4
MEASURE = """async ({ selector, count, type }) => {
  const frame = () => new Promise(requestAnimationFrame);
  const times = [];
  let last = await frame();
  for (let at = 0; at < count; at++) {
    if (type === "slider") {
      const slider = document.querySelector(selector);
      slider.value = at % (Number(slider.max) + 1);
      slider.dispatchEvent(new Event("input"));
    } else {
      const nodes = document.querySelectorAll(selector);
      const node = nodes[at % nodes.length];
      const box = node.getBoundingClientRect();
      const within = () => 0.3 + 0.6 * Math.random();
      const [clientX, clientY] = [box.left + within() * box.width, box.top + within() * box.height];
      node.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY }));
    }
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times;
}"""
MOVES = {
    "hover over words": (".lines .query .word", "hover"),
    "hover over words attended to": (".lines .key .word", "hover"),
    "hover over cells": (".heat canvas.over", "hover"),
    "slider": ("#step", "slider"),
}


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    found: NDArray[np.float64] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return found


def random_record(tokens: int, layers: int, heads: int, d_k: int) -> Record:
    """A record of this size."""
    generator = np.random.default_rng(0)
    letters = [
        "▁" + "".join(generator.choice(list("abcdefghilmnorstu"), size=generator.integers(*WORD_LENGTHS)))
        for _ in range(tokens - 1)
    ]
    pieces = [*letters, "</s>"]
    side = {"pieces": pieces, "words": [[at] for at in range(tokens)], "labels": [each.strip("▁") for each in pieces]}

    def attention(kind: str) -> Record:
        scores = generator.normal(scale=2.5, size=(layers, heads, tokens, tokens))
        if kind == "decoder":
            scores[..., np.triu(np.ones((tokens, tokens), dtype=bool), k=1)] = -1e9
        vectors = generator.normal(size=(2, layers, heads, tokens, d_k))
        norms = np.ones((layers, heads, tokens))
        return {
            "weights": pack(softmax(scores)),
            "queries": pack(vectors[0]),
            "keys": pack(vectors[1]),
            "value_norms": pack(norms),
        }

    text = " ".join(each.strip("▁") for each in letters)
    model = {"name": "random", "source": "en", "target": "de", "encoder_layers": layers, "decoder_layers": layers}
    model |= {"heads": heads, "d_model": heads * d_k, "d_k": d_k, "d_v": d_k, "norm": "post", "attention": "scaled"}
    return {
        "format": FORMAT,
        "model": {**model, "positions": "sinusoidal", "window": None},
        "beam": BEAM,
        "prefix": "",
        "off": [],
        "source": {"text": text, **side},
        "read": side,
        "target": {
            "text": text,
            "score": -1.0,
            **side,
            "probabilities": generator.uniform(size=tokens).tolist(),
            "alternatives": [[{"piece": piece, "probability": 0.2} for piece in pieces[:5]]] * tokens,
        },
        "attention": {kind: attention(kind) for kind in KINDS},
        "tree": random_tree(pieces),
        "positions": pack(generator.uniform(-1, 1, size=(tokens, heads * d_k))),
        "ablations": [],
    }


def random_tree(pieces: list[str]) -> Record:
    """Twice the beam at each step, of which the first half goes on."""
    parents: list[int | None] = [None]
    steps, names, fates, best = [0], ["<s>"], ["kept"], [0]
    front = [0]
    for step, piece in enumerate(pieces, 1):
        begin = len(parents)
        for place in range(2 * BEAM):
            parents.append(front[place % len(front)])
            steps.append(step)
            names.append(piece)
            fates.append("kept" if place < BEAM else "pruned")
        front = list(range(begin, begin + BEAM))
        best.append(begin)
    fates[best[-1]] = "finished"
    sums = [-0.1 * step - 0.01 * place for place, step in enumerate(steps)]
    return {
        "parents": parents,
        "pieces": names,
        "log_probabilities": sums,
        "steps": steps,
        "fates": fates,
        "best": best,
    }


def measure(page: Page, count: int) -> dict[str, list[float]]:
    """Milliseconds from frame to frame, by what is moved."""
    return {
        name: page.evaluate(MEASURE, {"selector": selector, "count": count, "type": kind})
        for name, (selector, kind) in MOVES.items()
    }


def frames(count: int, *, tokens: int = 128, layers: int = 6, heads: int = 8) -> Frames:
    """`count` frames of each move."""
    path = shutil.which("chromium")
    if path is None:
        return Frames(this_machine(), tokens, layers, heads, reason="no chromium: make browser installs it")
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        file = Path(directory) / "page.html"
        file.write_text(page_of(random_record(tokens, layers, heads, 64)), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{file.as_uri()}#/attend?kind=cross")
        page.locator(".heat canvas.over").wait_for()
        times = measure(page, count)
        browser.close()
    return Frames(this_machine(), tokens, layers, heads, times)
