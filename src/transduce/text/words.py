"""A vocabulary of words in which a rare word is read by its shape: one id for each word of a line, whatever the word.

Subwords tell more of a rare word, but then the n-th word of a line is not its n-th token. A parser has to know which
word it is at: with an id a word it counts less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

from transduce.config import Step
from transduce.errors import CodecError
from transduce.text.codec import SPECIALS, UNK, Kind, Learned
from transduce.text.normalize import normalize
from transduce.text.symbols import Symbols

SEEN = 2
"""A word that the training text has fewer times is read by its shape there too, so that shapes are learned; an ending
that fewer of these words have is not told apart."""
ENDING = 3
"""Letters of a word's end that its shape tells: "-ing", "-ion", "-ted"."""
MARK, ESCAPE = "?", "\\"
"""A shape begins with the first; before a word that begins with either stands the second."""


def split(line: str) -> list[str]:
    """What stands between spaces; other white space is part of a word, as it is to a parser."""
    return [word for word in line.split(" ") if word.strip()]


def shapes(word: str) -> tuple[str, str]:
    """What is to be seen of a word that is not known, with its ending and without it: `?C-~ion`, `?C-`.

    C: a capital first; A: capitals only; #: digits; -: a hyphen inside.
    """
    capitals = "A" if word.isupper() else "C" if word[0].isupper() else ""
    digits = "#" if any(map(str.isdecimal, word)) else ""
    plain = MARK + capitals + digits + ("-" if "-" in word else "")
    ending = word[-ENDING:].lower()
    return (f"{plain}~{ending}" if ending.isalpha() and len(word) > ENDING else plain), plain


class Words(Symbols):
    """Frequent words have ids of their own, the others share those of their shapes. For sources: rare ones are lost."""

    KIND: ClassVar[Kind] = "words"
    FILE: ClassVar[str] = "words.json"

    @classmethod
    def learn(cls, lines: Iterable[str], *, steps: Sequence[Step] = (), vocabulary: int | None = None) -> Learned:
        """The words and shapes that most words are read by, at most `vocabulary` with the specials."""
        counts: Counter[str] = Counter()
        total = empty = 0
        for line in lines:
            found = split(normalize(line, steps))
            counts.update(found)
            total += 1
            empty += not found
        if not counts:
            raise CodecError(f"no words to learn: {total} lines, all empty; give lines of words with spaces between")
        known = {word for word, count in counts.items() if count >= SEEN and word.split() == [word]}
        rare = [shapes(word) for word in counts.keys() - known]
        endings = Counter(ended for ended, _ in rare)
        names = Counter(ended if endings[ended] >= SEEN else plain for ended, plain in rare)
        names.update({_name(word): counts[word] for word in known})
        ranked = sorted(names, key=lambda name: (-names[name], name))
        room = None if vocabulary is None else vocabulary - len(SPECIALS)
        return Learned(cls(ranked[:room], steps), lines=total, used=total - empty, empty=empty)

    def encode(self, text: str) -> list[int]:
        """One id per word: its own, that of its shape, or UNK for a shape that was not in training either."""
        return [self._id(word) for word in split(normalize(text, self._steps))]

    def unknown(self, text: str) -> list[str]:
        """The words of a line that have no id, in order."""
        return [word for word in split(normalize(text, self._steps)) if self._id(word) == UNK]

    def decode(self, ids: Sequence[int]) -> str:
        """The words with one space between, of rare ones the shapes; specials are left out."""
        names = (self._symbols[id - len(SPECIALS)] for id in ids if id >= len(SPECIALS))
        return " ".join(name.removeprefix(ESCAPE) for name in names)

    def _id(self, word: str) -> int:
        return next((self._ids[name] for name in (_name(word), *shapes(word)) if name in self._ids), UNK)


def _name(word: str) -> str:
    return ESCAPE + word if word.startswith((MARK, ESCAPE)) else word
