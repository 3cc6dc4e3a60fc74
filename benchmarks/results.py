"""What was measured, as records that are kept in a JSON file: the page can be written again without measuring."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.contenders import OURS, TORCH_NN
from benchmarks.shapes import Shape
from benchmarks.translators import OURS as OUR_TRANSLATOR
from transduce.train.environment import processor


@dataclass(frozen=True)
class Machine:
    """Where and when something was measured."""

    date: str
    processor: str
    threads: int
    torch: str


@dataclass(frozen=True)
class Speed:
    """What a contender did in a second, one number a round, or the reason why there are none.

    Training loops count target tokens, translators sentences.
    """

    name: str
    rounds: list[float] = field(default_factory=list)
    peak_memory: int | None = None
    """In bytes, above what the process held after its imports."""
    reason: str | None = None
    beside: list[float] = field(default_factory=list)
    """Of ours, measured just before and just after one who does not take turns with it."""

    @property
    def median(self) -> float:
        """Of the rounds."""
        return statistics.median(self.rounds)


@dataclass(frozen=True)
class Race:
    """Contenders that took turns on the same batches."""

    machine: Machine
    shape: Shape
    text: str
    updates: int
    """A round."""
    flops_per_token: float
    sgemm: float
    """The best matrix product of the run, in FLOP/s."""
    speeds: list[Speed]

    def ratios(self, speed: Speed, to: str = TORCH_NN) -> list[float]:
        """To the torch.nn loop: round by round for those who took turns with it; others by way of ours beside them."""
        return ratios(speed, self.speeds, to=to, ours=OURS)


@dataclass(frozen=True)
class Rate(Speed):
    """A translator's sentences a second, and what its translations are like."""

    lines: int = 0
    """A round."""
    bleu: float | None = None
    words: float | None = None
    """Of an output, on average."""
    tokens: float | None = None
    """Of an output, on average, the end token not counted."""


@dataclass(frozen=True)
class Contest:
    """Translators that took turns on the same lines."""

    machine: Machine
    versions: dict[str, str]
    text: str
    test: str
    """What BLEU was measured on."""
    beam: int
    speeds: list[Rate]

    def ratios(self, rate: Rate, to: str) -> list[float]:
        """To another one: round by round for those who took turns with it; others by way of ours beside them."""
        return ratios(rate, self.speeds, to=to, ours=OUR_TRANSLATOR)


@dataclass(frozen=True)
class Start:
    """From a command to its first translation: seconds, and the most bytes that were resident."""

    seconds: float
    memory: int | None


@dataclass(frozen=True)
class Cold:
    """Programs that translate one line, each started anew, round after round."""

    machine: Machine
    starts: dict[str, list[Start]]


@dataclass(frozen=True)
class Load:
    """What some clients saw who asked again as soon as they were answered."""

    clients: int
    answers: int
    seconds: float
    p50: float
    p99: float
    errors: int
    cpu: float
    """Seconds of processor time that the clients took."""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds


@dataclass(frozen=True)
class Serving:
    """A server under load, and what its engine does alone; one number a round."""

    machine: Machine
    client: str
    """The program that asked."""
    cores: int
    lines: int
    """Sentences in a call of the engine alone."""
    raw: list[float]
    """Sentences a second of the engine alone."""
    loads: dict[int, list[Load]]
    """By the number of clients."""


@dataclass(frozen=True)
class Frames:
    """Milliseconds from frame to frame of the page, by what is moved over it; or the reason why there are none."""

    machine: Machine
    tokens: int
    layers: int
    heads: int
    times: dict[str, list[float]] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True)
class Growth:
    """How long something takes as something grows."""

    machine: Machine
    what: str
    over: str
    """What grows."""
    sizes: list[int]
    seconds: list[list[float]]
    """For each size, one number a round."""

    @property
    def medians(self) -> list[float]:
        """For each size."""
        return [statistics.median(rounds) for rounds in self.seconds]

    @property
    def exponent(self) -> float:
        """b of seconds = a * size^b, fitted to the medians."""
        return exponent(self.sizes, self.medians)

    @property
    def last_exponent(self) -> float:
        """The same from the last two sizes alone: fixed costs weigh least there."""
        return exponent(self.sizes[-2:], self.medians[-2:])


