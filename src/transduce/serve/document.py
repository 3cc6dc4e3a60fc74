"""A text of any length: cut into sentences, which are translated, and joined again with all that stood between them.

    document = plain("Hello!  How are you?\n")
    document.sentences                              ["Hello!", "How are you?"]
    document.joined(["Hallo!", "Wie geht es?"])     "Hallo!  Wie geht es?\n"

White space and line breaks stay as they are, and so does whatever has no letter. A line break ends a sentence. A full
stop does not where a small letter follows, nor behind abbreviations, initials and small numbers ("Dr. No", "J. Smith",
"am 3. Mai"): two sentences that are translated as one do less harm than half a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from transduce.serve.errors import Unusable
from transduce.serve.model import Model, Translated
from transduce.serve.options import Options
from transduce.serve.service import Service

LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
FULL_WIDTH = "。！？｡"
CLOSING_FULL_WIDTH = "”’」』）】》"
CLOSING = "])}\"'”“’‘»«›‹」』）】》"
"""Some of them open elsewhere, but not before a space."""
# a run of marks is looked at once, however long it is: hence the look behind
END = re.compile(rf"(?<![.!?…])[.!?…]++[{CLOSING}]*+(?=\s)|[{FULL_WIDTH}]++[{CLOSING_FULL_WIDTH}]*+")
START = re.compile(r"\s*+[\"'“‘„‚«‹»›(\[{¿¡「『（]*+")
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]|\d{1,2}")
LONGEST_WORD = 20
"""Characters before a full stop that are looked at: no abbreviation has more."""
ABBREVIATION = re.compile(
    "mr|mrs|ms|mx|dr|prof|st|sr|jr|rev|hon|gen|col|capt|lt|sgt|gov|sen|rep|pres|vs|viz|cf|approx|dept|"
    "hr|frl|bzw|vgl|evtl|ggf|inkl|exkl|bspw|sog|geb|mio|mrd|hrsg|mme|mmes|mlle|env|sra|srta|ud|uds|dra",
    re.IGNORECASE,
)
BEFORE_NUMBER = re.compile(
    "no|nos|nr|fig|figs|pp|vol|art|abb|abs|bd|tel|ca|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|okt|nov|dec|dez",
    re.IGNORECASE,
)
"""Abbreviations only where a number follows."""
BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Piece:
    """Some of a text: as it was written, and what of it is to be translated; nothing: it stays."""

    text: str
    sentence: str | None = None


class Document:
    """Pieces that make up a text, and how a translation is written into it."""

    def __init__(self, pieces: Sequence[Piece], write: Callable[[str], str]) -> None:
        self.pieces, self._write = tuple(pieces), write

    @property
    def sentences(self) -> list[str]:
        """What is to be translated."""
        return [piece.sentence for piece in self.pieces if piece.sentence is not None]

    def joined(self, translations: Sequence[str]) -> str:
        """The text with its sentences translated; one that is its own translation stays as it was written.

        Where sentences follow each other without a space, as they do in Chinese, their translations get one, unless
        they end as those do.
        """
        return "".join(self.parts(translations))

    def parts(self, translations: Iterable[str]) -> Iterator[str]:
        """The same, piece by piece: as many as `pieces`; each translation is asked for when it is needed."""
        left, close = iter(translations), False
        for piece in self.pieces:
            if piece.sentence is None:
                yield piece.text
                close = False
                continue
            translation = next(left)
            same = translation == piece.sentence
            yield (" " if close else "") + (piece.text if same else self._write(translation))
            close = not same and not translation.rstrip(CLOSING).endswith(tuple(FULL_WIDTH))

    def growing(self, stream: Callable[[str], Iterator[str]]) -> Iterator[str]:
        """The same from translations that come in pieces, which are given on as they come."""
        close = False
        for piece in self.pieces:
            if piece.sentence is None:
                yield piece.text
                close = False
                continue
            translation = ""
            for part in stream(piece.sentence):
                yield (" " if close and not translation else "") + self._write(part)
                translation += part
            close = not translation.rstrip(CLOSING).endswith(tuple(FULL_WIDTH))


def plain(text: str) -> Document:
    """A text as it is, line by line."""
    spans = [span for line in LINE.finditer(text) for span in sentence_spans(text, *line.span())]
    return Document(cut(text, spans), str)


def whole(text: str) -> Document:
    """A text that is one sentence, whatever stands in it."""
    return Document([Piece(text, text)], str)


def cut(text: str, spans: Sequence[tuple[int, int]]) -> list[Piece]:
    """A text's sentences, and what stands between them."""
    pieces, end = [], 0
    for start, stop in spans:
        if end < start:
            pieces.append(Piece(text[end:start]))
        pieces.append(Piece(text[start:stop], text[start:stop]))
        end = stop
    return [*pieces, Piece(text[end:])] if end < len(text) else pieces


