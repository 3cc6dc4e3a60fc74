"""Random clauses that make sense: the lexicon's classes decide who does what to whom."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from transduce.data import choices, clauses, nominals
from transduce.data.choices import Kind
from transduce.data.clauses import Clause, Modal, Quality
from transduce.data.german import Tense
from transduce.data.lexicon import Adjective, Noun, Verb
from transduce.data.nominals import Determiner, Nominal, NounPhrase, Token
from transduce.data.verbs import BE, MAKE, SAYING

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a clause must show; everything else is left to chance."""

    tense: Tense | Modal
    kind: Kind | None = None
    separable: bool = False
    negated: bool = False
    plural: bool = False
    possessive: bool = False
    relative: bool = False
    known: bool = False
    """A definite subject."""
    bare: bool = False
    """Nothing beside subject, verb and object."""


class Composer:
    """Draws clauses from a random generator; `used` collects the names of the constructions in them."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random
        self._link = 0
        self._mentioned: set[str] = set()
        self.used: set[str] = set()

    def begin(self) -> None:
        """Forget the constructions of the phrase before."""
        self._link = 0
        self._mentioned = set()
        self.used = set()

    def pick(self, options: Sequence[T]) -> T:
        """One of these; `random()` is the only draw that every Python version makes alike."""
        return options[int(self._random() * len(options))]

    def unmentioned(self, options: Sequence[Noun]) -> Noun:
        """A noun that the phrase does not have yet, if there is one."""
        return self.pick([noun for noun in options if noun.english not in self._mentioned] or options)

    def chance(self, probability: float) -> bool:
        """True in this share of calls."""
        return self._random() < probability

    def link(self) -> int:
        """A new range of links, wide enough for a clause."""
        self._link += 30
        return self._link

    def tense(self, *, past: bool | None = None) -> Tense | Modal:
        """A tense: of the past, of the present, or any."""
        if past is None:
            past = self.chance(0.6)
        if self.chance(0.1):
            return self.modal(past=past)
        if past:
            return "past"
        return "perfect" if self.chance(0.25) else "present"

    def modal(self, *, past: bool) -> Modal:
        """A modal verb that goes with the past or with the present."""
        return self.pick(choices.THEN if past else choices.NOW)

    def noun_phrase(
        self, noun: Noun, determiner: Determiner = nominals.THE, *, plural: bool = False, plain: bool = False
    ) -> NounPhrase:
        """A noun with a determiner and, unless `plain`, sometimes an adjective."""
        self._mentioned.add(noun.english)
        phrase = NounPhrase(noun, determiner, self.link(), plural=plural)
        fitting = choices.qualities(noun.classes[0])
        if not plain and fitting and noun.classes[0] != "task" and self.chance(0.25):
            phrase.adjective = self.pick(fitting)
        if plural:
            self.used.add("plural")
        return phrase

    def some(
        self, classes: frozenset[str], *, plural: bool = False, known: bool = False, own: bool = True
    ) -> NounPhrase:
        """A noun phrase of one of these classes; `known` keeps it definite, `own` allows "my" and the like."""
        noun = self.unmentioned(self.pick(choices.members(classes)))
        if noun.classes[0] in ("cause", "task"):
            return self.noun_phrase(noun)
        plural = plural or self.chance(0.13)
        draw = self._random()
        determiner = nominals.THE
        if draw > 0.94:
            determiner = nominals.THIS if plural or known or draw > 0.96 else nominals.EVERY
        elif draw > 0.88 and own and "kin" in noun.classes:
            determiner = self.pick((nominals.MY, nominals.HIS, nominals.HER, nominals.OUR))
            self.used.add("possessive")
        elif draw > 0.65 and not known:
            determiner = nominals.A
            if plural:
                determiner = self.pick((nominals.A, nominals.TWO, nominals.THREE, nominals.MANY))
        return self.noun_phrase(noun, determiner, plural=plural)

    def person(self) -> Nominal:
        """A definite person, or "I" or "we"."""
        if self.chance(0.2):
            return nominals.speaker(self.pick(("I", "we")), self.link())
        return self.noun_phrase(self.unmentioned(choices.PEOPLE))

    def opinion(self, *, past: bool) -> tuple[list[Token], list[Token]]:
        """ "The woman knows that", in both languages."""
        verb = self.pick(SAYING)
        clause = Clause(self.person(), verb, "past" if past else "present", self.link())
        link = self.link()
        self.used.add("that")
        source = [*clauses.english(clause), ("that", link)]
        return source, [*clauses.comma(clauses.german_main(clause)), ("dass", link)]

    def clause(self, wish: Wish) -> Clause:
        """A clause that fulfils the wish."""
        kind = wish.kind or self._kind(wish)
        clause = (
            self._quality(kind, wish) if kind in ("quality", "comparative", "causative") else self._action(kind, wish)
        )
        if wish.negated:
            clause.deny()
        elif not wish.bare and not clause.quality:
            self._circumstances(clause)
        if wish.relative:
            self._attach_relative(clause)
        self.note(clause)
        return clause

    def _kind(self, wish: Wish) -> Kind:
        """What sort of clause can fulfil the wish."""
        kind = self.pick(choices.KINDS)
        able = {"transitive", "ditransitive"}
        if not wish.possessive:
            able.add("intransitive")
            if not wish.separable:
                able |= {"dative", "quality", "comparative"}
                if not (wish.plural or wish.relative):
                    able.add("causative")
        return kind if kind in able else "transitive"

    def note(self, clause: Clause) -> None:
        """Record the constructions of a clause that is going to be said."""
        if isinstance(clause.tense, Modal):
            self.used.add("modal")
        elif clause.tense == "perfect":
            self.used.add("perfect")
        if clause.verb.prefix:
            self.used.update(("separable", "separable perfect") if clause.tense == "perfect" else ("separable",))
        if clause.negated:
            self.used.add("negation")
        if clause.quality and clause.quality.degree != "positive":
            self.used.add("comparative")

    def _action(self, kind: Kind, wish: Wish) -> Clause:
        """Someone does something, perhaps to something, perhaps for someone."""
        tense = wish.tense
        modal = isinstance(tense, Modal)
        verbs = choices.usable(kind, tense, separable=wish.separable, possessive=wish.possessive)
        if wish.possessive and self.chance(0.25):
            verbs = tuple(verb for verb in verbs if choices.animal_ownable(verb)) or verbs
        verb = self.pick(verbs)
        classes = verb.subjects & choices.WILLING if modal else verb.subjects
        subject = self._owner(verb, wish) if wish.possessive else self._subject(classes, wish)
        clause = Clause(subject, verb, tense, self.link())
        if verb.objects:
            clause.object = self._object(verb, subject, wish, known=wish.negated and kind == "dative")
        if kind == "ditransitive":
            clause.recipient = self.noun_phrase(self.unmentioned(choices.PEOPLE))
        return clause

    def _quality(self, kind: Kind, wish: Wish) -> Clause:
        """Something is old, older than something else, or makes something more difficult."""
        if kind == "causative":
            cause = self.some(MAKE.subjects)
            task = self.some(MAKE.objects)
            quality = Quality(self.pick(choices.qualities("task")), "comparative", None)
            tense = choices.able(wish.tense)
            return Clause(cause, MAKE, tense, self.link(), object=task, quality=quality)
        subject = self._subject(BE.subjects, replace(wish, known=True))
        kind_of_subject = subject.noun.classes[0] if isinstance(subject, NounPhrase) else "person"
        adjective = self.pick(choices.qualities(kind_of_subject))
        if isinstance(subject, NounPhrase):
            subject.adjective = None
        simple: Tense = "past" if clauses.is_past(wish.tense) else "present"
        clause = Clause(subject, BE, simple, self.link(), quality=Quality(adjective, "positive", None))
        if kind == "comparative":
            clause.quality = self.comparison(adjective, kind_of_subject)
        return clause

    def comparison(self, adjective: Adjective, kind: str) -> Quality:
        """ "older than" or "as old as" something else of the same class."""
        other = self.some(frozenset({kind}), known=True)
        other.adjective = None
        return Quality(adjective, "equal" if self.chance(0.25) else "comparative", other)

    def _subject(self, classes: frozenset[str], wish: Wish) -> Nominal:
        if "person" in classes and not wish.plural and not wish.relative and self.chance(0.2):
            return nominals.speaker(self.pick(("I", "we", "he", "she")), self.link())
        if wish.relative or wish.plural:
            classes = classes - {"task"}
        known = wish.known or wish.negated
        return self.some(classes, plural=wish.plural, known=known, own=not wish.relative)

    def _owner(self, verb: Verb, wish: Wish) -> Nominal:
        """A subject that can do this to something of its own."""
        human = "person" in verb.subjects
        if human and not wish.plural and self.chance(0.2):
            return nominals.speaker(self.pick(("I", "we", "he", "she")), self.link())
        wild = choices.animal_ownable(verb) and (self.chance(0.7) or not human)
        owners = choices.ANIMALS if wild else choices.OWNERS
        return self.noun_phrase(self.unmentioned(owners), plural=wish.plural or self.chance(0.15))

    def _object(self, verb: Verb, subject: Nominal, wish: Wish, *, known: bool) -> NounPhrase:
        owner = choices.own(subject)
        plain = wish.bare or wish.relative or not choices.ownable(verb)
        owns = owner is not None and (wish.possessive or (self.chance(0.08) and not plain))
        owned = choices.owned_by(subject)
        owns = owns and bool(verb.objects & owned)
        thing = self.some(verb.objects & owned if owns else verb.objects, known=known or owns, own=not wish.relative)
        if wish.negated and thing.determiner in (nominals.TWO, nominals.THREE, nominals.MANY, nominals.EVERY):
            thing.determiner = nominals.THE
        if owner and owns:
            thing.determiner = owner
            self.used.add("possessive")
        return thing

    def _circumstances(self, clause: Clause) -> None:
        """Sometimes a time, sometimes a place."""
        if self.chance(0.15):
            clause.time = self.pick(choices.times(clause.tense))
        elif self.chance(0.2) and choices.happens_somewhere(clause):
            clause.place = self.pick(choices.places(clause))

    def _attach_relative(self, clause: Clause) -> None:
        """Hang a relative clause on the subject or on the object."""
        subject, thing = clause.subject, clause.object
        ends_with_object = not (clause.recipient or clause.quality or clause.time or clause.place)
        if isinstance(thing, NounPhrase) and ends_with_object and self.chance(0.4):
            holder = thing
        else:
            assert isinstance(subject, NounPhrase)
            holder = subject
        if holder.denied:
            holder.determiner = nominals.THE
            holder.denied = False
        holder.relative = self._relative(holder, clause)
        self.used.add("relative")

    def _relative(self, holder: NounPhrase, main: Clause) -> Clause:
        """What the holder does, or what someone does to it."""
        kinds = frozenset(holder.noun.classes)
        past = clauses.is_past(main.tense)
        tense = self.tense(past=past)
        if isinstance(tense, Modal):
            tense = "past" if past else "present"
        pronoun = nominals.relative(holder, self.link())
        if self.chance(0.5):
            verb = self.pick([verb for verb in choices.doing(kinds) if verb is not main.verb])
            wish = Wish(tense, bare=True)
            clause = Clause(pronoun, verb, tense, self.link())
            if verb.objects:
                clause.object = self._object(verb, holder, wish, known=True)
        else:
            verb = self.pick([verb for verb in choices.suffering(kinds) if verb is not main.verb])
            subject = self.some(verb.subjects, known=True)
            clause = Clause(subject, verb, tense, self.link(), object=pronoun, gap=True)
        if clause.tense == "present" and not verb.tells_tenses_apart and clause.subject.agreement != "3sg":
            clause.tense = "perfect"
        self.note(clause)
        return clause
