"""What time buys: one run of 120 minutes on Tatoeba's sentences, scored as it was by 15, 30, 60 and 120 of them.

    python -m runs.tatoeba --work DIRECTORY

Each is the moving average of the weights as it was then. A run that is asked for 15 minutes warms up in less time and
has its cool-down at its own end: it may do better than the first row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runs.command import Order, obey
from runs.milestones import Milestone, Milestones, at_the_end, milestone
from runs.recipe import Recipe, both_sides, outputs, parallel
from runs.record import Record, numbers, section, write_record
from transduce.bundle import open_bundle
from transduce.evaluate.bleu import bleu, chrf
from transduce.paper.corpora import read
from transduce.paper.result import Table
from transduce.train.progress import Listeners

NAME, PRESET = "tatoeba", "small"
MILESTONES, MINUTES = (15, 30, 60), 120
SETTINGS = (
    f"train.minutes={MINUTES}",
    "train.threads=1",
    "train.precision=bfloat16",
    "model.dropout=0.15",
    "train.cooldown=0.5",
    "train.ema=0.999",
    "train.warmup_steps=700",
    "train.save_every=30",
    "search.beam=5",
)


def publish(order: Order) -> None:
    """Train, score validation at each time, and, if nothing is only tried, the test set."""
    recipe = Recipe(NAME, PRESET, SETTINGS, order.tried)
    directory = recipe.directory(order.work)
    listener = Listeners(order.listener, Milestones(directory, MILESTONES))
    run = recipe.train(order.work, corpus(order.data), listener)
    end = open_bundle(run).config.train.minutes
    assert end is not None, "what time buys is asked of a budget in minutes"
    models = {each: milestone(run, each) for each in MILESTONES if each < end} | {end: at_the_end(run)}
    found = {
        part: [row(order, minutes, each, part, recipe) for minutes, each in models.items()]
        for part in (("dev",) if order.tried else ("dev", "test"))
    }
    for each in found["dev"]:
        order.listener.note(f"{each['minutes']:g} minutes: development BLEU {each['scores'][0]['value']:.2f}")
    if order.tried:
        return
    record = write_record(order.results, NAME, run, search=recipe.search, scores=found)
    order.listener.note(show(record))


def corpus(data: Path) -> list[str]:
    """The settings that name the training and the development pairs."""
    return parallel(data / "tatoeba-en-de", valid="dev")


def row(order: Order, minutes: float, kept: Milestone, part: str, recipe: Recipe) -> dict[str, Any]:
    """How good the run was at this time: sacreBLEU and chrF."""
    pairs = read(both_sides(order.data / "tatoeba-en-de", part))
    found = outputs(order.work, kept.bundle, [source for source, _ in pairs], recipe.search)
    right = [target for _, target in pairs]
    facts = {"minutes": minutes, "updates": kept.updates, "seconds": kept.seconds, "checkpoints": kept.checkpoints}
    return {**facts, "scores": [numbers(score) for score in (bleu(found, right), chrf(found, right))]}


def show(record: Record) -> str:
    """The result for docs/results.md."""
    rows = [
        [
            f"{test['seconds'] / 60:.0f}",
            f"{test['updates']:,}",
            f"{dev['scores'][0]['value']:.2f}",
            f"{test['scores'][0]['value']:.2f}",
            f"{test['scores'][1]['value']:.2f}",
        ]
        for dev, test in zip(record["scores"]["dev"], record["scores"]["test"], strict=True)
    ]
    heading = ["minutes", "updates", "development BLEU", "test BLEU", "test chrF2"]
    first = record["scores"]["test"][0]["scores"][0]
    text = (
        f"One run, as its last checkpoint before 15, 30 and 60 minutes had it, and at its end; sacreBLEU "
        f"(`{first['signature']}`) and chrF2 of {first['sentences']:,} test sentences. The learning rate falls to 0 "
        "over the second half; a run that is to end earlier cools down earlier, and may do better. Other trainings, "
        "and tests for some minutes, ran on the other core."
    )
    title = "Tatoeba, English to German: what time buys"
    return section(record, title=title, text=text, table=Table(NAME, heading, rows))


if __name__ == "__main__":
    obey(__doc__, publish)
