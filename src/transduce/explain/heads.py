"""The head finder: what each head of a model does, over a corpus, and what is lost without it.

Every score is a mean weight from 0 to 1, NaN where it has no meaning or the corpus nothing to tell: a corpus of plain
pairs knows no pronouns and no alignments, the phrasebook knows both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from transduce.data.phrasebook import Phrase
from transduce.errors import UserError
from transduce.explain import head_scores
from transduce.explain.ablation import switched_off
from transduce.explain.head import Head
from transduce.explain.head_scores import Floats, Link
from transduce.explain.reading import Reading, read_pair
from transduce.explain.record import Kind

if TYPE_CHECKING:
    from transduce.decode.translator import Translator


@dataclass(frozen=True)
class Scores:
    """What a head looks at. Distances are in tokens, the rest is of words."""

    previous: float
    """The token before; of the decoder, the one before that which was read last."""
    same: float
    """The token itself; of the decoder, the one that was read last."""
    next: float
    """The token behind."""
    far: float
    """Words at least three places away, the end token left out."""
    dependency: float
    """From a word to what completes it far behind: make to more difficult, did to see."""
    governor: float
    """The same backwards: more difficult to make, see to did."""
    anaphora: float
    """From a pronoun, or from the step that chooses its translation, to the noun that it stands for."""
    resolution: float
    """The share of pronouns that give the noun they stand for more than the other noun that could be meant."""
    alignment: float
    """From a target word to the source words that it translates."""
    structure: float
    """Words of the own clause, beyond what distance alone explains: see `head_scores.structure`."""


SCORES = tuple(field.name for field in fields(Scores))


@dataclass(frozen=True)
class Found:
    """The scores of all heads of a model, and those of a head that looks alike at all it may look at."""

    heads: dict[Head, Scores]
    chance: dict[Kind, Scores]

    def best(self, score: str, kind: Kind = "encoder", *, layer: int | None = None) -> list[Head]:
        """The heads of a kind, and perhaps of one layer, that have this score, the highest first."""
        known = {
            head: float(getattr(scores, score))
            for head, scores in self.heads.items()
            if head.kind == kind and layer in (None, head.layer) and not math.isnan(getattr(scores, score))
        }
        return sorted(known, key=lambda head: (-known[head], head))


@dataclass(frozen=True)
class Loss:
    """What a model is worth without some of its heads."""

    negative_log_likelihood: float
    """Per token of the references, in nats."""
    bleu: float
    """Of greedily decoded text."""


def plain(source: str, target: str) -> Phrase:
    """A pair of which nothing more is known."""
    return Phrase(source, target, "", frozenset(), (), None)


def find_heads(
    translator: Translator, corpus: Sequence[Phrase], *, told: Callable[[int], None] = lambda done: None
) -> Found:
    """Read every pair with its reference and score every head; `told` hears how many pairs were read."""
    if not corpus:
        raise UserError("no sentences to find heads by: give one or more")
    readings = []
    for done, phrase in enumerate(corpus, 1):
        sides = translator.source_codec.encode(phrase.source), translator.target_codec.encode(phrase.target)
        readings.append(read_pair(translator, *sides))
        told(done)
    return score_heads(readings, corpus)


def score_heads(readings: Sequence[Reading], corpus: Sequence[Phrase]) -> Found:
    """The scores of all heads from what they attended to in each pair."""
    heads: dict[Head, Scores] = {}
    chance: dict[Kind, Scores] = {}
    for kind in readings[0].tokens:
        tasks, even = _tasks(readings, corpus, kind), [reading.even for reading in readings]
        size = readings[0].tokens[kind].weights.shape[:2]
        values = {name: _mean(readings, kind, links) for name, links in tasks.items()}
        alike = {name: _mean(even, kind, links).item() for name, links in tasks.items()}
        if kind == "encoder":
            values |= {"structure": _structure(readings), "resolution": _resolution(readings, corpus)}
            alike |= {"structure": 0.0, "resolution": 0.5}
        unknown = np.full(size, math.nan)
        for layer, head in np.ndindex(*size):
            own = {name: float(values.get(name, unknown)[layer, head]) for name in SCORES}
            heads[Head(kind, layer, head)] = Scores(**own)
        chance[kind] = Scores(**{name: alike.get(name, math.nan) for name in SCORES})
    return Found(heads, chance)


def without(translator: Translator, heads: Sequence[Head], corpus: Sequence[Phrase]) -> Loss:
    """The model's loss and BLEU on a corpus with these heads switched off; none: as it is."""
    from transduce.decode.translator import Translator
    from transduce.evaluate.bleu import bleu

    engine = translator.reference
    greedy = translator.search.model_copy(update={"beam": 1, "groups": 1, "sampling": False})
    own = Translator(engine, translator.source_codec, translator.target_codec, greedy)
    sources, targets = [phrase.source for phrase in corpus], [phrase.target for phrase in corpus]
    with switched_off(engine.model, heads):
        likelihood, tokens = own.likelihood(sources, targets)
        texts = [translation.text for translation in own.translate(sources)]
    return Loss(likelihood / tokens, bleu(texts, targets).value)


