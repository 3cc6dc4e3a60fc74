"""`python -m benchmarks.shortlist`: what a shortlist's width is worth, and how far lines then depend on others."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.corpus import held_out, text
from benchmarks.markdown import table
from benchmarks.weights import weights
from transduce.bundle import Bundle, open_bundle
from transduce.data.preparation import recall
from transduce.data.shortlist import Shortlist, coverage, learn_shortlist
from transduce.decode.conversion import ready
from transduce.decode.ctranslate2_engine import Ctranslate2Engine
from transduce.decode.translator import Translator
from transduce.evaluate.bleu import bleu
from transduce.interop.ctranslate2 import VMAP, tokens

WIDTHS = ((500, 100), (1000, 200), (2000, 256))
"""Target tokens that are allowed always, and those that a source token brings along."""
SAMPLE = 300
"""Lines that are translated alone and in sevens."""


def main() -> None:
    run = weights(text()) / "run"
    bundle, prepared = open_bundle(run), recall(run)
    plain = open_translator(bundle, None)
    first = said(plain, sources())  # and once more below, warm
    rows = [row("none", plain, first, "")]
    pairs = [(bundle.source_codec.encode(s), bundle.target_codec.encode(t)) for s, t in held_out().pairs]
    for frequent, best in WIDTHS:
        shortlist = learn_shortlist(prepared, frequent=frequent, best=best)
        held = coverage(shortlist, pairs)
        size = f"{held.candidates / held.sentences:,.0f}"
        rows.append(row(f"{frequent:,} and {best}", open_translator(bundle, shortlist), first, size))
    heading = ["shortlist", "tokens a sentence", "sentences/s", "BLEU", "as without", "alone as together", "in sevens"]
    print(table(heading, rows, numbers=range(1, len(heading))))


def row(name: str, translator: Translator, plain: Sequence[str], size: str) -> list[str]:
    """Speed and BLEU of all lines together; how many have the same text without a shortlist, alone, and in sevens."""
    begin = time.perf_counter()
    together = said(translator, sources())
    seconds = time.perf_counter() - begin
    places = random.Random(0).sample(range(len(together)), SAMPLE)

    def share(cut: int) -> str:
        parts = [places[first : first + cut] for first in range(0, SAMPLE, cut)]
        found = [line for part in parts for line in said(translator, [sources()[place] for place in part])]
        return f"{sum(a == together[b] for a, b in zip(found, places, strict=True)) / SAMPLE:.1%}"

    same = sum(a == b for a, b in zip(together, plain, strict=True)) / len(plain)
    score = bleu(together, [target for _, target in held_out().pairs]).value
    return [name, size, f"{len(together) / seconds:,.0f}", f"{score:.2f}", f"{same:.1%}", share(1), share(7)]


def sources() -> list[str]:
    """What is translated."""
    return [source for source, _ in held_out().pairs]


def said(translator: Translator, lines: Sequence[str]) -> list[str]:
    """One call."""
    return [translation.text for translation in translator.translate(lines)]


def open_translator(bundle: Bundle, shortlist: Shortlist | None) -> Translator:
    """With this shortlist beside the weights; CTranslate2 has read all of it when this returns."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "model"
        shutil.copytree(ready(bundle, print), directory)
        if shortlist is not None:
            shortlist.write_vmap(directory / VMAP, tokens(bundle.source_codec), tokens(bundle.target_codec))
        engine = Ctranslate2Engine(directory, bundle.config)
    return Translator(engine, bundle.source_codec, bundle.target_codec, bundle.config.search, bundle=bundle)


if __name__ == "__main__":
    main()
