"""CTranslate2 and SentencePiece without anything around them. Knows nothing of the package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
from sentencepiece import SentencePieceProcessor

ROWS = 64
"""Sentences of a batch where batches are cut; 32 is as fast."""
ALPHA = 0.6
"""Of length^alpha, by which CTranslate2 divides: the paper's, near enough."""


class Bare:
    """`translate_batch` on a converted model."""

    def __init__(self, directory: Path, model: Any, **options: float) -> None:
        self.source, self.target = (
            SentencePieceProcessor(model_file=str(directory / "marian" / f"{side}.spm"))
            for side in ("source", "target")
        )
        self.model, self.options = model, options

    def translate(self, lines: Sequence[str], beam: int, length: int | None = None) -> list[str]:
        """One call of `translate_batch`."""
        tokens = self.source.encode(list(lines), out_type=str)
        lengths = {} if length is None else {"min_decoding_length": length, "max_decoding_length": length}
        results = self.model.translate_batch(tokens, beam_size=beam, **lengths, **self.options)
        texts: list[str] = self.target.decode([result.hypotheses[0] for result in results])
        return texts


def best(directory: Path) -> Bare:
    """A single-threaded worker per core; CTranslate2 itself sorts by length and cuts batches."""
    model = ctranslate2.Translator(str(directory / "ctranslate2"), inter_threads=cores(), intra_threads=1)
    return Bare(directory, model, max_batch_size=ROWS, length_penalty=ALPHA)


def defaults(directory: Path) -> Bare:
    """As it comes."""
    return Bare(directory, ctranslate2.Translator(str(directory / "ctranslate2")))


def cores() -> int:
    """How many there are."""
    return os.cpu_count() or 1
