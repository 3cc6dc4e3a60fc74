"""A sentence's translation must not depend on what else is in its batch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.decode.translator import Translator

SIZES = (1, 7, 64)
WANTED = 0.999
"""Sums of other lengths round otherwise, and so a near tie may now and then be decided otherwise."""


@dataclass(frozen=True)
class Difference:
    """A sentence that came out otherwise in company than alone."""

    source: str
    alone: str
    together: str


@dataclass(frozen=True)
class Batched:
    """Every sentence alone, in batches and in batches of other sentences."""

    sentences: int
    differences: tuple[Difference, ...]
    """One for each sentence that was not the same throughout."""

    @property
    def share(self) -> float:
        """Of sentences that were the same throughout."""
        return 1 - len(self.differences) / self.sentences

    @property
    def holds(self) -> bool:
        """Whether that is enough."""
        return self.share >= WANTED


def check_batches(model: Path, sources: Sequence[str], *, seed: int = 0) -> Batched:
    """Translate `sources` in batches of each size, as they come and shuffled; compare with each sentence alone."""
    translator = Translator.load(model)
    largest = max(SIZES) * (translator.max_input + 1) * translator.search.beam
    translator.search = translator.search.model_copy(update={"batch_tokens": largest})  # a batch is never cut in two
    texts: dict[str, list[str]] = {source: [] for source in sources}
    shuffled = random.Random(seed).sample(sources, len(sources))
    for size, order in [*((size, sources) for size in SIZES), (max(SIZES), shuffled)]:
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            for source, found in zip(batch, translator.translate(batch), strict=True):
                texts[source].append(found.text)
    differences = [
        Difference(source, alone, next(text for text in others if text != alone))
        for source, (alone, *others) in texts.items()
        if any(text != alone for text in others)
    ]
    return Batched(len(texts), tuple(differences))
