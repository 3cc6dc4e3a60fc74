"""Bracketing recall, precision and F1, and what else EVALB tells of sentences and their trees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from transduce.evaluate.evalb_parameters import Parameters

BUCKETS = ((10, "1-10"), (20, "11-20"), (40, "21-40"))
"""Of sentence lengths: the longest in it, and its name."""
LONGER = "41-"


class Status(IntEnum):
    """What became of a sentence, in EVALB's numbers; only valid ones are summed."""

    VALID = 0
    ERROR = 1
    """The words are not those of the gold tree, or the line cannot be read."""
    SKIP = 2
    """The line has no words that count: a sentence without a parse."""


@dataclass(frozen=True)
class Sentence:
    """The counts of one line."""

    line: int
    """From 1."""
    length: int
    """Words of the gold tree, punctuation too."""
    status: Status
    words: int
    """Of the gold tree that count."""
    matched: int = 0
    gold: int = 0
    test: int = 0
    crossing: int = 0
    """Brackets of the test tree that cross one of the gold tree."""
    tags: int = 0
    """Words with the right tag."""
    problem: str = ""
    """Of an error: what is wrong."""

    @property
    def exact(self) -> bool:
        """Whether all brackets are right and none is missing."""
        return self.matched == self.gold == self.test


@dataclass(frozen=True)
class BracketScore:
    """Sentences and what follows from their counts; shares are in per cent, and 0 where there is nothing to share.

    As in EVALB, errors and skipped sentences count for nothing: a parser that gives up on hard sentences looks
    better than it is, so `errors` and `skipped` belong beside F1.
    """

    sentences: tuple[Sentence, ...]
    parameters: Parameters

    @property
    def valid(self) -> tuple[Sentence, ...]:
        """The sentences that are summed."""
        return tuple(sentence for sentence in self.sentences if sentence.status == Status.VALID)

    @property
    def errors(self) -> int:
        """Sentences whose words are not those of the gold tree."""
        return sum(sentence.status == Status.ERROR for sentence in self.sentences)

    @property
    def skipped(self) -> int:
        """Sentences without a parse."""
        return sum(sentence.status == Status.SKIP for sentence in self.sentences)

    @property
    def matched(self) -> int:
        """Brackets that gold and test have in common."""
        return sum(sentence.matched for sentence in self.valid)

    @property
    def gold(self) -> int:
        """Brackets of the gold trees."""
        return sum(sentence.gold for sentence in self.valid)

    @property
    def test(self) -> int:
        """Brackets of the test trees."""
        return sum(sentence.test for sentence in self.valid)

    @property
    def words(self) -> int:
        """That count."""
        return sum(sentence.words for sentence in self.valid)

    @property
    def tags(self) -> int:
        """That are right."""
        return sum(sentence.tags for sentence in self.valid)

    @property
    def recall(self) -> float:
        """Which share of the gold brackets was found."""
        return share(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """Which share of the test brackets is right."""
        return share(self.matched, self.test)

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision."""
        return share(2 * self.matched, self.gold + self.test)

    @property
    def exact_match(self) -> float:
        """Which share of the sentences has all brackets right: EVALB's "complete match"."""
        return share(sum(sentence.exact for sentence in self.valid), len(self.valid))

    @property
    def average_crossing(self) -> float:
        """Crossing brackets per sentence: a number, not a share."""
        return sum(sentence.crossing for sentence in self.valid) / len(self.valid) if self.valid else 0.0

    @property
    def no_crossing(self) -> float:
        """Which share of the sentences has no crossing bracket."""
        return self.at_most_crossing(0)

    def at_most_crossing(self, brackets: int) -> float:
        """Which share of the sentences has no more crossing brackets than this."""
        return share(sum(sentence.crossing <= brackets for sentence in self.valid), len(self.valid))

    @property
    def tagging_accuracy(self) -> float:
        """Which share of the words that count has the right tag."""
        return share(self.tags, self.words)

    def up_to(self, length: int) -> BracketScore:
        """Of sentences of at most this length."""
        return replace(self, sentences=tuple(s for s in self.sentences if s.length <= length))

    def by_length(self) -> dict[str, BracketScore]:
        """The same for each bucket of sentence lengths."""
        buckets: dict[str, list[Sentence]] = {name: [] for _, name in (*BUCKETS, (0, LONGER))}
        for sentence in self.sentences:
            name = next((name for longest, name in BUCKETS if sentence.length <= longest), LONGER)
            buckets[name].append(sentence)
        return {name: replace(self, sentences=tuple(some)) for name, some in buckets.items()}

    def __str__(self) -> str:
        made = f"recall {self.recall:.2f}, precision {self.precision:.2f}, exact match {self.exact_match:.2f}"
        counted = f"{len(self.sentences):,} sentences, {self.errors:,} errors, {self.skipped:,} skipped"
        return f"F1 {self.f1:.2f} ({made}; {counted}; EVALB, {self.parameters.name})"


def share(part: int, whole: int) -> float:
    """In per cent, in EVALB's order of operations; 0 of nothing."""
    return 100.0 * part / whole if whole else 0.0
