"""Which pairs are used, by rules that `train` and the doctor share, and which of them are held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from transduce.config import DataConfig
from transduce.data.corpus import Batch, Corpus, Pair, aligned_batches
from transduce.data.pace import Tick, unheard
from transduce.data.problems import Place, Problem, Tally

RATIO_FROM = 20
"""Characters that the longer side must exceed before the length ratio is looked at."""
MIN_HELD_OUT, MAX_HELD_OUT = 200, 2000
HELD_OUT_SHARE, MAX_HELD_OUT_SHARE = 0.01, 0.1

_BREAKS = "\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def usable_pairs(corpus: Corpus, data: DataConfig, tally: Tally | None = None, tick: Tick = unheard) -> Iterator[Pair]:
    """The pairs worth training on; the others are counted in `tally`; too many are an error at the end."""
    tally = Tally() if tally is None else tally
    for batch in aligned_batches(corpus, tick):
        problems = judge(batch, data)
        count(batch, problems, corpus, tally)
        for index, (source, target) in enumerate(zip(batch.sources, batch.targets, strict=True)):
            if index not in problems:
                yield Pair(batch.line + index, source, target, None, batch.file, batch.file_line + index)
    tally.refuse_if_bad(corpus.files, strict=data.strict)


def survey(corpus: Corpus, data: DataConfig, tick: Tick = unheard) -> Tally:
    """What `usable_pairs` would drop, known before anything is spent on the pairs; raises as it would."""
    tally = Tally()
    for batch in aligned_batches(corpus, tick):
        count(batch, judge(batch, data), corpus, tally)
    tally.refuse_if_bad(corpus.files, strict=data.strict)
    return tally


def judge(batch: Batch, data: DataConfig) -> dict[int, Problem]:
    """The unusable pairs of a batch, by index: the gravest problem of each."""
    problems: dict[int, Problem] = {}
    for texts, empty in ((batch.targets, Problem.EMPTY_TARGET), (batch.sources, Problem.EMPTY_SOURCE)):
        _mark(problems, (index for index, text in enumerate(texts) if not text or text.isspace()), empty)
    source, target = characters(batch.sources), characters(batch.targets)
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    _mark(problems, np.flatnonzero(longer > data.max_characters).tolist(), Problem.OVER_LONG)
    apart = (longer >= data.max_ratio * shorter) & (longer > RATIO_FROM)
    _mark(problems, np.flatnonzero(apart).tolist(), Problem.LENGTH_RATIO)
    for texts in (batch.sources, batch.targets):
        whole = "".join(texts)
        for character, problem in _FORBIDDEN.items():
            if character in whole:
                _mark(problems, (i for i, text in enumerate(texts) if character in text), problem)
    for index, problem in batch.problems.items():
        _mark(problems, (index,), problem)
    return problems


def characters(texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The length of each text."""
    return np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))


def count(batch: Batch, problems: dict[int, Problem], corpus: Corpus, tally: Tally) -> None:
    """Enter a judged batch into the tally, in the order of its lines."""
    pairs = min(len(batch.sources), len(batch.targets))
    tally.pairs += pairs
    tally.parts[batch.part] += pairs
    tally.boms += batch.boms
    tally.crs += batch.crs
    for index in sorted(problems):
        tally.drop(problems[index], Place(corpus.first_files[batch.file], batch.file_line + index))


def held_out_share(pairs: int) -> float:
    """The share of `pairs` to validate on: 1 %, but 200 to 2,000 pairs, and never more than a tenth."""
    if pairs == 0:
        return 0.0
    wanted = min(max(HELD_OUT_SHARE * pairs, MIN_HELD_OUT), MAX_HELD_OUT)
    return min(wanted / pairs, MAX_HELD_OUT_SHARE)


def held_out(source: str, share: float) -> bool:
    """Whether pairs with this source are held out: by its hash, so that no source stands on both sides."""
    digest = hashlib.blake2b(source.encode("utf-8", errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


_FORBIDDEN = {
    "\0": Problem.NUL,
    "\r": Problem.CARRIAGE_RETURN,
    **dict.fromkeys(_BREAKS, Problem.LINE_BREAK),
}
_GRAVITY = {problem: rank for rank, problem in enumerate(Problem)}


def _mark(problems: dict[int, Problem], indices: Iterator[int] | list[int] | tuple[int, ...], problem: Problem) -> None:
    for index in indices:
        known = problems.get(index)
        if known is None or _GRAVITY[problem] < _GRAVITY[known]:
            problems[index] = problem
