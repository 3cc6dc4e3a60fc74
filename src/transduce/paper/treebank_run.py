"""A parser trained on a treebank and scored on its test set, each part kept so that it is done once."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.bundle import MANIFEST, locate
from transduce.config import SearchConfig
from transduce.decode.parser import Parser, split_words
from transduce.errors import UserError
from transduce.evaluate.bracket_score import BracketScore
from transduce.evaluate.brackets import evalb
from transduce.evaluate.evalb_parameters import COLLINS
from transduce.files import sha256, write_json
from transduce.text.codec import SPECIALS
from transduce.text.trees import (
    ORDINARY,
    Leaf,
    Tree,
    leaves,
    read_tree,
    restore,
    walk,
    well_formed,
    with_leaves,
    words,
    write_tree,
)
from transduce.train.progress import Listener
from transduce.trainer import Trainer

WINDOW = 50
"""Sentences that are parsed, and kept, together."""
MALFORMED = "X"
"""The label of the flat tree that stands for an output that is none: none of its brackets is found."""

Find = Callable[[Sequence[str]], list[Tree | None]]
"""From sentences, the tree of each; None: there is none."""


@dataclass(frozen=True)
class Treebank:
    """The files of a treebank: train, dev and test, one tree a line."""

    train: Path
    dev: Path
    test: Path

    @classmethod
    def at(cls, directory: Path) -> Treebank:
        """`train.trees`, `dev.trees` and `test.trees` there, or those with .gz or .xz."""
        return cls(*(_file(directory, name) for name in ("train", "dev", "test")))


def _file(directory: Path, name: str) -> Path:
    for suffix in ("", ".gz", ".xz"):
        path = directory / f"{name}.trees{suffix}"
        if path.is_file():
            return path
    raise UserError(
        f"{directory}: no {name}.trees (nor .gz or .xz): put a treebank there, one tree a line, split into train, dev"
        " and test, or set TRANSDUCE_DATA to the directory that holds it"
    )


def parser_run(run: Path, treebank: Treebank, *, preset: str, settings: Sequence[str], listener: Listener) -> Path:
    """A run on the treebank, trained to its end or gone on with; dev is what it is validated on."""
    if (run / "model" / "manifest.json").is_file():
        listener.note(f"using the parser in {run}")
        return run
    if (run / "config.toml").is_file():
        trainer = Trainer.resume(run, listener=listener)
    else:
        files = {"pairs": treebank.train, "valid_pairs": treebank.dev}
        named = [f"data.{key}={json.dumps([str(path)])}" for key, path in files.items()]
        trainer = Trainer(run, preset=preset, settings=[*named, *settings], listener=listener)
    trainer.run()
    return run


@dataclass(frozen=True)
class Scored:
    """A way of parsing, and how good it is."""

    name: str
    score: BracketScore
    unlabelled: BracketScore
    """The same brackets without their labels."""
    malformed: int
    """Outputs that were not trees; each counts as a flat tree of a label of its own."""
    seconds: float


def score_trees(name: str, gold: Sequence[Tree], found: Sequence[Tree | None], seconds: float) -> Scored:
    """EVALB's scores with COLLINS; trees get the gold tags, so that it drops the same words of both by them."""
    flat = [Tree(MALFORMED, tuple(leaves(tree))) for tree in gold]
    answers = [retag(tree or other, right) for tree, other, right in zip(found, flat, gold, strict=True)]
    lines = [[write_tree(tree) for tree in some] for some in (gold, answers)]
    return Scored(
        name=name,
        score=evalb(lines[0], lines[1], COLLINS),
        unlabelled=evalb(lines[0], lines[1], replace(COLLINS, labeled=False)),
        malformed=sum(tree is None for tree in found),
        seconds=seconds,
    )


def retag(tree: Tree, gold: Tree) -> Tree:
    """The tree with the leaves of another one over the same words."""
    return with_leaves(tree, leaves(gold))


