"""German inflection: articles, adjective endings, nouns, pronouns and verb forms."""

from __future__ import annotations

from typing import Literal

from transduce.data.lexicon import Adjective, Noun, Verb

Case = Literal["nom", "acc", "dat"]
Agreement = Literal["1sg", "3sg", "pl"]
"""How a subject shapes its verb; "we" and "they" share every German form."""
Tense = Literal["present", "past", "perfect"]
Slot = Literal["m", "f", "n", "pl"]
"""A gender, or the plural, in which German tells no genders apart."""

_SLOTS: tuple[Slot, ...] = ("m", "f", "n", "pl")


def _table(rows: dict[Case, str]) -> dict[tuple[Case, Slot], str]:
    """Forms by case and slot; a dash is the empty ending."""
    return {
        (case, slot): form.replace("-", "")
        for case, row in rows.items()
        for slot, form in zip(_SLOTS, row.split(), strict=True)
    }


_DEFINITE = _table({"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"})
_RELATIVE = _DEFINITE | {("dat", "pl"): "denen"}
_DER_ENDINGS = _table({"nom": "er e es e", "acc": "en e es e", "dat": "em er em en"})
_EIN_ENDINGS = _table({"nom": "- e - e", "acc": "en e - e", "dat": "em er em en"})
_WEAK = _table({"nom": "e e e en", "acc": "en e e en", "dat": "en en en en"})
_MIXED = _table({"nom": "er e es en", "acc": "en e es en", "dat": "en en en en"})
_STRONG_PLURAL: dict[Case, str] = {"nom": "e", "acc": "e", "dat": "en"}
_IT = _table({"nom": "er sie es sie", "acc": "ihn sie es sie", "dat": "ihm ihr ihm ihnen"})

_EIN_WORDS = frozenset({"ein", "kein", "mein", "sein", "ihr", "unser"})
_CONTRACTED = {("in", "dem"): "im", ("an", "dem"): "am"}
_AUXILIARIES: dict[str, dict[Agreement, str]] = {
    "haben": {"1sg": "habe", "3sg": "hat", "pl": "haben"},
    "sein": {"1sg": "bin", "3sg": "ist", "pl": "sind"},
}


def determiner(word: str, case: Case, slot: Slot) -> str:
    """The form of der, dies-, jed-, an ein-word, or of a word without endings (zwei, viele)."""
    if word == "der":
        return _DEFINITE[case, slot]
    if word in ("dies", "jed"):
        return word + _DER_ENDINGS[case, slot]
    if word in _EIN_WORDS:
        return word + _EIN_ENDINGS[case, slot]
    return "vielen" if word == "viele" and case == "dat" else word


def adjective(word: Adjective, after: str, case: Case, slot: Slot) -> str:
    """The adjective before a noun, with the ending that the determiner `after` leaves to it."""
    if after in ("der", "dies", "jed"):
        return word.stem + _ending(word, _WEAK[case, slot])
    if after in _EIN_WORDS:
        return word.stem + _ending(word, _MIXED[case, slot])
    assert slot == "pl", f"only plurals go without an article: {word.german}"
    return word.stem + _ending(word, _STRONG_PLURAL[case])


def _ending(word: Adjective, ending: str) -> str:
    return ending[1:] if word.stem.endswith("e") else ending


def noun(word: Noun, case: Case, *, plural: bool) -> str:
    """The noun in a case: dative plurals take -n, weak masculines -n outside the nominative."""
    if plural:
        return word.german_plural + ("n" if case == "dat" and word.german_plural[-1] not in "ns" else "")
    return word.german_plural if word.weak and case != "nom" else word.german


def it(case: Case, slot: Slot) -> str:
    """The personal pronoun for a noun of this gender."""
    return _IT[case, slot]


def relative(case: Case, slot: Slot) -> str:
    """The relative pronoun: the antecedent's gender, its own clause's case."""
    return _RELATIVE[case, slot]


def contract(preposition: str, article: str) -> list[str]:
    """ "in dem" is "im", "an dem" is "am"; others stay two words."""
    joined = _CONTRACTED.get((preposition, article))
    return [joined] if joined else [preposition, article]


def auxiliary(verb: Verb, agreement: Agreement) -> str:
    """The present of haben or sein that makes the verb's perfect."""
    return _AUXILIARIES[verb.auxiliary][agreement]


def present(verb: Verb, agreement: Agreement) -> str:
    """The present tense, without a separable prefix."""
    if verb.infinitive == "sein":
        return _AUXILIARIES["sein"][agreement]
    if agreement == "3sg" or (verb.infinitive == "wissen" and agreement == "1sg"):
        return verb.german_third
    if agreement == "pl":
        return verb.infinitive
    if verb.infinitive.endswith("eln"):
        return verb.infinitive[:-3] + "le"
    return verb.infinitive[:-1] + ("e" if verb.infinitive.endswith("ern") else "")


def past(verb: Verb, agreement: Agreement) -> str:
    """The simple past (Präteritum), without a separable prefix."""
    return plural_past(verb.german_past) if agreement == "pl" else verb.german_past


def plural_past(singular: str) -> str:
    """They-form of a simple past: machte -> machten, sah -> sahen."""
    return singular + ("n" if singular.endswith("e") else "en")
