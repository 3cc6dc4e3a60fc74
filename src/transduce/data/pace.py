"""How far a reading of corpora has come, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

Tick = Callable[[int, int], None]
"""Told the bytes of the files that were read so far, and of all files."""
Progress = Callable[[int, int, str], None]
"""As Tick, with what is being done."""

NOTE_EVERY = 15.0  # seconds


def unheard(done: int, total: int) -> None:
    """A tick that nobody wants."""


def stage(progress: Progress, what: str) -> Tick:
    """The ticks of one stage."""
    return lambda done, total: progress(done, total, what)


class Notes:
    """Progress as notes now and then; work that takes less than NOTE_EVERY seconds says nothing."""

    def __init__(self, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._note, self._clock = note, clock
        self._what: str | None = None
        self._began = self._told = 0.0

    def __call__(self, done: int, total: int, what: str) -> None:
        """Take in how far it is."""
        now = self._clock()
        if what != self._what:
            self._what, self._began, self._told = what, now, now
        if now - self._told < NOTE_EVERY or not 0 < done < total:
            return
        left = timedelta(seconds=round((now - self._began) * (total - done) / done))
        self._note(f"{what}: {done / total:.0%} of {total / 1e6:,.0f} MB, about {left} left")
        self._told = now