def sentence_spans(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where the sentences of a part of a text begin and end, white space around them left out."""
    for mark in END.finditer(text, start, stop):
        if ends_sentence(text, start, mark, stop):
            yield from _stripped(text, start, mark.end())
            start = mark.end()
    yield from _stripped(text, start, stop)


def ends_sentence(text: str, start: int, mark: re.Match[str], stop: int) -> bool:
    """Whether punctuation is the end of the sentence that begins at `start`."""
    if mark[0][0] in FULL_WIDTH:
        return True
    first = START.match(text, mark.end(), stop)
    assert first is not None, "it matches nothing, too"
    following = text[first.end() : first.end() + 1]
    if following.islower():
        return False
    if mark[0].rstrip(CLOSING) != ".":
        return True
    words = text[max(start, mark.start() - LONGEST_WORD) : mark.start()].split()
    word = words[-1].lstrip("\"'“‘„‚«‹»›([{") if words else ""
    if BEFORE_NUMBER.fullmatch(word):
        return not following.isdecimal()
    return not (ABBREVIATION.fullmatch(word) or INITIALS.fullmatch(word))


def has_letters(text: str) -> bool:
    """Whether there is anything in it for a translator."""
    return any(map(str.isalpha, text))


async def translate_documents(
    service: Service, models: Sequence[Model], documents: Sequence[Document], *, alternatives: int = 0, deadline: float
) -> list[list[str]]:
    """Documents, each by its model: its translation, and after it as many others at most; equal ones are told once."""
    found: dict[int, list[str]] = {}
    for model in dict.fromkeys(models):
        own = [number for number, each in enumerate(models) if each is model]
        parts = [documents[number] for number in own]
        found |= zip(own, await _by_one(service, model, parts, alternatives, deadline), strict=True)
    return [found[number] for number in range(len(documents))]


async def _by_one(
    service: Service, model: Model, documents: Sequence[Document], alternatives: int, deadline: float
) -> list[list[str]]:
    count = 1 + alternatives
    options = Options(beam=max(count, model.translator.search.beam), n_best=count) if alternatives else Options()
    sentences = [sentence for document in documents for sentence in document.sentences]
    found = iter(await service.translate(model, sentences, options, deadline=deadline))
    return [_ranked(document, [next(found) for _ in document.sentences], count) for document in documents]


def _ranked(document: Document, translations: Sequence[Translated], count: int) -> list[str]:
    """A document's translations, the best first: the n-th is made of the n-th of all its sentences."""
    ranked = []
    for each in translations:
        if each.error is not None:
            raise Unusable(each.error)
        ranked.append([each.text, *(other.text for other in each.alternatives[1:count])])
    most = max(map(len, ranked), default=1)
    return list(
        dict.fromkeys(document.joined([texts[min(n, len(texts) - 1)] for texts in ranked]) for n in range(most))
    )


def _stripped(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The same without white space at its ends; nothing, if it has no letter."""
    part = text[start:stop]
    if has_letters(part):
        start += len(part) - len(part.lstrip().lstrip(BYTE_ORDER_MARK).lstrip())
        yield start, start + len(text[start:stop].rstrip())
