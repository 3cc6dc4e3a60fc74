"""A beam search as data: all that it looked at, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from transduce.text.codec import BOS

Fate = Literal["kept", "pruned", "finished"]


@dataclass(frozen=True)
class Node:
    """An output up to and including one token."""

    parent: int | None
    """The place of the node before it; None: it is the start."""
    token: int
    log_probability: float
    """Of the whole output up to here."""
    step: int
    fate: Fate
    """kept: it went on; pruned: others did; finished: it is a hypothesis."""
    piece: str = ""
    """The token as a person would read it, where a codec was at hand."""


class BeamTree:
    """Every continuation that a search ranked, in the order of steps; the first node is the start."""

    def __init__(self, rows: int) -> None:
        self.nodes: list[Node] = [Node(None, BOS, 0.0, 0, "kept")]
        self._at = [0] * rows  # the node at which each row of the beam stands

    def grow(
        self, candidates: Sequence[tuple[float, int, int]], finished: Sequence[bool], kept: Sequence[int | None]
    ) -> None:
        """One step: the candidates (log-probability, row, token), which of them end, and which becomes each row.

        What is impossible is left out.
        """
        step = self.nodes[-1].step + 1 if len(self.nodes) > 1 else 1
        at = {}
        for place, (total, row, token) in enumerate(candidates):
            if total == float("-inf"):
                continue
            fate: Fate = "finished" if finished[place] else "kept" if place in kept else "pruned"
            at[place] = len(self.nodes)
            self.nodes.append(Node(self._at[row], token, total, step, fate))
        self._at = [0 if place is None else at[place] for place in kept]

    def ids(self, place: int) -> tuple[int, ...]:
        """The tokens that lead to a node, its own included and the start left out."""
        node = self.nodes[place]
        return () if node.parent is None else (*self.ids(node.parent), node.token)
