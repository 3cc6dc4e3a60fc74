"""Bracketing scores of constituency trees, counted as EVALB does (Sekine and Collins 1997).

Lines are read here and not by `text.trees`, as EVALB reads otherwise: a line may hold several trees or none, brackets
may be empty, labels stay as they are until they are compared, and only ASCII white space separates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from transduce.errors import CorpusError, UserError
from transduce.evaluate.bracket_score import BracketScore, Sentence, Status
from transduce.evaluate.evalb_parameters import COLLINS, Parameters

_MARK = re.compile(r"\((?P<label>[^\s()]*)(?:\s+(?P<word>[^\s()]*)\))?|(?P<close>\))|(?P<stray>\S)", re.ASCII)
_QUOTES = frozenset("'\"/")

Bracket = tuple[str, int, int]
"""Label, first word, and the word after the last."""


def evalb(gold: Sequence[str], test: Sequence[str], parameters: Parameters = COLLINS) -> BracketScore:
    """The score of bracketed lines; line i of `test` answers line i of `gold`, an empty one stands for no parse.

    Where EVALB would stop or read what is not there, a gold line is refused and a test line is an error.
    """
    if len(gold) != len(test):
        raise UserError(
            f"{len(gold):,} gold trees, but {len(test):,} test trees: line i must answer line i;"
            " leave a line empty for a sentence without a parse"
        )
    if not gold:
        raise UserError("no trees to score: both files are empty")
    sentences: list[Sentence] = []
    errors: list[Sentence] = []
    for line, (right, found) in enumerate(zip(gold, test, strict=True), start=1):
        sentences.append(_sentence(line, right, found, parameters))
        if sentences[-1].status == Status.ERROR:
            errors.append(sentences[-1])
        if len(errors) > parameters.max_error + 1:
            first = errors[0]
            raise UserError(
                f"{len(errors)} test lines do not fit the gold trees, the first in line {first.line}:"
                f" {first.problem}: mend them, or set MAX_ERROR higher than {parameters.max_error}"
            )
    return BracketScore(tuple(sentences), parameters)


@dataclass
class _Side:
    """A line: every word as (tag, word), which of them count, and brackets over all words as they open."""

    leaves: list[tuple[str, str]]
    kept: list[bool]
    brackets: list[Bracket]

    @classmethod
    def read(cls, line: str, parameters: Parameters) -> _Side:
        """ValueError says what keeps the line from being read."""
        leaves: list[tuple[str, str]] = []
        brackets: list[Bracket] = []
        opened: list[int] = []
        for match in _MARK.finditer(line):
            label, word = match["label"], match["word"]
            if match["stray"]:
                raise ValueError(f"column {match.start() + 1}: text that is no (TAG word)")
            if word is not None:
                leaves.append((label, word))
            elif label is not None:
                opened.append(len(brackets))
                brackets.append((label, len(leaves), -1))
            elif opened:
                label, start, _ = brackets[opened[-1]]
                brackets[opened.pop()] = (label, start, len(leaves))
            else:
                raise ValueError(f"column {match.start() + 1}: ')' closes nothing")
        if opened:
            raise ValueError(f"{len(opened)} brackets are not closed")
        return cls(leaves, [tag not in parameters.delete_labels for tag, _ in leaves], brackets)

    def counted(self) -> list[tuple[str, str]]:
        """The words that count."""
        return [leaf for leaf, kept in zip(self.leaves, self.kept, strict=True) if kept]

    def constituents(self, parameters: Parameters) -> list[Bracket]:
        """Brackets over the words that count: cut labels, neither empty nor deleted."""
        before = [0, *accumulate(self.kept)]
        spans = [(re.split("[-=]", label)[0], before[start], before[end]) for label, start, end in self.brackets]
        return [span for span in spans if span[1] < span[2] and not parameters.deletes(span[0])]

    def quotes(self, labels: frozenset[str]) -> list[int]:
        """Words that are tagged as a quotation mark in one tree and as something else in another."""
        return [place for place, (tag, word) in enumerate(self.leaves) if tag in labels and word in _QUOTES]


def _sentence(line: int, right: str, found: str, parameters: Parameters) -> Sentence:
    try:
        gold = _Side.read(right, parameters)
    except ValueError as error:
        raise CorpusError(f"gold trees, line {line}: {error}: mend it") from None
    if not gold.leaves:
        raise CorpusError(f"gold trees, line {line}: no word: give one tree a line")
    length = sum(tag not in parameters.delete_labels_for_length for tag, _ in gold.leaves)
    words = len(gold.counted())
    try:
        test = _Side.read(found, parameters)
    except ValueError as error:
        return Sentence(line, length, Status.ERROR, words, problem=str(error))
    if not test.counted():
        return Sentence(line, length, Status.SKIP, words)
    _mend_quotes(gold, test, parameters)
    pairs = list(zip(gold.counted(), test.counted(), strict=False))
    if len(gold.counted()) != len(test.counted()):
        problem = f"{len(test.counted())} words, but {words} in the gold tree"
        return Sentence(line, length, Status.ERROR, words, problem=problem)
    for (_, word), (_, other) in pairs:
        if not parameters.same_word(word, other):
            problem = f"the word {other!r}, but {word!r} in the gold tree"
            return Sentence(line, length, Status.ERROR, words, problem=problem)
    tags = sum(parameters.same_label(tag, other) for (tag, _), (other, _) in pairs)
    ours, theirs = gold.constituents(parameters), test.constituents(parameters)
    return Sentence(
        line=line,
        length=length,
        status=Status.VALID,
        words=len(pairs),
        matched=_matched(ours, theirs, parameters),
        gold=len(ours),
        test=len(theirs),
        crossing=_crossing(ours, theirs),
        tags=tags,
    )


def _mend_quotes(gold: _Side, test: _Side, parameters: Parameters) -> None:
    """Where the numbers of words differ: put back a quotation mark that a tag leaves out on one side only."""
    if sum(gold.kept) == sum(test.kept):
        return
    for place in test.quotes(parameters.quote_labels):
        for other in gold.quotes(parameters.quote_labels):
            if test.kept[place] != gold.kept[other] and sum(test.kept[:place]) == sum(gold.kept[:other]):
                test.kept[place] = gold.kept[other] = True


def _matched(gold: Sequence[Bracket], test: Sequence[Bracket], parameters: Parameters) -> int:
    """Each gold bracket takes the first test bracket that is left over the same words with the same label."""
    left: dict[tuple[int, int], list[str]] = {}
    for label, start, end in test:
        left.setdefault((start, end), []).append(label)
    matched = 0
    for label, start, end in gold:
        labels = left.get((start, end), [])
        for place, other in enumerate(labels):
            if not parameters.labeled or parameters.same_label(label, other):
                del labels[place]
                matched += 1
                break
    return matched


def _crossing(gold: Sequence[Bracket], test: Sequence[Bracket]) -> int:
    """Test brackets that share words with a gold bracket when neither holds the other."""
    spans = {(start, end) for _, start, end in gold}
    return sum(any(a < start < b < end or start < a < end < b for a, b in spans) for _, start, end in test)
