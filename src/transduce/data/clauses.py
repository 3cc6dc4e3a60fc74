"""A clause said in both languages: each puts the verb and its companions where it wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from transduce.data import german
from transduce.data.german import Agreement, Tense
from transduce.data.lexicon import Adjective, Noun, Verb
from transduce.data.nominals import THE, Nominal, NounPhrase, Token


class Modal(NamedTuple):
    """A modal verb; `past` says which tenses it goes with, `deniable` whether it is ever denied here."""

    english: str
    german: str
    german_plural: str
    past: bool
    deniable: bool


MODALS = (
    Modal("can", "kann", "können", past=False, deniable=True),
    Modal("must", "muss", "müssen", past=False, deniable=False),
    Modal("should", "sollte", "sollten", past=False, deniable=True),
    Modal("want to", "will", "wollen", past=False, deniable=True),
    Modal("could", "konnte", "konnten", past=True, deniable=True),
    Modal("had to", "musste", "mussten", past=True, deniable=False),
)


def is_past(tense: Tense | Modal) -> bool:
    """Whether a tense tells of the past, so that another clause has to agree."""
    return tense.past if isinstance(tense, Modal) else tense == "past"


class Quality(NamedTuple):
    """What a subject is, or what an object is made: old, older, older than ..., as old as ..."""

    adjective: Adjective
    degree: Literal["positive", "comparative", "equal"]
    standard: Nominal | None


class Adverbial(NamedTuple):
    """A fixed expression; each word carries its link relative to the expression's."""

    english: tuple[Token, ...]
    german: tuple[Token, ...]


class Place(NamedTuple):
    """A preposition and its noun: "in the garden", "im Garten"."""

    english: str
    german: str
    noun: Noun


@dataclass(slots=True)
class Clause:
    """A subject and what is said of it; links: verb, +1 helper, +2 not, +3 quality, +10 time, +20 place."""

    subject: Nominal
    verb: Verb
    tense: Tense | Modal
    link: int
    object: Nominal | None = None
    recipient: Nominal | None = None
    quality: Quality | None = None
    time: Adverbial | None = None
    time_first: bool = False
    place: Place | None = None
    negated: bool = False
    gap: bool = False
    """Whether the object is a relative pronoun, which opens the clause."""

    def deny(self) -> None:
        """Negate: with kein if there is an indefinite object, else with nicht."""
        self.negated = True
        if isinstance(self.object, NounPhrase) and not self.object.definite:
            if self.object.plural and self._hides_not:
                self.object.determiner = THE  # "cannot see dogs" has no word that kein alone translates
            else:
                self.object.denied = True

    @property
    def _hides_not(self) -> bool:
        """Whether English writes "cannot"."""
        return isinstance(self.tense, Modal) and self.tense.english == "can"

    @property
    def negation_link(self) -> int:
        """The link of "not": that of kein's article if kein denies, that of "cannot" if it hides there."""
        if self.object and self.object.denied:
            return self.object.link
        if self._hides_not:
            return self.link + 1
        return self.link + 2


def comma(words: list[Token]) -> list[Token]:
    """The words with a comma behind the last, once."""
    text, link = words[-1]
    return words if text.endswith(",") else [*words[:-1], (text + ",", link)]


def sentence(words: list[Token], mark: str) -> list[Token]:
    """The words with a capital at the start and a mark at the end, where a relative clause leaves a comma."""
    words = capitalised(words)
    text, link = words[-1]
    return [*words[:-1], (text.rstrip(",") + mark, link)]


def capitalised(words: list[Token]) -> list[Token]:
    """The words with a capital at the start."""
    text, link = words[0]
    return [(text[0].upper() + text[1:], link), *words[1:]]


def english(clause: Clause, *, question: bool = False) -> list[Token]:
    """The clause in English."""
    helpers, verbs = _english_verb(clause, question=question)
    if clause.negated:
        hidden = helpers[-1][0] == "can"
        helpers = [("cannot", clause.link + 1)] if hidden else [*helpers, ("not", clause.negation_link)]
    subject = _with_relative(clause.subject)
    words = [*helpers, *subject, *verbs] if question else [*subject, *helpers, *verbs]
    particle: list[Token] = [(word, clause.link) for word in clause.verb.particle.split()]
    early = clause.object is not None and clause.object.personal
    if not early:
        words += particle
    if clause.object and not clause.gap:
        words += _with_relative(clause.object, subject=False)
    if early:
        words += particle
    if clause.recipient:
        words += [("to", clause.recipient.link), *clause.recipient.english("dat")]
    if clause.quality:
        words += _english_quality(clause.quality, clause.link)
    if clause.place:
        place, link = clause.place, clause.link + 20
        link_of_article = link if len(_german_place(place, link)) == 2 else link + 1
        words += [(word, link) for word in place.english.split()]
        words += [("the", link_of_article), (place.noun.english, link + 2)]
    time = _shift(clause.time.english, clause.link + 10) if clause.time else []
    if clause.gap:
        assert clause.object
        words = [*clause.object.english("acc"), *words]
    return [*time, *words] if clause.time_first else [*words, *time]


def german_main(clause: Clause, front: list[Token] | None = None) -> list[Token]:
    """The clause in German with the verb second: behind `front`, a fronted time, or the subject."""
    finite, bracket, _ = _german_verb(clause)
    if front is None and clause.time_first and clause.time:
        front = _shift(clause.time.german, clause.link + 10)
    subject = _german_subject(clause)
    opening = [*subject, finite] if front is None else [*front, finite, *subject]
    return _closed(clause, [*opening, *_middle(clause), *bracket])