@dataclass(frozen=True)
class Startup:
    """Seconds from a command to the end of its first update, one number a round."""

    machine: Machine
    text: str
    pairs: int
    fresh: list[float]
    resumed: list[float]


@dataclass(frozen=True)
class Ranks:
    """Target tokens a second by the number of processes, of one thread each; one number a round."""

    machine: Machine
    text: str
    speeds: dict[int, list[float]]

    @property
    def gains(self) -> list[float]:
        """How many times as fast the most processes are as one, round by round."""
        most = max(self.speeds)
        return [many / one for many, one in zip(self.speeds[most], self.speeds[1], strict=True)]


@dataclass(frozen=True)
class Shares:
    """What part of an update's time each kind of work takes."""

    machine: Machine
    shape: Shape
    shares: dict[str, float]


@dataclass
class Results:
    """Everything, by name; a part that is measured again replaces what has its name."""

    training: dict[str, Race] = field(default_factory=dict)
    peers: dict[str, list[Speed]] = field(default_factory=dict)
    """By the name of the race that they are shown with; measured through their own commands."""
    growth: dict[str, Growth] = field(default_factory=dict)
    preparation: dict[str, Growth] = field(default_factory=dict)
    startup: Startup | None = None
    ranks: Ranks | None = None
    levers: Race | None = None
    """Ours, and ours without one of its fast ways."""
    company: Race | None = None
    """Beside a busy process."""
    shares: dict[str, Shares] = field(default_factory=dict)
    translation: dict[str, Contest] = field(default_factory=dict)
    translation_peers: list[Rate] = field(default_factory=list)
    """With models of their own, by their own commands; beside them are ours, in tokens of output a second."""
    cold: Cold | None = None
    serving: dict[str, Serving] = field(default_factory=dict)
    """By the name of the model."""
    frames: Frames | None = None

    def main_races(self) -> dict[str, Race]:
        """Those with the most contenders, at the vocabulary that shapes have by default."""
        usual = {name: race for name, race in self.training.items() if race.shape.vocabulary == Shape.vocabulary}
        most = max((len(race.speeds) for race in usual.values()), default=0)
        return {name: race for name, race in usual.items() if len(race.speeds) == most}


def ratios(speed: Speed, speeds: Sequence[Speed], *, to: str, ours: str) -> list[float]:
    """To one of `speeds`: round by round for another of them, else by way of ours, which was measured beside it."""
    found = {each.name: each for each in speeds if each.rounds}
    if to not in found:
        return []
    if speed in speeds:
        return [mine / its for mine, its in zip(speed.rounds, found[to].rounds, strict=True)] if speed.rounds else []
    if not speed.beside or ours not in found:
        return [mine / found[to].median for mine in speed.rounds]
    factor = statistics.median(ratios(found[ours], speeds, to=to, ours=ours)) / statistics.median(speed.beside)
    return [mine * factor for mine in speed.rounds]


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log seconds against log size, by least squares."""
    return statistics.linear_regression([math.log(size) for size in sizes], [math.log(s) for s in seconds]).slope


def read_results(path: Path) -> Results:
    """What a file holds."""
    return TypeAdapter(Results).validate_json(path.read_bytes())


def write_results(path: Path, results: Results) -> None:
    """Replace a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_bytes(TypeAdapter(Results).dump_json(results, indent=1) + b"\n")
    temporary.replace(path)


def this_machine() -> Machine:
    """This one, today."""
    import torch

    version = torch.__version__.partition("+")[0]
    name = f"{processor()}, {os.cpu_count()} cores"
    return Machine(date.today().isoformat(), name, torch.get_num_threads(), version)
