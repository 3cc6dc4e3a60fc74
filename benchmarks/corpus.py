"""The text that is measured on: Multi30k if it is there, else the embedded phrasebook."""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.batches import Batch, other_words
from transduce.data.batching import Batching, collate
from transduce.data.phrasebook import phrases
from transduce.data.store import write_store
from transduce.errors import CodecError
from transduce.paper.study import shared_data
from transduce.text import Codec, Subwords

SMALLER = (10_000, 4_000, 1_000)  # vocabularies to fall back to
BATCHES = 200


@dataclass(frozen=True)
class Text:
    """Pairs of lines."""

    name: str
    pairs: list[tuple[str, str]]

    def write(self, directory: Path, count: int | None = None) -> tuple[Path, Path]:
        """The first `count` pairs as train.en and train.de."""
        paths = directory / "train.en", directory / "train.de"
        for path, lines in zip(paths, zip(*self.pairs[:count], strict=True), strict=True):
            path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        return paths


@dataclass(frozen=True)
class Workload:
    """A text cut into batches for a vocabulary."""

    name: str
    batches: list[Batch]


@cache
def text() -> Text:
    """The corpus."""
    if not multi30k().is_dir():
        return Text("phrasebook", [(phrase.source, phrase.target) for phrase in phrases("train", 30_000)])
    return Text("Multi30k", read_pairs("train"))


@cache
def held_out() -> Text:
    """Pairs that are not in the corpus."""
    if not multi30k().is_dir():
        return Text("phrasebook's test", [(phrase.source, phrase.target) for phrase in phrases("test", 1_000)])
    return Text("test_2016_flickr", read_pairs("test_2016_flickr"))


def multi30k() -> Path:
    """Where Multi30k would be."""
    return shared_data() / "multi30k"


def read_pairs(part: str) -> list[tuple[str, str]]:
    """A part of Multi30k."""
    sides = [gzip.decompress((multi30k() / f"{part}.{lang}.gz").read_bytes()).decode() for lang in ("en", "de")]
    source, target = (side.split("\n")[:-1] for side in sides)
    return list(zip(source, target, strict=True))


def learn(pairs: list[tuple[str, str]], vocabulary: int) -> Codec:
    """Joint subwords of both sides."""
    lines = [line for pair in pairs for line in pair]
    return Subwords.learn(lines, vocabulary=vocabulary, seed=1, sample_lines=10**6).codec


@cache
def workload(vocabulary: int, tokens: int) -> Workload:
    """Batches of at most `tokens` tokens a side, as training would cut and shuffle them.

    A text that does not hold so many subwords is cut into fewer, and its words are then replaced by random ones: the
    lengths are real, and the work is that of the vocabulary asked for.
    """
    corpus = text()
    for size in (vocabulary, *(each for each in SMALLER if each < vocabulary)):
        try:
            batches = encoded(corpus, learn(corpus.pairs, size), tokens)
        except CodecError:
            continue
        if size == vocabulary:
            return Workload(corpus.name, batches)
        drawn = [other_words(batch, vocabulary, seed) for seed, batch in enumerate(batches)]
        return Workload(f"lengths of {corpus.name} with random words", drawn)
    raise AssertionError(f"{corpus.name} holds fewer than {SMALLER[-1]} subwords")


def encoded(corpus: Text, codec: Codec, tokens: int) -> list[Batch]:
    """The first batches of an epoch."""
    with tempfile.TemporaryDirectory() as directory:
        triples = ((line, *pair) for line, pair in enumerate(corpus.pairs, 1))
        store = write_store(Path(directory) / "ids", triples, codec, codec, max_length=250)
        updates = Batching.of(store, batch_tokens=tokens, micro_batch_tokens=tokens, seed=1).epoch(0)
        found = [collate(store, cut) for update in updates[:BATCHES] for cut in update]
    return [Batch(batch.source, batch.target, batch.expected) for batch in found]
