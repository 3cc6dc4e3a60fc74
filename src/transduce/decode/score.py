"""The probability that a model gives to a target it did not choose: for perplexity, for filtering and for ranking."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transduce.config import SearchConfig
from transduce.decode.engine import batches, go_on
from transduce.decode.hypothesis import length_divisor
from transduce.errors import UserError
from transduce.evaluate.perplexity import perplexity
from transduce.model import Transformer
from transduce.text.codec import PAD

if TYPE_CHECKING:
    from transduce.decode.torch_engine import TorchEngine
    from transduce.decode.translator import Translator

Pair = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True)
class PairScore:
    """What a model thinks of a given target: the log-probability of each token, the end token last."""

    ids: tuple[int, ...]
    """Of the target, without the end token."""
    token_log_probabilities: tuple[float, ...]
    score: float
    """By which a beam search without a coverage penalty would rank it: the log-probability over the length penalty."""

    @property
    def log_probability(self) -> float:
        """Of the whole target."""
        return math.fsum(self.token_log_probabilities)

    @property
    def tokens(self) -> int:
        """How many there are, the end token included."""
        return len(self.token_log_probabilities)

    @property
    def perplexity(self) -> float:
        """Per token."""
        return perplexity(-self.log_probability, self.tokens)


def score_pairs(
    engine: TorchEngine, pairs: Sequence[Pair], search: SearchConfig, *, between: Callable[[], None] = go_on
) -> list[PairScore]:
    """The score of each pair of ids, both without the end token; a pair's does not depend on the others."""
    from transduce.decode.torch_engine import MAX_LOGITS, pad, shift_right  # which imports this file

    model = one_model(engine)
    scores: dict[int, PairScore] = {}
    budget = min(search.batch_tokens, MAX_LOGITS // model.projection.out_features)
    for places in batches([max(map(len, pair)) for pair in pairs], budget, budget):
        between()
        source = pad([pairs[place][0] for place in places]).to(engine.device)
        expected = pad([pairs[place][1] for place in places]).to(engine.device)
        rows = target_log_probabilities(model, source, shift_right(expected), expected).tolist()
        for place, row in zip(places, rows, strict=True):
            ids = tuple(pairs[place][1])
            found = tuple(row[: len(ids) + 1])
            scores[place] = PairScore(ids, found, math.fsum(found) / length_divisor(len(found), search))
    return [scores[place] for place in range(len(pairs))]


def one_model(engine: TorchEngine) -> Transformer:
    """The engine's model; what is asked of given targets is asked of one."""
    if len(engine.models) > 1:
        raise UserError("scores and alignments of given pairs are those of one model: name one of the ensemble")
    return engine.model


def score_lines(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    alpha: float | None = None,
    first_line: int = 1,
) -> list[PairScore]:
    """One score per pair of lines, in order; of a side that is too long only the beginning counts, with a warning.

    A blank line has an end token like any other, so that every pair has a score. `first_line` only names lines in
    warnings.
    """
    search = translator.search if alpha is None else translator.search.model_copy(update={"alpha": alpha})
    pairs = encode_pairs(translator, sources, targets, first_line=first_line)
    return score_pairs(translator.reference, pairs, search, between=translator.between)


def encode_pairs(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], *, first_line: int = 1
) -> list[Pair]:
    """The ids of given pairs, each side cut to what the model can take; a warning names each line that is cut."""
    limit = translator.max_input
    sides = translator.source_codec.encode_many(sources), translator.target_codec.encode_many(targets)
    pairs = list(zip(*sides, strict=True))
    for number, pair in enumerate(pairs, first_line):
        if (length := max(map(len, pair))) > limit:
            translator.warn(f"line {number}: {length} tokens: only the first {limit} of each side are looked at")
    return [(source[:limit], target[:limit]) for source, target in pairs]


@torch.inference_mode()
def target_log_probabilities(model: Transformer, source: Tensor, target: Tensor, expected: Tensor) -> Tensor:
    """The log-probability of each expected token (BT), zero at padding; `target` is `expected` shifted by one."""
    scores = torch.log_softmax(model.logits(model(source, target)), dim=-1)
    chosen = scores.gather(-1, expected.unsqueeze(-1)).squeeze(-1)
    return chosen.masked_fill(expected == PAD, 0.0)


def negative_log_likelihood(model: Transformer, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> tuple[float, int]:
    """The sum over all expected tokens of all batches, and their number."""
    total, tokens = 0.0, 0
    for source, target, expected in batches:
        total -= float(target_log_probabilities(model, source, target, expected).sum())
        tokens += int((expected != PAD).sum())
    return total, tokens
