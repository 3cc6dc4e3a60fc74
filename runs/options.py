"""What each option for small data is worth: 20 minutes of Multi30k with it, against three seeds without any.

    python -m runs.options --work DIRECTORY

Each arm is a run of its own; the result is written anew after each, and the same command goes on with the next one.
All are scored on the validation set, by which options are chosen; the test sets are left alone. An effect within the
spread of the seeds is called noise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runs import multi30k
from runs.command import Order, obey
from runs.recipe import Recipe
from runs.record import Record, budget, numbers, section, write_record
from transduce.errors import UserError
from transduce.paper.result import Table
from transduce.train.state import checkpoints, read_state

NAME = "options"
SETTINGS = ("train.minutes=20", 'text.normalize=["lower"]', "search.beam=5")
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
TEXT = (
    "Lower-cased Moses BLEU of the validation set, preset {preset}, all with as much time: an option that costs time "
    "has fewer updates. Without options the scores of {count} seeds lie {spread:.2f} apart; an effect of no more than "
    "that is called noise."
)


def publish(order: Order) -> None:
    """Train and score arm by arm, the baseline first."""
    if order.tried:
        raise UserError("--set: the arms of this script are its settings: change them in the script")
    seeds = [(BASELINE, seed, (f"train.seed={seed}",)) for seed in SEEDS]
    arms = [(name, SEEDS[0], (f"train.seed={SEEDS[0]}", *settings)) for name, settings in ARMS.items()]
    runs: list[Path] = []
    rows: list[dict[str, Any]] = []
    for name, seed, settings in (*seeds, *arms):
        recipe = Recipe(NAME, multi30k.PRESET, (*SETTINGS, *settings))
        run = recipe.train(order.work, multi30k.corpus(order.data), order.listener)
        runs.append(run)
        score = multi30k.scores(order, run, "val", recipe)[0]
        updates = read_state(checkpoints(run / "checkpoints")[-1]).step
        rows.append({"option": name, "seed": seed, "settings": settings, "updates": updates, "score": numbers(score)})
        order.listener.note(f"{name}, seed {seed}: validation {score}")
        record = write_record(order.results, NAME, runs[0], rows=rows)
    order.listener.note(show(record))


def verdict(effect: float, seeds: list[float]) -> str:
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
