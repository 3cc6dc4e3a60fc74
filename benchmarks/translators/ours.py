"""The package's own translator, as its users load it, by either engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transduce import Translator


class Ours:
    """`Translator.translate`, which sorts, cuts batches and ranks by itself."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    def translate(self, lines: Sequence[str], beam: int, length: int | None = None) -> list[str]:
        """One call."""
        settings = {} if length is None else {"min_length": length, "max_length": length}
        return [found.text for found in self.translator.translate(lines, beam=beam, settings=settings)]


def ctranslate2(directory: Path) -> Ours:
    """In int8, one thread per core."""
    return Ours(Translator.load(directory / "run", engine="ctranslate2"))


def shortlist(directory: Path) -> Ours:
    """The same, with the shortlist that was learned from the run's training pairs."""
    return Ours(Translator.load(directory / "run", engine="ctranslate2", shortlist=True))


def pytorch(directory: Path) -> Ours:
    """In float32."""
    return Ours(Translator.load(directory / "run", engine="pytorch"))
