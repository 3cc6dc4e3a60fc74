"""What fills a subject or an object: noun phrases and pronouns, in English and in German at once.

A word of either language carries a link, a number; words that translate each other share it: the alignment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from transduce.data import german
from transduce.data.german import Agreement, Case, Slot
from transduce.data.lexicon import Adjective, Noun

if TYPE_CHECKING:
    from transduce.data.clauses import Clause

Token = tuple[str, int]
"""A word and its link."""


class Determiner(NamedTuple):
    """The English word (another before plurals), the German one, and whether it points at known things.

    The definite ones come early in a German clause ("heute jede Jacke", but "die Jacke heute").
    """

    english: str
    english_plural: str
    german: str
    definite: bool


THE = Determiner("the", "the", "der", True)
THIS = Determiner("this", "these", "dies", True)
EVERY = Determiner("every", "every", "jed", False)
A = Determiner("a", "", "ein", False)
TWO = Determiner("two", "two", "zwei", False)
THREE = Determiner("three", "three", "drei", False)
MANY = Determiner("many", "many", "viele", False)
MY = Determiner("my", "my", "mein", True)
OUR = Determiner("our", "our", "unser", True)
HIS = Determiner("his", "his", "sein", True)
HER = Determiner("her", "her", "ihr", True)
THEIR = Determiner("their", "their", "ihr", True)
ITS = {
    "m": Determiner("its", "its", "sein", True),
    "f": Determiner("its", "its", "ihr", True),
    "n": Determiner("its", "its", "sein", True),
}


@dataclass(slots=True)
class NounPhrase:
    """Determiner, adjective, noun and perhaps a relative clause; links: +0, +1, +2."""

    noun: Noun
    determiner: Determiner
    link: int
    adjective: Adjective | None = None
    plural: bool = False
    relative: Clause | None = None
    denied: bool = field(default=False)
    """Whether German denies it with kein."""
    personal = False

    @property
    def agreement(self) -> Agreement:
        """How it shapes the verb when it is the subject."""
        return "pl" if self.plural else "3sg"

    @property
    def definite(self) -> bool:
        """Whether it comes early in a German clause and is denied with nicht."""
        return self.determiner.definite

    @property
    def slot(self) -> Slot:
        """Its gender, or the plural."""
        return "pl" if self.plural else self.noun.gender

    def english(self, case: Case) -> list[Token]:
        """The English words; their form is the same in every case."""
        words: list[Token] = []
        if self.adjective:
            words.append((self.adjective.english, self.link + 1))
        name = self.noun.english_plural if self.plural else self.noun.english
        words.extend((word, self.link + 2) for word in name.split(" "))
        article = self.determiner.english_plural if self.plural else self.determiner.english
        if article == "a" and words[0][0][0] in "aeiou" and words[0][0] != "uniform":
            article = "an"
        return [(article, self.link), *words] if article else words

    def german(self, case: Case) -> list[Token]:
        """The German words in this case; without the relative clause, which may have to wait for the verb."""
        slot = self.slot
        article = self.determiner.german
        if article == "ein":
            article = "kein" if self.denied else ("" if self.plural else "ein")
        words: list[Token] = []
        if article:
            words.append((german.determiner(article, case, slot), self.link))
        if self.adjective:
            words.append((german.adjective(self.adjective, article, case, slot), self.link + 1))
        words.append((german.noun(self.noun, case, plural=self.plural), self.link + 2))
        return words


@dataclass(slots=True)
class PronounPhrase:
    """One word that stands for a noun: personal or relative."""

    nominative: str
    objective: str
    german_forms: dict[Case, str]
    agreement: Agreement
    link: int
    personal: bool
    relative: Clause | None = None
    definite = True
    denied = False

    def english(self, case: Case) -> list[Token]:
        """The English word."""
        return [(self.nominative if case == "nom" else self.objective, self.link)]

    def german(self, case: Case) -> list[Token]:
        """The German word."""
        return [(self.german_forms[case], self.link)]


Nominal = NounPhrase | PronounPhrase

_SPEAKERS: dict[str, tuple[dict[Case, str], Agreement]] = {
    "I": ({"nom": "ich", "acc": "mich", "dat": "mir"}, "1sg"),
    "we": ({"nom": "wir", "acc": "uns", "dat": "uns"}, "pl"),
    "he": ({"nom": "er", "acc": "ihn", "dat": "ihm"}, "3sg"),
    "she": ({"nom": "sie", "acc": "sie", "dat": "ihr"}, "3sg"),
}
_ME = {"I": "me", "we": "us", "he": "him", "she": "her"}


def speaker(word: str, link: int) -> PronounPhrase:
    """ "I", "we", "he" or "she"."""
    forms, agreement = _SPEAKERS[word]
    return PronounPhrase(word, _ME[word], forms, agreement, link, personal=True)


def it(antecedent: NounPhrase, link: int) -> PronounPhrase:
    """ "it": in German the pronoun of the antecedent's gender."""
    forms: dict[Case, str] = {case: german.it(case, antecedent.slot) for case in ("nom", "acc", "dat")}
    return PronounPhrase("it", "it", forms, "3sg", link, personal=True)


def relative(antecedent: NounPhrase, link: int) -> PronounPhrase:
    """ "who", "whom" or "that": in German the article-like pronoun of the antecedent's gender."""
    forms: dict[Case, str] = {case: german.relative(case, antecedent.slot) for case in ("nom", "acc", "dat")}
    person = "person" in antecedent.noun.classes
    words = ("who", "whom") if person else ("that", "that")
    return PronounPhrase(*words, forms, antecedent.agreement, link, personal=False)
