"""Table 4: constituency parsing (section 6.3). A parser for words in, brackets out, scored as the paper's was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bundle import open_bundle
from transduce.config import Config
from transduce.data.treebank import read_treebank
from transduce.decode.parser import Parser
from transduce.errors import UserError
from transduce.explain.tree_picture import tree_svg
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Scale, Study
from transduce.paper.treebank_run import (
    Scored,
    Treebank,
    guided,
    kept_at,
    measure,
    parser_run,
    right_branching,
    unguided,
)

CRAFT = Path("runs") / "craft_parser.json"
"""The stored result, in the directory that the command is started in; `runs/craft_parser.py` makes it."""
SENTENCE = "The parser reads the words of a sentence and draws a tree over them ."


@dataclass(frozen=True)
class Recipe:
    """On what a scale trains, and how."""

    treebank: str
    """Its directory where corpora are looked for."""
    about: str
    preset: str
    settings: tuple[str, ...] = ()


RECIPES: dict[Scale, Recipe] = {
    "tiny": Recipe("treebank", "the NLTK sample of the Penn Treebank's WSJ", "parsing-tiny", ("train.minutes=20",)),
    "small": Recipe("craft-treebank", "CRAFT, biomedical articles", "parsing-small", ("train.minutes=170",)),
    "paper": Recipe("wsj", "WSJ sections 02-21, 22 and 23 of the Penn Treebank", "parsing"),
}

PAPER = (
    ("Vinyals & Kaiser et al. (2014)", "WSJ only", "88.3"),
    ("Petrov et al. (2006)", "WSJ only", "90.4"),
    ("Zhu et al. (2013)", "WSJ only", "90.4"),
    ("Dyer et al. (2016)", "WSJ only", "91.7"),
    ("Transformer (4 layers)", "WSJ only", "91.3"),
    ("Zhu et al. (2013)", "semi-supervised", "91.3"),
    ("Huang & Harper (2009)", "semi-supervised", "91.3"),
    ("McClosky et al. (2006)", "semi-supervised", "92.1"),
    ("Vinyals & Kaiser et al. (2014)", "semi-supervised", "92.1"),
    ("Transformer (4 layers)", "semi-supervised", "92.7"),
    ("Luong et al. (2015)", "multi-task", "93.0"),
    ("Dyer et al. (2016)", "generative", "93.3"),
)
"""Parser, training and F1 on WSJ section 23."""


def table4(study: Study) -> Result:
    """Train on a treebank, score its test set, and put the paper's numbers beside.

    On 2 cores, scale tiny takes about 25 minutes. What was trained or parsed is used again.
    """
    recipe = RECIPES[study.scale]
    treebank = _treebank(study, recipe)
    directory = study.work / f"table4-{study.scale}"
    run = study.bundles[0] if study.bundles else directory / "run"
    if not study.bundles:
        parser_run(run, treebank, preset=recipe.preset, settings=recipe.settings, listener=study.listener)
    bundle = open_bundle(run)
    train, gold = list(read_treebank(treebank.train)), list(read_treebank(treebank.test))
    parser = Parser.load(run)
    greedy = bundle.config.search.model_copy(update={"beam": 1})
    beam = f"beam {bundle.config.search.beam}"
    ways = {
        "right-branching": right_branching(train),
        "plain search, greedy": unguided(parser, greedy),
        f"plain search, {beam}": unguided(parser, bundle.config.search),
        "search that keeps to trees, greedy": guided(parser, greedy),
        f"search that keeps to trees, {beam}": guided(parser, bundle.config.search),
    }
    scored = [
        measure(name, find, gold, kept_at(directory, run, treebank.test, name), study.listener)
        for name, find in ways.items()
    ]
    ours = f"Transformer ({_shape(bundle.config)})", f"{len(train):,} trees of {recipe.about}"
    return _result(study.scale, ours, scored, parser)


def _treebank(study: Study, recipe: Recipe) -> Treebank:
    try:
        return Treebank.at(study.data / recipe.treebank)
    except UserError as error:
        raise UserError(f"table4 at scale {study.scale} is about {recipe.about}: {error}") from None


def _shape(config: Config) -> str:
    model = config.model
    return f"{model.encoder_layers} + {model.decoder_layers} layers, d_model {model.d_model}"


def _result(scale: Scale, ours: tuple[str, str], scored: Sequence[Scored], parser: Parser) -> Result:
    best = scored[-1]
    count = len(best.score.sentences)
    rows = [[*row, ""] for row in PAPER] + [[*ours, "", f"{best.score.f1:.1f}"]]
    same = scale == "paper"
    (own,) = parser.parse([SENTENCE])
    assert own.tree is not None
    return Result(
        name="table4",
        title="Table 4: English constituency parsing",
        scope=SAME if same else OTHER.format(sentences=f"{count:,}"),
        parts=[
            Table("table4", ["parser", "training", "F1 on WSJ 23, paper", "F1 here"], rows),
            HOW.format(sentences=f"{count:,}"),
            _ways(scored),
            _malformed(scored),
            _lengths(scored[0], best),
            *_craft(CRAFT),
            f"A sentence of our own, as this parser has it (tags are not predicted): *{SENTENCE}*",
            Picture("table4_tree", f"The parser's tree of: {SENTENCE}", tree_svg(own.tree)),
        ],
    )


SAME = "The paper's own data and sizes: the two columns of F1 can be compared."
OTHER = """**The two columns of F1 are not comparable.** The paper's are of parsers trained on 40,000 trees or more and
tested on section 23 of the Wall Street Journal; here a small model is trained on another, smaller treebank and tested
on {sentences} other sentences. What this scale can show: that the paper's model, with nothing in it made for trees,
learns to parse from trees alone, and what search adds. What it cannot show: the paper's 91.3."""
HOW = """On {sentences} test sentences, by EVALB with the parameters of COLLINS.prm; "unlabelled" is F1 of the brackets
without their labels. The last row stands in the table above. Right-branching is a baseline that knows nothing but the
most frequent labels. The model writes no tags, so the gold ones are put on the leaves before scoring: EVALB drops
punctuation by them."""


