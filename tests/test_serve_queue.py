"""The queue: who shares a batch, who has to wait, who leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from serving import PATIENCE, until
from transduce.serve.errors import Overloaded
from transduce.serve.queue import Job, Queue, attempt


class Held:
    """A call whose batches begin, and end when told to."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def __call__(self, items: list[str]) -> list[str]:
        self.batches.append(items)
        self.begun.release()
        assert self.go_on.wait(PATIENCE)
        return [item.upper() for item in items]


@contextmanager
def queue(*, workers: int = 1, places: int = 100, batch_tokens: int = 100) -> Iterator[Queue]:
    opened = Queue(workers=workers, places=places, batch_tokens=batch_tokens)
    try:
        yield opened
    finally:
        opened.close()


def job(call: Any, item: str, *, tokens: int = 9, late: bool = False) -> Job:
    deadline = time.monotonic() + (-1 if late else PATIENCE)
    return Job(call, item, tokens, asyncio.get_running_loop().create_future(), deadline)


def behind_a_held_one(opened: Queue, held: Held, jobs: list[Job]) -> Job:
    """Submit jobs while the only worker is at something else."""
    first = job(held, "first")
    opened.submit([first])
    assert held.begun.acquire(timeout=PATIENCE)
    opened.submit(jobs)
    return first


async def outcomes(jobs: list[Job]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*(each.future for each in jobs)), PATIENCE)


def test_jobs_of_one_call_share_batches_up_to_the_budget_in_the_order_of_their_coming() -> None:
    async def scene() -> None:
        held = Held()
        with queue(batch_tokens=30) as opened:
            jobs = [job(held, str(number), tokens=9) for number in range(7)]  # 10 padded tokens each
            first = behind_a_held_one(opened, held, jobs)
            held.go_on.set()
            assert await outcomes([first, *jobs]) == ["FIRST", "0", "1", "2", "3", "4", "5", "6"]
        assert held.batches == [["first"], ["0", "1", "2"], ["3", "4", "5"], ["6"]]

    asyncio.run(scene())


def test_a_batch_counts_padding() -> None:
    async def scene() -> None:
        held = Held()
        with queue(batch_tokens=30) as opened:
            jobs = [job(held, item, tokens=tokens) for item, tokens in (("a", 4), ("b", 14), ("c", 4), ("d", 99))]
            first = behind_a_held_one(opened, held, jobs)
            held.go_on.set()
            await outcomes([first, *jobs])
        assert held.batches == [["first"], ["a", "b"], ["c"], ["d"]]  # three would be 3 x 15, and d alone is too long

    asyncio.run(scene())


def test_different_calls_share_no_batch() -> None:
    async def scene() -> None:
        held, other = Held(), Held()
        other.go_on.set()
        with queue() as opened:
            jobs = [job(call, item) for call, item in ((held, "a"), (other, "b"), (held, "c"), (other, "d"))]
            first = behind_a_held_one(opened, held, jobs)
            held.go_on.set()
            assert await outcomes([first, *jobs]) == ["FIRST", "A", "B", "C", "D"]
        assert held.batches == [["first"], ["a", "c"]]
        assert other.batches == [["b", "d"]]

    asyncio.run(scene())


def test_idle_workers_share_out_what_waits() -> None:
    both = threading.Barrier(2)

    def together(items: list[str]) -> list[str]:
        both.wait(PATIENCE)  # passes only if two batches are under way
        return items

    async def scene() -> None:
        with queue(workers=2) as opened:
            until(lambda: opened.idle == 2)
            jobs = [job(together, "a"), job(together, "b")]
            opened.submit(jobs)
            assert await outcomes(jobs) == ["a", "b"]

    asyncio.run(scene())


def test_what_is_withdrawn_leaves_at_once_and_is_never_done() -> None:
    async def scene() -> None:
        held = Held()
        with queue() as opened:
            gone, stays = job(held, "gone"), job(held, "stays")
            first = behind_a_held_one(opened, held, [gone, stays])
            assert len(opened) == 2
            opened.withdraw([gone])
            assert len(opened) == 1
            held.go_on.set()
            await outcomes([first, stays])
        assert held.batches == [["first"], ["stays"]]

    asyncio.run(scene())


def test_what_is_late_is_never_done() -> None:
    async def scene() -> None:
        held = Held()
        with queue() as opened:
            late, stays = job(held, "late", late=True), job(held, "stays")
            first = behind_a_held_one(opened, held, [late, stays])
            held.go_on.set()
            await outcomes([first, stays])
            assert len(opened) == 0
        assert held.batches == [["first"], ["stays"]]

    asyncio.run(scene())


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    async def scene() -> None:
        held = Held()
        with queue(places=2) as opened:
            jobs = [job(held, "a"), job(held, "b")]
            first = behind_a_held_one(opened, held, jobs)
            with pytest.raises(Overloaded) as refused:
                opened.submit([job(held, "c")])
            assert refused.value.status == 429
            assert int(refused.value.headers["Retry-After"]) >= 1
            assert len(opened) == 2  # nothing of what was refused stays
            opened.withdraw(jobs[:1])
            opened.submit([again := job(held, "again")])
            held.go_on.set()
            assert await outcomes([first, jobs[1], again]) == ["FIRST", "B", "AGAIN"]

    asyncio.run(scene())


def test_more_than_the_queue_holds_is_taken_when_nothing_waits() -> None:
    async def scene() -> None:
        held = Held()
        held.go_on.set()
        with queue(places=2) as opened:
            jobs = [job(held, str(number)) for number in range(5)]
            opened.submit(jobs)
            assert await outcomes(jobs) == list("01234")

    asyncio.run(scene())


def test_one_that_fails_does_not_fail_its_neighbours() -> None:
    def fails(items: list[str]) -> list[str]:
        if "bad" in items:
            raise ValueError("bad")
        return items

    good, bad, fine = attempt(fails, ["good", "bad", "fine"])
    assert (good, fine) == ("good", "fine")
    assert isinstance(bad, ValueError)


def test_an_exception_reaches_who_waits() -> None:
    def fails(items: list[str]) -> list[str]:
        raise ValueError("bad")

    async def scene() -> None:
        with queue() as opened:
            failing = job(fails, "x")
            opened.submit([failing])
            with pytest.raises(ValueError, match="bad"):
                await outcomes([failing])

    asyncio.run(scene())


def test_a_worker_outlives_those_who_waited() -> None:
    held = Held()

    async def leave(opened: Queue) -> None:
        opened.submit([job(held, "nobody waits")])

    async def come(opened: Queue) -> list[Any]:
        held.go_on.set()
        opened.submit([again := job(held, "again")])
        return await outcomes([again])

    with queue() as opened:
        asyncio.run(leave(opened))  # its event loop is closed before the batch ends
        assert asyncio.run(come(opened)) == ["AGAIN"]
