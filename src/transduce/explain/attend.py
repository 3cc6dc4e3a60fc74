"""A sentence, its translation, and what every head attended to on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from transduce.explain.record import Attention, merge_words, word_groups
from transduce.text.codec import BOS, EOS

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.decode.translator import Translator


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

    from transduce.decode.translator import find, pad, shift_right
    from transduce.model import AttentionRecord

    model = translator.model
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
    return Attended(
        translation=translator.target_codec.decode(best.ids),
        encoder=_by_words("encoder", record.encoder, words, words),
        decoder=_by_words("decoder", record.decoder, chosen, read),
        cross=_by_words("cross", record.cross, chosen, words),
    )


def _by_words(
    kind: Literal["encoder", "decoder", "cross"],
    layers: list[Tensor],
    queries: Sequence[str],
    keys: Sequence[str],
) -> Attention:
    weights = np.stack([layer[0].numpy() for layer in layers])
    pieces = Attention(kind, weights, list(queries), list(keys))
    return merge_words(pieces, word_groups(queries), word_groups(keys))
