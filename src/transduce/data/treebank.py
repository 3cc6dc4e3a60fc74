"""A treebank: a file of one tree a line, plain, .gz or .xz. A parser reads the words and writes the tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from transduce.data.lines import read_blocks
from transduce.errors import CorpusError
from transduce.text.trees import Tree, bare, linearise, read_tree, words

SUFFIX = ".trees"
"""Of a treebank's name, before .gz or .xz."""
TARGETS = "trees with tags"
"""How trees are written as targets: what was kept of pairs written otherwise is not used again."""


def split_tree(text: str, columns: tuple[str, str]) -> tuple[str, str]:
    """A line's source and target: the words of its tree and the bare tree, linearised; single spaces between.

    A line without a word gives two empty strings. Columns are a matter of other tables.
    """
    if not text.strip():
        return "", ""
    try:
        tree = bare(read_tree(text, where="the tree"))
    except CorpusError as error:
        raise ValueError(str(error)) from None
    return ("", "") if tree is None else (" ".join(words(tree)), " ".join(linearise(tree)))


def read_treebank(path: Path) -> Iterator[Tree]:
    """The bare tree of every line that has a word."""
    number = 0
    for block in read_blocks(path):
        for index, text in enumerate(block.texts):
            number += 1
            if (problem := block.problems.get(index)) is not None:
                raise CorpusError(f"{path}: line {number}: {problem}: mend it or take it out")
            tree = bare(read_tree(text, where=f"{path}: line {number}")) if text.strip() else None
            if tree is not None:
                yield tree
