"""Where two sides fall out of step, from line lengths alone: long sentences have long translations.

Every hypothesis is an offset k: source line i belongs to target line i + k. Log length ratios of true pairs
lie close together, those of strangers do not; a running sum of that evidence (CUSUM) against the offset held
so far raises the alarm, and the line where the sum began to rise is the shift. Text sorted by length, or all
of one length, hides shifts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NEAR = 8
"""Offsets up to this are always tried; those up to REACH where none of them explains the lines."""
REACH = 4096
WINDOW = 512
EXPLAINED = 0.35  # correlation of a window's lengths
FAR_EXPLAINED = 0.5  # the same for an offset picked as the best of 2 * REACH
FAR_OFFSETS, FAR_SEARCHES = 16, 256  # bounds on the work for text that nothing explains
STEP = 32
AHEAD = 128
CHUNK = 8192
ALLOWANCE = 0.3  # nats a line that the other offset must do better: keeps a walk without drift from the alarm
ALARM = 30.0  # nats; clean corpora stay below 5
END_ALARM = 5.0  # nats, where differing line counts prove that there is a shift
FREEDOM = 4.0  # of Student's t: garbage lines must not decide
MIN_SPREAD = 0.05

Lengths = NDArray[np.uint16]
Floats = NDArray[np.float64]


class Shift(NamedTuple):
    """From source line `line` (from 1) on, line i fits target line i + `offset`; before, `change` less."""

    line: int
    offset: int
    change: int

    def __str__(self) -> str:
        missing, extra = ("source", "target") if self.change > 0 else ("target", "source")
        lines = "1 line" if abs(self.change) == 1 else f"{abs(self.change):,} lines"
        fits = f"source line i fits target line i{self.offset:+,}" if self.offset else "the sides are in step again"
        cause = f"{lines} missing in the {missing} or extra in the {extra}"
        return f"from about line {self.line:,} on {fits} ({cause})"


class LengthLog:
    """The line lengths of one file, on disk: two bytes a line."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="transduce-lengths-")  # noqa: SIM115 - closed by close
        self._count = 0

    def close(self) -> None:
        """Give the disk its room back."""
        self._file.close()

    def __len__(self) -> int:
        return self._count

    def add(self, lengths: Sequence[int] | NDArray[np.int64]) -> None:
        """Append; what is longer than 65,535 characters counts as that."""
        self._file.write(np.minimum(lengths, 65535).astype(np.uint16).tobytes())
        self._count += len(lengths)

    def values(self) -> Lengths:
        """All lengths, memory-mapped."""
        self._file.flush()
        if not self._count:
            return np.zeros(0, dtype=np.uint16)
        return np.memmap(self._file, dtype=np.uint16, mode="r", shape=(self._count,))


def describe_shift(source: Lengths, target: Lengths) -> str:
    """Where files of differing line counts probably part, in words."""
    shifts = find_shifts(source, target)
    if shifts:
        return str(shifts[0])
    return "no line stands out where they part: look at the end"


def find_shifts(source: Lengths, target: Lengths) -> tuple[Shift, ...]:
    """Every probable change of the offset between the sides, in order; none in a healthy corpus."""
    lines = min(len(source), len(target))
    if lines < 2 * STEP:
        return ()
    evidence = _Evidence.gather(source, target)
    return evidence.changes() if evidence else ()


