"""A sentence, its translation, and what every head attended to on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from transduce.explain.record import Attention, merge_words, word_groups
from transduce.text import Codec, Subwords
from transduce.text.codec import BOS, EOS

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.decode.translator import Translator


Kind = Literal["encoder", "decoder", "cross"]


@dataclass(frozen=True)
class Attended:
    """All attention of one sentence, by words; the decoder's rows are named by the word they choose."""

    translation: str
    encoder: Attention
    decoder: Attention
    cross: Attention


def attend(translator: Translator, text: str) -> Attended:
    """Translate a sentence, then run the model once more over both sides with a record."""
    import torch

    from transduce.decode.torch_engine import find, pad, shift_right
    from transduce.model import AttentionRecord

    model = translator.reference.model
    source = pad([translator.source_codec.encode(text)])
    best = find(model, source, translator.search)[0][0]
    expected = pad([best.ids])
    target = shift_right(expected)
    record = AttentionRecord()
    with torch.inference_mode():
        model(source, target, record=record)
    words = translator.source_codec.pieces([*source[0].tolist()])
    read = translator.target_codec.pieces([BOS, *best.ids])
    chosen = translator.target_codec.pieces([*best.ids, EOS])
    by_source, by_target = (_groups(codec) for codec in (translator.source_codec, translator.target_codec))

    def by_words(kind: Kind, layers: list[Tensor], queries: Sequence[str], keys: Sequence[str]) -> Attention:
        pieces = Attention(kind, np.stack([layer[0].numpy() for layer in layers]), list(queries), list(keys))
        query_groups = (by_source if kind == "encoder" else by_target)(queries)
        key_groups = (by_target if kind == "decoder" else by_source)(keys)
        return merge_words(pieces, query_groups, key_groups)

    return Attended(
        translation=translator.target_codec.decode(best.ids),
        encoder=by_words("encoder", record.encoder, words, words),
        decoder=by_words("decoder", record.decoder, chosen, read),
        cross=by_words("cross", record.cross, chosen, words),
    )


def _groups(codec: Codec) -> Callable[[Sequence[str]], list[list[int]]]:
    """Subwords are joined into words; symbols stand for themselves."""
    if isinstance(codec, Subwords):
        return word_groups
    return lambda pieces: [[index] for index in range(len(pieces))]
