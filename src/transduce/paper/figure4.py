"""Figure 4: heads that find what a pronoun stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transduce.explain.figures import lines_svg
from transduce.explain.head import Head
from transduce.explain.head_scores import CLAUSE_END
from transduce.explain.heads import Found
from transduce.explain.record import Attention
from transduce.paper.found_heads import Subject, subject
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study

SENTENCE = (
    "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion."
)
PRONOUN, ANTECEDENT = "its", "Law"

Right = dict[tuple[Head, ...], float]
"""By the heads that are switched off, the share of pronouns that are right."""


@dataclass(frozen=True)
class Choice:
    """Heads of one layer: those shown, and those that they are compared with."""

    shown: list[Head]
    """One or two."""
    compared: list[Head]
    """At most as many others, those that look at the antecedent least; none if the layer has no others."""
    resolving: bool
    """Whether those shown prefer the antecedent to the other noun beyond chance; else no head of the encoder does."""


def figure4(study: Study) -> Result:
    """One head in full, then only the pronoun in two heads of the layer; and what the model is worth without them."""
    model = subject(study)
    sentence, pronoun, antecedent = _reference(model)
    words = [word.strip(CLAUSE_END) for word in sentence.split(" ")]
    text, reading = model.read(sentence)
    attention = reading.words["encoder"]
    choice = choose(model.found, _pronouns(model))
    shown, layer = choice.shown, choice.shown[0].layer
    whole = Picture(
        "figure4-whole-head",
        f"All that head {shown[0].head + 1} of encoder layer {layer + 1} attends to",
        lines_svg(attention, layer=layer, heads=[shown[0].head]),
    )
    one_word = Picture(
        "figure4-pronoun",
        f"What {words[pronoun]!r} attends to in {_names(shown)}",
        lines_svg(attention, layer=layer, heads=sorted(head.head for head in shown), query=pronoun),
    )
    right = _without(model, choice)
    return Result(
        name="figure4",
        title="Figure 4: anaphora in the encoder's self-attention",
        scope=_scope(model),
        parts=[
            (
                f"“{sentence}” → “{text}”. Head {shown[0].head + 1} in full; then only “{words[pronoun]}” in"
                f" {_names(shown)}."
            ),
            whole,
            one_word,
            Table("figure4-claims", ["what", "paper", "here"], _claims(attention, shown, pronoun, antecedent)),
            _explain(model, choice),
            Table("figure4-heads", ["head", "antecedent", "over the other noun"], _heads(model, layer)),
            "And without them: pronouns whose German form is right, of all phrases with one, decoded greedily.",
            Table("figure4-without", ["switched off", "pronouns right"], _rows(choice, right)),
            verdict(choice, right, _pronouns(model)),
        ],
    )


def bound(pronouns: int) -> float:
    """The share of preferred antecedents beyond chance: two standard errors of so many tosses of a coin above half."""
    return 0.5 + 1 / math.sqrt(pronouns)


def choose(found: Found, pronouns: int) -> Choice:
    """Of the heads that prefer the antecedent beyond chance, if any does, those that give it most; two of a layer."""
    ranked = found.best("anaphora")
    resolving = [head for head in ranked if found.heads[head].resolution > bound(pronouns)]
    first = (resolving or ranked)[0]
    shown = [head for head in resolving or ranked if head.layer == first.layer][:2]
    others = [head for head in found.best("anaphora", layer=first.layer) if head not in shown]
    return Choice(shown, others[-len(shown) :], bool(resolving))


def verdict(choice: Choice, right: Right, pronouns: int) -> str:
    """Whether the paper's claim shows, from what was measured."""
    if not choice.resolving:
        return (
            "The paper's claim does not show in this model: no head of its encoder prefers the antecedent to the other"
            f" noun in more than {bound(pronouns):.0%} of the phrases, two standard errors above chance."
        )
    prefer = (
        f"In this model {_names(choice.shown)} {'prefers' if len(choice.shown) == 1 else 'prefer'} the antecedent to"
        f" the other noun beyond chance: in more than {bound(pronouns):.0%} of the phrases, two standard errors above"
        " half of them."
    )
    if not choice.compared:
        return f"{prefer} The layer has no other heads to compare the cost of switching them off with."
    some, others = tuple(choice.shown[: len(choice.compared)]), tuple(choice.compared)
    mean = (right[some] + right[others]) / 2
    noise = 2 * math.sqrt(2 * mean * (1 - mean) / pronouns)
    if right[some] < right[others] - noise:
        compared = "more than: the paper's claim shows"
    elif right[some] > right[others] + noise:
        compared = "less than: other heads do more for pronouns"
    else:
        compared = "not clearly apart from: that pronouns are translated by these heads does not show"
    relation, _, meaning = compared.partition(": ")
    costs = [f"{100 * (right[()] - right[heads]):.1f}" for heads in (some, others)]
    return (
        f"{prefer} Without {_names(some)}, {costs[0]} points fewer of the pronouns are right, {relation} the"
        f" {costs[1]} without {_names(others)} (two standard errors of the difference are {100 * noise:.1f}):"
        f" {meaning}."
    )


