"""Constituency trees: bracketed lines <-> trees <-> the tokens that a parser writes.

    ((S (NP-SBJ (PRP We)) (VP (VBP rest) (NP-TMP (-NONE- *))) (. .)))      a line of a treebank
    (S (NP (PRP We)) (VP (VBP rest)) (. .))                                the same tree, bare
    (S (NP PRP )NP (VP VBP )VP . )S                                        linearised

Nothing here recurses: a tree may be as deep as it likes. (`==` and `repr` of Python do; compare what `write_tree`
gives where chains of hundreds of constituents are possible.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transduce.errors import CorpusError

PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-"})
"""The tags of the Penn Treebank's seven marks that separate or enclose.

The first five must be told apart from words, as EVALB drops them by their tags. `$`, `#`, and CRAFT's `HYPH` and `SYM`
are read aloud or join the parts of a word: they are words.
"""
ORDINARY = "XX"
"""The tag of any other word, where none is known."""
TRACE = "-NONE-"
"""The tag of what is not there: traces, empty complementisers, units understood."""
OUTER = frozenset({"", "TOP", "ROOT", "S1"})
"""Labels of a bracket around the sentence that says nothing."""

_TEXT = r"[^()\s]+"  # a no-break space or U+2028 may be part of a word
_LEAF = re.compile(rf"\(\s*({_TEXT})\s+({_TEXT}(?: {_TEXT})*)\s*\)", re.ASCII)
_TOKEN = re.compile(rf"{_LEAF.pattern}|\(\s*({_TEXT}|)|[)]|{_TEXT}", re.ASCII)
_LABEL = re.compile(rf"(?:{_TEXT})?", re.ASCII)
_FUNCTION = re.compile(r"(?<=.)[-=|].*")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word under its part-of-speech tag. Neither holds brackets: `-LRB-` stands for `(`.

    Five words of CRAFT have a space inside (`Xpd TTD`); those of a bare tree have none.
    """

    tag: str
    word: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent of at least one child; the label is empty for the outer bracket of a treebank's line."""

    label: str
    children: tuple[Tree | Leaf, ...]


def read_tree(line: str, *, where: str) -> Tree:
    """The one tree of a line such as `(S (NP (PRP We)) (VP (VBP rest)))`; CorpusError names `where` and the column."""
    opened: list[tuple[int, str, list[Tree | Leaf]]] = []  # column, label, children
    tree: Tree | None = None
    for match in _TOKEN.finditer(line):
        tag, word, label = match.groups()
        column = match.start() + 1
        if tree is not None or (not opened and label is None):
            raise CorpusError(f"{where}, column {column}: {_outside(match[0], after=tree is not None)}")
        if word is not None:
            opened[-1][2].append(Leaf(tag, word))
        elif label is not None:
            opened.append((column, label, []))
        elif match[0] != ")":
            raise CorpusError(f"{where}, column {column}: {match[0]!r} has no bracket of its own: write (TAG word)")
        else:
            column, label, children = opened.pop()
            if not children:
                raise CorpusError(f"{where}, column {column}: '({label})' holds no word: take it out")
            closed = Tree(label, tuple(children))
            if opened:
                opened[-1][2].append(closed)
            else:
                tree = closed
    if opened:
        column, label, _ = opened[-1]
        raise CorpusError(f"{where}, column {column}: '({label}' is not closed: {len(opened)} ')' missing")
    if tree is None:
        raise CorpusError(f"{where}: no tree: the line is empty")
    return tree


def _outside(token: str, *, after: bool) -> str:
    """What is wrong with a token that no bracket encloses, before or after the tree."""
    if token == ")":
        return "')' closes nothing: take it out"
    if after:
        return f"{token!r} follows the tree: give one tree a line"
    return f"{token!r} stands outside of a constituent: write (S (TAG word))"


def walk(tree: Tree) -> Iterator[tuple[Tree | Leaf, bool]]:
    """Each node in the order of a line: a leaf once, a constituent as it opens (True) and as it closes (False)."""
    ahead: list[tuple[Tree | Leaf, bool]] = [(tree, True)]
    while ahead:
        node, opens = ahead.pop()
        yield node, opens
        if opens and isinstance(node, Tree):
            ahead.append((node, False))
            ahead += [(child, True) for child in reversed(node.children)]


def write_tree(tree: Tree) -> str:
    """One line, the inverse of `read_tree`; ValueError for a tree that could not be read again."""
    pieces: list[str] = []
    for node, opens in walk(tree):
        if opens and pieces and pieces[-1] != "(":
            pieces.append(" ")
        if isinstance(node, Leaf):
            pieces.append(_written(node))
        elif not opens:
            pieces.append(")")
        elif _LABEL.fullmatch(node.label):
            pieces.append(f"({node.label}")
        else:
            raise ValueError(f"{node.label!r} as a label: labels hold no spaces or brackets")
    return "".join(pieces)


