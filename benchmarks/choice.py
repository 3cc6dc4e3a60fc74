"""Which preset is best for so many pairs and minutes: `python -m benchmarks.choice DIRECTORY`.

Each training has one core, as its budget is a time: leave the machine alone. What is done stays, in a JSON file each,
and the same command goes on. What it prints is what `train/choice.py:TABLE` should say.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown import table
from benchmarks.results import this_machine
from transduce import Trainer, Translator
from transduce.evaluate.bleu import bleu
from transduce.files import write_directory
from transduce.paper.grid import Failure, Numbers, Outcome, cores, run_grid
from transduce.paper.study import shared_data
from transduce.train.choice import choose_preset
from transduce.train.progress import Listener
from transduce.train.state import checkpoints, read_state

VALIDATION = {"multi30k": "val", "tatoeba-en-de": "dev"}
LANGUAGES = ("en", "de")


@dataclass(frozen=True)
class Candidate:
    """A preset, and what is changed of it."""

    preset: str
    settings: tuple[str, ...] = ()


CANDIDATES = {
    "tiny": Candidate("tiny"),
    "tiny, dropout 0.1": Candidate("tiny", ("model.dropout=0.1",)),
    "tiny, cool-down 0.5": Candidate("tiny", ("train.cooldown=0.5",)),
    "tiny, dropout 0.1, cool-down 0.5": Candidate("tiny", ("model.dropout=0.1", "train.cooldown=0.5")),
    "small, dropout 0.1": Candidate("small", ("model.dropout=0.1",)),
}


@dataclass(frozen=True)
class Course:
    """What a training is held against others for: a corpus, how much of it, and how long."""

    corpus: str
    pairs: int
    minutes: float


COURSES = {
    Course("multi30k", 29_000, 15): (
        "tiny",
        "tiny, dropout 0.1",
        "tiny, cool-down 0.5",
        "tiny, dropout 0.1, cool-down 0.5",
    ),
    Course("tatoeba-en-de", 160_000, 15): ("tiny", "tiny, dropout 0.1", "small, dropout 0.1"),
    Course("tatoeba-en-de", 20_000, 8): ("tiny", "tiny, dropout 0.1"),
    Course("multi30k", 3_000, 5): ("tiny", "tiny, dropout 0.1"),
}
"""Each with those that might be best."""


@dataclass(frozen=True)
class Entry:
    """One training."""

    course: Course
    label: str
    candidate: Candidate

    @property
    def name(self) -> str:
        return f"{self.course.corpus} {self.course.pairs} {self.course.minutes:g} min {self.label}"

    @property
    def work(self) -> float:
        return self.course.minutes

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train, or go on, and score the validation set as `transduce translate` would translate it."""
        if (out / "config.toml").is_file():
            trainer = Trainer.resume(out, listener=listener)
        else:
            trainer = Trainer(out, preset=self.candidate.preset, settings=self.settings(out.parent), listener=listener)
        trainer.run()
        state = read_state(checkpoints(out / "checkpoints")[-1])
        sources, targets = (read(self.course.corpus, VALIDATION[self.course.corpus], lang) for lang in LANGUAGES)
        score = bleu([each.text for each in Translator.load(out).translate(sources)], targets)
        return {"bleu": score.value, "signature": score.signature, "updates": state.step, "seconds": state.seconds}

    def settings(self, directory: Path) -> list[str]:
        """Of the run, with the pairs it may see."""
        course = self.course
        corpus, part = shared_data() / course.corpus, write_part(directory, course)
        files = {
            f"data.{side}": part / f"train.{lang}" for side, lang in zip(("source", "target"), LANGUAGES, strict=True)
        }
        for side, lang in zip(("valid_source", "valid_target"), LANGUAGES, strict=True):
            files[f"data.{side}"] = corpus / f"{VALIDATION[course.corpus]}.{lang}.gz"
        named = [f'{key}=["{path.resolve()}"]' for key, path in files.items()]
        return [*named, f"train.minutes={course.minutes}", "train.threads=1", *self.candidate.settings]


def read(corpus: str, part: str, lang: str) -> list[str]:
    """The lines of one file."""
    return gzip.decompress((shared_data() / corpus / f"{part}.{lang}.gz").read_bytes()).decode().split("\n")[:-1]


def write_part(directory: Path, course: Course) -> Path:
    """So many pairs from all over a corpus, as text files."""
    part = directory / "corpora" / f"{course.corpus}-{course.pairs}"

    def fill(temporary: Path) -> None:
        for lang in LANGUAGES:
            lines = read(course.corpus, "train", lang)
            chosen = [lines[number * len(lines) // course.pairs] for number in range(course.pairs)]
            text = "".join(f"{line}\n" for line in chosen)
            (temporary / f"train.{lang}").write_text(text, encoding="utf-8", newline="\n")

    if not part.is_dir():
        part.parent.mkdir(parents=True, exist_ok=True)
        write_directory(part, fill)
    return part


def entries() -> list[Entry]:
    """Every training; the grid begins with the long ones."""
    return [Entry(course, label, CANDIDATES[label]) for course, labels in COURSES.items() for label in labels]


def page(found: Sequence[Entry], outcomes: Mapping[str, Outcome]) -> str:
    """A row a course: BLEU and updates of each candidate, the best in bold, and what the table would choose today."""
    rows = []
    for course in dict.fromkeys(entry.course for entry in found):
        numbers = {entry.label: outcomes[entry.name] for entry in found if entry.course == course}
        scores = {label: each["bleu"] for label, each in numbers.items() if not isinstance(each, Failure)}
        updates = {label: each["updates"] for label, each in numbers.items() if not isinstance(each, Failure)}
        cells = []
        for label in CANDIDATES:
            best = "**" if scores.get(label) == max(scores.values(), default=None) else ""
            failed = "failed" if label in numbers else ""
            cells.append(f"{best}{scores[label]:.1f}{best} ({updates[label]:,})" if label in scores else failed)
        got = {CANDIDATES[label].preset: each for label, each in updates.items()}
        chosen, _ = choose_preset(course.pairs, got.get, f"{course.minutes:g} minutes")
        rows.append([course.corpus, f"{course.pairs:,}", f"{course.minutes:g}", *cells, chosen])
    heading = ["corpus", "pairs", "minutes", *CANDIDATES, "chosen today"]
    return table(heading, rows, numbers=range(1, len(heading) - 1))


class Printed(Listener):
    """What happens, on stderr."""

    def note(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    def warn(self, message: str) -> None:
        print(f"warning: {message}", file=sys.stderr, flush=True)


def main() -> None:
    directory, found, listener = Path(sys.argv[1]), entries(), Printed()
    hours = sum(entry.work for entry in found) / 60
    listener.note(f"{len(found)} trainings, {hours:.1f} hours of a core, and what scoring takes")
    outcomes = run_grid(found, directory, listener, processes=cores())
    machine = this_machine()
    print(f"{machine.date}, {machine.processor}, threads: {machine.threads}, torch {machine.torch}\n")
    print(page(found, outcomes))


if __name__ == "__main__":
    main()
