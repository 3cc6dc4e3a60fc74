"""What a clause may be made of: which verbs, nouns, adjectives, times and places fit which wish.

Everything here is an ordered tuple: a set's order depends on hashing, and draws must not.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from transduce.data import nominals
from transduce.data.adjectives import ADJECTIVES
from transduce.data.clauses import MODALS, Adverbial, Clause, Modal, Place, is_past
from transduce.data.german import Tense
from transduce.data.lexicon import Adjective, Noun, Verb
from transduce.data.nominals import Determiner, Nominal, NounPhrase, PronounPhrase
from transduce.data.nouns import NOUNS
from transduce.data.verbs import DATIVE, DITRANSITIVE, INTRANSITIVE, TRANSITIVE

Kind = Literal["intransitive", "transitive", "dative", "ditransitive", "quality", "comparative", "causative"]

ACTIONS: tuple[Kind, ...] = (*("transitive",) * 8, *("intransitive",) * 5, "dative", "ditransitive")
"""The kinds that tell of an event, each as often as it is drawn."""
KINDS: tuple[Kind, ...] = (*ACTIONS, *("quality",) * 3, "comparative", "causative")
_VERBS: dict[str, tuple[Verb, ...]] = {
    "intransitive": INTRANSITIVE,
    "transitive": TRANSITIVE,
    "dative": DATIVE,
    "ditransitive": DITRANSITIVE,
}
WILLING = frozenset({"person", "animal", "barker"})
"""Who can want, have to or be able to do something."""
_OWNED = frozenset({"animal", "device", "vehicle", "food", "text", "clothing", "furniture", "fragile", "kin"})
_OWNED_BY_ANIMALS = frozenset({"food"})
_STRANGE_TO_OWN = frozenset({"rent", "steal", "buy", "order", "discover"})
"""What one hardly does to one's own things."""
_UNWILLED = frozenset({"arrive", "notice", "disappear", "discover", "understand", "wake up"})
"""What happens to people and animals rather than that they want it or have to do it."""
OWNERS = tuple(noun for noun in NOUNS if "person" in noun.classes and noun.gender != "n")
ANIMALS = tuple(noun for noun in NOUNS if "animal" in noun.classes)
PEOPLE = tuple(noun for noun in NOUNS if "person" in noun.classes)
_FIXED = ("building", "vehicle", "furniture", "light")
_NAMED = {noun.english: noun for noun in NOUNS}
_PLACES = tuple(
    Place(english, german, _NAMED[name])
    for english, german, names in (
        ("in", "in", "garden park forest cellar kitchen city village restaurant office"),
        ("behind", "hinter", "house church station hotel barn"),
        ("in front of", "vor", "museum school castle tower hut"),
        ("under", "unter", "table bench bed"),
        ("next to", "neben", "sofa shelf chair fireplace"),
    )
    for name in names.split()
)
_ANY_TIME = (
    Adverbial((("today", 0),), (("heute", 0),)),
    Adverbial((("every", 0), ("day", 1)), (("jeden", 0), ("Tag", 1))),
    Adverbial((("in", 0), ("the", 0), ("morning", 1)), (("am", 0), ("Morgen", 1))),
    Adverbial((("on", 0), ("Sunday", 1)), (("am", 0), ("Sonntag", 1))),
)
_PAST_TIME = (
    *_ANY_TIME,
    Adverbial((("yesterday", 0),), (("gestern", 0),)),
    Adverbial((("last", 0), ("year", 1)), (("letztes", 0), ("Jahr", 1))),
)
THEN = tuple(modal for modal in MODALS if modal.past)
NOW = tuple(modal for modal in MODALS if not modal.past)


@cache
def members(classes: frozenset[str]) -> tuple[tuple[Noun, ...], ...]:
    """The nouns of each of these classes, in an order that does not depend on hashing."""
    return tuple(tuple(noun for noun in NOUNS if name in noun.classes) for name in sorted(classes))


