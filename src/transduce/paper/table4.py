"""Table 4: constituency parsing (section 6.3). A parser for words in, brackets out, scored as the paper's was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.bundle import open_bundle
from transduce.config import Config
from transduce.data.treebank import read_treebank
from transduce.decode.parser import Parser
from transduce.errors import UserError
from transduce.explain.tree_picture import tree_svg
from transduce.paper.craft import CRAFT, Stored, craft_parts, read_stored
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Scale, Study
from transduce.paper.treebank_run import (
    Scored,
    Treebank,
    kept_at,
    measure,
    parser_run,
    ways,
)

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
    "tiny": Recipe(
        "treebank",
        "the NLTK sample of the Penn Treebank's WSJ",
        "parsing-tiny",
        ("train.minutes=20", "train.average=best"),
    ),
    "small": Recipe(
        "craft-treebank",
        "CRAFT, biomedical articles",
        "parsing-small",
        ("train.minutes=80", "train.threads=1", "train.precision=bfloat16"),
    ),
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
    treebank, stored = _treebank(study, recipe), read_stored(CRAFT)
    directory = study.work / f"table4-{study.scale}"
    run = study.bundles[0] if study.bundles else directory / "run"
    if not study.bundles:
        parser_run(run, treebank, preset=recipe.preset, settings=recipe.settings, listener=study.listener)
    bundle = open_bundle(run)
    train, gold = list(read_treebank(treebank.train)), list(read_treebank(treebank.test))
    parser = Parser.load(run)
    scored = [
        measure(name, find, gold, kept_at(directory, run, treebank.test, name), study.listener)
        for name, find in ways(parser, bundle.config.search, train).items()
    ]
    ours = f"Transformer ({_shape(bundle.config)})", f"{len(train):,} trees of {recipe.about}"
    return _result(study.scale, ours, scored, parser, stored)


def _treebank(study: Study, recipe: Recipe) -> Treebank:
    try:
        return Treebank.at(study.data / recipe.treebank)
    except UserError as error:
        raise UserError(f"table4 at scale {study.scale} is about {recipe.about}: {error}") from None


def _shape(config: Config) -> str:
    model = config.model
    return f"{model.encoder_layers} + {model.decoder_layers} layers, d_model {model.d_model}"


def _result(
    scale: Scale, ours: tuple[str, str], scored: Sequence[Scored], parser: Parser, stored: Stored | None
) -> Result:
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
            *craft_parts(stored, CRAFT),
            f"A sentence of our own, as this parser has it: *{SENTENCE}*",
            Picture("table4-tree", f"The parser's tree of: {SENTENCE}", tree_svg(own.tree)),
        ],
    )


SAME = "The paper's own data and sizes: the two columns of F1 can be compared."
OTHER = """**The two columns of F1 are not comparable.** The paper's are of parsers trained on 40,000 trees or more and
tested on section 23 of the Wall Street Journal; here a small model is trained on another, smaller treebank and tested
on {sentences} other sentences. What this scale can show: that the paper's model, with nothing in it made for trees,
learns to parse from trees alone, and what search adds. What it cannot show: the paper's 91.3."""
HOW = """On {sentences} test sentences, by EVALB with the parameters of COLLINS.prm; "unlabelled" is F1 of the brackets
without their labels. The last row stands in the table above. Right-branching is a baseline that knows nothing but the
most frequent labels. The gold tags are put on the leaves before scoring: EVALB drops punctuation by them, and the
baseline has none."""


def _ways(scored: Sequence[Scored]) -> Table:
    heading = ["", "recall", "precision", "F1", "exact match", "unlabelled", "not trees", "seconds"]
    rows = []
    for each in scored:
        score = each.score
        shares = (score.recall, score.precision, score.f1, score.exact_match, each.unlabelled.f1)
        rows.append([each.name, *(f"{value:.1f}" for value in shares), str(each.malformed), f"{each.seconds:.0f}"])
    return Table("table4-search", heading, rows)


def _malformed(scored: Sequence[Scored]) -> str:
    plain = next(each for each in reversed(scored) if each.name.startswith("plain"))
    total = len(plain.score.sentences)
    return (
        f"Plain search with a beam gave {plain.malformed:,} outputs of {total:,} that are not trees over the words of"
        " their sentence. Each counts as one flat bracket over the sentence with a label of its own: it finds nothing,"
        " but among unlabelled brackets the outermost is found. The other search cannot give one: it looks only at what"
        " leads to a tree."
    )


def _lengths(baseline: Scored, best: Scored) -> Table:
    rows = []
    parts = zip(baseline.score.by_length().items(), best.score.by_length().values(), strict=True)
    for (bucket, low), high in parts:
        if high.sentences:
            values = (low.f1, high.recall, high.precision, high.f1, high.exact_match)
            rows.append([f"{bucket} words", f"{len(high.sentences):,}", *(f"{value:.1f}" for value in values)])
    heading = ["length", "sentences", "F1, right-branching", "recall", "precision", "F1", "exact match"]
    return Table("table4-lengths", heading, rows)
