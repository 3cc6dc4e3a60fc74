"""Attention weights with the words they belong to; numpy only, so that drawing needs no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transduce.text.codec import SPECIALS

Kind = Literal["encoder", "decoder", "cross"]
"""Self-attention of the encoder or the decoder, or the decoder's attention to the encoder's output."""
WORD_START = "▁"  # SentencePiece writes the space before a word so


@dataclass(frozen=True, eq=False)
class Attention:
    """What every head of one stack attended to, for one sentence."""

    kind: Kind
    weights: NDArray[np.floating]
    """(layers, heads, queries, keys); each row of keys sums to 1."""
    queries: list[str]
    """The words that attend, one per row."""
    keys: list[str]
    """The words attended to, one per column."""

    def __post_init__(self) -> None:
        labelled = (len(self.queries), len(self.keys))
        assert self.weights.ndim == 4, f"weights of shape {self.weights.shape} are not layers, heads, queries, keys"
        assert self.weights.shape[2:] == labelled, f"weights of shape {self.weights.shape}, labels for {labelled}"

    @property
    def num_layers(self) -> int:
        """How many layers were recorded."""
        return int(self.weights.shape[0])

    @property
    def num_heads(self) -> int:
        """How many heads each layer has."""
        return int(self.weights.shape[1])


def word_groups(pieces: Sequence[str]) -> list[list[int]]:
    """Which subwords make up each word: `▁` begins one, and specials such as `</s>` stand alone."""
    groups: list[list[int]] = []
    after_special = True
    for index, piece in enumerate(pieces):
        if piece in SPECIALS or after_special or piece.startswith(WORD_START):
            groups.append([index])
        else:
            groups[-1].append(index)
        after_special = piece in SPECIALS
    return groups


def merge_words(
    attention: Attention, query_groups: Sequence[Sequence[int]], key_groups: Sequence[Sequence[int]]
) -> Attention:
    """Merge pieces into words: what falls on a word's pieces adds up, and a word's pieces attend on average.

    So each row still sums to 1. The groups must share out all the pieces.
    """
    for groups, pieces in ((query_groups, attention.queries), (key_groups, attention.keys)):
        assert sorted(i for group in groups for i in group) == list(range(len(pieces))), "groups leave pieces out"
    onto_words = [attention.weights[..., list(group)].sum(axis=-1) for group in key_groups]
    columns = np.stack(onto_words, axis=-1)
    rows = np.stack([columns[..., list(group), :].mean(axis=-2) for group in query_groups], axis=-2)
    return Attention(
        kind=attention.kind,
        weights=rows,
        queries=[_join(attention.queries, group) for group in query_groups],
        keys=[_join(attention.keys, group) for group in key_groups],
    )


def _join(pieces: Sequence[str], group: Sequence[int]) -> str:
    joined = re.sub(r"(?:<0x[0-9A-F]{2}>)+", _bytes_as_text, "".join(pieces[i] for i in group))
    return joined.replace(WORD_START, " ").strip() or WORD_START


def _bytes_as_text(run: re.Match[str]) -> str:
    """A character outside the vocabulary is spelled in bytes, such as <0xE2><0x82><0xAC>."""
    return bytes.fromhex(run[0].replace("<0x", "").replace(">", "")).decode("utf-8", errors="replace")
