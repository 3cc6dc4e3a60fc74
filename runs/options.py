"""What each option for small data is worth: 20 minutes of Multi30k with it, against three seeds without any.

    python -m runs.options --work DIRECTORY

Each arm is a run of its own with one thread, as many at a time as there are cores; the same command goes on with what
is not done. All are scored on the validation set, by which options are chosen; the test sets are left alone. An effect
within the spread of the seeds is called noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runs import multi30k, tatoeba
from runs.command import Order, obey
from runs.recipe import Recipe, both_sides, files, train
from runs.record import Record, budget, numbers, section, write_record
from transduce.cli import app
from transduce.errors import UserError
from transduce.paper.grid import Failure, Numbers, Outcome, cores, key, run_grid
from transduce.paper.result import Table
from transduce.train.progress import Listener
from transduce.train.state import checkpoints, read_state

NAME = "options"
SETTINGS = ("train.minutes=20", "train.threads=1", 'text.normalize=["lower"]', "search.beam=5")
SEEDS = (1, 2, 3)
BASELINE = "none"
ARMS: dict[str, tuple[str, ...]] = {
    "train.bpe_dropout = 0.05": ("train.bpe_dropout=0.05",),
    "train.bpe_dropout = 0.1": ("train.bpe_dropout=0.1",),
    "train.r_drop = 5": ("train.r_drop=5.0",),
    "model.word_dropout = 0.1": ("model.word_dropout=0.1",),
    "train.ema = 0.999": ("train.ema=0.999",),
    "train.average = best": ("train.average=best",),
    "8 encoder layers, 1 decoder layer": ("model.encoder_layers=8", "model.decoder_layers=1"),
}
"""Each with settings of its own; the last costs about as much a token as 4 and 4 layers."""
WEIGHT = 0.2
"""Of Tatoeba's German: an epoch sees about as many back-translated pairs as real ones."""
TEXT = (
    "Lower-cased Moses BLEU of the validation set, preset {preset}, all with as much time of one core: an option that "
    "costs time has fewer updates. Without options the scores of {count} seeds lie {spread:.2f} apart; an effect of no "
    "more than that is called noise. Below the options that are settings: a student of the same shape as its teacher, "
    "which is the first run; the German side of Tatoeba translated back by a model trained as long on the turned pairs "
    "of Multi30k; and a model that was trained as long on Tatoeba first. Each of these had its time beside that."
)


@dataclass(frozen=True)
class Arm:
    """One training; its numbers are those of Multi30k's validation set."""

    name: str
    data: Path
    corpus: tuple[str, ...]
    """The settings that name its files."""
    settings: tuple[str, ...] = ()
    seed: int = SEEDS[0]
    work: float = 1.0

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train, or go on, and score."""
        self.train(out, listener)
        order = Order(out.parent, data=self.data)
        score = multi30k.scores(order, out, "val", Recipe(NAME, multi30k.PRESET, self.asked))[0]
        return {"updates": read_state(checkpoints(out / "checkpoints")[-1]).step, "score": numbers(score)}

    @property
    def asked(self) -> tuple[str, ...]:
        """All settings but the corpus."""
        return (*SETTINGS, f"train.seed={self.seed}", *self.settings)

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """A run in `out`, with settings beyond those of the arm."""
        train(out, preset=multi30k.PRESET, settings=[*self.corpus, *self.asked, *more], listener=listener)


@dataclass(frozen=True)
class Other(Arm):
    """A model that arms need and nobody scores."""

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train, or go on."""
        self.train(out, listener)
        return {}


@dataclass(frozen=True)
class Distilled(Arm):
    """A student of the run named `teacher` beside it, by `transduce distill`."""

    teacher: str = ""

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """On what the teacher says of the sources of Multi30k."""
        if out.with_name(f"{out.name}.distill.json").is_file():
            app(["distill", "--resume", str(out)], standalone_mode=False)
            return
        (source, _), valid = (multi30k.sides(self.data, part) for part in ("train", "val"))
        named = ["--source", str(source), "--valid-source", str(valid[0]), "--valid-target", str(valid[1])]
        settings = [word for each in (*self.asked, *more) for word in ("--set", each)]
        command = ["distill", str(out.parent / self.teacher), "--out", str(out), "--preset", multi30k.PRESET]
        app([*command, *named, *settings], standalone_mode=False)


