"""Cutting a line that is longer than a model can take."""

from __future__ import annotations

import re

from transduce.text.codec import Codec

# where to cut, best first: after a sentence, after a clause, at a space, anywhere
PLACES = (
    re.compile(r"(?<=[.!?…。！？])\s+"),
    re.compile(r"(?<=[,;:])\s+"),
    re.compile(r"\s+"),
    re.compile(r"(?<=.)(?=.)"),
)


def split_long(text: str, codec: Codec, max_tokens: int) -> list[str]:
    """Parts of `text` that have at most `max_tokens` tokens each, cut at the best places there are."""
    return _split(text, codec, max_tokens, 0)


def _split(text: str, codec: Codec, max_tokens: int, level: int) -> list[str]:
    if len(codec.encode(text)) <= max_tokens or level == len(PLACES):
        return [text]
    parts: list[str] = []
    lengths: list[int] = []
    for piece, gap in _pieces(text, PLACES[level]):
        length = len(codec.encode(piece))
        between = len(codec.encode(gap)) if gap else 0
        if parts and lengths[-1] + between + length <= max_tokens:
            parts[-1] += gap + piece
            lengths[-1] += between + length
        else:
            parts.append(piece)
            lengths.append(length)
    return [short for part in parts if part.strip() for short in _split(part, codec, max_tokens, level + 1)]


def _pieces(text: str, place: re.Pattern[str]) -> list[tuple[str, str]]:
    """The pieces between cuts, each with the gap before it."""
    pieces, end, gap = [], 0, ""
    for match in place.finditer(text):
        pieces.append((text[end : match.start()], gap))
        end, gap = match.end(), match.group()
    return [*pieces, (text[end:], gap)]