def _written(leaf: Leaf) -> str:
    piece = f"({leaf.tag} {leaf.word})"
    match = _LEAF.fullmatch(piece)
    if match is None or match.groups() != (leaf.tag, leaf.word):
        raise ValueError(f"{leaf}: neither may be empty or hold a bracket, the tag no space, the word single ones only")
    return piece


def bare(tree: Tree) -> Tree | None:
    """The tree as parsers are trained and scored; None where no word is left.

    - Leaves tagged `-NONE-` are left out, and then every constituent that holds nothing more.
    - Labels are cut before the first `-` or `=`: function tags and indices (`NP-SBJ-1`, `NP=2` -> `NP`); and before
      a `|`, with which annotators left a choice open (`ADVP|PRT` -> `ADVP`; the two are equal to EVALB). A label that
      begins with `-`, such as `-LRB-`, is kept. Tags of leaves stay as they are.
    - A space inside a word is taken out, so that words joined by spaces can be told apart again.
    - Outer brackets labelled "", TOP, ROOT or S1 are taken off, if all they hold is one constituent.
    - Nothing else changes: NP over a single NP stays, as EVALB counts both.
    """
    opened: list[list[Tree | Leaf]] = [[]]
    for node, opens in walk(tree):
        if isinstance(node, Leaf):
            if node.tag != TRACE:
                opened[-1].append(Leaf(node.tag, node.word.replace(" ", "")) if " " in node.word else node)
        elif opens:
            opened.append([])
        elif children := opened.pop():
            opened[-1].append(Tree(_category(node.label), tuple(children)))
    if not opened[0]:
        return None
    top = opened[0][0]
    assert isinstance(top, Tree)  # as `tree` is one
    while top.label in OUTER and len(top.children) == 1 and isinstance(top.children[0], Tree):
        top = top.children[0]
    return top


def _category(label: str) -> str:
    return label if label.startswith("-") else _FUNCTION.sub("", label)


def leaves(tree: Tree) -> list[Leaf]:
    """From left to right, traces too."""
    return [node for node, _ in walk(tree) if isinstance(node, Leaf)]


def words(tree: Tree) -> list[str]:
    """The words of all leaves, from left to right; of a bare tree, the sentence."""
    return [leaf.word for leaf in leaves(tree)]


def with_leaves(tree: Tree, found: Iterable[Leaf]) -> Tree:
    """The same constituents over other leaves; there must be as many, or more, which are left over."""
    ahead = iter(found)
    opened: list[list[Tree | Leaf]] = [[]]
    for node, opens in walk(tree):
        if isinstance(node, Leaf):
            opened[-1].append(next(ahead))
        elif opens:
            opened.append([])
        else:
            children = opened.pop()
            opened[-1].append(Tree(node.label, tuple(children)))
    top = opened[0][0]
    assert isinstance(top, Tree)  # as `tree` is one
    return top


def linearise(tree: Tree) -> list[str]:
    """`(S`, `(NP`, `PRP`, `)NP` and so on: one leaf token per word, which is its tag.

    Meant for bare trees: in others, traces are leaves and function tags part of the labels.
    """
    tokens = []
    for node, opens in walk(tree):
        if isinstance(node, Leaf):
            tokens.append(node.tag)
        else:
            tokens.append(f"({node.label}" if opens else f"){node.label}")
    return tokens


def restore(tokens: Sequence[str], words: Sequence[str]) -> Tree:
    """The tree of these tokens, with these words; tags are the leaf tokens. ValueError says what is wrong."""
    if wrong := well_formed(tokens, len(words)):
        raise ValueError(wrong)
    ahead = iter(words)
    opened: list[list[Tree | Leaf]] = [[]]
    for token in tokens:
        if token.startswith("("):
            opened.append([])
        elif token.startswith(")"):
            children = opened.pop()
            opened[-1].append(Tree(token[1:], tuple(children)))
        else:
            opened[-1].append(Leaf(token, next(ahead)))
    tree = opened[0][0]
    assert isinstance(tree, Tree)  # it is well formed
    return tree


def well_formed(tokens: Sequence[str], words: int) -> str | None:
    """What keeps these tokens from being one tree over this many words, or None. Tokens are counted from 1."""
    opened: list[str] = []
    found = 0
    before = ""
    for place, token in enumerate(tokens, start=1):
        if place > 1 and not opened:
            return f"token {place}, {token}, follows the tree"
        if token.startswith("("):
            opened.append(token[1:])
        elif not opened:
            return f"token {place}, {token}, stands outside of brackets"
        elif token.startswith(")"):
            if token[1:] != opened[-1]:
                return f"token {place}, {token}, does not close ({opened[-1]}"
            if before.startswith("("):
                return f"token {place}, {token}, closes a constituent without a leaf"
            opened.pop()
        else:
            found += 1
        before = token
    if not tokens:
        return "no tokens"
    if opened:
        return f"({opened[-1]} is not closed, and {len(opened) - 1} around it"
    return None if found == words else f"{found} leaves for {words} words"
