"""What there is to measure, in which order, and about how long it takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import peer_translation, peers, translators
from benchmarks.cold import cold
from benchmarks.contenders import CONTENDERS, LEVERS, OURS, TORCH_NN
from benchmarks.corpus import Text, held_out, text, workload
from benchmarks.frames import frames
from benchmarks.growth import growth_with_batch, growth_with_length, preparation
from benchmarks.race import race
from benchmarks.ranks import ranks
from benchmarks.recipes import RECIPES
from benchmarks.results import Results, Speed
from benchmarks.serving import serving
from benchmarks.shapes import BASE, BASE3, TINY, Shape
from benchmarks.shares import shares
from benchmarks.startup import startup
from benchmarks.translation import LENGTH, LINES, SINGLE_LINES, UNTRAINED_LINES, contest, mixed
from benchmarks.translation_page import BEAM, GREEDY, SINGLE, UNTRAINED
from benchmarks.weights import untrained, weights

ROUNDS = {
    "training": 5,
    "peers": 1,
    "levers": 3,
    "company": 3,
    "shares": 6,
    "growth": 3,
    "preparation": 3,
    "startup": 3,
    "ranks": 2,
    "translation": 3,
    "cold": 5,
    "serving": 2,
    "frames": 1,
}
FULL_ROUNDS = {
    "training": 15,
    "peers": 1,
    "levers": 9,
    "company": 7,
    "shares": 12,
    "growth": 9,
    "preparation": 5,
    "startup": 5,
    "ranks": 5,
    "translation": 9,
    "cold": 9,
    "serving": 5,
    "frames": 5,
}
SERVED_SECONDS = 10.0
"""For each number of clients, a round."""
MOVES = 200
"""Of each kind, a round."""
EVERYONE, THE_TWO = tuple(CONTENDERS), (OURS, TORCH_NN)


@dataclass(frozen=True)
class Task:
    """Something to measure; it enters its numbers in the results."""

    title: str
    seconds: float
    """A guess, for the time to go."""
    run: Callable[[Results], None]


@dataclass(frozen=True)
class Grid:
    """A race that is always run: its contenders, the updates in a round, and about how long a round takes."""

    shape: Shape
    contenders: tuple[str, ...]
    updates: int
    seconds: float

    @property
    def label(self) -> str:
        """The name of the race."""
        return f"{self.shape.name} {self.shape.vocabulary // 1000}k"


GRID = (
    Grid(TINY, EVERYONE, 4, 14.0),
    Grid(BASE3, EVERYONE, 2, 32.0),
    Grid(BASE, THE_TWO, 1, 12.0),
    Grid(replace(TINY, vocabulary=4_000), THE_TWO, 4, 4.0),
    Grid(replace(TINY, vocabulary=37_000), THE_TWO, 2, 8.0),
    Grid(replace(BASE3, vocabulary=4_000), THE_TWO, 1, 6.0),
    Grid(replace(BASE3, vocabulary=37_000), THE_TWO, 1, 12.0),
)


def training(rounds: int, grid: Sequence[Grid] = GRID) -> list[Task]:
    """Every race of the grid."""

    def task(each: Grid) -> Task:
        def run(results: Results) -> None:
            work = workload(each.shape.vocabulary, each.shape.tokens)
            results.training[each.label] = race(each.contenders, each.shape, work, rounds=rounds, updates=each.updates)

        return Task(f"training, {each.label}", (rounds + 1) * each.seconds + 8, run)

    return [task(each) for each in grid]


def everyone_everywhere(rounds: int) -> list[Task]:
    """The same with every contender in every race."""
    grid = [
        replace(each, contenders=EVERYONE, seconds=each.seconds * len(EVERYONE) / len(each.contenders)) for each in GRID
    ]
    return training(rounds, grid)


def other_toolkits() -> list[Task]:
    """Peers that are measured through their own commands."""

    def task(name: str, each: Grid) -> Task:
        def ours() -> list[float]:
            work = workload(each.shape.vocabulary, each.shape.tokens)
            return race([OURS], each.shape, work, rounds=3, updates=each.updates).speeds[0].rounds

        def run(results: Results) -> None:
            before = ours()
            with tempfile.TemporaryDirectory() as directory:
                found = peers.measure(name, each.shape, text().pairs, Path(directory))
            if isinstance(found, str):
                speed = Speed(name, reason=found)
            else:
                speed = Speed(name, found.rounds, found.peak_memory, beside=before + ours())
            others = [other for other in results.peers.get(each.label, []) if other.name != name]
            results.peers[each.label] = [*others, speed]

        return Task(f"{name}, {each.label}", 180, run)

    return [task(name, each) for each in GRID[:2] for name in RECIPES]


def levers(rounds: int) -> list[Task]:
    """What each fast way is worth: the loop against itself without it."""

    def run(results: Results) -> None:
        work = workload(TINY.vocabulary, TINY.tokens)
        results.levers = race([OURS, *LEVERS], TINY, work, rounds=rounds, updates=4)

    return [Task("what each fast way is worth", (rounds + 1) * 18.0 + 15, run)]


def companies(rounds: int) -> list[Task]:
    """Speed beside a process that takes all it can get of one core."""

    def run(results: Results) -> None:
        work = workload(TINY.vocabulary, TINY.tokens)
        with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as neighbour:
            try:
                results.company = race(THE_TWO, TINY, work, rounds=rounds, updates=2)
            finally:
                neighbour.kill()

    return [Task("beside a busy process", (rounds + 1) * 8.0 + 8, run)]


def profiles(updates: int) -> list[Task]:
    """Shares of an update's time."""

    def task(shape: Shape) -> Task:
        def run(results: Results) -> None:
            results.shares[shape.name] = shares(shape, updates)

        return Task(f"where the time goes, {shape.name}", updates * 3.0 + 8, run)

    return [task(shape) for shape in (TINY, BASE3)]


