"""Outputs that repeat themselves: what a model does that has lost its way."""

from __future__ import annotations

from collections.abc import Sequence

TIMES = 4
"""So many times in a row is a repetition."""
LONGEST = 12
"""Runs of up to so many tokens are looked for."""


def repeated_run(ids: Sequence[int]) -> tuple[int, ...] | None:
    """The shortest run of 1 to LONGEST tokens that stands TIMES or more times in a row; None: there is none."""
    if len(ids) - len(set(ids)) < TIMES - 1:  # so it is with most outputs
        return None
    for size in range(1, min(LONGEST, len(ids) // TIMES) + 1):
        same = 0
        for place in range(size, len(ids)):
            same = same + 1 if ids[place] == ids[place - size] else 0
            if same == size * (TIMES - 1):
                return tuple(ids[place - size + 1 : place + 1])
    return None
