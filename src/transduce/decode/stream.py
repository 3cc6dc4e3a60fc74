"""Text that grows while its ids are being found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from transduce.text.codec import Codec

INCOMPLETE = "\ufffd"  # how a codec writes the bytes of a character that is not whole yet


def growing_text(codec: Codec, agreed: Iterable[Sequence[int]]) -> Iterator[str]:
    """What each more of the ids adds to the text; put together, the text of the last of them.

    A character of several bytes is held back until it is whole.
    """
    shown, text = "", ""
    for ids in agreed:
        text = codec.decode(ids)
        whole = text.rstrip(INCOMPLETE)
        if len(whole) > len(shown):
            yield whole[len(shown) :]
            shown = whole
    if len(text) > len(shown):
        yield text[len(shown) :]
