"""Which source words a target was made from, as the attention to the source tells.

A target that is already there is read in one pass. What counts is how much of a source token a step takes in: the
length of the vector that all heads together bring from it, weights times values (Kobayashi et al. 2020), not the
weights alone. Of the two steps that see a token it is the one that produces it, not the next one, which reads it; and
of the layers the last. On the phrasebook, whose alignments are known, these choices make the least errors.

B batch, H heads, T target length, S source length, D d_model, V d_v.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.decode.engine import batches, go_on
from transduce.decode.score import Pair, encode_pairs
from transduce.decode.torch_engine import TorchEngine, pad, shift_right
from transduce.model import AttentionRecord
from transduce.text import Codec, Symbols
from transduce.text.subwords import SPACE_MARK

if TYPE_CHECKING:
    from transduce.decode.translator import Translator

Groups = list[list[int]]

LAYER = -1
TOKENS = 1024
"""Of a batch, padding included. The attention of every layer is kept: so many take about the memory that the longest
line takes alone."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """How much each target token or word (rows) took from each of the source (columns): the soft alignment.

    Of tokens, a row with what came from the source's end token sums to 1; that column is left out.
    """

    soft: NDArray[np.float32]

    @property
    def links(self) -> list[tuple[int, int]]:
        """The hard alignment: each target token or word with the source's it took most from: (source, target)."""
        if not self.soft.shape[1]:
            return []
        return sorted((int(best), row) for row, best in enumerate(self.soft.argmax(axis=1)))

    def merge(self, source: Groups, target: Groups) -> Alignment:
        """By groups of tokens: the most that came from one token of the source's, on average over the target's."""
        columns = [self.soft[:, group].max(axis=1) for group in source]
        from_groups = np.stack(columns, axis=1) if columns else self.soft[:, :0]
        rows = [from_groups[group].mean(axis=0) for group in target]
        return Alignment(np.stack(rows) if rows else from_groups[:0])

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
        for place, (source, target), taken in zip(places, batch, taken_in(engine, batch, LAYER), strict=True):
            found[place] = Alignment(taken[: len(target), : len(source)])
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
def taken_in(engine: TorchEngine, pairs: Sequence[Pair], layer: int) -> NDArray[np.float32]:
    """Which share of what each step of each pair takes in at a decoder layer comes from each source token: BTS.

    Step t produces token t and has just read token t - 1; one more step produces the end token.
    """
    model, record = engine.model, AttentionRecord()
    memory, may_attend = model.encode(pad([source for source, _ in pairs]).to(engine.device))
    target = shift_right(pad([target for _, target in pairs]).to(engine.device))
    model.decode(target, memory, may_attend, record=record)
    weights = record.cross[layer]  # BHTS
    values = model.decoder.project(memory)[layer][1]  # BHSV
    output = model.decoder.layers[layer].get_submodule("cross_attention.output").get_parameter("weight")
    brought = torch.einsum("bhsv,dhv->bshd", values, output.unflatten(1, (weights.size(1), -1)))
    # |sum of w_h b_h|^2 by the products of the heads' vectors: no vector for each step and source token
    products = brought @ brought.transpose(-2, -1)  # BSHH
    squares = torch.einsum("bhts,bgts,bshg->bts", weights, weights, products)
    lengths = squares.clamp(min=0).sqrt()
    return (lengths / lengths.sum(dim=-1, keepdim=True)).float().cpu().numpy()


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