def german_question(clause: Clause, opening: list[Token]) -> list[Token]:
    """The clause in German as a question: the verb first, or behind a question word."""
    finite, bracket, _ = _german_verb(clause)
    return _closed(clause, [*opening, finite, *_german_subject(clause), *_middle(clause), *bracket])


def german_final(clause: Clause) -> list[Token]:
    """The clause in German with the verb last, as conjunctions and relative pronouns ask for."""
    _, _, ending = _german_verb(clause)
    opening = _german_subject(clause)
    if clause.gap:
        assert clause.object
        opening = [*clause.object.german(clause.verb.case), *opening]
    return _closed(clause, [*opening, *_middle(clause), *ending])


def _english_verb(clause: Clause, *, question: bool) -> tuple[list[Token], list[Token]]:
    """What comes before "not" or a question's subject, and what comes behind."""
    verb, tense, link = clause.verb, clause.tense, clause.link
    agreement = clause.subject.agreement
    third = agreement == "3sg"
    supported = question or clause.negated
    if isinstance(tense, Modal):
        if tense.english == "want to":
            head = "wants" if third and not supported else "want"
            helpers: list[Token] = [("does" if third else "do", link + 1)] if supported else []
            return helpers, [(head, link + 1), ("to", link + 1), (verb.english, link)]
        return [(word, link + 1) for word in tense.english.split()], [(verb.english, link)]
    if tense == "perfect":
        return [("has" if third else "have", link + 1)], [(verb.participle, link)]
    if verb.english == "be":
        forms = {"present": ("am", "is", "are"), "past": ("was", "was", "were")}[tense]
        agreements: tuple[Agreement, ...] = ("1sg", "3sg", "pl")
        return [(forms[agreements.index(agreement)], link)], []
    if supported:
        return [("did" if tense == "past" else "does" if third else "do", link)], [(verb.english, link)]
    return [], [(verb.past if tense == "past" else verb.third if third else verb.english, link)]


def _german_verb(clause: Clause) -> tuple[Token, list[Token], list[Token]]:
    """The finite verb, what closes a main clause, and what closes a subordinate one."""
    verb, tense, link = clause.verb, clause.tense, clause.link
    agreement = clause.subject.agreement
    if isinstance(tense, Modal):
        finite = (tense.german_plural if agreement == "pl" else tense.german, link + 1)
        bracket = [(verb.prefix + verb.infinitive, link)]
        return finite, bracket, [*bracket, finite]
    if tense == "perfect":
        finite = (german.auxiliary(verb, agreement), link + 1)
        bracket = [(verb.german_participle, link)]
        return finite, bracket, [*bracket, finite]
    form = german.past(verb, agreement) if tense == "past" else german.present(verb, agreement)
    prefix: list[Token] = [(verb.prefix, link)] if verb.prefix else []
    return (form, link), prefix, [(verb.prefix + form, link)]


def _middle(clause: Clause) -> list[Token]:
    """German between the verb's two places: known things, time, place, new things, nicht, quality."""
    words: list[Token] = []
    thing = None if clause.gap else clause.object
    if clause.recipient:
        words += clause.recipient.german("dat")
    if thing and thing.definite:
        words += thing.german(clause.verb.case)
    if clause.time and not clause.time_first:
        words += _shift(clause.time.german, clause.link + 10)
    if clause.place:
        words += _german_place(clause.place, clause.link + 20)
    if thing and not thing.definite:
        words += thing.german(clause.verb.case)
    if clause.negated and not (clause.object and clause.object.denied):
        words.append(("nicht", clause.negation_link))
    if clause.quality:
        words += _german_quality(clause.quality, clause.link)
    return words


def _closed(clause: Clause, words: list[Token]) -> list[Token]:
    """The clause with what German moves behind the last verb: "als ..." and the object's relative clause."""
    if clause.quality and clause.quality.standard:
        than = "als" if clause.quality.degree == "comparative" else "wie"
        words = [*words, (than, clause.link + 6), *clause.quality.standard.german("nom")]
    if clause.object and clause.object.relative:
        words = [*comma(words), *german_final(clause.object.relative)]
    return words


def _with_relative(nominal: Nominal, *, subject: bool = True) -> list[Token]:
    words = nominal.english("nom" if subject else "acc")
    return [*words, *english(nominal.relative)] if nominal.relative else words


def _german_subject(clause: Clause) -> list[Token]:
    words = clause.subject.german("nom")
    if clause.subject.relative:
        words = [*comma(words), *comma(german_final(clause.subject.relative))]
    return words


def _english_quality(quality: Quality, link: int) -> list[Token]:
    adjective, degree, standard = quality
    if degree == "positive":
        return [(adjective.english, link + 3)]
    if degree == "equal":
        words = [("as", link + 4), (adjective.english, link + 3), ("as", link + 6)]
    else:
        words = [(word, link + 3) for word in adjective.comparative.split()]
        words += [("than", link + 6)] if standard else []
    return [*words, *standard.english("nom")] if standard else words


def _german_quality(quality: Quality, link: int) -> list[Token]:
    adjective, degree, _ = quality
    if degree == "comparative":
        return [(adjective.german_comparative, link + 3)]
    word = (adjective.german, link + 3)
    return [("so", link + 4), word] if degree == "equal" else [word]


def _german_place(place: Place, link: int) -> list[Token]:
    article = german.determiner("der", "dat", place.noun.gender)
    words = german.contract(place.german, article)
    name = german.noun(place.noun, "dat", plural=False)
    return [*((word, link + i) for i, word in enumerate(words)), (name, link + 2)]


def _shift(words: tuple[Token, ...], link: int) -> list[Token]:
    return [(text, link + local) for text, local in words]
