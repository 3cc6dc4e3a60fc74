"""The doctor reads corpora once, in memory that does not grow with them, and reports what is wrong."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from contextlib import closing
from itertools import combinations, compress, groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.config import DataConfig
from transduce.data.corpus import Batch, Corpus, read_batches
from transduce.data.hashes import PairHashes, Repeats
from transduce.data.pace import Tick, unheard
from transduce.data.problems import Finding, Place, Tally
from transduce.data.report import CorpusReport, FileShift, Overlap, PartReport, Report, Spread
from transduce.data.selection import characters, count, judge
from transduce.data.shift import LengthLog, find_shifts
from transduce.errors import UserError

Integers = NDArray[np.int64]


def examine(
    train: Corpus,
    *,
    valid: Corpus | None = None,
    test: Corpus | None = None,
    data: DataConfig,
    tick: Tick = unheard,
) -> Report:
    """Look at every line; `tick` is told how far it is.

    Only what cannot be read at all is an error: differing line counts and the rest are reported.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="transduce-doctor-") as directory:
            return _examine(train, valid, test, data, tick, Path(directory))
    except OSError as error:  # what is wrong with the corpora themselves is a CorpusError by now
        place = tempfile.gettempdir()
        raise UserError(f"{place}: cannot write: {error.strerror or error}: set TMPDIR to a place with room") from error


def _examine(
    train: Corpus,
    valid: Corpus | None,
    test: Corpus | None,
    data: DataConfig,
    tick: Tick,
    directory: Path,
) -> Report:
    named = [(name, corpus) for name, corpus in (("train", train), ("valid", valid), ("test", test)) if corpus]
    examinations: list[_Examination] = []
    for name, corpus in named:
        examination = _Examination(name, corpus, data, PairHashes(directory / name))
        for file, batches in groupby(read_batches(corpus, tick), key=attrgetter("file")):
            with closing(LengthLog()) as source, closing(LengthLog()) as target:
                for batch in batches:
                    examination.add(batch, source, target)
                if len(corpus.inputs[file]) == 2:  # where one line holds both sides, no shift is possible
                    examination.compare(file, source, target)
        examinations.append(examination)
    overlaps = [_overlap(part, other) for other, part in combinations(examinations, 2)]
    return Report(tuple(e.report() for e in examinations), tuple(overlaps))


def _overlap(part: _Examination, other: _Examination) -> Overlap:
    pairs, sources = part.hashes.shared_with(other.hashes)
    return Overlap(part.name, other.name, part.finding(pairs), part.finding(sources), part.tally.usable)


