"""How many requests, and characters, somebody may still send."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

KNOWN = 10_000
"""Of whom a count is kept at most; those not heard of for longest are forgotten."""
DAY = 86_400.0


@dataclass
class Bucket:
    """Holds a minute's worth of requests at most and fills all the time."""

    left: float
    at: float


class Rates:
    """A bucket for each who sends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, who: Hashable, per_minute: int) -> float:
        """Take one request out of a bucket: 0, or the seconds until there will be one."""
        now = self._clock()
        bucket = self._buckets.setdefault(who, Bucket(per_minute, now))
        self._buckets.move_to_end(who)
        while len(self._buckets) > KNOWN:
            self._buckets.popitem(last=False)
        bucket.left = min(per_minute, bucket.left + (now - bucket.at) * per_minute / 60)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) * 60 / per_minute
        bucket.left -= 1
        return 0.0


class Usage:
    """Characters by key: those of today, which the limit is about, a day beginning with the server's start."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, clock()
        self._counts: dict[bytes, int] = {}
        self._day = 0

    def count(self, digest: bytes) -> int:
        """So many today."""
        day = int((self._clock() - self._start) / DAY)
        if day != self._day:
            self._day = day
            self._counts.clear()
        return self._counts.get(digest, 0)

    def add(self, digest: bytes, characters: int) -> None:
        """So many more; or fewer, though never less than none."""
        self._counts[digest] = max(0, self.count(digest) + characters)

    def until_tomorrow(self) -> float:
        """Seconds."""
        return DAY - (self._clock() - self._start) % DAY
