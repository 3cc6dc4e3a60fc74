"""Figure 4: heads that find what a pronoun stands for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from transduce.explain.figures import lines_svg
from transduce.explain.head import Head
from transduce.explain.head_scores import CLAUSE_END
from transduce.explain.record import Attention
from transduce.paper.found_heads import Subject, subject
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study

SENTENCE = (
    "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion."
)
PRONOUN, ANTECEDENT = "its", "Law"


def figure4(study: Study) -> Result:
    """One head in full, then only the pronoun in two heads of the layer; and what the model is worth without them."""
    model = subject(study)
    sentence, pronoun, antecedent = _reference(model)
    words = [word.strip(CLAUSE_END) for word in sentence.split(" ")]
    text, reading = model.read(sentence)
    attention = reading.words["encoder"]
    first = model.found.best("anaphora")[0]
    by_anaphora = model.found.best("anaphora", layer=first.layer)
    chosen = by_anaphora[:2]
    layer, heads = first.layer, [head.head for head in chosen]
    whole = Picture(
        "figure4-whole-head",
        f"All that head {first.head + 1} of encoder layer {layer + 1} attends to",
        lines_svg(attention, layer=layer, heads=heads[:1]),
    )
    one_word = Picture(
        "figure4-pronoun",
        f"What {words[pronoun]!r} attends to in {_names(chosen)}",
        lines_svg(attention, layer=layer, heads=sorted(heads), query=pronoun),
    )
    return Result(
        name="figure4",
        title="Figure 4: anaphora in the encoder's self-attention",
        scope=_scope(model),
        parts=[
            f"“{sentence}” → “{text}”. Head {heads[0] + 1} in full; then only “{words[pronoun]}” in {_names(chosen)}.",
            whole,
            one_word,
            Table("figure4-claims", ["what", "paper", "here"], _claims(attention, chosen, pronoun, antecedent)),
            _explain(model),
            Table("figure4-heads", ["head", "antecedent", "over the other noun"], _heads(model, by_anaphora)),
            "And without them: pronouns whose German form is right, of all phrases with one, decoded greedily.",
            Table("figure4-without", ["switched off", "pronouns right"], _without(model, by_anaphora)),
        ],
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
    place = f"layer {heads[0].layer + 1}, heads {' and '.join(str(head.head + 1) for head in heads)}"
    return [
        ["heads apparently involved", "layer 5, heads 5 and 6", place],
        ["the pronoun's largest weight", "very sharp", " and ".join(largest)],
        ["the median word's largest weight", "", " and ".join(usual)],
        ["weight on the antecedent", "", " and ".join(f"{row[pronoun, antecedent]:.2f}" for row in rows)],
    ]


def _heads(model: Subject, heads: Sequence[Head]) -> list[list[str]]:
    """The antecedent's mean weight, and how often it outweighs the other noun."""
    scores = {str(head): model.found.heads[head] for head in heads} | {"uniform": model.found.chance["encoder"]}
    return [[name, f"{found.anaphora:.2f}", f"{found.resolution:.0%}"] for name, found in scores.items()]


def _without(model: Subject, by_anaphora: Sequence[Head]) -> list[list[str]]:
    """The same without none, the best, both, and, to compare, as many heads of the layer that care least."""
    trials = [
        ("none", []),
        (str(by_anaphora[0]), list(by_anaphora[:1])),
        (_names(by_anaphora[:2]), list(by_anaphora[:2])),
        (f"to compare: {_names(by_anaphora[-2:])}", list(by_anaphora[-2:])),
    ]
    return [[name, f"{model.pronouns_right(off):.1%}"] for name, off in trials]


def _names(heads: Sequence[Head]) -> str:
    numbers = " and ".join(str(number) for number in sorted(head.head + 1 for head in heads))
    return f"heads {numbers} of layer {heads[0].layer + 1}"


def _explain(model: Subject) -> str:
    pronouns = sum(phrase.pronoun is not None for phrase in model.corpus)
    return (
        f"Over the {pronouns} unseen phrases with a pronoun, of which two nouns could be meant: the mean weight that"
        " the pronoun gives to the one that is, and in how many phrases that is more than the other noun gets."
    )


def _scope(model: Subject) -> str:
    return (
        f"Of {model.describe()}. It can show, with known antecedents, which heads find them and what is lost without"
        " them, where the paper has one sentence; it cannot show the paper's own heads, of a model of 6 layers trained"
        " on 4.5 million pairs."
    )
