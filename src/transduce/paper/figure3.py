"""Figure 3: what a verb attends to far away, in all heads of a layer."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.data.phrasebook import Phrase, phrases
from transduce.explain.figures import lines_svg
from transduce.explain.head import Head
from transduce.explain.head_scores import CLAUSE_END, Link, dependencies
from transduce.explain.heads import find_heads
from transduce.paper.found_heads import Subject, subject
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study

SENTENCE = (
    "It is in this spirit that a majority of American governments have passed new laws since 2009 making the"
    " registration or voting process more difficult."
)
MORE = 5
"""Times as many phrases as for the other figures are looked through for the verb."""
VERB, COMPLEMENT = "making", ("more", "difficult")


def figure3(study: Study) -> Result:
    """The word "making" of the paper's sentence, or a form of "make" in a phrase that the model knows."""
    model = subject(study)
    made = [phrase for phrase in phrases("test", MORE * len(model.corpus)) if _complements(phrase)]
    sentence, verb, complement = _dependency(model, made)
    words = sentence.split(" ")
    text, reading = model.read(sentence)
    attention = reading.words["encoder"]
    found = find_heads(model.translator, made)
    best = found.best("dependency")[0]
    weights = attention.weights[best.layer, :, verb, list(complement)].sum(axis=0)
    alike = reading.even.words["encoder"].weights[0, 0, verb, list(complement)].sum()
    phrase = " ".join(words[place] for place in complement).strip(CLAUSE_END)
    mean = [found.heads[Head("encoder", best.layer, head)].dependency for head in range(attention.num_heads)]
    chance = found.chance["encoder"].dependency
    rows = [[str(head + 1), f"{weights[head]:.2f}", f"{mean[head]:.2f}"] for head in range(attention.num_heads)]
    many = sum(value > 2 * chance for value in mean)
    claims = [
        ["layer shown", "5 of 6", f"{best.layer + 1} of {attention.num_layers}"],
        ["heads of it that look from the verb to its complement", "many of 8", f"{many} of {attention.num_heads}"],
        ["strongest head for far words that belong together", "", _strongest(model)],
        ["the complement", f"{VERB} ... {' '.join(COMPLEMENT)}", f"{words[verb]} ... {phrase}"],
    ]
    legend = (
        f"Each head of the layer: the weight that “{words[verb]}” gives to “{phrase}” here, and the mean over"
        f" {len(made)} unseen phrases with “make ... more ...”. Uniform attention would give {alike:.2f} here and"
        f" {chance:.2f} there; a head counts in the table above if its mean is more than twice that."
    )
    if not many and model.knows_only_phrases:
        legend += (
            " The paper's claim does not show in this model. One reason may be that its German verb is the same"
            " whatever completes it, so that there is little to gain from looking there."
        )
    picture = Picture(
        "figure3-attention",
        f"What {words[verb]!r} attends to in all heads of encoder layer {best.layer + 1}",
        lines_svg(attention, layer=best.layer, query=verb),
    )
    return Result(
        name="figure3",
        title="Figure 3: a long-distance dependency in the encoder's self-attention",
        scope=_scope(model),
        parts=[
            f"“{sentence}” → “{text}”. Attention of “{words[verb]}”, all heads of the layer, each in its colour.",
            picture,
            Table("figure3-claims", ["what", "paper", "here"], claims),
            legend,
            Table(
                "figure3-heads", ["head", "here", "all phrases"], [*rows, ["uniform", f"{alike:.2f}", f"{chance:.2f}"]]
            ),
        ],
    )


def _complements(phrase: Phrase) -> list[Link]:
    """A form of "make" with "more difficult" or the like."""
    return [link for link in dependencies(phrase) if len(link[1]) == len(COMPLEMENT)]


def _dependency(model: Subject, made: Sequence[Phrase]) -> tuple[str, int, tuple[int, ...]]:
    """A sentence, its verb, and the words far away that complete it: of unseen phrases the longest, none picked."""
    if not model.knows_only_phrases:
        words = [word.strip(CLAUSE_END) for word in SENTENCE.split(" ")]
        return SENTENCE, words.index(VERB), tuple(words.index(word) for word in COMPLEMENT)
    known = [(phrase.source, verb, complement) for phrase in made for verb, complement in _complements(phrase)]
    return max(known, key=lambda found: len(found[0]))


def _strongest(model: Subject) -> str:
    """Of all phrases and both directions, such as "did ... see", whose German is one word."""
    name, head = max(
        ((name, model.found.best(name)[0]) for name in ("dependency", "governor")),
        key=lambda found: float(getattr(model.found.heads[found[1]], found[0])),
    )
    value, chance = (getattr(scores, name) for scores in (model.found.heads[head], model.found.chance["encoder"]))
    return f"{head}: {value:.2f} (uniform {chance:.2f})"


def _scope(model: Subject) -> str:
    return (
        f"Of {model.describe()}. It can show whether heads reach a verb's far complement; the paper's own heads are"
        " those of a model trained on 4.5 million pairs, and its figure is one sentence without a number."
    )
