"""A sentence, its translation, and what every head attended to on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.decode.hypothesis import Request
from transduce.explain.reading import read_pair
from transduce.explain.record import Attention

if TYPE_CHECKING:
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
    source = translator.source_codec.encode(text)
    best = translator.reference.search([Request(tuple(source))], translator.search)[0][0]
    words = read_pair(translator, source, best.ids).words
    return Attended(translator.target_codec.decode(best.ids), words["encoder"], words["decoder"], words["cross"])