def kept_at(directory: Path, run: Path, trees: Path, name: str) -> Path:
    """Where the parses of one way are kept: those of another parser or of other trees are elsewhere."""
    parser, treebank = sha256(locate(run) / MANIFEST), sha256(trees)
    return directory / "parsed" / f"{parser[:12]}-{treebank[:12]}" / re.sub("[^a-z0-9]+", "-", name)


def measure(name: str, find: Find, gold: Sequence[Tree], kept: Path, listener: Listener) -> Scored:
    """Parse the words of the gold trees, window by window, and score what was found; `kept` holds finished windows."""
    kept.mkdir(parents=True, exist_ok=True)
    found: list[Tree | None] = []
    seconds, done, begin = 0.0, 0, time.monotonic()
    for first in range(0, len(gold), WINDOW):
        some = gold[first : first + WINDOW]
        path = kept / f"{first:06d}.json"
        if not path.is_file():
            _parse_window(find, some, path)
            done += len(some)
            left = (time.monotonic() - begin) / done * (len(gold) - first - len(some))
            listener.note(f"{name}: {first + len(some):,} of {len(gold):,} sentences, about {left:,.0f} s to go")
        window = json.loads(path.read_text(encoding="utf-8"))
        seconds += window["seconds"]
        found += [line and read_tree(line, where=str(path)) for line in window["trees"]]
    return score_trees(name, gold, found, seconds)


def _parse_window(find: Find, gold: Sequence[Tree], path: Path) -> None:
    start = time.monotonic()
    trees = find([" ".join(words(tree)) for tree in gold])
    seconds = time.monotonic() - start
    write_json(path, {"seconds": seconds, "trees": [tree and write_tree(tree) for tree in trees]})


def ways(parser: Parser, search: SearchConfig, train: Sequence[Tree]) -> dict[str, Find]:
    """The ways of parsing that are compared, by name: no model, plain search, and search that keeps to trees."""
    greedy, beam = search.model_copy(update={"beam": 1}), f"beam {search.beam}"
    return {
        "right-branching": right_branching(train),
        "plain search, greedy": unguided(parser, greedy),
        f"plain search, {beam}": unguided(parser, search),
        "search that keeps to trees, greedy": guided(parser, greedy),
        f"search that keeps to trees, {beam}": guided(parser, search),
    }


def guided(parser: Parser, search: SearchConfig) -> Find:
    """By search that keeps to trees."""
    return lambda lines: [parse.tree for parse in parser.parse(lines, search=search)]


def unguided(parser: Parser, search: SearchConfig) -> Find:
    """By plain search; what is not a tree over the words, or has a special for a tag, is none."""

    def found(tokens: Sequence[str], own: Sequence[str]) -> Tree | None:
        whole = well_formed(tokens, len(own)) is None and not set(tokens) & set(SPECIALS)
        return restore(tokens, own) if whole else None

    def find(lines: Sequence[str]) -> list[Tree | None]:
        return list(map(found, parser.unguided(lines, search=search), map(split_words, lines)))

    return find


def right_branching(train: Sequence[Tree]) -> Find:
    """A baseline without a model: every word but the last opens a constituent over all that follows it.

    The outermost has the label that is most frequent there in the training trees, the others the most frequent of all.
    """
    if not train:
        raise UserError("no training trees: the baseline takes its labels from them: give a treebank with some")
    top = Counter(tree.label for tree in train).most_common(1)[0][0]
    inner = Counter(node.label for tree in train for node, opens in walk(tree) if isinstance(node, Tree) and opens)
    label = inner.most_common(1)[0][0] if inner else top

    def branch(own: Sequence[str]) -> Tree:
        *others, last = [Leaf(ORDINARY, word) for word in own]
        children: tuple[Tree | Leaf, ...] = (last,)
        for leaf in reversed(others):
            children = (leaf, *children) if len(children) == 1 else (leaf, Tree(label, children))
        return Tree(top, children)

    return lambda lines: [branch(split_words(line)) for line in lines]