@dataclass(frozen=True)
class BackTranslated(Arm):
    """Beside the real pairs those with Tatoeba's German, whose sources the run named `reverse` beside it makes."""

    reverse: str = ""

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """On both."""
        made = out.with_name(f"{out.name}.en-de.tsv").absolute()
        _, german = both_sides(self.data / "tatoeba-en-de", "train")
        if not (out / "config.toml").is_file():
            command = ["backtranslate", str(out.parent / self.reverse), str(german), "-o", str(made), "--beam", "1"]
            app([*command, "--lang", "de"], standalone_mode=False)
        super().train(out, listener, f'data.corpora=[{{pairs=["{made}"], weight={WEIGHT}}}]', *more)


@dataclass(frozen=True)
class FineTuned(Arm):
    """Begins with the weights and the vocabulary of the run named `start` beside it."""

    start: str = ""

    def train(self, out: Path, listener: Listener, *more: str) -> None:
        """From there."""
        super().train(out, listener, f'train.start="{(out.parent / self.start).absolute()}"', *more)


def publish(order: Order) -> None:
    """Train and score the arms, then those that need another run."""
    if order.tried:
        raise UserError("--set: the arms of this script are its settings: change them in the script")
    directory, data = order.work / NAME, order.data.absolute()
    corpus = tuple(multi30k.corpus(data))
    plain = [Arm(f"{BASELINE}, seed {seed}", data, corpus, seed=seed) for seed in SEEDS]
    options = [Arm(name, data, corpus, settings) for name, settings in ARMS.items()]
    reverse = Other("from German to English", data, turned(data))
    other = Other("Tatoeba", data, tuple(tatoeba.corpus(data)))
    after: list[Arm] = [
        Distilled("distillation from the first run", data, corpus, teacher=key(plain[0])),
        BackTranslated("back-translation of Tatoeba's German", data, corpus, reverse=key(reverse)),
        FineTuned("fine-tuned from Tatoeba", data, corpus, start=key(other)),
    ]
    outcomes = run_grid([*plain, reverse, other, *options], directory, order.listener, processes=cores())
    outcomes |= run_grid(after, directory, order.listener, processes=cores())
    rows = [row(BASELINE, arm, outcomes[arm.name]) for arm in plain]
    rows += [row(arm.name, arm, outcomes[arm.name]) for arm in (*options, *after)]
    record = write_record(order.results, NAME, directory / key(plain[0]), rows=rows)
    order.listener.note(show(record))


def turned(data: Path) -> tuple[str, ...]:
    """The settings that name the files of Multi30k from German to English."""
    (english, german), valid = (multi30k.sides(data, part) for part in ("train", "val"))
    return tuple(files(source=german, target=english, valid_source=valid[1], valid_target=valid[0]))


def row(option: str, arm: Arm, outcome: Outcome) -> dict[str, Any]:
    """An arm for JSON."""
    if isinstance(outcome, Failure):
        raise UserError(f"{arm.name}: {outcome.message}: the same command tries it again")
    return {"option": option, "seed": arm.seed, "settings": arm.settings, **outcome}


def verdict(effect: float, seeds: Sequence[float]) -> str:
    """What an effect on the mean of some seeds means beside their spread."""
    return "noise" if abs(effect) <= max(seeds) - min(seeds) else "better" if effect > 0 else "worse"


def show(record: Record) -> str:
    """The result for docs/results.md."""
    found = [(row["option"], row["seed"], row["updates"], row["score"]["value"]) for row in record["rows"]]
    seeds = [value for option, _, _, value in found if option == BASELINE]
    mean = sum(seeds) / len(seeds)
    rows = []
    for option, seed, updates, value in found:
        told = ["", ""] if option == BASELINE else [f"{value - mean:+.2f}", verdict(value - mean, seeds)]
        rows.append([option, str(seed), f"{updates:,}", f"{value:.2f}", *told])
    heading = ["option", "seed", "updates", "validation BLEU", "against the mean without", ""]
    text = TEXT.format(preset=record["preset"], count=len(seeds), spread=max(seeds) - min(seeds))
    title = f"Options for small data, Multi30k, {budget(record)} each"
    return section(record, title=title, text=text, table=Table(NAME, heading, rows))


if __name__ == "__main__":
    obey(__doc__, publish)
