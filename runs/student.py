"""A student beside its teacher: the published translator of Multi30k teaches a model that is faster.

    python -m runs.student --work DIRECTORY

The teacher is the run of `runs.multi30k` in the same directory, and is trained if it is not there. `--set` tries
another setting of the student: the validation set is scored then, and nothing is published.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runs import multi30k
from runs.command import Order, obey
from runs.recipe import Recipe
from runs.record import Record, numbers, section, write_record
from transduce.bundle import MANIFEST, locate
from transduce.cli import app
from transduce.decode.translator import Translator
from transduce.evaluate.bleu import lowercased_moses_bleu
from transduce.files import sha256
from transduce.paper.corpora import Pairs, read
from transduce.paper.result import Table

NAME, PRESET = "student", "tiny-student"
SETTINGS = ("train.minutes=60", 'text.normalize=["lower"]', "train.average=best_bleu")
BEAMS = (1, 5)
ROUNDS = 5
TEST = "test_2016_flickr"


def publish(order: Order) -> None:
    """Train a teacher and its student, and measure both."""
    teacher = Recipe(multi30k.NAME, multi30k.PRESET, multi30k.SETTINGS)
    taught = teacher.train(order.work, multi30k.corpus(order.data), order.listener)
    student = teach(order, taught)
    pairs = read(multi30k.sides(order.data, "val" if order.tried else TEST))
    rows = contest({"teacher": taught, "student": student}, pairs)
    for row in rows:
        pace = f"{row['sentences_per_second']:,.0f} sentences/s"
        order.listener.note(f"{row['model']}, beam {row['beam']}: {row['score']['value']:.2f} BLEU, {pace}")
    if not order.tried:
        record = write_record(order.results, NAME, student, test=TEST, rows=rows)
        order.listener.note(show(record))


def teach(order: Order, teacher: Path) -> Path:
    """The student's run, to its end or gone on with, by `transduce distill`."""
    recipe = Recipe(NAME, PRESET, SETTINGS, order.tried, beside=sha256(locate(teacher) / MANIFEST))
    run = recipe.directory(order.work)
    if (run / "model" / MANIFEST).is_file():
        return run
    if run.with_name(f"{run.name}.distill.json").is_file():
        app(["distill", "--resume", str(run)], standalone_mode=False)
        return run
    source, _ = multi30k.sides(order.data, "train")
    valid = multi30k.sides(order.data, "val")
    settings = [word for each in (*SETTINGS, *order.tried) for word in ("--set", each)]
    known = ["--valid-source", str(valid[0]), "--valid-target", str(valid[1]), "--preset", PRESET]
    app(["distill", str(teacher), "--source", str(source), "--out", str(run), *known, *settings], standalone_mode=False)
    return run


@dataclass
class Contender:
    """A model with a beam, and how long it took for all sentences in each round."""

    name: str
    beam: int
    translator: Translator
    seconds: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def go(self, sources: Sequence[str]) -> None:
        """One round."""
        start = time.monotonic()
        found = self.translator.translate(sources, beam=self.beam)
        self.seconds.append(time.monotonic() - start)
        self.texts = [each.text for each in found]


def contest(models: dict[str, Path], pairs: Pairs) -> list[dict[str, Any]]:
    """The speed and the BLEU of each model with each beam, by CTranslate2 in int8; they take turns."""
    contenders = [
        Contender(name, beam, Translator.load(path, engine="ctranslate2"))
        for name, path in models.items()
        for beam in BEAMS
    ]
    sources, right = ([pair[side] for pair in pairs] for side in (0, 1))
    for each in contenders:
        each.translator.translate(sources[:50], beam=each.beam)  # warms up
    for _ in range(ROUNDS):
        for each in contenders:
            each.go(sources)
    return [
        {
            "model": each.name,
            "beam": each.beam,
            "parameters": each.translator.reference.model.num_parameters(),
            "score": numbers(lowercased_moses_bleu(each.texts, right, language="de")),
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
    text = f"{record['test']}, {sentences:,} sentences, by CTranslate2 in int8; medians of {rounds} rounds in turns."
    title = "A student beside its teacher, Multi30k"
    return section(record, title=title, text=text, table=Table(NAME, heading, rows))


if __name__ == "__main__":
    obey(__doc__, publish)
