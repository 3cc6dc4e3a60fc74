"""Terms and how they must be translated: a TSV file, `source<TAB>target` a line; `source` alone is not translated.

A term is matched by whole words, its letters as they are written. Words are runs of letters and digits; every other
character but white space stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.decode.hypothesis import Phrase
from transduce.errors import UserError
from transduce.text.codec import UNK, Codec

WORD = re.compile(r"\w+|[^\w\s]")
BEFORE = ("", "(", "-", "a", "1")
"""What may stand right before a term: after white space, an opening mark, a hyphen, a letter or a digit its pieces
may differ."""

Words = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """A line of a glossary."""

    source: str
    target: str
    line: int


class Glossary:
    """Terms of which none says two things, and none stands inside another."""

    def __init__(self, terms: Iterable[Term], *, where: str = "the glossary") -> None:
        self._terms: dict[Words, Term] = {}
        for term in terms:
            words = tuple(WORD.findall(term.source))
            known = self._terms.setdefault(words, term)
            if known.target != term.target:
                both = f"{known.target!r} in line {known.line} and {term.target!r} in line {term.line}"
                raise UserError(f"{where}: {term.source!r} is {both}: keep one")
        self._longest = max(map(len, self._terms), default=0)
        for words, term in self._terms.items():
            for inner in self._inside(words):
                lines = f"{inner.source!r} (line {inner.line}) stands inside {term.source!r} (line {term.line})"
                raise UserError(f"{where}: {lines}: keep one of them")

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """The glossary in a file; blank lines are left out."""
        try:
            text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
        except OSError as error:
            raise UserError(f"{path}: cannot read: {error.strerror}: check the path") from None
        except UnicodeDecodeError:
            raise UserError(f"{path}: not UTF-8: save the glossary as UTF-8") from None
        return cls(parse_terms(text.split("\n"), where=str(path)), where=str(path))

    def __len__(self) -> int:
        return len(self._terms)

    def matches(self, line: str) -> list[Term]:
        """The terms that a line contains, each once; terms that share words of it are an error."""
        words = list(WORD.finditer(line))
        found: list[Term] = []
        last: Term | None = None
        end = 0
        for start in range(len(words)):
            for stop in range(start + 1, min(start + self._longest, len(words)) + 1):
                term = self._terms.get(tuple(match[0] for match in words[start:stop]))
                if term is None:
                    continue
                if last is not None and start < end:
                    raise UserError(f"the glossary's {last.source!r} and {term.source!r} share words of this line")
                last, end = term, stop
                if term not in found:
                    found.append(term)
        return found

    def _inside(self, words: Words) -> Iterator[Term]:
        for start in range(len(words)):
            for stop in range(start + 1, len(words) + 1):
                if stop - start < len(words) and words[start:stop] in self._terms:
                    yield self._terms[words[start:stop]]


def parse_terms(lines: Iterable[str], *, where: str) -> Iterator[Term]:
    """The terms of a file's lines."""
    for number, line in enumerate(lines, 1):
        columns = [column.strip() for column in line.split("\t")]
        if not any(columns):
            continue
        if len(columns) > 2 or not all(columns):
            raise UserError(f"{where}: line {number}: write source<TAB>target, or a source alone to keep it as it is")
        yield Term(columns[0], columns[-1], number)


def phrase(codec: Codec, text: str) -> Phrase:
    """Every spelling that a codec gives to a text: after a space, and inside a line without one.

    Whatever stands before it, the ids of a spelling decode to the text itself.
    """
    spellings: dict[tuple[int, ...], None] = {}
    for before in BEFORE:
        start, whole = codec.encode(before), codec.encode(before + text)
        ids = tuple(whole[len(start) :])
        if whole[: len(start)] == start and ids and UNK not in ids and codec.decode(ids) == text:
            spellings[ids] = None
    if not spellings:
        written = codec.decode(codec.encode(text))
        raise UserError(f"the target vocabulary cannot write {text!r}, only {written!r}: change the glossary")
    return Phrase(tuple(spellings))