class _Evidence:
    """How badly each offset explains each line."""

    def __init__(self, source: Lengths, target: Lengths, offsets: list[int], center: float, spread: float) -> None:
        self.source, self.target, self.offsets = source, target, offsets
        self.center, self.spread = center, spread
        self.lines = min(len(source), len(target))

    @classmethod
    def gather(cls, source: Lengths, target: Lengths) -> _Evidence | None:
        """The offsets worth trying and the spread of true pairs' ratios; None: lengths tell nothing here."""
        lines = min(len(source), len(target))
        offsets = [*range(-NEAR, NEAR + 1)]
        if len(target) - len(source) not in offsets:
            offsets.append(len(target) - len(source))
        centers, spreads, searches = [], [], 0
        for start in range(0, lines, WINDOW):
            stop = min(start + WINDOW, lines)
            best, correlation = _best_offset(source, target, start, stop, offsets)
            if correlation < EXPLAINED and searches < FAR_SEARCHES and len(offsets) < 2 * NEAR + FAR_OFFSETS:
                searches += 1
                best, correlation = _far_offset(source, target, start, stop)
                if correlation < FAR_EXPLAINED:
                    continue
                if best not in offsets:
                    offsets.append(best)
            if correlation >= EXPLAINED:
                ratios = _logs(target, start + best, stop + best) - _logs(source, start, stop)
                centers.append(float(np.nanmedian(ratios)))
                spreads.append(1.4826 * float(np.nanmedian(np.abs(ratios - centers[-1]))))
        if not centers:
            return None
        return cls(source, target, offsets, float(np.median(centers)), max(float(np.median(spreads)), MIN_SPREAD))

    def costs(self, start: int, stop: int) -> Floats:
        """Negative log likelihood up to a constant, offsets x lines."""
        logs = _logs(self.source, start, stop) + self.center
        low, high = min(self.offsets), max(self.offsets)
        if high - low > REACH:
            ratios = np.stack([_logs(self.target, start + k, stop + k) - logs for k in self.offsets])
        else:
            around = _logs(self.target, start + low, stop + high)
            ratios = np.stack([around[k - low : k - low + stop - start] - logs for k in self.offsets])
        ratios = np.nan_to_num(ratios, nan=2 * self.spread)  # past an end: as good as neither
        cost: Floats = (FREEDOM + 1) / 2 * np.log1p((ratios / self.spread) ** 2 / FREEDOM)
        return cost

    def changes(self) -> tuple[Shift, ...]:
        """Follow the offset through the lines."""
        shifts: list[Shift] = []
        held = self.offsets.index(0)
        sums = np.zeros(len(self.offsets))
        began = np.zeros(len(self.offsets), dtype=np.int64)
        for chunk in range(0, self.lines, CHUNK):
            stop = min(chunk + CHUNK, self.lines)
            steps = np.add.reduceat(self.costs(chunk, stop), np.arange(0, stop - chunk, STEP), axis=1)
            for step in range(steps.shape[1]):
                end = min(chunk + (step + 1) * STEP, stop)
                sums += steps[held, step] - steps[:, step] - ALLOWANCE * STEP
                began[sums <= 0] = end
                np.maximum(sums, 0, out=sums)
                best = int(sums.argmax())
                if sums[best] > ALARM:
                    if self._confirmed(int(began[best]), best):
                        first = shifts[-1].line if shifts else 0
                        shifts.append(self._shift(first, int(began[best]) - 2 * STEP, end, held, best))
                        held = best
                    sums[:], began[:] = 0, end
        at_end = self.offsets.index(len(self.target) - len(self.source))
        if held != at_end:
            first = shifts[-1].line if shifts else 0
            shift = self._shift(first, self.lines - WINDOW, self.lines, held, at_end)
            costs = self.costs(shift.line - 1, self.lines)
            if (costs[held] - costs[at_end]).sum() > END_ALARM:
                shifts.append(shift)
        return tuple(shifts)

    def _confirmed(self, line: int, best: int) -> bool:
        """Whether the lines ahead go together at this offset: inside a gap nothing does."""
        stop = min(line + AHEAD, self.lines)
        return _best_offset(self.source, self.target, line, stop, [self.offsets[best]])[1] >= EXPLAINED

    def _shift(self, first: int, start: int, stop: int, held: int, best: int) -> Shift:
        """The likeliest turn after line `first`; what the target lacks lies between and fits neither."""
        change = self.offsets[best] - self.offsets[held]
        gap = max(-change, 0)
        start = max(start - gap, first)
        costs = self.costs(start, stop)
        before = np.concatenate([[0.0], np.cumsum(costs[held])])
        after = np.concatenate([[0.0], np.cumsum(costs[best])])
        lead = after[np.minimum(np.arange(len(after)) + gap, len(after) - 1)] - before
        line = start + int(lead.argmax()) + 1
        return Shift(line, self.offsets[best], change)


def _logs(lengths: Lengths, start: int, stop: int) -> Floats:
    """Log lengths of some lines, NaN where the file has none; the 2 damps the ratios of very short lines."""
    inside = lengths[max(start, 0) : max(stop, 0)]
    logs = np.full(stop - start, np.nan)
    first = max(-start, 0)
    logs[first : first + len(inside)] = np.log(inside + 2.0)
    return logs


def _centered(values: Floats) -> Floats:
    """Less the median, within bounds so that garbage does not decide; what is missing becomes the median."""
    if np.isnan(values).all():
        return np.zeros_like(values)
    values = values - np.nanmedian(values)
    bound = 4 * max(float(np.nanmedian(np.abs(values))), MIN_SPREAD)
    return np.nan_to_num(np.clip(values, -bound, bound))


def _best_offset(source: Lengths, target: Lengths, start: int, stop: int, offsets: list[int]) -> tuple[int, float]:
    """The offset at which some lines' lengths correlate best, and how well."""
    x = _centered(_logs(source, start, stop))
    around = _centered(_logs(target, start - NEAR, stop + NEAR))
    y = np.stack(
        [
            around[NEAR + k : NEAR + k + len(x)] if abs(k) <= NEAR else _centered(_logs(target, start + k, stop + k))
            for k in offsets
        ]
    )
    x, y = x - x.mean(), y - y.mean(axis=1, keepdims=True)
    norms = np.sqrt((x @ x) * (y * y).sum(axis=1))
    correlations = np.divide(y @ x, norms, out=np.zeros(len(offsets)), where=norms > 0)
    best = int(correlations.argmax())
    return offsets[best], float(correlations[best])


def _far_offset(source: Lengths, target: Lengths, start: int, stop: int) -> tuple[int, float]:
    """The best of all offsets within reach, by one Fourier transform."""
    x = _centered(_logs(source, start, stop))
    y = _centered(_logs(target, start - REACH, stop + REACH))
    size = 1 << (len(y) + len(x)).bit_length()
    products = np.fft.irfft(np.fft.rfft(y, size) * np.conj(np.fft.rfft(x, size)), size)[: 2 * REACH + 1]
    energies = np.concatenate([[0.0], np.cumsum(y * y)])
    norms = np.sqrt(np.maximum((x @ x) * (energies[len(x) :] - energies[: -len(x)]), 1e-12))
    correlations = products / norms
    correlations[norms < 0.2 * norms.max()] = 0.0  # mostly outside the file
    best = int(correlations.argmax())
    return best - REACH, float(correlations[best])