Tasks = dict[str, list[tuple[bool, list[Link]]]]
"""By score, for each pair: whether the links are of words (else of tokens), and the links."""


def _tasks(readings: Sequence[Reading], corpus: Sequence[Phrase], kind: Kind) -> Tasks:
    """What heads of a kind may be good at, where the corpus has any link for it."""
    tasks: Tasks = {}
    for reading, phrase in zip(readings, corpus, strict=True):
        tokens, words = reading.tokens[kind], reading.words[kind]
        sizes = len(tokens.queries), len(tokens.keys)
        found: dict[str, tuple[bool, list[Link]]] = {}
        if kind != "cross":
            found |= {"previous": (False, head_scores.at_distance(*sizes, -1))}
            found |= {"same": (False, head_scores.at_distance(*sizes, 0))}
        if kind == "encoder":
            found["next"] = (False, head_scores.at_distance(*sizes, 1))
            found["far"] = (True, head_scores.far_away(len(words.keys) - 1))  # the last is the end token
            found["dependency"] = (True, head_scores.dependencies(phrase))
            found["governor"] = (True, head_scores.turned(head_scores.dependencies(phrase)))
            found["anaphora"] = (True, head_scores.antecedent(phrase))
        elif kind == "decoder":
            found["anaphora"] = (True, head_scores.translated_antecedent(phrase))
        else:
            found["anaphora"] = (True, head_scores.antecedent_across(phrase))
            found["alignment"] = (True, head_scores.alignment(phrase))
        for name, links in found.items():
            tasks.setdefault(name, []).append(links)
    return {name: pairs for name, pairs in tasks.items() if any(links for _, links in pairs)}


def _mean(readings: Sequence[Reading], kind: Kind, tasks: Sequence[tuple[bool, list[Link]]]) -> Floats:
    """The mean weight on all links of a corpus, by head: LH."""
    weights: list[Floats] = []
    for reading, (by_words, links) in zip(readings, tasks, strict=True):
        weights += head_scores.on_links((reading.words if by_words else reading.tokens)[kind].weights, links)
    return np.asarray(np.mean(weights, axis=0))


def _resolution(readings: Sequence[Reading], corpus: Sequence[Phrase]) -> Floats:
    """How often the encoder's pronouns prefer the right noun; NaN without any pronouns."""
    won = []
    for reading, phrase in zip(readings, corpus, strict=True):
        if it := phrase.pronoun:
            weights = reading.words["encoder"].weights[:, :, it.source]
            won.append(weights[..., it.antecedent] > weights[..., it.distractor])
    size = readings[0].words["encoder"].weights.shape[:2]
    return np.mean(won, axis=0) if won else np.full(size, math.nan)


def _structure(readings: Sequence[Reading]) -> Floats:
    """Of the encoder, over the sentences with more than one clause; NaN without any."""
    encoders = [reading.words["encoder"] for reading in readings]
    cut = [(attention.weights, head_scores.clauses(attention.keys[:-1])) for attention in encoders]
    several = [(weights, clause) for weights, clause in cut if clause[-1:] != [0] and clause]
    size = encoders[0].weights.shape[:2]
    return head_scores.structure(several) if several else np.full(size, math.nan)
