"""Beam search with the paper's length penalty (section 6.1).

One rule: of the 2 x beam best continuations of a sentence, those that end among the first `beam` are finished, and the
best `beam` that do not end go on. A sentence is done when `beam` hypotheses are finished, or at its own length limit,
where those still going on are ended. Finished ones are then ranked by log-probability / ((5 + length) / 6)^alpha.

B sentences, N beam, R = B x N rows, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transduce.decode.hypothesis import Hypothesis, length_penalty
from transduce.decode.limits import length_limits, log_probabilities
from transduce.model import Cache, Transformer
from transduce.text.codec import BOS, EOS


@dataclass
class Sentence:
    """One sentence under way: its place in the batch, its limit and what is finished."""

    place: int
    limit: int
    finished: list[Hypothesis] = field(default_factory=list)

    def finish(self, ids: list[int], log_probability: float, alpha: float) -> None:
        """One more complete hypothesis."""
        score = log_probability / length_penalty(len(ids) + 1, alpha)
        self.finished.append(Hypothesis(tuple(ids), log_probability, score))


@dataclass
class Beams:
    """All rows that go on: tokens chosen so far, their log-probabilities, and the cache behind them."""

    tokens: Tensor  # RT, BOS first
    totals: Tensor  # BN
    may_attend: Tensor | None
    cache: Cache

    def select(self, sentences: Tensor, rows: Tensor, chosen: Tensor, totals: Tensor) -> None:
        """Go on with these sentences, each row the continuation of row rows[i] by the token chosen[i]."""
        if sentences.numel() < self.totals.size(0):
            self.cache.keep(sentences)
            if self.may_attend is not None:
                self.may_attend = self.may_attend.index_select(0, sentences)
        self.cache.reorder(rows)
        self.tokens = torch.cat([self.tokens.index_select(0, rows), chosen.unsqueeze(1)], dim=1)
        self.totals = totals


@torch.inference_mode()
def beam_search(
    model: Transformer, source: Tensor, *, beam: int, alpha: float, extra_length: int
) -> list[list[Hypothesis]]:
    """The finished hypotheses of each source sentence (BS), best first, at most `beam` of them."""
    limits = length_limits(source, extra_length, model.config)
    sentences = [Sentence(place, limit) for place, limit in enumerate(limits)]
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    memory, may_attend = model.encode(source)
    totals = memory.new_full((len(sentences), beam), float("-inf"))
    totals[:, 0] = 0.0  # all beams start as one
    tokens = source.new_full((len(sentences) * beam, 1), BOS)
    beams = Beams(tokens, totals, may_attend, model.start(memory))
    length = 0
    while sentences:
        length += 1
        hidden = model.decode(beams.tokens[:, -1:], None, beams.may_attend, cache=beams.cache)
        scores = beams.totals.unsqueeze(-1) + log_probabilities(model.logits(hidden[:, -1])).unflatten(0, (-1, beam))
        candidates = scores.flatten(1).topk(2 * beam)  # B(2N) of B(NV)
        size = scores.size(-1)
        ending = candidates.indices % size == EOS
        collect_finished(sentences, beams, candidates, ending, size, beam=beam, alpha=alpha)
        end_at_limit(sentences, beams, scores[:, :, EOS], length, alpha=alpha)
        going_on = [i for i, s in enumerate(sentences) if len(s.finished) < beam and length < s.limit]
        for sentence in sentences:
            ranked = sorted(sentence.finished, key=lambda h: -h.score)
            results[sentence.place] = ranked[:beam]
        advance(beams, candidates, ending, going_on, size, beam=beam)
        sentences = [sentences[i] for i in going_on]
    return results


def collect_finished(
    sentences: list[Sentence],
    beams: Beams,
    candidates: torch.return_types.topk,
    ending: Tensor,
    size: int,
    *,
    beam: int,
    alpha: float,
) -> None:
    """Finish the candidates that end among the first `beam`."""
    finished = ending[:, :beam] & candidates.values[:, :beam].isfinite()
    for place, rank in finished.nonzero().tolist():
        row = place * beam + int(candidates.indices[place, rank]) // size
        ids = beams.tokens[row, 1:].tolist()
        sentences[place].finish(ids, float(candidates.values[place, rank]), alpha)


def end_at_limit(sentences: list[Sentence], beams: Beams, ends: Tensor, length: int, *, alpha: float) -> None:
    """At a sentence's limit, end every row that is still going on."""
    beam = ends.size(1)
    for place, sentence in enumerate(sentences):
        if length < sentence.limit or len(sentence.finished) >= beam:
            continue
        known = {hypothesis.ids for hypothesis in sentence.finished}
        for slot, total in enumerate(ends[place].tolist()):
            ids = beams.tokens[place * beam + slot, 1:].tolist()
            if math.isfinite(total) and tuple(ids) not in known:
                sentence.finish(ids, total, alpha)


def advance(
    beams: Beams,
    candidates: torch.return_types.topk,
    ending: Tensor,
    going_on: list[int],
    size: int,
    *,
    beam: int,
) -> None:
    """Go on with the best `beam` candidates that do not end, of the sentences that go on."""
    if not going_on:
        return
    sentences = torch.tensor(going_on, dtype=torch.int64, device=ending.device)
    ending, indices, values = (t.index_select(0, sentences) for t in (ending, candidates.indices, candidates.values))
    ranks = torch.arange(2 * beam, device=ending.device) + ending * 2 * beam
    order = ranks.topk(beam, largest=False).indices  # the first `beam` that do not end
    indices, values = indices.gather(1, order), values.gather(1, order)
    rows = sentences.unsqueeze(1) * beam + indices // size
    beams.select(sentences, rows.flatten(), (indices % size).flatten(), values)
