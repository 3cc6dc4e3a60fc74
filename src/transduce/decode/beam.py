"""Beam search with the paper's length penalty (section 6.1).

One rule: of the 2 x beam best continuations of a sentence, those that end among the first `beam` are finished, and the
best `beam` that do not end go on. A sentence is done when `beam` hypotheses are finished, or at its own length limit,
where those still going on are ended. Finished ones are then ranked by log-probability / ((5 + length) / 6)^alpha.

With groups, each group of a sentence is a beam of its own to this rule. With phrases, the continuations are ranked in
banks (`constraints.py`), and a sentence is done only when the score of no row so far is above that of the best. Where
outputs are to be trees, only what leads to one is a continuation (`well_formed.py`).

B sentences, G groups, N rows of a group, U = B x G beams, R = U x N rows, C = 2 x N candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

import torch
from torch import Tensor

from transduce.config import SearchConfig
from transduce.decode.candidates import Candidates, best_candidates
from transduce.decode.constraints import Candidate, Progress, in_turn
from transduce.decode.diversity import diverse_candidates
from transduce.decode.ensemble import Ensemble
from transduce.decode.hypothesis import Hypothesis, Request, length_divisor
from transduce.decode.limits import NEVER, forbid
from transduce.decode.well_formed import grown, keep_to_trees, seeds
from transduce.model import Transformer
from transduce.text.codec import BOS


@dataclass
class Sentence:
    """One sentence under way: its place in the batch, its limit and what each group has finished."""

    place: int
    request: Request
    limit: int
    finished: list[list[Hypothesis]] = field(default_factory=list)

    def ranked(self) -> list[Hypothesis]:
        """All that is finished, best first, none twice."""
        unique = {hypothesis.ids: hypothesis for group in reversed(self.finished) for hypothesis in group}
        return sorted(unique.values(), key=lambda hypothesis: -hypothesis.score)


class BeamSearch:
    """A batch of requests under way: `step` until `done`, then `results` has the hypotheses of each, best first."""

    @torch.inference_mode()
    def __init__(
        self,
        models: Sequence[Transformer],
        source: Tensor,
        requests: Sequence[Request],
        limits: Sequence[int],
        search: SearchConfig,
        *,
        beam: int,
    ) -> None:
        """`source` is BS, the requests' padded; `beam` may be wider than the search's where phrases need it."""
        assert beam % search.groups == 0
        self.search, self.beam, self.rows = search, beam, beam // search.groups
        self.sentences = [
            Sentence(place, request, limit, [[] for _ in range(search.groups)])
            for place, (request, limit) in enumerate(zip(requests, limits, strict=True))
        ]
        self.results: list[list[Hypothesis]] = [[] for _ in requests]
        self.ensemble = Ensemble(models, source, rows=beam, coverage=search.coverage > 0)
        self.tokens = source.new_full((len(requests) * beam, 1), BOS)  # RT
        self.sums = models[0].projection.weight.new_full((len(requests) * beam, 1), NEVER)  # RT: up to each token
        self.sums[:: self.rows] = 0.0  # all rows of a beam start as one
        self.progress = [Progress.start(r.phrases) if r.phrases else None for r in requests for _ in range(beam)]
        self.growths = seeds(r.trees for r in requests for _ in range(beam))

    @property
    def done(self) -> bool:
        """Whether no sentence goes on."""
        return not self.sentences

    @torch.inference_mode()
    def step(self) -> Candidates:
        """One more token for every row; returns what there was to choose from."""
        scores = self.ensemble.step(self.tokens[:, -1])
        unmet = [row for row, progress in enumerate(self.progress) if progress is not None and progress.left]
        requests, limits = [s.request for s in self.sentences], [s.limit for s in self.sentences]
        forbid(scores, self.tokens, requests, limits, self.search, unmet=unmet)
        keep_to_trees(scores, self.growths, limits, self.tokens.size(1))
        scores += self.sums[:, -1:]
        candidates = self._candidates(scores)
        self._finish(candidates)
        self._advance(candidates)
        return candidates

    def agreed(self) -> tuple[int, ...]:
        """With a batch of one: the first ids of all that may still become its best hypothesis."""
        if self.done:
            return self.results[0][0].ids if self.results[0] else ()
        (sentence,) = self.sentences
        alive = self.tokens[self.sums[:, -1].isfinite(), 1:].tolist()
        outputs = [*alive, *(h.ids for group in sentence.finished for h in group)]
        common: list[int] = []
        for ids in zip(*outputs, strict=False):
            if len(set(ids)) > 1:
                break
            common.append(ids[0])
        return tuple(common)

    def _candidates(self, scores: Tensor) -> Candidates:
        if self.search.groups > 1:
            grouped = scores.view(len(self.sentences), self.search.groups, self.rows, -1)
            return diverse_candidates(grouped, self.search.diversity)
        candidates = best_candidates(scores.unflatten(0, (-1, self.rows)))
        for place, sentence in enumerate(self.sentences):
            if sentence.request.phrases:
                self._rank_in_banks(place, scores, candidates)
        return candidates

    def _rank_in_banks(self, place: int, scores: Tensor, candidates: Candidates) -> None:
        """Put a sentence's candidates, its rows' best and the tokens that its phrases want, in the order of banks."""
        rows = range(place * self.rows, (place + 1) * self.rows)
        best = scores[rows.start : rows.stop].argmax(dim=1).tolist()
        wanted = {(row, token) for row in rows for token in self._progress(row).wanted()}
        known = zip(candidates.rows[place].tolist(), candidates.tokens[place].tolist(), strict=True)
        pairs = sorted(wanted | set(known) | set(zip(rows, best, strict=True)))
        totals = scores[[row for row, _ in pairs], [token for _, token in pairs]].tolist()
        possible = [Candidate(total, *pair) for total, pair in zip(totals, pairs, strict=True) if total > NEVER]
        left = [self._progress(c.row).advance(c.token).left for c in possible]
        ranked = list(islice(in_turn(possible, left), 2 * self.rows))
        candidates.totals[place] = NEVER
        for part, values in zip(
            candidates, zip(*((c.total, c.row, c.token) for c in ranked), strict=True), strict=False
        ):
            part[place, : len(ranked)] = torch.tensor(values, dtype=part.dtype, device=part.device)

    def _progress(self, row: int) -> Progress:
        progress = self.progress[row]
        assert progress is not None
        return progress

    def _finish(self, candidates: Candidates) -> None:
        finished = candidates.finished.nonzero().tolist()
        coverage = self.ensemble.coverage() if finished and self.search.coverage else None
        for beam, rank in finished:
            row, total = int(candidates.rows[beam, rank]), float(candidates.totals[beam, rank])
            sentence = self.sentences[beam // self.search.groups]
            ids = tuple(self.tokens[row, 1:].tolist())
            score = total / length_divisor(len(ids) + 1, self.search)
            if coverage is not None:
                score += self.search.coverage * coverage[row]
            sums = [*self.sums[row].tolist(), total] if sentence.request.token_scores else []
            steps = tuple(after - before for before, after in pairwise(sums))
            sentence.finished[beam % self.search.groups].append(Hypothesis(ids, total, score, steps))

    def _advance(self, candidates: Candidates) -> None:
        """Go on with the best that do not end, of the sentences that are not done."""
        going_on = candidates.going_on
        totals, rows, tokens = (part.gather(1, going_on) for part in candidates)
        done = self._done(totals)
        groups = self.search.groups
        staying = []
        for place, sentence in enumerate(self.sentences):
            if all(done[place * groups : (place + 1) * groups]):
                self.results[sentence.place] = sentence.ranked()[: self.beam]
            else:
                staying.append(place)
        if groups > 1:
            totals[torch.tensor(done, device=totals.device)] = NEVER
        sentences = None
        if len(staying) < len(self.sentences):
            sentences = torch.tensor(staying, dtype=torch.int64, device=rows.device)
            totals, rows, tokens = (
                part.view(-1, self.beam).index_select(0, sentences) for part in (totals, rows, tokens)
            )
            self.sentences = [self.sentences[place] for place in staying]
        if self.sentences:
            self._select(sentences, rows.flatten(), tokens.flatten(), totals.flatten())

    def _done(self, totals: Tensor) -> list[bool]:
        """Of each beam, whether it has finished enough or is at its limit; `totals` (UN) are of what could go on."""
        length = self.tokens.size(1)
        live = totals.amax(dim=1).tolist() if any(s.request.phrases for s in self.sentences) else None
        done = []
        for place, sentence in enumerate(self.sentences):
            for finished in sentence.finished:
                enough = len(finished) >= self.rows
                if live is not None and sentence.request.phrases:
                    ahead = live[place] / length_divisor(length, self.search)
                    best = max((hypothesis.score for hypothesis in finished), default=NEVER)
                    enough = len(finished) >= self.search.beam and ahead <= best
                done.append(enough or length >= sentence.limit)
        return done

    def _select(self, sentences: Tensor | None, rows: Tensor, tokens: Tensor, totals: Tensor) -> None:
        self.ensemble.select(sentences, rows)
        self.tokens = torch.cat([self.tokens.index_select(0, rows), tokens.unsqueeze(1)], dim=1)
        self.sums = torch.cat([self.sums.index_select(0, rows), totals.unsqueeze(1)], dim=1)
        if self.growths:
            self.growths = grown((self.growths[row] for row in rows.tolist()), tokens.tolist())
        if any(sentence.request.phrases for sentence in self.sentences):
            before = [self.progress[row] for row in rows.tolist()]
            chosen = zip(before, tokens.tolist(), strict=True)
            self.progress = [None if progress is None else progress.advance(token) for progress, token in chosen]
        else:
            self.progress = []


def beam_search(
    models: Sequence[Transformer],
    source: Tensor,
    requests: Sequence[Request],
    limits: Sequence[int],
    search: SearchConfig,
    *,
    beam: int,
) -> list[list[Hypothesis]]:
    """The hypotheses of each request, best first, at most `beam` of them."""
    under_way = BeamSearch(models, source, requests, limits, search, beam=beam)
    while not under_way.done:
        under_way.step()
    return under_way.results