def _ways(scored: Sequence[Scored]) -> Table:
    heading = ["", "recall", "precision", "F1", "exact match", "unlabelled", "not trees", "seconds"]
    rows = []
    for each in scored:
        score = each.score
        shares = (score.recall, score.precision, score.f1, score.exact_match, each.unlabelled.f1)
        rows.append([each.name, *(f"{value:.1f}" for value in shares), str(each.malformed), f"{each.seconds:.0f}"])
    return Table("table4_search", heading, rows)


def _malformed(scored: Sequence[Scored]) -> str:
    plain = next(each for each in reversed(scored) if each.name.startswith("plain"))
    total = len(plain.score.sentences)
    return (
        f"Plain search with a beam gave {plain.malformed:,} outputs of {total:,} that are not trees over the words of"
        " their sentence; each counts as having found nothing. The other search cannot: it looks only at what leads to"
        " a tree."
    )


def _lengths(baseline: Scored, best: Scored) -> Table:
    rows = []
    parts = zip(baseline.score.by_length().items(), best.score.by_length().values(), strict=True)
    for (bucket, low), high in parts:
        if high.sentences:
            values = (low.f1, high.recall, high.precision, high.f1, high.exact_match)
            rows.append([f"{bucket} words", f"{len(high.sentences):,}", *(f"{value:.1f}" for value in values)])
    heading = ["length", "sentences", "F1, right-branching", "recall", "precision", "F1", "exact match"]
    return Table("table4_lengths", heading, rows)


def _craft(path: Path) -> list[str | Table]:
    """The stored result on CRAFT, if it is there."""
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [f"No stored result on CRAFT: `python runs/craft_parser.py` makes {path} in about 3 hours."]
    columns = ("recall", "precision", "f1", "exact_match", "unlabelled_f1")
    rows = [
        [f"CRAFT {part}", f"{scores['sentences']:,}", *(f"{scores[column]:.1f}" for column in columns)]
        for part, scores in stored["scores"].items()
    ]
    made = f"Stored on {stored['date']}, not measured now: {stored['about']} (`{stored['command']}`)."
    return [
        made,
        Table("table4_craft", ["", "sentences", "recall", "precision", "F1", "exact match", "unlabelled"], rows),
    ]
