"""Trainings on Multi30k that are held against each other, as tasks of a grid: plain, taught, or with other text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runs import multi30k
from runs.command import Order
from runs.recipe import Recipe, both_sides, train
from runs.record import numbers
from transduce.cli import app
from transduce.decode.job import record_of
from transduce.errors import UserError
from transduce.paper.grid import Failure, Numbers, Outcome
from transduce.train.progress import Listener
from transduce.train.state import checkpoints, read_state

WEIGHT = 0.2
"""Of Tatoeba's German: an epoch sees about as many back-translated pairs as real ones."""


@dataclass(frozen=True)
class Arm:
    """One training; its numbers are those of the validation set."""

    name: str
    data: Path
    settings: tuple[str, ...]
    corpus: tuple[str, ...]
    """The settings that name its files."""
    preset: str = multi30k.PRESET
    work: float = 1.0

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train, or go on, and score."""
        self.train(out, listener)
        order = Order(out.parent, data=self.data)
        score = multi30k.scores(order, out, "val", Recipe(self.name, self.preset, self.settings))[0]
        return {"updates": read_state(checkpoints(out / "checkpoints")[-1]).step, "score": numbers(score)}

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """A run in `out`, with settings beyond those of the arm."""
        train(out, preset=self.preset, settings=[*self.corpus, *self.settings, *more], listener=listener)


def succeeded(name: str, outcome: Outcome) -> Numbers:
    """The numbers of an arm; a failed one is an error that names it."""
    if isinstance(outcome, Failure):
        raise UserError(f"{name}: {outcome.message}: the same command tries it again")
    return outcome


def obeyed(*words: str) -> None:
    """A command of `transduce`, to its end; one that Ctrl-C ended stops the arm too."""
    if app(list(words), standalone_mode=False):
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Other(Arm):
    """A model that arms need and nobody scores."""

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train, or go on."""
        self.train(out, listener)
        return {}


@dataclass(frozen=True)
class Distilled(Arm):
    """A student of the run at `teacher`, as seen from its own parent, by `transduce distill`."""

    teacher: str = ""
    digest: str = ""
    """Of the teacher, where that may be another one."""

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """On what the teacher says of the sources of Multi30k."""
        if out.with_name(f"{out.name}.distill.json").is_file():
            obeyed("distill", "--resume", str(out))
            return
        (source, _), valid = (multi30k.sides(self.data, part) for part in ("train", "val"))
        named = ["--source", str(source), "--valid-source", str(valid[0]), "--valid-target", str(valid[1])]
        settings = [word for each in (*self.settings, *more) for word in ("--set", each)]
        command = ["distill", str(out.parent / self.teacher), "--out", str(out), "--preset", self.preset]
        obeyed(*command, *named, *settings)


@dataclass(frozen=True)
class BackTranslated(Arm):
    """Beside the real pairs those with Tatoeba's German, whose sources the run named `reverse` beside it makes."""

    reverse: str = ""

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """On both."""
        made = out.with_name(f"{out.name}.en-de.tsv").absolute()
        _, german = both_sides(self.data / "tatoeba-en-de", "train")
        if not made.is_file() or record_of(made).is_file():  # else it is whole
            command = ["backtranslate", str(out.parent / self.reverse), str(german), "-o", str(made), "--beam", "1"]
            obeyed(*command, "--lang", "de")
        super().train(out, listener, f'data.corpora=[{{pairs=["{made}"], weight={WEIGHT}}}]', *more)


@dataclass(frozen=True)
class FineTuned(Arm):
    """Begins with the weights and the vocabulary of the run named `start` beside it."""

    start: str = ""

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """From there."""
        super().train(out, listener, f'train.start="{(out.parent / self.start).absolute()}"', *more)
