"""A pair of sentences as the model reads it: what every head attends to, by tokens and by words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from transduce.decode.torch_engine import pad, shift_right
from transduce.errors import UserError
from transduce.explain.even import evened
from transduce.explain.record import Attention, Kind, merge_words, word_groups
from transduce.model import AttentionRecord
from transduce.text import Codec, Symbols
from transduce.text.codec import BOS, EOS

if TYPE_CHECKING:
    from transduce.decode.translator import Translator


Groups = list[list[int]]


@dataclass(frozen=True, eq=False)
class Reading:
    """The attention of each kind; the decoder's rows are named by the token or word that they choose."""

    tokens: dict[Kind, Attention]
    groups: dict[Kind, tuple[Groups, Groups]]
    """The tokens of each word, of the queries and of the keys."""

    @cached_property
    def words(self) -> dict[Kind, Attention]:
        """The same by words."""
        return {kind: merge_words(attention, *self.groups[kind]) for kind, attention in self.tokens.items()}

    @cached_property
    def even(self) -> Reading:
        """What a head that looks alike at all it may look at would attend to in this pair."""
        return Reading({kind: evened(attention) for kind, attention in self.tokens.items()}, self.groups)


class Side(NamedTuple):
    """One side of an attention: its tokens, and which of them make up each word."""

    pieces: list[str]
    words: Groups

    @classmethod
    def of(cls, codec: Codec, ids: Sequence[int]) -> Side:
        """Specials are words of their own, and symbols are words already."""
        pieces = codec.pieces(ids)
        symbols = isinstance(codec, Symbols)
        return cls(pieces, [[place] for place in range(len(pieces))] if symbols else word_groups(pieces))


@torch.inference_mode()
def read_pair(translator: Translator, source: Sequence[int], target: Sequence[int]) -> Reading:
    """Run the model once over a pair of ids, both without the end token."""
    engine, record = translator.reference, AttentionRecord()
    engine.model(
        pad([source]).to(engine.device),
        shift_right(pad([target]).to(engine.device)),
        source_padded=False,
        record=record,
    )
    read = Side.of(translator.source_codec, [*source, EOS])
    shifted = Side.of(translator.target_codec, [BOS, *target])
    chosen = Side.of(translator.target_codec, [*target, EOS])
    tokens: dict[Kind, Attention] = {}
    sides: dict[Kind, tuple[Side, Side, list[Tensor]]] = {
        "encoder": (read, read, record.encoder),
        "decoder": (chosen, shifted, record.decoder),
        "cross": (chosen, read, record.cross),
    }
    for kind, (queries, keys, layers) in sides.items():
        weights = np.stack([layer[0].float().cpu().numpy() for layer in layers])
        tokens[kind] = Attention(kind, weights, queries.pieces, keys.pieces)
    return Reading(tokens, {kind: (queries.words, keys.words) for kind, (queries, keys, _) in sides.items()})


def readable(argument: str) -> str:
    """An argument of a command as text: what was not UTF-8 in it becomes U+FFFD."""
    return argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def sentence_ids(translator: Translator, sentence: str) -> list[int]:
    """The ids of a sentence that somebody wants to look into; none at all and too many are refused."""
    ids = translator.source_codec.encode(sentence)
    if not ids or not sentence.strip():
        raise UserError(f"{sentence!r}: no words to look at: give a sentence in quotes")
    if len(ids) > translator.max_input:
        raise UserError(f"a sentence of {len(ids)} tokens: at most {translator.max_input} are looked at: cut it")
    return ids
