""" "It" after two nouns of different genders, of which only one makes sense: German follows its gender.

Role and gender of the antecedent are drawn evenly, and the other noun never shares the gender, so that
neither a noun's place nor the verb alone tells the form: one has to find the antecedent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from transduce.data import clauses, nominals
from transduce.data.adjectives import ADJECTIVES
from transduce.data.clauses import Clause, Modal, Quality
from transduce.data.composer import Composer
from transduce.data.german import Tense
from transduce.data.lexicon import GENDERS, PARENTS, THINGS, Adjective, Noun, Verb
from transduce.data.nominals import NounPhrase, PronounPhrase, Token
from transduce.data.nouns import NOUNS
from transduce.data.verbs import BE, DATIVE, INTRANSITIVE, TRANSITIVE

Shape = Literal["sentence", "because", "although", "but", "when", "if", "that"]
_SHAPES: tuple[Shape, ...] = (
    *("sentence",) * 8,
    *("because",) * 4,
    *("when",) * 3,
    *("but",) * 2,
    *("that",) * 2,
    "although",
    "if",
)
_GERMAN = {"because": "weil", "although": "obwohl", "but": "aber", "if": "wenn"}
_THING_FIRST = 0.05
"""Share of phrases in which the thing does something to the animal; the more of them, the longer a model learns."""


class Reference(NamedTuple):
    """The links of a pronoun, of the noun it stands for, and of the noun it does not."""

    pronoun: int
    antecedent: int
    distractor: int


class Sayable(NamedTuple):
    """Something said of "it": it does the verb, has the quality, or someone does the verb to it."""

    how: Literal["does", "is", "suffers"]
    word: Verb | Adjective
    tag: str


class Frame(NamedTuple):
    """A verb, the classes of its subject and object, and what can be said of the one but not of the other."""

    verb: Verb
    subject: str
    object: str
    of_subject: tuple[tuple[Sayable, ...], ...]
    of_object: tuple[tuple[Sayable, ...], ...]


def _candidates() -> Iterator[tuple[Literal["does", "is", "suffers"], Verb | Adjective, frozenset[str]]]:
    for verb in INTRANSITIVE:
        yield "does", verb, verb.subjects
    for adjective in ADJECTIVES:
        yield "is", adjective, adjective.classes
    for verb in TRANSITIVE:
        if "person" in verb.subjects:
            yield "suffers", verb, verb.objects


def _sayable(antecedent: str, distractor: str) -> tuple[tuple[Sayable, ...], ...]:
    """By kind, what can be said of one class and cannot be meant of the other."""
    found: dict[str, list[Sayable]] = {"does": [], "is": [], "suffers": []}
    for how, word, tags in _candidates():
        possible = {PARENTS.get(tag, tag) for tag in tags} | word.vague
        if distractor not in possible:
            found[how] += [Sayable(how, word, tag) for tag in sorted(tags) if PARENTS.get(tag, tag) == antecedent]
    return tuple(tuple(group) for group in found.values() if group)


@cache
def frames() -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    """Every way to mention an animal and a thing of which either can be meant: the animal first, the thing first."""
    animal_first: list[Frame] = []
    thing_first: list[Frame] = []
    for verb in (*TRANSITIVE, *DATIVE):
        for thing in THINGS.split():
            of_animal, of_thing = _sayable("animal", thing), _sayable(thing, "animal")
            if "animal" in verb.subjects and thing in verb.objects:
                animal_first.append(Frame(verb, "animal", thing, of_animal, of_thing))
            if thing in verb.subjects and verb.objects <= {"person", "animal"}:
                thing_first.append(Frame(verb, thing, "animal", of_thing, of_animal))
    return tuple(animal_first), tuple(thing_first)


@cache
def _by_gender(tag: str, gender: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in NOUNS if tag in noun.classes and noun.gender == gender)


def compose(
    composer: Composer, *, wanted: Shape | None = None, comparative: bool = False
) -> tuple[list[Token], list[Token], Reference]:
    """The words of a phrase with "it", in both languages, and what the pronoun stands for."""
    animal_first, thing_first = frames()
    frame = composer.pick(thing_first if composer.chance(_THING_FIRST) else animal_first)
    means_subject = composer.chance(0.5)
    groups = frame.of_subject if means_subject else frame.of_object
    if comparative:
        groups = tuple(group for group in groups if group[0].how == "is") or groups
    shape = composer.pick(_SHAPES) if wanted is None else wanted
    unfit = {"because": "does", "when": "is", "if": "is"}.get(shape)
    groups = tuple(group for group in groups if group[0].how != unfit) or groups
    said = composer.pick(composer.pick(groups))
    gender = composer.pick(GENDERS)
    other_gender = composer.pick([other for other in GENDERS if other != gender])
    antecedent = _mention(composer, composer.pick(_by_gender(said.tag, gender)))
    other_class = frame.object if means_subject else frame.subject
    distractor = _mention(composer, composer.pick(_by_gender(other_class, other_gender)))
    subject, thing = (antecedent, distractor) if means_subject else (distractor, antecedent)

    tense: Tense = composer.pick(("past", "past", "past", "past", "present", "perfect" if shape != "when" else "past"))
    if shape == "if":
        tense = "present"
    first = Clause(subject, frame.verb, tense, composer.link(), object=thing)
    composer.note(first)
    pronoun = nominals.it(antecedent, composer.link())
    later = composer.tense(past=tense != "present")
    if later == "perfect" and shape in ("when", "if"):
        later = "present"
    second = _about(composer, said, pronoun, antecedent, later, comparative=comparative)
    composer.note(second)
    composer.used.add("pronoun")
    source, target = _joined(composer, shape, first, second)
    return source, target, Reference(pronoun.link, antecedent.link + 2, distractor.link + 2)


def _mention(composer: Composer, noun: Noun) -> NounPhrase:
    determiner = composer.pick((*(nominals.THE,) * 7, nominals.A, nominals.A, nominals.THIS))
    return composer.noun_phrase(noun, determiner, plain=composer.chance(0.5))


def _about(
    composer: Composer,
    said: Sayable,
    pronoun: PronounPhrase,
    antecedent: NounPhrase,
    tense: Tense | Modal,
    *,
    comparative: bool,
) -> Clause:
    """The clause with the pronoun in it."""
    link = composer.link()
    if isinstance(said.word, Adjective):
        simple: Tense = "past" if clauses.is_past(tense) else "present"
        if antecedent.adjective is said.word:
            antecedent.adjective = None
        quality = Quality(said.word, "positive", None)
        if comparative or composer.chance(0.15):
            quality = composer.comparison(said.word, said.tag)
        clause = Clause(pronoun, BE, simple, link, quality=quality)
    elif said.how == "does":
        if isinstance(tense, Modal) and antecedent.noun.classes[0] != "animal":
            tense = "past" if tense.past else "present"
        clause = Clause(pronoun, said.word, tense, link)
    else:
        person = composer.person()
        if tense == "present" and not said.word.tells_tenses_apart and person.agreement != "3sg":
            tense = "perfect"
        clause = Clause(person, said.word, tense, link, object=pronoun)
        composer.used.add("object pronoun")
    if composer.chance(0.1) and not (isinstance(clause.tense, Modal) and not clause.tense.deniable):
        clause.deny()
    return clause


def _joined(composer: Composer, shape: Shape, first: Clause, second: Clause) -> tuple[list[Token], list[Token]]:
    """Both clauses as two sentences, or as one in the given way."""
    link = composer.link()
    english, german = clauses.english(first), clauses.german_main(first)
    if shape == "sentence":
        return (
            [*clauses.sentence(english, "."), *clauses.capitalised(clauses.english(second))],
            [*clauses.sentence(german, "."), *clauses.capitalised(clauses.german_main(second))],
        )
    composer.used.add(shape)
    if shape == "that":
        source, target = composer.opinion(past=clauses.is_past(second.tense))
        return (
            [*clauses.sentence(english, "."), *clauses.capitalised(source), *clauses.english(second)],
            [*clauses.sentence(german, "."), *clauses.capitalised(target), *clauses.german_final(second)],
        )
    if shape in ("when", "if"):
        composer.used.add("fronted clause")
        word = _GERMAN.get(shape) or ("als" if clauses.is_past(first.tense) else "wenn")
        front = clauses.comma([(word, link), *clauses.german_final(first)])
        source = [*clauses.comma([(shape, link), *english]), *clauses.english(second)]
        return source, clauses.german_main(second, front)
    if shape == "but":
        source = [*clauses.comma(english), (shape, link), *clauses.english(second)]
        return source, [*clauses.comma(german), (_GERMAN[shape], link), *clauses.german_main(second)]
    if shape == "because":
        composer.used.add("because pronoun")
    source = [*english, (shape, link), *clauses.english(second)]
    return source, [*clauses.comma(german), (_GERMAN[shape], link), *clauses.german_final(second)]
