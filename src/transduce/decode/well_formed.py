"""Outputs that are trees: what may come next, so that a search can end only in a tree over the words of its sentence.

A tree is written as `text/trees.py` has it: `(S (NP PRP )NP (VP VBP )VP . )S`. What may come next follows from what
every row of a search keeps: the brackets that are open, how many words have their leaves, how many brackets were just
opened.

- An opening bracket: while words are left, after fewer than MAX_OPENINGS others in a row, and if all that is then open
  can still be closed within the length limit;
- the leaf of the next word, inside a bracket: LEAVES says which words are punctuation;
- the closing bracket of the label that is open innermost, once it holds something; the outermost after all words;
- the end, when the outermost bracket is closed.

One of these is always possible, so no search that keeps to them gets stuck.

R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.decode.limits import NEVER
from transduce.text.codec import EOS, SPECIALS, Codec
from transduce.text.trees import ORDINARY, PUNCTUATION

MAX_OPENINGS = 12
"""Opening brackets in a row; in 22,000 trees of the Penn Treebank and of CRAFT there are at most 8."""

LEAVES: dict[str, tuple[str, ...]] = {
    ",": (",",),
    **dict.fromkeys((".", "?", "!"), (".",)),
    **dict.fromkeys((";", "--", "..."), (":",)),
    **dict.fromkeys((":", "-", "–", "—", "…"), (":", ORDINARY)),
    **dict.fromkeys(("``", "“", "„"), ("``",)),
    **dict.fromkeys(("''", "”"), ("''",)),
    **dict.fromkeys(("`", "‘"), ("``", ORDINARY)),
    **dict.fromkeys(("'", '"', "’"), ("``", "''", ORDINARY)),
    **dict.fromkeys(("-LRB-", "-LCB-", "-LSB-", "[", "{"), ("-LRB-",)),
    **dict.fromkeys(("-RRB-", "-RCB-", "-RSB-", "]", "}"), ("-RRB-",)),
}
"""Which leaves a word can have, where it can be punctuation; a hyphen may join words too, a quote may be a possessive.
ORDINARY stands for all that are not of punctuation, which every other word can have."""

Mask = NDArray[np.bool_]


class Grammar:
    """The tokens of a vocabulary of trees, by what they do."""

    def __init__(self, codec: Codec) -> None:
        """A ValueError says why a codec is not one of trees."""
        pieces = codec.pieces(range(codec.size))[len(SPECIALS) :]
        ids = {piece: id for id, piece in enumerate(pieces, start=len(SPECIALS))}
        opening = {piece[1:]: id for piece, id in ids.items() if piece[0] == "("}
        closing = {piece[1:]: id for piece, id in ids.items() if piece[0] == ")"}
        self.leaves = {piece: id for piece, id in ids.items() if piece[0] not in "()"}
        self.ordinary = tuple(id for piece, id in self.leaves.items() if piece not in PUNCTUATION)
        """The leaves of words that are no punctuation."""
        if not opening or opening.keys() != closing.keys() or not self.ordinary:
            raise ValueError("its outputs are not trees: no brackets with labels, or no leaf but those of punctuation")
        self.size = codec.size
        self.closing = {id: closing[label] for label, id in opening.items()}
        """By the id of the opening bracket."""
        self.mask = cache(self._mask)  # a few hundred: a state is one of few kinds

    def over(self, words: Iterable[str]) -> Trees:
        """All trees over these words."""
        return Trees(self, tuple(map(self.leaf, words)))

    def leaf(self, word: str) -> tuple[int, ...]:
        """The ids that a word's leaf can have; a mark whose tag no tree of the training had is taken for a word."""
        allowed = LEAVES.get(word, (ORDINARY,))
        marks = tuple(self.leaves[leaf] for leaf in allowed if leaf in PUNCTUATION and leaf in self.leaves)
        return marks if marks and ORDINARY not in allowed else (*marks, *self.ordinary)

    def _mask(self, opening: bool, tokens: tuple[int, ...]) -> Mask:
        """True for these tokens, and for every opening bracket if one may come."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[list(tokens)] = True
        if opening:
            mask[list(self.closing)] = True
        return mask


@dataclass(frozen=True, eq=False)
class Trees:
    """The trees over one sentence, as a request asks for them."""

    grammar: Grammar
    leaves: tuple[tuple[int, ...], ...]
    """The ids that the leaf of each word can have."""

    def start(self) -> Growth:
        """Before the first token."""
        return Growth(self)

    @property
    def shortest(self) -> int:
        """How many tokens a tree takes at least, the end token included."""
        return len(self.leaves) + 3


Brackets = tuple[int, "Brackets"] | None
"""The ids of the brackets that are open, the innermost first: a list that rows share the tail of."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How far an output has come on its way to a tree."""

    trees: Trees
    leaves: int = 0
    """How many words have theirs."""
    depth: int = 0
    brackets: Brackets = None
    openings: int = 0
    """Opening brackets in a row up to here: while there are any, the innermost bracket is empty."""

    def advance(self, token: int) -> Growth:
        """After one more token; one that is not possible, as rows without hope may take, changes nothing."""
        closing = self.trees.grammar.closing
        if token in closing:
            return Growth(self.trees, self.leaves, self.depth + 1, (token, self.brackets), self.openings + 1)
        if self.brackets is not None and token == closing[self.brackets[0]]:
            return Growth(self.trees, self.leaves, self.depth - 1, self.brackets[1])
        if self.leaves < len(self.trees.leaves) and token in self.trees.leaves[self.leaves]:
            return Growth(self.trees, self.leaves + 1, self.depth, self.brackets)
        return self

    def possible(self, room: int) -> Mask:
        """Which tokens may come next (V), if `room` are left up to the length limit, the end token included."""
        left = len(self.trees.leaves) - self.leaves
        tokens: tuple[int, ...] = ()
        if self.brackets is not None:
            if left:
                tokens = self.trees.leaves[self.leaves]
            if not self.openings and (self.depth > 1 or not left):
                tokens = (*tokens, self.trees.grammar.closing[self.brackets[0]])
        elif not left:
            tokens = (EOS,)
        needed = left + self.depth + 1  # the leaves and closing brackets to come, and the end
        opening = left > 0 and self.openings < MAX_OPENINGS and room >= needed + 2
        return self.trees.grammar.mask(opening, tokens)


def keep_to_trees(scores: Tensor, growths: Sequence[Growth | None], limits: Sequence[int], length: int) -> None:
    """Make every token impossible after which a row could not become a tree, in place (RV).

    Each limit is that of as many rows; `length` is that of the tokens so far, BOS included.
    """
    own = [(row, growth) for row, growth in enumerate(growths) if growth is not None]
    if not own:
        return
    share, rows = len(growths) // len(limits), [row for row, _ in own]
    masks = [growth.possible(limits[row // share] + 1 - length) for row, growth in own]
    impossible = torch.from_numpy(~np.stack(masks)).to(scores.device)
    scores[rows] = scores[rows].masked_fill(impossible, NEVER)


def seeds(trees: Iterable[Trees | None]) -> list[Growth | None]:
    """Of each row, the growth of its output; none at all where no row is to become a tree."""
    found = [None if each is None else each.start() for each in trees]
    return found if any(found) else []


def grown(growths: Iterable[Growth | None], tokens: Sequence[int]) -> list[Growth | None]:
    """Each row after one more token."""
    return [growth and growth.advance(token) for growth, token in zip(growths, tokens, strict=True)]
