"""How far one gets in the phrasebook without attention, and how to score its pronouns.

A pronoun counts as right when the output's forms of er, sie, es and ihn are exactly the reference's, whatever their
places: every phrase with a `pronoun` has one such form. A second form, a missing one or a wrong one is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from transduce.data import german
from transduce.data.german import Case
from transduce.data.lexicon import GENDERS
from transduce.data.nouns import NOUNS
from transduce.data.phrasebook import Phrase, Pronoun
from transduce.errors import UserError

_CASES: tuple[Case, ...] = ("nom", "acc")
_FORMS = frozenset(german.it(case, gender) for case in _CASES for gender in GENDERS)
_MARKS = ".,?"
_GENDERS = {noun.english.split()[-1]: noun.gender for noun in NOUNS}
"""Gender by the last word of the English noun, at which a `Pronoun` points."""


def pronoun_accuracy(phrases: Sequence[Phrase], translations: Sequence[str]) -> float:
    """The share of phrases with a pronoun whose translation has exactly the reference's pronoun form."""
    if len(phrases) != len(translations):
        raise UserError(f"pronoun accuracy: {len(phrases)} phrases but {len(translations)} translations")
    right = [
        _pronouns(translation) == _pronouns(phrase.target)
        for phrase, translation in zip(phrases, translations, strict=True)
        if phrase.pronoun
    ]
    return _share(right)


def nearest_noun(phrases: Sequence[Phrase]) -> float:
    """Pronoun accuracy of taking the gender of the candidate noun that comes last before "it"."""
    return _share([_fits(phrase, max(it.antecedent, it.distractor)) for phrase, it in _referring(phrases)])


def first_noun(phrases: Sequence[Phrase]) -> float:
    """Pronoun accuracy of taking the gender of the candidate noun that comes first."""
    return _share([_fits(phrase, min(it.antecedent, it.distractor)) for phrase, it in _referring(phrases)])


def majority_gender(phrases: Sequence[Phrase]) -> float:
    """Pronoun accuracy of always taking the gender that suits most of these very phrases."""
    genders = [_GENDERS[_word(phrase.source, pronoun.antecedent)] for phrase, pronoun in _referring(phrases)]
    return max(_share([found == gender for found in genders]) for gender in GENDERS)


def word_by_word(phrases: Iterable[Phrase]) -> Callable[[str], str]:
    """A dictionary translator: for each English word, the German word that it is aligned with most often."""
    counts: dict[str, Counter[str]] = {}
    for phrase in phrases:
        source, target = phrase.source.split(" "), phrase.target.split(" ")
        for here, there in phrase.alignment:
            german_word = target[there].strip(_MARKS)
            counts.setdefault(source[here].strip(_MARKS).lower(), Counter())[german_word] += 1
    best = {word: max(sorted(found), key=found.__getitem__) for word, found in counts.items()}

    def translate(text: str) -> str:
        """Each word's most frequent translation, with the word's punctuation."""
        words: list[str] = []
        for word in text.split(" "):
            bare = word.strip(_MARKS)
            words.append(best.get(bare.lower(), bare) + word[len(bare) :])
        line = " ".join(words)
        return line[:1].upper() + line[1:]

    return translate


def _referring(phrases: Sequence[Phrase]) -> list[tuple[Phrase, Pronoun]]:
    return [(phrase, phrase.pronoun) for phrase in phrases if phrase.pronoun]


def _fits(phrase: Phrase, noun: int) -> bool:
    """Whether the gender of the noun at this index gives the reference's form."""
    assert phrase.pronoun
    return _GENDERS[_word(phrase.source, noun)] == _GENDERS[_word(phrase.source, phrase.pronoun.antecedent)]


def _word(text: str, index: int) -> str:
    return text.split(" ")[index].strip(_MARKS).lower()


def _pronouns(text: str) -> Counter[str]:
    words = (word.strip(_MARKS).lower() for word in text.split())
    return Counter(word for word in words if word in _FORMS)


def _share(right: Sequence[bool]) -> float:
    if not right:
        raise UserError("pronoun accuracy: none of the phrases has a pronoun; draw more of them")
    return sum(right) / len(right)
