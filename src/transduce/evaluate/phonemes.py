"""Word and phoneme error rates of pronunciations, counted as the literature on CMUdict does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.errors import UserError


@dataclass(frozen=True)
class PronunciationScore:
    """Counts over all words, and the rates that follow, in per cent; 0 is best."""

    words: int
    several: int
    """Words with more than one reference."""
    wrong: int
    """Words whose output equals none of their references."""
    edits: int
    """Phonemes to insert, delete or replace on the way to the nearest references."""
    phonemes: int
    """Of the nearest references."""

    @property
    def wer(self) -> float:
        """Word error rate."""
        return 100 * self.wrong / self.words

    @property
    def per(self) -> float:
        """Phoneme error rate; above 100 where outputs are much too long."""
        return 100 * self.edits / self.phonemes

    def __str__(self) -> str:
        words = f"{self.wrong:,} of {self.words:,} words equal no reference; {self.several:,} words have several"
        return (
            f"WER {self.wer:.2f} ({words})\n"
            f"PER {self.per:.2f} ({self.edits:,} edits, {self.phonemes:,} phonemes of the nearest references)"
        )


def pronunciation_score(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> PronunciationScore:
    """The score of one output a word; references[i] are all pronunciations of word i, phonemes between spaces.

    Only the nearest reference of a word counts: the one with the smallest edit distance, and of equals the first.
    """
    if len(outputs) != len(references):
        raise UserError(f"{len(outputs):,} outputs, but {len(references):,} words: line i must answer word i")
    if not outputs:
        raise UserError("no words to score: give at least one with its pronunciation")
    wrong = edits = phonemes = 0
    for number, (output, pronunciations) in enumerate(zip(outputs, references, strict=True), 1):
        known = [pronunciation.split() for pronunciation in pronunciations]
        if not all(known) or not known:
            raise UserError(f"word {number:,} has no phonemes as reference: give some, or leave the word out")
        found = output.split()
        distance, length = min(
            ((edit_distance(found, each), len(each)) for each in known), key=lambda measured: measured[0]
        )
        wrong += distance > 0
        edits += distance
        phonemes += length
    several = sum(len(pronunciations) > 1 for pronunciations in references)
    return PronunciationScore(len(outputs), several, wrong, edits, phonemes)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """How many insertions, deletions and replacements lead from one to the other, at the least (Levenshtein)."""
    row = list(range(len(other) + 1))  # from nothing to each beginning of the other
    for place, symbol in enumerate(one, 1):
        diagonal, row[0] = row[0], place
        for column, against in enumerate(other, 1):
            replaced = diagonal + (symbol != against)
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, replaced)
    return row[-1]


def pronunciations(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """All pronunciations of each word, in the order in which the words first come."""
    found: dict[str, list[str]] = {}
    for word, phonemes in pairs:
        found.setdefault(word, []).append(phonemes)
    return found
