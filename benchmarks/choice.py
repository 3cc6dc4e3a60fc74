"""Which preset is best for so many pairs and minutes: `python -m benchmarks.choice DIRECTORY`.

Each training has one core, as its budget is a time: leave the machine alone. What is done stays, in a JSON file each,
and the same command goes on. By what it prints `train/choice.py:TABLE` was chosen.
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
from transduce.paper.grid import Failure, Numbers, Outcome, cores, key, run_grid
from transduce.paper.study import shared_data
from transduce.train.choice import choose_preset, settings_of
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


def page(found: Sequence[Entry], outcomes: Mapping[str, Outcome], directory: Path) -> str:
    """A row a training; of each course the best BLEU in bold, and which one `train` would choose by itself."""
    rows = []
    for entry in found:
        course, outcome = entry.course, outcomes[entry.name]
        if isinstance(outcome, Failure):
            cells = ["", "", "failed", ""]
        else:
            rivals = [outcomes[each.name] for each in found if each.course == course]
            best = max(each["bleu"] for each in rivals if not isinstance(each, Failure))
            bold = "**" if outcome["bleu"] == best else ""
            seen = epochs(directory / key(entry))
            numbers = [f"{outcome['updates']:,}", f"{seen:.1f}", f"{bold}{outcome['bleu']:.1f}{bold}"]
            cells = [*numbers, "chosen" if chosen(entry, seen) else ""]
        rows.append([course.corpus, f"{course.pairs:,}", f"{course.minutes:g}", entry.label, *cells])
    heading = ["corpus", "pairs", "minutes", "", "updates", "epochs", "BLEU", "by `train`"]
    return table(heading, rows, numbers=(1, 2, 4, 5, 6))


def epochs(run: Path) -> float:
    """How often a run saw its corpus."""
    state = read_state(checkpoints(run / "checkpoints")[-1])
    return state.epoch + state.update / state.of_epoch


def chosen(entry: Entry, seen: float) -> bool:
    """Whether `train` would take this candidate for so many epochs."""
    pairs = entry.course.pairs
    preset, _ = choose_preset(pairs)
    return entry.candidate == Candidate(preset, tuple(settings_of(preset, pairs, seen)))


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
    print(page(found, outcomes, directory))


if __name__ == "__main__":
    main()
