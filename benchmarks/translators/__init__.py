"""Translators to compare: text in, text out, all with the same weights.

A translator's file is imported only where it runs. Each is made from a directory that `benchmarks/weights.py` fills:
run/ is ours, ctranslate2/ and marian/ are what the package exports it to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol


class Contender(Protocol):
    """A loaded model that translates."""

    def translate(self, lines: Sequence[str], beam: int, length: int | None = None) -> list[str]:
        """One line for each, in order; a beam of 1 is greedy search. Outputs have `length` tokens, if it is given."""
        ...


Maker = Callable[[Path], Contender]

OURS = "transduce, CTranslate2 engine"
OURS_SHORTLIST = "transduce, CTranslate2 engine with a shortlist"
OURS_TORCH = "transduce, PyTorch engine"
BEST = "CTranslate2 at its best settings"
DEFAULTS = "CTranslate2 at its defaults"
GENERATE = "Hugging Face generate"

TRANSLATORS = {
    OURS: "ours:ctranslate2",
    OURS_SHORTLIST: "ours:shortlist",
    BEST: "bare:best",
    DEFAULTS: "bare:defaults",
    OURS_TORCH: "ours:pytorch",
    GENERATE: "marian:generate",
}
"""By name, the module and the function that makes it."""


def maker(name: str) -> Maker:
    """Imports what a contender needs and no more."""
    module, _, function = TRANSLATORS[name].partition(":")
    make: Maker = getattr(import_module(f"benchmarks.translators.{module}"), function)
    return make
