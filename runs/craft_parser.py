"""The published parser: trained on CRAFT for 80 minutes on one core, scored on its dev and test trees.

    python -m runs.craft_parser --work DIRECTORY
    python -m runs.craft_parser --work DIRECTORY --set search.beam=4

The second form tries a setting: it tells the F1 of the dev trees and leaves the test trees alone. Run and parses lie
where `transduce paper table4 --scale small --work DIRECTORY` has them, and that shows the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runs.command import Order, obey
from runs.recipe import Recipe, digest
from runs.record import Record, budget, section, write_record
from transduce.bundle import open_bundle
from transduce.config import Config, SearchConfig
from transduce.data.treebank import read_treebank
from transduce.decode.parser import Parser
from transduce.paper.result import Table
from transduce.paper.table4 import RECIPES
from transduce.paper.treebank_run import Scored, Treebank, kept_at, measure, parser_run, ways

NAME = "craft_parser"
DIRECTORY = "table4-small"
"""Of the study's run and parses, below its directory of trainings."""
PRESET, SETTINGS = RECIPES["small"].preset, RECIPES["small"].settings
TEXT = (
    "EVALB with the parameters of COLLINS.prm; [parsing.md](parsing.md) says how trees are scored. Right-branching is "
    "a baseline without a model."
)


def publish(order: Order) -> None:
    """Train, score the dev trees, and, if nothing is only tried, the test trees."""
    treebank = Treebank.at(order.data / RECIPES["small"].treebank)
    recipe = Recipe(NAME, PRESET, SETTINGS, order.tried)
    training = [each for each in order.tried if not each.startswith("search.")]
    directory = recipe.directory(order.work) if training else order.work / DIRECTORY
    run, settings = directory / "run", (*SETTINGS, *training)
    parser_run(run, treebank, preset=PRESET, settings=settings, listener=order.listener)
    config = open_bundle(run).config
    search = SearchConfig.model_validate({**config.search.model_dump(), **recipe.search})
    if search != config.search:  # by which parses are not told apart
        directory = directory / digest(search.model_dump(mode="json"))[:8]
    scores = {"dev": score(order, run, directory, treebank, treebank.dev, search)}
    for name, found in scores["dev"].items():
        order.listener.note(f"dev trees, {name}: F1 {found['f1']:.2f}")
    if order.tried:
        return
    scores["test"] = score(order, run, directory, treebank, treebank.test, search)
    record = write_record(order.results, NAME, run, search=recipe.search, about=about(config), scores=scores)
    order.listener.note(show(record))


def score(
    order: Order, run: Path, directory: Path, treebank: Treebank, trees: Path, search: SearchConfig
) -> dict[str, dict[str, Any]]:
    """The scores of some trees by the name of each way: no model, and the beam, plain and kept to trees."""
    gold = list(read_treebank(trees))
    found = ways(Parser.load(run), search, list(read_treebank(treebank.train)))
    return {
        name: numbers(measure(name, find, gold, kept_at(directory, run, trees, name), order.listener))
        for name, find in found.items()
        if not name.endswith("greedy")
    }


def about(config: Config) -> str:
    """The parser in a line."""
    model = config.model
    return (
        f"{model.encoder_layers} + {model.decoder_layers} layers, d_model {model.d_model}, trained on CRAFT's training"
        f" articles, beam {config.search.beam}"
    )


def numbers(scored: Scored) -> dict[str, Any]:
    """A score for JSON."""
    score = scored.score
    return {
        "sentences": len(score.sentences),
        "recall": score.recall,
        "precision": score.precision,
        "f1": score.f1,
        "exact_match": score.exact_match,
        "unlabelled_f1": scored.unlabelled.f1,
        "malformed": scored.malformed,
        "seconds": scored.seconds,
        "by_length": {
            bucket: {
                "sentences": len(part.sentences),
                "recall": part.recall,
                "precision": part.precision,
                "f1": part.f1,
            }
            for bucket, part in score.by_length().items()
            if part.sentences
        },
    }


def show(record: Record) -> str:
    """The result for docs/results.md."""
    columns = ("recall", "precision", "f1", "exact_match")
    rows = [
        [part, name, f"{found['sentences']:,}", *(f"{found[each]:.2f}" for each in columns), f"{found['malformed']:,}"]
        for part, scores in record["scores"].items()
        for name, found in scores.items()
    ]
    heading = ["trees", "", "sentences", "recall", "precision", "F1", "exact match", "not trees"]
    title = f"CRAFT, constituency parsing, {budget(record)}"
    return section(record, title=title, text=f"{record['about']}. {TEXT}", table=Table(NAME, heading, rows))


if __name__ == "__main__":
    obey(__doc__, publish)
