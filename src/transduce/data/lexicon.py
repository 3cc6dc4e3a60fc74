"""Words of the phrasebook: an English lemma with its German one, the forms of both, and what it is said of.

A noun's class ("animal", "text", ...) and the lists of classes that a verb or an adjective goes with keep the
sentences sensible: a lamp never barks. They also decide what a pronoun means, so a list, with `vague`,
names everything that the English word could be said of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
GENDERS: tuple[Gender, ...] = ("m", "f", "n")

PARENTS = {"barker": "animal", "ringer": "device", "burner": "light", "kin": "person"}
"""A class that only some members of a larger one belong to -> the larger one."""

THINGS = "light device vehicle food text building clothing furniture fragile"
"""Classes without life that English calls "it"; each has nouns of all three German genders."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun of one class; `weak` marks the German n-declension (der Junge, den Jungen)."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    classes: tuple[str, ...]
    weak: bool


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective; `german` stands alone (teuer), `stem` takes the endings (teur-); `vague` as in `verb`."""

    english: str
    comparative: str
    german: str
    stem: str
    german_comparative: str
    classes: frozenset[str]
    vague: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in one use: principal parts, particle, separable prefix, auxiliary, what may stand beside it."""

    english: str
    third: str
    past: str
    participle: str
    particle: str
    infinitive: str
    german_third: str
    german_past: str
    german_participle: str
    prefix: str
    auxiliary: Literal["haben", "sein"]
    subjects: frozenset[str]
    objects: frozenset[str]
    vague: frozenset[str]
    case: Literal["acc", "dat"]

    @property
    def tells_tenses_apart(self) -> bool:
        """Whether "they" + verb shows if it is present or past: "they read" does not."""
        return self.english != self.past


def nouns(kind: str, gender: Gender, rows: str) -> Iterator[Noun]:
    """Nouns from "dog Hund Hunde barker; mouse/mice Maus Mäuse": a star marks weak ones, `_` is a space."""
    for row in rows.split(";"):
        english, german, plural, *more = row.split()
        singular, _, irregular = english.replace("_", " ").partition("/")
        yield Noun(
            english=singular,
            english_plural=irregular or _add_s(singular),
            german=german.rstrip("*"),
            german_plural=plural,
            gender=gender,
            classes=(kind, *more),
            weak=german.endswith("*"),
        )


def adjectives(classes: str, rows: str, *, vague: str = "") -> Iterator[Adjective]:
    """Adjectives from "old older alt älter; tired more müde müder"; `teuer/teur` gives a stem."""
    for row in rows.split(";"):
        english, comparative, german, german_comparative = row.split()
        form, _, stem = german.partition("/")
        yield Adjective(
            english=english,
            comparative=f"more {english}" if comparative == "more" else comparative,
            german=form,
            stem=stem or form,
            german_comparative=german_comparative,
            classes=frozenset(classes.split()),
            vague=frozenset(vague.split()),
        )


def verb(
    english: str,
    german: str,
    subjects: str,
    objects: str = "",
    *,
    vague: str = "",
    case: Literal["acc", "dat"] = "acc",
) -> Verb:
    """A verb from "take took taken +off" and "*auf|stehen steht stand aufgestanden".

    One form alone is regular, a star asks for the auxiliary sein. `vague` lists classes that the verb is
    never said of here but that a reader could think of, so that no pronoun depends on ruling them out.
    """
    lemma, _, particle = english.partition(" +")
    base, *parts = lemma.split()
    past, participle = parts if parts else (_add_ed(base), _add_ed(base))
    infinitive, *german_parts = german.lstrip("*").split()
    prefix, _, stem = infinitive.rpartition("|")
    third, german_past, german_participle = german_parts if german_parts else _weak(prefix, stem)
    return Verb(
        english=base,
        third=_add_s(base),
        past=past,
        participle=participle,
        particle=particle,
        infinitive=stem,
        german_third=third,
        german_past=german_past,
        german_participle=german_participle,
        prefix=prefix,
        auxiliary="sein" if german.startswith("*") else "haben",
        subjects=frozenset(subjects.split()),
        objects=frozenset(objects.split()),
        vague=frozenset(vague.split()),
        case=case,
    )


def _add_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word == "go" or word.endswith(("s", "sh", "ch", "x", "z")) else "s")


def _add_ed(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return word[:-1] + "ied"
    return word + ("d" if word.endswith("e") else "ed")


def _weak(prefix: str, infinitive: str) -> tuple[str, str, str]:
    """Third person, past and participle of a regular German verb."""
    stem = infinitive[:-1] if infinitive.endswith(("ern", "eln")) else infinitive[:-2]
    linked = stem + ("e" if stem.endswith(("t", "d", "chn", "ffn", "tm")) else "")
    unstressed = infinitive.startswith(("be", "ver", "er", "zer", "ent", "über")) or infinitive.endswith("ieren")
    return linked + "t", linked + "te", f"{prefix}{'' if unstressed else 'ge'}{linked}t"