def growths(rounds: int) -> list[Task]:
    """An update's time as batches grow."""

    def length(results: Results) -> None:
        results.growth["length"] = growth_with_length(rounds)

    def batch(results: Results) -> None:
        results.growth["batch"] = growth_with_batch(rounds)

    return [
        Task("growth with length", (rounds + 1) * 8.0, length),
        Task("growth with batch size", (rounds + 1) * 2.0, batch),
    ]


def preparations(rounds: int) -> list[Task]:
    """Doctor, subwords, store."""

    def run(results: Results) -> None:
        results.preparation = preparation(text(), rounds)

    return [Task("preparing a corpus", rounds * 8.0, run)]


def startups(rounds: int) -> list[Task]:
    """From the command to the first update."""

    def run(results: Results) -> None:
        results.startup = startup(text(), rounds)

    return [Task("starting and resuming", rounds * 18.0, run)]


def scalings(rounds: int) -> list[Task]:
    """From one process to two."""

    def run(results: Results) -> None:
        results.ranks = ranks(text(), rounds)

    return [Task("from one process to two", rounds * 110.0, run)]


def translations(rounds: int) -> list[Task]:
    """Beam search, greedy search, and a line at a time."""

    def task(name: str, lines: dict[str, int], seconds: float, *, beam: int, single: bool = False) -> Task:
        def run(results: Results) -> None:
            few = Text(held_out().name, held_out().pairs[:100])
            results.translation[name] = contest(
                weights(text()), text(), few if single else held_out(), lines, beam=beam, rounds=rounds, single=single
            )

        return Task(f"translation, {name}", (rounds + 1) * seconds + 30, run)

    def base(results: Results) -> None:
        few = Text(held_out().name, held_out().pairs[:64])
        results.translation[UNTRAINED] = contest(
            untrained(text(), BASE), text(), few, UNTRAINED_LINES, beam=4, rounds=rounds, length=LENGTH
        )

    return [
        task(BEAM, LINES, 65.0, beam=4),
        task(GREEDY, LINES, 20.0, beam=1),
        task(SINGLE, SINGLE_LINES, 8.0, beam=4, single=True),
        Task(f"translation, {UNTRAINED}", (rounds + 1) * 20.0, base),
        *translating_peers(min(rounds, 3)),
    ]


def translating_peers(rounds: int) -> list[Task]:
    """Peers that translate by their own commands, with ours beside them."""

    def task(name: str) -> Task:
        def ours() -> list[float]:
            few = {translators.OURS: 2_000}
            rate = contest(weights(text()), text(), held_out(), few, beam=4, rounds=2).speeds[0]
            return [speed * (rate.tokens or 0) for speed in rate.rounds]

        def run(results: Results) -> None:
            before = ours()
            found = peer_translation.measure(name, text(), held_out(), beam=4, rounds=rounds)
            others = [other for other in results.translation_peers if other.name != name]
            beside = [] if found.reason else before + ours()
            results.translation_peers = [*others, replace(found, beside=beside)]

        return Task(f"translation, {name}", rounds * 40.0 + 40, run)

    return [task(name) for name in peer_translation.WAYS]


def cold_starts(rounds: int) -> list[Task]:
    """From a command to its first translation."""

    def run(results: Results) -> None:
        results.cold = cold(weights(text()), rounds)

    return [Task("cold starts", (rounds + 1) * 9.0, run)]


def servings(rounds: int) -> list[Task]:
    """The server under load."""

    def task(name: str, run: Callable[[], Path], count: int) -> Task:
        def measure(results: Results) -> None:
            lines = mixed(text(), held_out())[:count]
            results.serving[name] = serving(run() / "run", lines, rounds, SERVED_SECONDS)

        return Task(f"serving, {name}", rounds * (3 * SERVED_SECONDS + 15), measure)

    return [
        task(TINY.name, lambda: weights(text()), 4_000),
        task(BASE3.name, lambda: untrained(text(), BASE3), 600),
    ]


def page_frames(rounds: int) -> list[Task]:
    """The page in a browser."""

    def run(results: Results) -> None:
        results.frames = frames(rounds * MOVES)

    return [Task("frames of the page", 20 + rounds * 40.0, run)]


def plan(parts: Sequence[str], rounds: dict[str, int], *, full: bool) -> list[Task]:
    """The tasks of some parts, in the order in which the page shows them."""
    tasks = {
        "training": everyone_everywhere(rounds["training"]) if full else training(rounds["training"]),
        "peers": other_toolkits(),
        "levers": levers(rounds["levers"]),
        "company": companies(rounds["company"]),
        "shares": profiles(rounds["shares"]),
        "growth": growths(rounds["growth"]),
        "preparation": preparations(rounds["preparation"]),
        "startup": startups(rounds["startup"]),
        "ranks": scalings(rounds["ranks"]),
        "translation": translations(rounds["translation"]),
        "cold": cold_starts(rounds["cold"]),
        "serving": servings(rounds["serving"]),
        "frames": page_frames(rounds["frames"]),
    }
    return [task for part in tasks if part in parts for task in tasks[part]]
