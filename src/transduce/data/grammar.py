"""Whole phrases: a clause on its own, asked, beneath another, or two clauses joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from transduce.data import clauses, pronouns
from transduce.data.choices import ACTIONS, Kind
from transduce.data.clauses import Clause, Modal
from transduce.data.composer import Composer, Wish
from transduce.data.german import Tense
from transduce.data.nominals import Token
from transduce.data.pronouns import Reference

_CONJUNCTIONS = {"because": "weil", "although": "obwohl", "if": "wenn"}
_QUESTION_WORDS = (("", ""), ("", ""), ("why", "warum"), ("when", "wann"), ("where", "wo"))


class Draft(NamedTuple):
    """A phrase as linked words, still without its first capital and its last mark."""

    source: list[Token]
    target: list[Token]
    mark: str = "."
    reference: Reference | None = None


def pronoun(composer: Composer) -> Draft:
    """ "The dog saw the lamp. It barked." """
    source, target, reference = pronouns.compose(composer)
    return Draft(source, target, reference=reference)


def subordinate(composer: Composer) -> Draft:
    """ "When the dog barked, the cat ran away." """
    return _two_clauses(composer, front=composer.chance(0.4), modal=False)


def separable(composer: Composer) -> Draft:
    """ "The waiter invites the queen." """
    return _one_clause(composer, Wish(composer.tense(), separable=True))


def perfect(composer: Composer) -> Draft:
    """ "The child has fallen asleep." """
    return _one_clause(composer, Wish("perfect", kind=composer.pick(ACTIONS)))


def modal(composer: Composer) -> Draft:
    """ "The farmer wants to sell the cow." """
    return _one_clause(composer, Wish(composer.modal(past=composer.chance(0.4)), kind=composer.pick(ACTIONS)))


def negation(composer: Composer) -> Draft:
    """ "The owl did not find a mouse." """
    return _one_clause(composer, Wish(_deniable(composer.tense()), negated=True))


def comparative(composer: Composer) -> Draft:
    """ "The ferry is slower than the bus." and "The fog makes the journey more dangerous." """
    if composer.chance(0.4):
        tense = _deniable(composer.tense())
        return _one_clause(composer, Wish(tense, kind="causative", negated=composer.chance(0.1)))
    simple: Tense = composer.pick(("present", "past"))
    return _one_clause(composer, Wish(simple, kind="comparative", negated=composer.chance(0.15)))


def plural(composer: Composer) -> Draft:
    """ "Two old horses followed the carriage." """
    return _one_clause(composer, Wish(composer.tense(), plural=True))


def relative(composer: Composer) -> Draft:
    """ "The soup that the baker ordered is salty." """
    return _one_clause(composer, Wish(composer.tense(), relative=True))


def possessive(composer: Composer) -> Draft:
    """ "The queen sold her castle." """
    return _one_clause(composer, Wish(composer.tense(), possessive=True))


def question(composer: Composer) -> Draft:
    """ "Where did the nurse find the letter?" """
    return _asked(composer, possessive=False)


PHENOMENA: dict[str, tuple[int, Callable[[Composer], Draft]]] = {
    "pronoun": (28, pronoun),
    "subordinate": (14, subordinate),
    "separable": (8, separable),
    "perfect": (8, perfect),
    "modal": (8, modal),
    "negation": (8, negation),
    "comparative": (9, comparative),
    "plural": (5, plural),
    "relative": (10, relative),
    "possessive": (5, possessive),
    "question": (7, question),
}
"""Each phenomenon's share of a hundred-odd phrases, and what draws one."""


def _relative_with_separable_perfect(composer: Composer) -> Draft:
    clause = composer.clause(Wish("perfect", relative=True, separable=True, bare=True))
    return _said(clause)


def _because_it_with_comparative(composer: Composer) -> Draft:
    source, target, reference = pronouns.compose(composer, wanted="because", comparative=True)
    return Draft(source, target, reference=reference)