def _reference(model: Subject) -> tuple[str, int, int]:
    """A sentence, its pronoun and the noun that it stands for: the first unseen phrase that has one, not picked."""
    if not model.knows_only_phrases:
        words = [word.strip(CLAUSE_END) for word in SENTENCE.split(" ")]
        return SENTENCE, words.index(PRONOUN), words.index(ANTECEDENT)
    phrase = next(phrase for phrase in model.corpus if phrase.pronoun)
    assert phrase.pronoun is not None
    return phrase.source, phrase.pronoun.source, phrase.pronoun.antecedent


def _claims(attention: Attention, heads: Sequence[Head], pronoun: int, antecedent: int) -> list[list[str]]:
    """The paper says that two heads are involved, and that they are very sharp for this word."""
    rows = [attention.weights[head.layer, head.head] for head in heads]
    largest = [f"{row[pronoun].max():.2f}" for row in rows]
    usual = [f"{np.median(row.max(axis=-1)):.2f}" for row in rows]
    numbers = " and ".join(str(head.head + 1) for head in heads)
    place = f"layer {heads[0].layer + 1}, head{'s' * (len(heads) > 1)} {numbers}"
    return [
        ["heads apparently involved", "layer 5, heads 5 and 6", place],
        ["the pronoun's largest weight", "very sharp", " and ".join(largest)],
        ["the median word's largest weight", "", " and ".join(usual)],
        ["weight on the antecedent", "", " and ".join(f"{row[pronoun, antecedent]:.2f}" for row in rows)],
    ]


def _heads(model: Subject, layer: int) -> list[list[str]]:
    """The antecedent's mean weight, and how often it outweighs the other noun, for each head of the layer."""
    heads = model.found.best("anaphora", layer=layer)
    scores = {str(head): model.found.heads[head] for head in heads} | {"uniform": model.found.chance["encoder"]}
    return [[name, f"{found.anaphora:.2f}", f"{found.resolution:.0%}"] for name, found in scores.items()]


def _without(model: Subject, choice: Choice) -> Right:
    """Without none, the first, all that are shown, and those to compare with."""
    trials = [[], choice.shown[:1], choice.shown, choice.compared]
    return {heads: model.pronouns_right([*heads]) for heads in dict.fromkeys(map(tuple, trials))}


def _rows(choice: Choice, right: Right) -> list[list[str]]:
    names = {heads: _names(heads) if heads else "none" for heads in right}
    if choice.compared:
        names[tuple(choice.compared)] = f"to compare: {_names(choice.compared)}"
    return [[names[heads], f"{share:.1%}"] for heads, share in right.items()]


def _names(heads: Sequence[Head]) -> str:
    numbers = " and ".join(str(number) for number in sorted(head.head + 1 for head in heads))
    return f"head{'s' * (len(heads) > 1)} {numbers} of layer {heads[0].layer + 1}"


def _pronouns(model: Subject) -> int:
    return sum(phrase.pronoun is not None for phrase in model.corpus)


def _explain(model: Subject, choice: Choice) -> str:
    pronouns = _pronouns(model)
    chosen = (
        f"Of the heads that do so in more than {bound(pronouns):.0%} of the phrases, two standard errors above chance,"
        " those shown give the antecedent most, at most two of one layer."
        if choice.resolving
        else "As no head does so beyond chance, those shown are the two of a layer that give the antecedent most."
    )
    return (
        f"Over the {pronouns} unseen phrases with a pronoun, of which two nouns could be meant: the mean weight that"
        " the pronoun gives to the one that is, and in how many phrases that is more than the other noun gets."
        f" {chosen}"
    )


def _scope(model: Subject) -> str:
    return (
        f"Of {model.describe()}. It can show, with known antecedents, which heads find them and what is lost without"
        " them, where the paper has one sentence; it cannot show the paper's own heads, of a model of 6 layers trained"
        " on 4.5 million pairs."
    )
