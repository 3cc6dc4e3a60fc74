"""Which preset suits a corpus and a budget, when the user names none; and for how long a preset should be trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from transduce.config import TrainConfig
from transduce.data.report import CorpusReport
from transduce.settings import load_config

TOKENS_A_WORD = 1.4
"""Of what stands between spaces: Multi30k and Tatoeba have 1.3 to 1.5, with vocabularies of 5,000 and 8,000."""


@dataclass(frozen=True)
class Row:
    """From so many pairs on: this preset with these settings, if it gets the updates that it needs."""

    pairs: int
    preset: str
    needs: int
    settings: tuple[str, ...] = ()
    few: tuple[str, ...] = ()
    """Settings of a budget that has few epochs."""


FEW_EPOCHS = 20
"""With fewer a model does not come to know its corpus by heart, and dropout only holds it up: 0.1 was better than 0.3
after 2 and 8 epochs, and worse after 27 (benchmarks/choice.py)."""

LITTLE_DROPOUT = ("model.dropout=0.1",)

TABLE = (
    Row(0, "tiny", 1_200, ("text.vocabulary=1000",), LITTLE_DROPOUT),
    Row(1_000, "tiny", 1_200, (), LITTLE_DROPOUT),
    Row(200_000, "small", 4_000, (), LITTLE_DROPOUT),
    Row(2_000_000, "base", 16_000),
)
"""Smaller presets first. The limits of 200,000 and 2,000,000 pairs are a rule of thumb. What a preset needs is four of
its warm-ups, as with fewer updates the warm-up is cut short (calibration.py). Fewer than 1,000 short pairs
can hold fewer subwords than tiny asks for, which would be refused."""


@dataclass(frozen=True)
class Size:
    """Of a corpus: the pairs of an epoch, and the tokens of a side on the average, its end included."""

    pairs: float
    source: float
    target: float

    @classmethod
    def of(cls, report: CorpusReport) -> Size:
        """Guessed from what the doctor counted: there is no vocabulary yet."""
        source, target = (TOKENS_A_WORD * report.lengths[f"{side} words"].mean + 1 for side in ("source", "target"))
        return cls(sum(part.seen for part in report.parts), source, target)

    @property
    def longer(self) -> float:
        """Tokens of the side that fills batches first."""
        return max(self.source, self.target)

    def tokens_an_update(self, train: TrainConfig) -> float:
        """Target tokens, on the average; those of a full update if there is no end of pairs."""
        if math.isinf(self.pairs):
            return train.batch_tokens * self.target / self.longer
        return self.pairs * self.target / self.updates_per_epoch(train)

    def updates_per_epoch(self, train: TrainConfig) -> int:
        """About as many as `Batching` will cut."""
        return max(1, math.ceil(self.pairs * self.longer / train.batch_tokens))


def without_end(preset: str) -> None:
    """No budget limits the updates that a preset gets."""


def choose_preset(pairs: int, updates: Callable[[str], int | None] = without_end, budget: str = "") -> tuple[str, str]:
    """The largest preset for so many pairs that gets the updates it needs, else the smallest; and why.

    `updates` says how many a preset would get in the `budget`; it is asked only where there is a choice.
    """
    rows = list(reversed(suitable(pairs).values()))
    others: list[str] = []
    for row in rows:
        got = updates(row.preset) if len(rows) > 1 else None
        if got is None:
            return row.preset, by_size(pairs)
        needed = f" of the {row.needs:,} it needs" if got < row.needs else ""
        if not needed or row is rows[-1]:
            here = f"{pairs:,} pairs, {budget}: about {got:,} updates here{needed}"
            return row.preset, "; ".join([here, *others])
        others.append(f"{row.preset} would get {got:,}{needed}")
    raise AssertionError("the table has a row for any number of pairs")


def suitable(pairs: int) -> dict[str, Row]:
    """The row of each preset that so many pairs are enough for, smaller ones first."""
    return {row.preset: row for row in TABLE if row.pairs <= pairs}


def by_size(pairs: int) -> str:
    """Where a number of pairs stands in the table."""
    limits = [row.pairs for row in TABLE if row.pairs > pairs]
    return f"{pairs:,} pairs are " + (f"fewer than {limits[0]:,}" if limits else f"at least {TABLE[-1].pairs:,}")


def settings_of(preset: str, pairs: int, epochs: float | None, given: Collection[str] = ()) -> list[str]:
    """What the table sets beside the preset, without the keys that were given.

    `epochs` are those that the budget has room for; without a budget, None.
    """
    row = suitable(pairs)[preset]
    few = epochs is not None and epochs < FEW_EPOCHS
    return [each for each in (*row.settings, *(row.few if few else ())) if each.partition("=")[0] not in given]


class Choice(NamedTuple):
    """What a corpus and a budget come to."""

    preset: str
    settings: list[str]
    """Beside it, by the table."""
    words: str
    """Both, and the reasons, as `train` and `plan` tell them."""


def choose(
    pairs: int,
    updates: Callable[[str], int | None],
    updates_per_epoch: Callable[[str], int],
    *,
    budget: str = "",
    given: Collection[str] = (),
) -> Choice:
    """The preset and the settings for so many pairs; both callables are asked about presets."""
    preset, why = choose_preset(pairs, updates, budget)
    got = updates(preset)
    epochs = None if got is None else got / updates_per_epoch(preset)
    settings = settings_of(preset, pairs, epochs, given)
    return Choice(preset, settings, _in_words(preset, why, epochs, settings))


def _in_words(preset: str, why: str, epochs: float | None, settings: Sequence[str]) -> str:
    told = [f"{preset}: {why}"]
    if epochs is not None:
        told.append(f"about {epochs:,.1f} epochs" + (f", fewer than {FEW_EPOCHS}" if epochs < FEW_EPOCHS else ""))
    if settings:
        told.append(f"sets {', '.join(settings)}")
    return "; ".join(told)


def recommended_updates(train: TrainConfig) -> int:
    """As many as the recipe says; else as many warm-ups as the paper's base model was trained for (section 5.2)."""
    paper = load_config(preset="wmt14-en-de").train
    assert paper.steps is not None, "the paper says how long it trained"
    return train.steps or train.warmup_steps * paper.steps // paper.warmup_steps


def budget_in_words(train: TrainConfig) -> str:
    """The limits that are set."""
    limits = {"minutes": train.minutes, "updates": train.steps, "epochs": train.epochs}
    return " or ".join(f"{limit:,.10g} {what}" for what, limit in limits.items() if limit)
