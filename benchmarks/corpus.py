"""The batches that every contender trains on: Multi30k if it is there, else the embedded phrasebook."""

from __future__ import annotations

import gzip
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from transduce.data.batching import Batch, Batching, collate
from transduce.data.phrasebook import phrases
from transduce.data.store import write_store
from transduce.text import Subwords


@dataclass(frozen=True)
class Workload:
    """A corpus cut into batches for a vocabulary."""

    name: str
    vocabulary: int
    batches: list[Batch]


def shared_data() -> Path:
    """Where public corpora are looked for."""
    default = Path(__file__).parent.parent.parent / "shared" / "data"
    return Path(os.environ.get("TRANSDUCE_DATA", default))


def read_pairs() -> tuple[str, list[tuple[str, str]]]:
    """The corpus and its name."""
    directory = shared_data() / "multi30k"
    if not directory.is_dir():
        return "phrasebook", [(phrase.source, phrase.target) for phrase in phrases("train", 30_000)]
    sides = [gzip.decompress((directory / f"train.{lang}.gz").read_bytes()).decode() for lang in ("en", "de")]
    source, target = (text.split("\n")[:-1] for text in sides)
    return "Multi30k", list(zip(source, target, strict=True))


def workload(*, vocabulary: int, tokens: int, batches: int) -> Workload:
    """Batches of at most `tokens` tokens a side, as training would cut and shuffle them."""
    name, pairs = read_pairs()
    lines = [line for pair in pairs for line in pair]
    codec = Subwords.learn(lines, vocabulary=vocabulary, seed=1, sample_lines=10**6).codec
    with tempfile.TemporaryDirectory() as directory:
        triples = ((line, *pair) for line, pair in enumerate(pairs, 1))
        store = write_store(Path(directory) / "ids", triples, codec, codec, max_length=250)
        updates = Batching.of(store, batch_tokens=tokens, micro_batch_tokens=tokens, seed=1).epoch(0)
        found = [collate(store, cut) for update in updates[:batches] for cut in update]
    return Workload(name, codec.size, found)
