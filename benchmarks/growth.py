"""How time grows: of an update with its sentences' length and number, of preparation with the corpus."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from benchmarks.batches import Batch, random_batch, write_batches
from benchmarks.contenders import OURS_RESIDUAL
from benchmarks.corpus import Text, learn
from benchmarks.race import Runner
from benchmarks.results import Growth, this_machine
from benchmarks.shapes import TINY, Shape
from transduce.config import DataConfig
from transduce.data.corpus import training_corpus
from transduce.data.doctor import examine
from transduce.data.store import write_store
from transduce.text import Codec

SENTENCES, LENGTHS = 8, (16, 32, 64, 128, 256, 512, 1024)
LENGTH, BATCH_SIZES = 32, (1, 2, 4, 8, 16, 32, 64, 128)
VOCABULARY = 4000  # an eighth of the corpus holds as many
PARTS = (8, 4, 2, 1)


def growth_with_length(rounds: int) -> Growth:
    """An update of a few sentences that get longer."""
    batches = [random_batch(SENTENCES, length, TINY.vocabulary) for length in LENGTHS]
    what = f"an update of {SENTENCES} sentences"
    return Growth(this_machine(), what, "tokens a sentence", list(LENGTHS), updates(TINY, batches, rounds))


def growth_with_batch(rounds: int) -> Growth:
    """An update of more and more sentences."""
    batches = [random_batch(count, LENGTH, TINY.vocabulary) for count in BATCH_SIZES]
    what = f"an update of sentences of {LENGTH} tokens"
    return Growth(this_machine(), what, "sentences", list(BATCH_SIZES), updates(TINY, batches, rounds))


def updates(shape: Shape, batches: Sequence[Batch], rounds: int) -> list[list[float]]:
    """For each batch, the seconds of an update in each round after the first; dropout is where presets have it."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "batches.npz"
        write_batches(path, batches)
        with Runner(OURS_RESIDUAL, shape, path) as runner:
            laps = [[runner.train([number]) for number in range(len(batches))] for _ in range(rounds + 1)]
    return [list(column) for column in zip(*laps[1:], strict=True)]


def preparation(text: Text, rounds: int) -> dict[str, Growth]:
    """What happens to a corpus before training: looked at, learned from, encoded."""
    sizes = [len(text.pairs) // part for part in PARTS]
    laps = [[prepare(Text(text.name, text.pairs[:size])) for size in sizes] for _ in range(rounds)]
    return {
        stage: Growth(
            this_machine(), stage, "pairs", sizes, [[lap[at][stage] for lap in laps] for at in range(len(sizes))]
        )
        for stage in laps[0][0]
    }


def prepare(text: Text) -> dict[str, float]:
    """Seconds of each stage."""
    with tempfile.TemporaryDirectory() as directory:
        source, target = text.write(Path(directory))
        data = DataConfig(source=(str(source),), target=(str(target),))
        codecs: list[Codec] = []
        triples = [(line, *pair) for line, pair in enumerate(text.pairs, 1)]
        stages: dict[str, Callable[[], object]] = {
            "the doctor": lambda: examine(training_corpus(data), data=data),
            "learning subwords": lambda: codecs.append(learn(text.pairs, VOCABULARY)),
            "encoding to the store": lambda: write_store(
                Path(directory) / "ids", triples, codecs[0], codecs[0], max_length=data.max_length
            ),
        }
        marks = [time.perf_counter()]
        for stage in stages.values():
            stage()
            marks.append(time.perf_counter())
    return dict(zip(stages, (end - start for start, end in pairwise(marks)), strict=True))