def _question_with_possessive(composer: Composer) -> Draft:
    return _asked(composer, possessive=True)


def _fronted_clause_with_modal(composer: Composer) -> Draft:
    return _two_clauses(composer, front=True, modal=True)


HELD_OUT: dict[tuple[str, str], tuple[str, Callable[[Composer], Draft]]] = {
    ("relative", "separable perfect"): ("relative", _relative_with_separable_perfect),
    ("because pronoun", "comparative"): ("pronoun", _because_it_with_comparative),
    ("question", "possessive"): ("question", _question_with_possessive),
    ("fronted clause", "modal"): ("subordinate", _fronted_clause_with_modal),
}
"""Constructions that only the "combinations" split shows together -> phenomenon, and what draws one."""


def _deniable(tense: Tense | Modal) -> Tense | Modal:
    return "past" if isinstance(tense, Modal) and not tense.deniable else tense


def _said(clause: Clause) -> Draft:
    return Draft(clauses.english(clause), clauses.german_main(clause))


def _one_clause(composer: Composer, wish: Wish) -> Draft:
    """The clause on its own, with its time in front, or beneath a verb of saying."""
    clause = composer.clause(wish)
    if clause.time and composer.chance(0.5):
        clause.time_first = True
        composer.used.add("fronted time")
        return _said(clause)
    if composer.chance(0.15):
        source, target = composer.opinion(past=clauses.is_past(clause.tense))
        return Draft([*source, *clauses.english(clause)], [*target, *clauses.german_final(clause)])
    return _said(clause)


def _two_clauses(composer: Composer, *, front: bool, modal: bool) -> Draft:
    """A main clause and a subordinate one, which comes first if `front`."""
    word = composer.pick(("because", "because", "although", "when", "when", "if"))
    past = word != "if" and composer.chance(0.6)
    tense = composer.modal(past=past) if modal else composer.tense(past=past)
    tense = _present_beside(word, tense)
    events = word == "when"
    kind: Kind | None = "transitive" if modal else composer.pick(ACTIONS) if events else None
    main = composer.clause(Wish(tense, kind=kind, bare=True, negated=_denies(composer, tense)))
    tense = _present_beside(word, composer.tense(past=past))
    kind = composer.pick(ACTIONS) if events else None
    negated = not events and _denies(composer, tense)
    dependent = composer.clause(Wish(tense, kind=kind, bare=True, negated=negated))
    link = composer.link()
    composer.used.add(word)
    source = [(word, link), *clauses.english(dependent)]
    target = [
        (_CONJUNCTIONS.get(word) or ("als" if past else "wenn"), link),
        *clauses.german_final(dependent),
    ]
    if front:
        composer.used.add("fronted clause")
        source = [*clauses.comma(source), *clauses.english(main)]
        return Draft(source, clauses.german_main(main, clauses.comma(target)))
    return Draft([*clauses.english(main), *source], [*clauses.comma(clauses.german_main(main)), *target])


def _present_beside(conjunction: str, tense: Tense | Modal) -> Tense | Modal:
    """A perfect sounds odd beside "when" and "if": there it gives way to the present."""
    return "present" if conjunction in ("when", "if") and tense == "perfect" else tense


def _denies(composer: Composer, tense: Tense | Modal) -> bool:
    return composer.chance(0.12) and _deniable(tense) == tense


def _asked(composer: Composer, *, possessive: bool) -> Draft:
    tense = _deniable(composer.tense())
    clause = composer.clause(Wish(tense, bare=True, known=True, possessive=possessive))
    plain = clause.quality or clause.tense == "perfect" or "person" not in clause.verb.subjects
    word, german = ("", "") if plain else composer.pick(_QUESTION_WORDS)
    link = composer.link()
    composer.used.add("question")
    source: list[Token] = [(word, link)] if word else []
    opening: list[Token] = [(german, link)] if german else []
    source += clauses.english(clause, question=True)
    return Draft(source, clauses.german_question(clause, opening), mark="?")
