"""What each option for small data is worth: 20 minutes of Multi30k with it, against three seeds without any.

    python -m runs.options --work DIRECTORY

Each arm is a run of its own with one thread, as many at a time as there are cores; the same command goes on with what
is not done. All are scored on the validation set, by which options are chosen; the test sets are left alone. An effect
within the spread of the seeds is called noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runs import multi30k, tatoeba
from runs.arm import Arm, BackTranslated, Distilled, FineTuned, Other, succeeded
from runs.command import Order, obey
from runs.recipe import files
from runs.record import Record, budget, section, write_record
from transduce.errors import UserError
from transduce.paper.grid import Outcome, cores, key, run_grid
from transduce.paper.result import Table

NAME = "options"
SETTINGS = (
    "train.minutes=20",
    "train.threads=1",
    "train.precision=bfloat16",
    'text.normalize=["lower"]',
    "model.dropout=0.3",  # the preset's; `train` might choose less
    "train.warmup_steps=300",  # these three would follow from an estimate of the updates, which differs by arm and hour
    "train.validate_every=500",
    "train.save_every=100",
    "search.beam=5",
)
SEEDS = (1, 2, 3)
BASELINE = "none"
HELPER = "train.minutes=10"
"""For a model that others begin with and that is not scored."""
ARMS: dict[str, tuple[str, ...]] = {
    "model.dropout = 0.1": ("model.dropout=0.1",),
    "model.dropout = 0.2": ("model.dropout=0.2",),
    "train.bpe_dropout = 0.1": ("train.bpe_dropout=0.1",),
    "train.r_drop = 3": ("train.r_drop=3.0",),
    "model.word_dropout = 0.1": ("model.word_dropout=0.1",),
    "train.ema = 0.998": ("train.ema=0.998",),
    "train.average = best": ("train.average=best", "train.validate_every=200"),
    "8 encoder layers, 1 decoder layer": ("model.encoder_layers=8", "model.decoder_layers=1"),
}
"""Each with settings of its own; the last costs about as much a token as 4 and 4 layers."""
TEXT = (
    "Lower-cased Moses BLEU of the validation set, preset {preset}, all with as much time of one core: an option that "
    "costs time has fewer updates. Without options the scores of {count} seeds lie {spread:.2f} apart; an effect of no "
    "more than that is called noise. Below the options that are settings: a student of the same shape as its teacher, "
    "which is the first run; the German side of Tatoeba translated back by a model trained on the turned pairs "
    "of Multi30k; and a model that was trained on Tatoeba first. Each of these had its time beside that, the last two "
    "models half as long."
)


def publish(order: Order) -> None:
    """Train and score the arms, then those that need another run."""
    if order.tried:
        raise UserError("--set: the arms of this script are its settings: change them in the script")
    directory, data = order.work / NAME, order.data.absolute()
    first, corpus = seeded(SEEDS[0]), tuple(multi30k.corpus(data))
    helped = (*first, HELPER)
    plain = [Arm(f"{BASELINE}, seed {seed}", data, seeded(seed), corpus) for seed in SEEDS]
    options = [Arm(name, data, (*first, *settings), corpus) for name, settings in ARMS.items()]
    reverse = Other("from German to English", data, helped, turned(data))
    other = Other("Tatoeba", data, helped, tuple(tatoeba.corpus(data)))
    after: list[Arm] = [
        Distilled("distillation from the first run", data, first, corpus, teacher=key(plain[0])),
        BackTranslated("back-translation of Tatoeba's German", data, first, corpus, reverse=key(reverse)),
        FineTuned("fine-tuned from Tatoeba", data, first, corpus, start=key(other)),
    ]
    before = [*plain[:2], reverse, other]  # a long and a short one for each of two cores
    outcomes = run_grid(before, directory, order.listener, processes=cores())
    outcomes |= run_grid([*after, *plain[2:], *options], directory, order.listener, processes=cores())
    rows = [row(BASELINE, seed, outcomes[arm.name]) for seed, arm in zip(SEEDS, plain, strict=True)]
    rows += [row(arm.name, SEEDS[0], outcomes[arm.name]) for arm in (*options, *after)]
    record = write_record(order.results, NAME, directory / key(plain[0]), search={}, rows=rows)
    order.listener.note(show(record))


def seeded(seed: int) -> tuple[str, ...]:
    """What all arms share, with this seed."""
    return (*SETTINGS, f"train.seed={seed}")


def turned(data: Path) -> tuple[str, ...]:
    """The settings that name the files of Multi30k from German to English."""
    (english, german), valid = (multi30k.sides(data, part) for part in ("train", "val"))
    return tuple(files(source=german, target=english, valid_source=valid[1], valid_target=valid[0]))


def row(option: str, seed: int, outcome: Outcome) -> dict[str, Any]:
    """An arm for JSON."""
    return {"option": option, "seed": seed, "settings": ARMS.get(option, ()), **succeeded(option, outcome)}


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