@cache
def qualities(kind: str) -> tuple[Adjective, ...]:
    """The adjectives that a class's nouns may have."""
    return tuple(adjective for adjective in ADJECTIVES if kind in adjective.classes)


def times(tense: Tense | Modal) -> tuple[Adverbial, ...]:
    """The times that a tense goes with: "has" and "yesterday" do not."""
    if tense == "perfect":
        return _ANY_TIME[:1]
    return _PAST_TIME if is_past(tense) else _ANY_TIME


def willed(verb: Verb) -> bool:
    """Whether someone may want or have to do this."""
    return bool(verb.subjects & WILLING) and f"{verb.english} {verb.particle}".strip() not in _UNWILLED


def able(tense: Tense | Modal) -> Tense | Modal:
    """The tense, or "can" or "could" in place of other modals: fog wants nothing and must do nothing."""
    return (THEN if tense.past else NOW)[0] if isinstance(tense, Modal) else tense


def animal_ownable(verb: Verb) -> bool:
    """Whether animals may do this to their own things."""
    return "animal" in verb.subjects and bool(verb.objects & _OWNED_BY_ANIMALS)


def owned_by(subject: Nominal) -> frozenset[str]:
    """What the subject can call its own."""
    animal = isinstance(subject, NounPhrase) and subject.noun.classes[0] == "animal"
    return _OWNED_BY_ANIMALS if animal else _OWNED


def ownable(verb: Verb) -> bool:
    """Whether people or animals may do this to their own things."""
    human = "person" in verb.subjects and bool(verb.objects & _OWNED)
    return verb.english not in _STRANGE_TO_OWN and (human or animal_ownable(verb))


@cache
def usable(kind: Kind, tense: Tense | Modal, *, separable: bool, possessive: bool) -> tuple[Verb, ...]:
    """The verbs of a kind that show the tense, can be willed if it is a modal, and fit the wish."""
    return tuple(
        verb
        for verb in _VERBS[kind]
        if (verb.prefix or not separable)
        and (willed(verb) or not isinstance(tense, Modal))
        and (verb.tells_tenses_apart or tense != "present")
        and (ownable(verb) or not possessive)
    )


def places(clause: Clause) -> tuple[Place, ...]:
    """Where it can happen: only who does nothing to anything fits under a table."""
    return tuple(place for place in _PLACES if place.german in ("in", "hinter", "vor")) if clause.object else _PLACES


def happens_somewhere(clause: Clause) -> bool:
    """Whether a place makes sense: for what people and animals do without going there."""
    living = isinstance(clause.subject, PronounPhrase) or bool(WILLING & set(clause.subject.noun.classes))
    fixed = isinstance(clause.object, NounPhrase) and clause.object.noun.classes[0] in _FIXED
    moving = clause.verb.auxiliary == "sein" or clause.verb.prefix in ("zurück", "ab")
    return living and not fixed and not moving and not clause.recipient


@cache
def doing(kinds: frozenset[str]) -> tuple[Verb, ...]:
    """What something of these classes may do."""
    return tuple(verb for verb in (*INTRANSITIVE, *TRANSITIVE, *TRANSITIVE, *DATIVE) if verb.subjects & kinds)


@cache
def suffering(kinds: frozenset[str]) -> tuple[Verb, ...]:
    """What may be done to something of these classes."""
    return tuple(verb for verb in (*TRANSITIVE, *DATIVE) if verb.objects & kinds)


def own(subject: Nominal) -> Determiner | None:
    """The possessive that means the subject itself."""
    if isinstance(subject, NounPhrase):
        if subject.noun.classes[0] not in WILLING:
            return None
        if subject.plural:
            return nominals.THEIR
        if subject.noun.classes[0] == "animal":
            return nominals.ITS[subject.noun.gender]
        return {"m": nominals.HIS, "f": nominals.HER, "n": None}[subject.noun.gender]
    own = {"I": nominals.MY, "we": nominals.OUR, "he": nominals.HIS, "she": nominals.HER}
    return own.get(subject.nominative)