class _Examination:
    """What is known of one corpus so far."""

    def __init__(self, name: str, corpus: Corpus, data: DataConfig, hashes: PairHashes) -> None:
        self.name, self.corpus, self.data, self.hashes = name, corpus, data, hashes
        self.tally = Tally()
        self.identical = Finding()
        self.shifts: list[FileShift] = []
        self.surplus: list[str] = []
        self.source_lines = self.target_lines = 0
        self.first_lines: list[int] = []  # of each file, over all files
        self.parts = [PartReport(tuple(str(path) for path in part.files), part.weight) for part in corpus.parts]
        self.histograms = {
            name: _Histogram() for name in ("source characters", "target characters", "source words", "target words")
        }
        self.correlation = _Correlation()

    def add(self, batch: Batch, source_log: LengthLog, target_log: LengthLog) -> None:
        """Take in some pairs, and log the lengths of their lines."""
        if batch.file == len(self.first_lines):
            self.first_lines.append(batch.line)
        source, target = characters(batch.sources), characters(batch.targets)
        source_log.add(source)
        target_log.add(target)
        self.source_lines += len(source)
        self.target_lines += len(target)
        if batch.surplus:
            self.tally.boms, self.tally.crs = self.tally.boms + batch.boms, self.tally.crs + batch.crs
            return
        problems = judge(batch, self.data)
        count(batch, problems, self.corpus, self.tally)
        self.parts[batch.part] = self.parts[batch.part].plus(len(source), len(source) - len(problems))
        self._add_usable(batch, list(problems), source, target)

    def _add_usable(self, batch: Batch, problems: list[int], source: Integers, target: Integers) -> None:
        usable = np.ones(len(source), dtype=bool)
        usable[problems] = False
        chosen = usable.tolist()
        sources, targets = list(compress(batch.sources, chosen)), list(compress(batch.targets, chosen))
        lines = batch.line + np.flatnonzero(usable)
        if self.hashes.add(sources, targets, lines):
            for line, one, other in zip(lines.tolist(), sources, targets, strict=True):
                if one == other:
                    self.identical = self.identical.plus(self._place(line))
        source, target = source[usable], target[usable]
        self.correlation.add(source, target)
        for histogram, values in zip(
            self.histograms.values(), (source, target, _words(sources), _words(targets)), strict=True
        ):
            histogram.add(values)

    def compare(self, file: int, source: LengthLog, target: LengthLog) -> None:
        """Hold the sides of a file that has just ended against each other."""
        names = str(self.corpus.inputs[file][0]), str(self.corpus.inputs[file][1])
        if len(source) != len(target):
            self.surplus.append(f"{names[0]}: {len(source):,}, {names[1]}: {len(target):,}")
        self.shifts += [FileShift(*names, shift) for shift in find_shifts(source.values(), target.values())]

    def finding(self, repeats: Repeats) -> Finding:
        """Repeats with their places."""
        return Finding(repeats.count, tuple(self._place(line) for line in repeats.lines))

    def _place(self, line: int) -> Place:
        file = bisect_right(self.first_lines, line) - 1
        return Place(self.corpus.first_files[file], line - self.first_lines[file] + 1)

    def report(self) -> CorpusReport:
        copies, ambiguous = self.hashes.repeated()
        return CorpusReport(
            name=self.name,
            files=tuple(str(path) for path in self.corpus.files),
            parts=tuple(self.parts),
            source_lines=self.source_lines,
            target_lines=self.target_lines,
            surplus=tuple(self.surplus),
            pairs=self.tally.pairs,
            usable=self.tally.usable,
            boms=self.tally.boms,
            crs=self.tally.crs,
            dropped=dict(sorted(self.tally.dropped.items())),
            identical=self.identical,
            copies=self.finding(copies),
            ambiguous=self.finding(ambiguous),
            correlation=self.correlation.value(),
            shifts=tuple(self.shifts),
            lengths={name: histogram.spread() for name, histogram in self.histograms.items()},
        )


def _words(texts: list[str]) -> Integers:
    return np.fromiter((len(text.split()) for text in texts), dtype=np.int64, count=len(texts))


class _Histogram:
    """Counts of lengths, exact up to a limit that usable lines stay below unless the user allows more."""

    LIMIT = 1 << 16

    def __init__(self) -> None:
        self._counts = np.zeros(self.LIMIT + 1, dtype=np.int64)
        self._sum = self._maximum = 0

    def add(self, values: Integers) -> None:
        if len(values):
            counts = np.bincount(np.minimum(values, self.LIMIT))
            self._counts[: len(counts)] += counts
            self._sum += int(values.sum())
            self._maximum = max(self._maximum, int(values.max()))

    def spread(self) -> Spread:
        total = int(self._counts.sum())
        p95 = int(np.searchsorted(np.cumsum(self._counts), 0.95 * total))
        return Spread(self._sum / max(total, 1), p95, self._maximum)


class _Correlation:
    """Pearson's, of log lengths, from running sums."""

    def __init__(self) -> None:
        self._sums = np.zeros(6)

    def add(self, source: Integers, target: Integers) -> None:
        x, y = np.log(source + 1.0), np.log(target + 1.0)
        self._sums += [len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y]

    def value(self) -> float | None:
        n, x, y, xx, yy, xy = self._sums.tolist()
        spread = (n * xx - x * x) * (n * yy - y * y)
        return float((n * xy - x * y) / spread**0.5) if spread > 1e-9 * n**4 else None
