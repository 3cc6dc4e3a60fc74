"""Who runs the model: PyTorch, which can do everything, or CTranslate2, which is fast on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from transduce.config import SearchConfig
from transduce.decode.hypothesis import Hypothesis, Request


def go_on() -> None:
    """Nobody wants to stop."""


class Engine(Protocol):
    """A model that can be searched."""

    @property
    def name(self) -> str:
        """As `--engine` has it."""
        ...

    @property
    def max_positions(self) -> int | None:
        """The most tokens of a sequence that the model has positions for, the end token included; None: any number."""
        ...

    @property
    def part(self) -> int | None:
        """Lines to search for at once, while others are prepared in other threads; None: all, in one thread."""
        ...

    def lacks(self, requests: Sequence[Request], search: SearchConfig) -> str | None:
        """What is asked for that this engine cannot do, in a word; None: it can do it all."""
        ...

    def search(
        self, requests: Sequence[Request], search: SearchConfig, *, between: Callable[[], None] = go_on
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each request, best first; `between` is called before each batch and may raise."""
        ...


def batches(lengths: Sequence[int], budget: int, rows: int) -> Iterator[list[int]]:
    """At most `rows` places of like length whose padded tokens fit the budget, longest first: memory peaks at once."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batch and ((lengths[batch[0]] + 1) * (len(batch) + 1) > budget or len(batch) >= rows):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
