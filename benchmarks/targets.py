"""What was aimed at, and whether it was met."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders import MARIAN, OURS, TORCH_NN
from benchmarks.markdown import spread, table
from benchmarks.results import Race, Results, Speed

TRAINING = {
    "tiny": ({TORCH_NN: 2.0, MARIAN: 1.8, "eole": 2.5, "joeynmt": 7.0}, 0.40, 0.45),
    "base3": ({TORCH_NN: 1.35, MARIAN: 1.15, "eole": 1.1, "joeynmt": 2.5}, 0.55, 0.6),
}
"""By shape: how many times as fast as each, at least; MFU, at least; peak memory to the torch.nn loop's, at most."""


@dataclass(frozen=True)
class Target:
    """What was aimed at, and what it is, one number a round."""

    what: str
    aim: str
    values: Sequence[float]
    form: str
    met: bool

    def row(self) -> list[str]:
        """Of the table of targets."""
        middle = self.form.format(statistics.median(self.values))
        return [self.what, self.aim, middle, spread(self.values, self.form), "yes" if self.met else "no"]


def target(what: str, least: float, values: Sequence[float]) -> Target:
    """At least so many times as fast."""
    return Target(what, f">= {least}x", values, "{:.2f}x", bool(values) and statistics.median(values) >= least)


def limit(what: str, unit: str, most: float, values: Sequence[float]) -> Target:
    """At most so much."""
    form = "{:.2f} " + unit if most < 10 else "{:.0f} " + unit
    return Target(what, f"<= {most} {unit}", values, form, bool(values) and statistics.median(values) <= most)


def target_table(found: Sequence[Target]) -> str:
    """A row a target."""
    return table(["target", "aim", "measured", "range", "met"], [each.row() for each in found], numbers=(1, 2))


def training_targets(results: Results) -> list[Target]:
    """What was aimed at in training and has been measured."""
    found: list[Target] = []
    for name, race in results.main_races().items():
        speeds = {speed.name: speed for speed in [*race.speeds, *results.peers.get(name, [])] if speed.rounds}
        ours = speeds.get(OURS)
        if ours is None or race.shape.name not in TRAINING:
            continue
        ratios, mfu, memory = TRAINING[race.shape.name]
        found += [
            target(f"{race.shape.name}: {OURS} to {other}", least, times_as_fast(race, ours, speeds[other]))
            for other, least in ratios.items()
            if other in speeds
        ]
        shares = [100 * speed * race.flops_per_token / race.sgemm for speed in ours.rounds]
        found.append(at_least(f"{race.shape.name}: MFU", "%", 100 * mfu, shares))
        theirs = speeds.get(TORCH_NN)
        if theirs is not None and ours.peak_memory and theirs.peak_memory:
            held = [ours.peak_memory / theirs.peak_memory]
            found.append(limit(f"{race.shape.name}: peak memory to that of the {TORCH_NN}", "x", memory, held))
    return found


def times_as_fast(race: Race, ours: Speed, other: Speed) -> list[float]:
    """Ours to another, round by round for those who took turns; else ours just before and after, at its median."""
    if other in race.speeds:
        return race.ratios(ours, to=other.name)
    beside = statistics.median(other.beside) if other.beside else ours.median
    return [beside / speed for speed in other.rounds]


def at_least(what: str, unit: str, least: float, values: Sequence[float]) -> Target:
    """At least so much."""
    met = bool(values) and statistics.median(values) >= least
    return Target(what, f">= {least:g} {unit}", values, "{:.0f} " + unit, met)
