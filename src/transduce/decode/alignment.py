"""Which source words a target was made from, as the attention to the source tells.

A target that is already there is read in one pass. Two steps of the decoder see a token: the one that produces it, and
the next one, which reads it to go on. The first is the one to ask, in the last layer, by the mean over its heads; and
of a word, the step that produces its first token. On the phrasebook, whose alignments are known, other layers, the
reading step and the mean over a word's tokens make more errors.

B batch, H heads, T target length, S source length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.decode.engine import batches, go_on
from transduce.decode.score import Pair, encode_pairs, one_model
from transduce.decode.torch_engine import TorchEngine, pad, shift_right
from transduce.model import AttentionRecord
from transduce.text import Codec, Symbols
from transduce.text.subwords import SPACE_MARK

if TYPE_CHECKING:
    from transduce.decode.translator import Translator

Groups = list[list[int]]

TOKENS = 1024
"""Of a batch, padding included. The attention of every layer is kept: so many take about the memory that the longest
line takes alone."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """How much each target token or word (rows) looked at each of the source (columns): the soft alignment.

    What fell on the source's end token is left out, so that a row of tokens sums to 1 at most.
    """

    soft: NDArray[np.float32]

    @property
    def links(self) -> list[tuple[int, int]]:
        """The hard alignment: each target token or word with the source's it looked at most: (source, target)."""
        if not self.soft.shape[1]:
            return []
        return sorted((int(best), row) for row, best in enumerate(self.soft.argmax(axis=1)))

    def merge(self, source: Groups, target: Groups) -> Alignment:
        """By groups of tokens: how much the first of the target's looked at any one of the source's."""
        columns = [self.soft[:, group].max(axis=1) for group in source]
        onto_groups = np.stack(columns, axis=1) if columns else self.soft[:, :0]
        return Alignment(onto_groups[[group[0] for group in target]])

    def pharaoh(self) -> str:
        """The links as Moses writes them: 0-0 1-2."""
        return " ".join(f"{source}-{target}" for source, target in self.links)


def align(engine: TorchEngine, source: Sequence[int], target: Sequence[int]) -> Alignment:
    """Of a pair of ids, both without the end token, token by token."""
    return align_pairs(engine, [(source, target)])[0]


def align_pairs(engine: TorchEngine, pairs: Sequence[Pair], *, between: Callable[[], None] = go_on) -> list[Alignment]:
    """Of each pair of ids, token by token; a pair's alignment does not depend on the others."""
    found: dict[int, Alignment] = {}
    for places in batches([max(map(len, pair)) for pair in pairs], TOKENS, TOKENS):
        between()
        batch = [pairs[place] for place in places]
        for place, (source, target), weights in zip(places, batch, cross_attention(engine, batch)[-1], strict=True):
            found[place] = Alignment(weights[: len(target), : len(source)])
    return [found[place] for place in range(len(pairs))]


def align_lines(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], *, first_line: int = 1
) -> list[Alignment]:
    """Of each pair of lines, word by word; words are what spaces separate, and a blank line has none."""
    pairs = encode_pairs(translator, sources, targets, first_line=first_line)
    found = align_pairs(translator.reference, pairs, between=translator.between)
    return [
        alignment.merge(words(translator.source_codec, source), words(translator.target_codec, target))
        for alignment, (source, target) in zip(found, pairs, strict=True)
    ]


@torch.inference_mode()
def cross_attention(engine: TorchEngine, pairs: Sequence[Pair]) -> list[NDArray[np.float32]]:
    """Where each step of each pair looks in the source, by decoder layer, the mean over heads: BTS.

    Step t produces token t and has just read token t - 1; one more step produces the end token.
    """
    model, record = one_model(engine), AttentionRecord()
    memory, may_attend = model.encode(pad([source for source, _ in pairs]).to(engine.device))
    target = shift_right(pad([target for _, target in pairs]).to(engine.device))
    model.decode(target, memory, may_attend, record=record)
    return [layer.mean(dim=1).float().cpu().numpy() for layer in record.cross]  # BHTS -> BTS


def words(codec: Codec, ids: Sequence[int]) -> Groups:
    """Which tokens make up each word that spaces separate; symbols are words already."""
    if isinstance(codec, Symbols):
        return [[place] for place in range(len(ids))]
    pieces = codec.pieces(ids)
    groups: Groups = []
    for place, piece in enumerate(pieces):
        if not groups or piece.startswith(SPACE_MARK):
            groups.append([])
        groups[-1].append(place)
    # a space beside another space, or at the end of a line, begins no word
    return [group for group in groups if any(pieces[place].strip(SPACE_MARK) for place in group)]
