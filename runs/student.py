"""A student beside its teacher: the published translator of Multi30k teaches a model that is faster.

    python -m runs.student --work DIRECTORY

The teacher is the run of `runs.multi30k` in the same directory, and is trained if it is not there. The student is
trained beside a model of its shape that has no teacher, one thread each. `--set` tries another setting of both: the
validation set is scored then, and nothing is published.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs import multi30k
from runs.arm import Arm, Distilled, succeeded
from runs.command import Order, obey
from runs.recipe import Recipe
from runs.record import Record, budget, changed, numbers, section, write_record
from transduce.bundle import MANIFEST, locate, open_bundle
from transduce.decode.ctranslate2_engine import cores as workers
from transduce.decode.translator import Translator
from transduce.errors import UserError
from transduce.evaluate.bleu import lowercased_moses_bleu
from transduce.files import sha256
from transduce.paper.corpora import Pairs, read
from transduce.paper.grid import cores, key, run_grid
from transduce.paper.result import Table

NAME, PRESET = "student", "tiny-student"
SETTINGS = (
    "train.minutes=40",
    "train.threads=1",
    "train.precision=bfloat16",
    'text.normalize=["lower"]',
    "train.cooldown=0.5",
    "train.average=best_bleu",
)
STUDENT, ALONE = "student", "the same without a teacher"
BEAMS = (1, 5)
ROUNDS = 5
TEST = "test_2016_flickr"


def publish(order: Order) -> None:
    """Train a teacher, its student and one without a teacher, and measure all."""
    if Recipe(NAME, PRESET, (), order.tried).search:
        raise UserError("--set search...: all are searched as their teacher is: set it in runs/multi30k.py")
    teacher = Recipe(multi30k.NAME, multi30k.PRESET, multi30k.SETTINGS)
    taught = teacher.train(order.work, multi30k.corpus(order.data), order.listener)
    models = {"teacher": taught, **students(order, taught)}
    pairs = read(multi30k.sides(order.data, "val" if order.tried else TEST))
    rows = contest(models, pairs, teacher.search)
    for row in rows:
        pace = f"{row['sentences_per_second']:,.0f} sentences/s"
        order.listener.note(f"{row['model']}, beam {row['beam']}: {row['score']['value']:.2f} BLEU, {pace}")
    if not order.tried:
        measured = {"teacher": changed(open_bundle(taught).config), "test": TEST, "rows": rows}
        record = write_record(order.results, NAME, models[STUDENT], search=teacher.search, **measured)
        order.listener.note(show(record))


def students(order: Order, teacher: Path) -> dict[str, Path]:
    """The runs of the student and of its like without a teacher, to their end or gone on with."""
    directory, data, settings = order.work / NAME, order.data.absolute(), (*SETTINGS, *order.tried)
    corpus, digest = tuple(multi30k.corpus(data)), sha256(locate(teacher) / MANIFEST)
    seen = os.path.relpath(teacher, directory)
    tasks = [
        Distilled(STUDENT, data, settings, corpus, PRESET, teacher=seen, digest=digest),
        Arm(ALONE, data, settings, corpus, PRESET),
    ]
    for name, outcome in run_grid(tasks, directory, order.listener, processes=cores()).items():
        succeeded(name, outcome)
    return {task.name: directory / key(task) for task in tasks}


@dataclass
class Contender:
    """A model with a beam, and how long it took for all sentences in each round."""

    name: str
    beam: int
    search: Mapping[str, Any]
    translator: Translator
    seconds: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def go(self, sources: Sequence[str]) -> None:
        """One round."""
        start = time.monotonic()
        found = self.translator.translate(sources, settings={**self.search, "beam": self.beam})
        self.seconds.append(time.monotonic() - start)
        self.texts = [each.text for each in found]


def contest(models: dict[str, Path], pairs: Pairs, search: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The speed and the BLEU of each model with each beam, else by one search, by CTranslate2 in int8; in turns."""
    contenders = [
        Contender(name, beam, search, Translator.load(path, engine="ctranslate2"))
        for name, path in models.items()
        for beam in BEAMS
    ]
    sources, right = ([pair[side] for pair in pairs] for side in (0, 1))
    for each in contenders:
        each.go(sources[:50])  # warms up
        each.seconds.clear()
    for _ in range(ROUNDS):
        for each in contenders:
            each.go(sources)
    return [
        {
            "model": each.name,
            "beam": each.beam,
            "parameters": each.translator.reference.model.num_parameters(),
            "score": numbers(lowercased_moses_bleu(each.texts, right, language="de")),
            "workers": workers(),
            "sentences_per_second": len(sources) / statistics.median(each.seconds),
            "seconds": each.seconds,
        }
        for each in contenders
    ]


def show(record: Record) -> str:
    """The result for docs/results.md."""
    rows = [
        [
            row["model"],
            f"{row['parameters']:,}",
            str(row["beam"]),
            f"{row['score']['value']:.2f}",
            f"{row['sentences_per_second']:,.0f}",
        ]
        for row in record["rows"]
    ]
    heading = ["", "parameters", "beam", "lower-cased Moses BLEU", "sentences/s"]
    first = record["rows"][0]
    sentences, rounds = first["score"]["sentences"], len(first["seconds"])
    text = (
        f"{record['test']}, {sentences:,} sentences, by CTranslate2 in int8 with {first['workers']} workers; medians "
        f"of {rounds} rounds in turns. All are searched by the teacher's length penalty. The teacher is the translator "
        f"published above; the others were each trained for {budget(record)} on one core. The student learned what the "
        "teacher says of the training sentences, the last model their real translations."
    )
    title = "A student beside its teacher, Multi30k"
    return section(record, title=title, text=text, table=Table(NAME, heading, rows))


if __name__ == "__main__":
    obey(__doc__, publish)
