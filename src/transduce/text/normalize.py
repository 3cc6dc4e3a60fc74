"""Named steps that make different spellings of a line one, applied before encoding."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from transduce.config import Step


def normalize(text: str, steps: Sequence[Step]) -> str:
    """`text` after each of `steps`, in order; without steps it stays as it is."""
    for step in steps:
        text = _STEPS[step](text)
    return text


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _spell(text: str) -> str:
    """The letters with one space between; those that stand apart already are not cut again."""
    return " ".join("".join(text.split()))


_STEPS: dict[Step, Callable[[str], str]] = {
    "nfc": _nfc,
    "nfkc": _nfkc,
    "lower": str.lower,
    "squeeze": _squeeze,
    "spell": _spell,
}
