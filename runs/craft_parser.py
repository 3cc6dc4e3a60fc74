"""The published parser: trained on CRAFT for 170 minutes on 2 cores, scored on its dev and test trees.

    python runs/craft_parser.py --work DIRECTORY

It writes runs/craft_parser.json, which `transduce paper table4` shows, and a line of runs/log.md. Broken off, the same
command goes on. The treebank is looked for as every study does: $TRANSDUCE_DATA/craft-treebank.
"""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from transduce.bundle import open_bundle
from transduce.cli.display import Display
from transduce.data.treebank import read_treebank
from transduce.decode.parser import Parser
from transduce.errors import Interrupted, UserError
from transduce.files import write_file, write_json
from transduce.paper.study import Study
from transduce.paper.table4 import CRAFT, RECIPES
from transduce.paper.treebank_run import Scored, Treebank, guided, kept_at, measure, parser_run, right_branching
from transduce.train.environment import environment

LOG = CRAFT.with_name("log.md")
HEAD = "| date | result | made by | on |\n|---|---|---|---|\n"


def main() -> None:
    """Train, score, write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", type=Path, default=Study().work, help="where trainings are kept")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    display = Display(Console(stderr=True, highlight=False))
    result = publish(Study(scale="small", work=options.parse_args().work, listener=display))
    CRAFT.parent.mkdir(exist_ok=True)
    write_json(CRAFT, result)
    write_file(LOG, (log() + log_line(result)).encode())
    display.note(log_line(result))


def publish(study: Study) -> dict[str, object]:
    """The stored result, with nothing in it that was not measured now or on the way here."""
    recipe = RECIPES["small"]
    treebank = Treebank.at(study.data / recipe.treebank)
    directory = study.work / "table4-small"
    run = directory / "run"
    parser_run(run, treebank, preset=recipe.preset, settings=recipe.settings, listener=study.listener)
    bundle, parser = open_bundle(run), Parser.load(run)
    baseline = right_branching(list(read_treebank(treebank.train)))
    scores = {}
    for part, path in (("dev", treebank.dev), ("test", treebank.test)):
        gold = list(read_treebank(path))
        ways = {part: guided(parser, bundle.config.search), f"{part}, right-branching": baseline}
        for name, find in ways.items():
            scores[name] = numbers(measure(name, find, gold, kept_at(directory, run, path, name), study.listener))
    model, train = bundle.config.model, bundle.config.train
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "about": f"{model.encoder_layers} + {model.decoder_layers} layers, d_model {model.d_model}, trained on CRAFT's"
        f" training articles ({train.minutes or 0:g} minutes), beam {bundle.config.search.beam}",
        "command": "python runs/craft_parser.py",
        "environment": environment(train),
        "scores": scores,
    }


def numbers(scored: Scored) -> dict[str, object]:
    """A score for JSON."""
    score = scored.score
    return {
        "sentences": len(score.sentences),
        "recall": score.recall,
        "precision": score.precision,
        "f1": score.f1,
        "exact_match": score.exact_match,
        "unlabelled_f1": scored.unlabelled.f1,
        "f1_by_length": {bucket: part.f1 for bucket, part in score.by_length().items()},
        "seconds": scored.seconds,
    }


def log() -> str:
    """What is in the log so far."""
    return LOG.read_text(encoding="utf-8") if LOG.is_file() else f"# Published results, newest last\n\n{HEAD}"


def log_line(result: dict[str, object]) -> str:
    """The result as a row."""
    scores, machine = result["scores"], result["environment"]
    assert isinstance(scores, dict)
    assert isinstance(machine, dict)
    f1 = ", ".join(f"{part} {scores[part]['f1']:.1f}" for part in ("dev", "test"))
    made = f"{machine['transduce']}, torch {machine['torch']}, {machine['cores']} cores"
    return f"| {result['date']} | CRAFT parser, F1: {f1} | `{result['command']}` | {made} |\n"


if __name__ == "__main__":
    try:
        main()
    except Interrupted as interruption:
        sys.exit(interruption.exit_code)
    except UserError as error:
        sys.exit(f"craft_parser: {error}")
