"""Figure 5: heads that learned different tasks, among them the structure of the sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping

from transduce.explain.figures import lines_svg
from transduce.explain.head import Head
from transduce.explain.head_picture import heads_svg
from transduce.explain.head_scores import clauses
from transduce.explain.heads import SCORES, Loss, Scores
from transduce.paper import figure4
from transduce.paper.found_heads import Subject, subject
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study

SHARE = 0.2
"""Of the way from chance to 1 that a score must have come for the head to be named by it."""
TASKS = {
    "previous": "the token before",
    "same": "the token itself",
    "next": "the token behind",
    "dependency": "a far complement",
    "governor": "a far verb",
    "anaphora": "anaphora",
    "alignment": "alignment",
    "structure": "the own clause",
}


def figure5(study: Study) -> Result:
    """Two heads in full that keep to the clause, and a table of what every head does."""
    model = subject(study)
    sentence = _sentence(model)
    text, reading = model.read(sentence)
    first, second = model.found.best("structure")[:2]
    pictures = [
        Picture(
            f"figure5-{place}",
            f"All that {head} attends to",
            lines_svg(reading.words["encoder"], layer=head.layer, heads=[head.head]),
        )
        for place, head in (("first", first), ("second", second))
    ]
    whole, without = model.losses()
    return Result(
        name="figure5",
        title="Figure 5: heads that learned the structure of the sentence",
        scope=_scope(model),
        parts=[
            f"“{sentence}” → “{text}”. The two heads that keep to the clause most: {first}, {second}.",
            *pictures,
            Table("figure5-claims", ["what", "paper", "here"], _claims(model, first, second)),
            _explain(whole),
            Picture(
                "figure5-heads", "What every head does, layers by heads", heads_svg(_panels(model, whole, without))
            ),
            Table("figure5-heads", _HEADING, [_row(head, model, whole, without[head]) for head in model.found.heads]),
        ],
    )


def task(scores: Scores, chance: Scores) -> str:
    """What a head does most, measured from chance; nothing if all of it is little."""
    shares = {
        name: (getattr(scores, name) - getattr(chance, name)) / (1 - getattr(chance, name))
        for name in TASKS
        if not math.isnan(getattr(scores, name))
    }
    best = max(shares, key=lambda name: shares[name], default=None)
    return TASKS[best] if best is not None and shares[best] >= SHARE else ""


_HEADING = ("head", "does", *SCORES, "loss without", "BLEU without")


def _row(head: Head, model: Subject, whole: Loss, without: Loss) -> list[str]:
    scores = model.found.heads[head]
    values = [getattr(scores, name) for name in SCORES]
    return [
        str(head),
        task(scores, model.found.chance[head.kind]),
        *("" if math.isnan(value) else f"{value:.2f}" for value in values),
        f"{without.negative_log_likelihood - whole.negative_log_likelihood:+.3f}",
        f"{without.bleu - whole.bleu:+.1f}",
    ]


def _panels(model: Subject, whole: Loss, without: Mapping[Head, Loss]) -> dict[str, dict[Head, float]]:
    panels = {
        name: {head: float(getattr(scores, name)) for head, scores in model.found.heads.items()}
        for name in SCORES
        if name != "resolution"
    }
    lost = {head: loss.negative_log_likelihood - whole.negative_log_likelihood for head, loss in without.items()}
    return panels | {
        "loss without": lost,
        "BLEU lost": {head: whole.bleu - loss.bleu for head, loss in without.items()},
    }


def _claims(model: Subject, first: Head, second: Head) -> list[list[str]]:
    found = model.found
    tasks = {task(scores, found.chance[head.kind]) for head, scores in found.heads.items()} - {""}
    named = sum(bool(task(scores, found.chance[head.kind])) for head, scores in found.heads.items())
    both = " and ".join(f"{found.heads[head].structure:.2f}" for head in (first, second))
    return [
        ["heads that behave by the structure of the sentence", "layer 5 of 6, two heads", f"{first}; {second}"],
        ["weight that the own clause gets beyond what distance explains", "", both],
        [
            "heads learned to perform different tasks",
            "clearly",
            f"{len(tasks)} tasks, {named} of {len(found.heads)} heads",
        ],
    ]


def _sentence(model: Subject) -> str:
    """The paper's, or of the unseen phrases the longest of those with most clauses: none picked."""
    if not model.knows_only_phrases:
        return figure4.SENTENCE
    sources = [phrase.source for phrase in model.corpus]
    return max(sources, key=lambda source: (clauses(source.split(" "))[-1], len(source)))


def _explain(whole: Loss) -> str:
    return (
        "Every head of the model: the mean weight that falls where each task would have it (`explain/heads.py:Scores`"
        " says what each column is); what the head does most, if that is a fifth of the way from chance to 1; and by"
        f" how much the loss (of {whole.negative_log_likelihood:.3f} nats a token) and BLEU (of {whole.bleu:.1f},"
        " greedy) change when the head alone is switched off. Chance is attention that is even over all that a head may"
        " look at: in the decoder, what was read so far. Clauses are what punctuation separates. In the picture each"
        " panel has its own scale."
    )


def _scope(model: Subject) -> str:
    return (
        f"Of {model.describe()}. It can show whether heads take on different tasks and what each is worth; “structure”"
        " is measured here as keeping to the clause, which is one part of what the paper's pictures let one see. The"
        " paper's own heads are those of a model of 6 layers trained on 4.5 million pairs."
    )
