"""A closed vocabulary of white-space-separated symbols: phonemes, brackets, characters already set apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from transduce.config import Step
from transduce.errors import CodecError
from transduce.text.codec import SPECIALS, UNK, Codec, Kind, Learned, describe_vocabulary
from transduce.text.normalize import normalize

LETTERS: Final[tuple[Step, ...]] = ("nfc", "lower", "spell")
"""The steps by which the letters of a word are symbols."""


class Symbols(Codec):
    """Each symbol seen in training has an id, the frequent ones first; any other symbol is UNK."""

    KIND: ClassVar[Kind] = "symbols"
    FILE: ClassVar[str] = "symbols.json"

    def __init__(self, symbols: Sequence[str], steps: Sequence[Step] = ()) -> None:
        if wrong := [symbol for symbol in symbols if symbol.split() != [symbol]]:
            raise CodecError(f"{wrong[0]!r} is not a symbol: symbols are not empty and hold no white space")
        self._symbols = tuple(symbols)
        self._steps = tuple(steps)
        # Specials are ids, not spellings: a symbol written like one ("<s>") has an id of its own.
        self._ids = {symbol: id for id, symbol in enumerate(symbols, start=len(SPECIALS))}
        if len(self._ids) < len(self._symbols):
            repeated = Counter(symbols).most_common(1)[0][0]
            raise CodecError(f"the symbol {repeated!r} is listed twice: keep one")

    @classmethod
    def learn(cls, lines: Iterable[str], *, steps: Sequence[Step] = ()) -> Learned:
        """Every symbol in `lines`; by falling frequency, then code point: ids do not depend on order."""
        counts: Counter[str] = Counter()
        total = empty = 0
        for line in lines:
            found = normalize(line, steps).split()
            counts.update(found)
            total += 1
            empty += not found
        if not counts:
            raise CodecError(
                f"no symbols to learn: {total} lines, all empty; give lines of symbols with spaces between"
            )
        symbols = sorted(counts, key=lambda symbol: (-counts[symbol], symbol))
        return Learned(cls(symbols, steps), lines=total, used=total - empty, empty=empty)

    @classmethod
    def load(cls, data: bytes, steps: Sequence[Step]) -> Symbols:
        """The codec that `files` wrote."""
        try:
            symbols = json.loads(data)
        except ValueError as error:
            raise CodecError(f"{cls.FILE} is not JSON: {error}") from None
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise CodecError(f"{cls.FILE} is not a list of strings")
        return cls(symbols, steps)

    @property
    def size(self) -> int:
        """Symbols and specials."""
        return len(SPECIALS) + len(self._symbols)

    def encode(self, text: str) -> list[int]:
        """One id per symbol; UNK for one that was not in training (`unknown` names them)."""
        return [self._ids.get(symbol, UNK) for symbol in normalize(text, self._steps).split()]

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each line."""
        return [self.encode(text) for text in texts]

    def unknown(self, text: str) -> list[str]:
        """The symbols of a line that have no id, in order."""
        return [symbol for symbol in normalize(text, self._steps).split() if symbol not in self._ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The symbols with one space between; specials are left out."""
        return " ".join(self._symbols[id - len(SPECIALS)] for id in ids if id >= len(SPECIALS))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The symbol itself; a backslash sets apart one that is written like a special."""
        return [_readable(self._symbols[id - len(SPECIALS)]) if id >= len(SPECIALS) else SPECIALS[id] for id in ids]

    def files(self) -> Mapping[str, bytes]:
        """A list in the order of ids without the specials, and its description."""
        data = (json.dumps(self._symbols, ensure_ascii=False, indent=0) + "\n").encode("utf-8", "surrogatepass")
        return describe_vocabulary(kind=self.KIND, steps=self._steps, name=self.FILE, data=data)


_LIKE_A_SPECIAL = re.compile(rf"\\*(?:{'|'.join(map(re.escape, SPECIALS))})")


def _readable(symbol: str) -> str:
    return f"\\{symbol}" if _LIKE_A_SPECIAL.fullmatch(symbol) else symbol
