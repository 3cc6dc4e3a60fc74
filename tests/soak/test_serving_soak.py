"""The faults of a server, many times over: `make soak`. Each test enters what it did into the table."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from benchmarks.peers import memory
from benchmarks.results import Load
from benchmarks.serving import Asker, ask_for, body, server
from malformed import KINDS, MEGABYTE, Wire
from short_phrases import short_phrases

Times = Callable[[int], int]
Record = Callable[[int, str, str, str], None]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(14_400)]

NO_CACHE = "--cache=0"
LOST = (ConnectionError, asyncio.IncompleteReadError)


@pytest.fixture(scope="module")
def bodies() -> list[bytes]:
    return [body(phrase.source) for phrase in short_phrases("test", 20_000)]


def held(process: subprocess.Popen[str]) -> tuple[int, int, int]:
    """Bytes, descriptors and threads of a server."""
    resident = memory(process.pid, "VmRSS")
    assert resident is not None
    directory = Path(f"/proc/{process.pid}")
    return resident, len(list((directory / "fd").iterdir())), len(list((directory / "task").iterdir()))


def metric(url: str, name: str) -> float:
    with urlopen(url + "metrics") as answer:
        lines = answer.read().decode().split("\n")
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


def test_malformed_requests_are_refused_for_what_they_are(
    bundle: Path, times: Times, record: Record, bodies: list[bytes]
) -> None:
    wanted, generator, found = times(10_000), random.Random(0), Counter[int]()

    async def scene(url: str, process: subprocess.Popen[str]) -> float:
        wire, asker = Wire(url), Asker(url)

        async def try_out(count: int) -> None:
            for _ in range(count):
                kind = generator.choice(KINDS)
                status, answer = await wire.status(kind.make(generator))
                assert status in kind.expected, (kind.name, status, answer)
                found[status] += 1

        await try_out(max(200, wanted // 10))
        before = held(process)
        await try_out(wanted)
        assert (await asker.ask(bodies[0]))[0] == 200
        asker.close()
        wire.close()
        return (held(process)[0] - before[0]) / MEGABYTE

    with server(bundle) as (url, process):
        growth = asyncio.run(scene(url, process))
        assert process.poll() is None
    assert growth < 20
    outcome = ", ".join(f"{number:,} x {status}" for status, number in sorted(found.items()))
    record(18, "malformed requests", f"{wanted:,} of {len(KINDS)} kinds", f"{outcome}; memory {growth:+.1f} MB")


def test_many_clients_are_all_answered_in_their_turn(
    bundle: Path, times: Times, record: Record, bodies: list[bytes]
) -> None:
    seconds = max(5, times(120))
    with server(bundle, NO_CACHE) as (url, _):
        asyncio.run(ask_for(url, bodies, 8, 2))
        found = asyncio.run(ask_for(url, bodies, 200, seconds))
    assert found.errors == 0
    assert found.p99 <= 2 * 200 / found.rate
    outcome = f"{found.answers:,} answers, no error, {found.rate:,.0f} a second, p99 {found.p99:.2f} s"
    record(19, "200 clients", f"{seconds} seconds", outcome)


def heavy_enough(url: str, sentences: list[str]) -> list[bytes]:
    """Requests of which the server can do 60 a second at most."""
    texts = 4
    while True:
        heavy = [body(random.Random(n).choices(sentences, k=texts), beam=8) for n in range(200)]
        found = asyncio.run(ask_for(url, heavy, 4, 5))
        if found.rate <= 60 or texts == 64:
            return heavy
        texts *= 2


async def overload(url: str, heavy: list[bytes], rate: float, seconds: float) -> list[tuple[int, bool, float]]:
    """Send so many requests a second, whatever comes back: status, whether Retry-After came, seconds."""
    answers: list[tuple[int, bool, float]] = []
    idle: list[Asker] = []

    async def one(content: bytes) -> None:
        asker = idle.pop() if idle else Asker(url)
        begin = time.perf_counter()
        try:
            status, fields, _ = await asker.ask(content)
        except LOST:  # the server closes connections that were idle for long
            asker.close()
            status, fields, _ = await asker.ask(content)
        answers.append((status, "retry-after" in fields, time.perf_counter() - begin))
        idle.append(asker)

    begin, tasks = time.monotonic(), set[asyncio.Task[None]]()
    for number in range(round(rate * seconds)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
        task = asyncio.create_task(one(heavy[number % len(heavy)]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for asker in idle:
        asker.close()
    return answers


def test_overload_is_refused_at_once_and_passes(bundle: Path, times: Times, record: Record) -> None:
    rounds, seconds = max(1, times(4)), 15
    sentences = [phrase.source for phrase in short_phrases("test", 4000)]
    answers: list[tuple[int, bool, float]] = []
    peaks, shares = [], []
    with server(bundle, NO_CACHE) as (url, _):
        heavy = heavy_enough(url, sentences)
        for _ in range(rounds):  # in turns: how fast this machine is changes by the minute
            peaks.append(asyncio.run(ask_for(url, heavy, 4, seconds / 2)).rate)
            begin = time.monotonic()
            found = asyncio.run(overload(url, heavy, 10 * peaks[-1], seconds))
            done = sum(status == 200 for status, _, _ in found)
            shares.append(done / (time.monotonic() - begin) / peaks[-1])
            answers += found
        begin = time.monotonic()
        after = asyncio.run(ask_for(url, heavy, 1, 1))
        recovery = time.monotonic() - begin
    refused = [each for each in answers if each[0] == 429]
    assert {status for status, _, _ in answers} == {200, 429}
    assert all(retry for _, retry, _ in refused)
    assert statistics.median(shares) >= 0.8, (peaks, shares)
    assert after.errors == 0
    assert recovery < 5
    at_once = statistics.median(each[2] for each in refused)
    assert at_once < statistics.median(each[2] for each in answers if each[0] == 200)
    peak, share = statistics.median(peaks), statistics.median(shares)
    tried = f"{rounds} x {seconds} s of ten times the {peak:.0f} requests a second that the model can do"
    outcome = (
        f"{share:.0%} of the peak done in the median ({min(shares):.0%} - {max(shares):.0%}), {len(refused):,} of"
        f" {len(answers):,} refused by 429 with Retry-After (median {1000 * at_once:.0f} ms); no error after it"
    )
    record(20, "overload", tried, outcome)


def test_a_signal_under_load_drops_nothing(
    bundle: Path, tmp_path: Path, times: Times, record: Record, bodies: list[bytes]
) -> None:
    rounds, generator, answered, refused, slowest = times(20), random.Random(0), 0, 0, 0.0
    for number in range(rounds):
        log = tmp_path / f"log{number}"
        with server(bundle, NO_CACHE, log=log) as (url, process):
            statuses, took = asyncio.run(stop_under_load(url, process, bodies, generator.uniform(0.2, 1.5)))
        assert process.returncode == 0
        logged = [line.split()[-5] for line in log.read_text().split("\n") if " POST /api/translate " in line]
        assert Counter(logged)["200"] == statuses[200]  # every answer arrived
        assert set(logged) <= {"200", "503"}
        answered, refused, slowest = answered + statuses[200], refused + statuses[503], max(slowest, took)
    assert slowest < 30
    outcome = f"{answered:,} answers, each of which arrived; {refused:,} refused by 503; out within {slowest:.1f} s"
    record(21, "SIGTERM under load", f"{rounds} times, 50 clients", outcome)


async def stop_under_load(
    url: str, process: subprocess.Popen[str], bodies: list[bytes], seconds: float
) -> tuple[Counter[int], float]:
    """The statuses that 50 clients saw until the server was gone, and how long it took to go."""
    statuses = Counter[int]()

    async def one(number: int) -> None:
        asker, at = Asker(url), number
        with suppress(*LOST):
            while True:
                statuses[(await asker.ask(bodies[at % len(bodies)]))[0]] += 1
                at += 50
        asker.close()

    clients = [asyncio.create_task(one(number)) for number in range(50)]
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    await asyncio.to_thread(process.wait, 60)
    took = time.monotonic() - begin
    await asyncio.gather(*clients)
    return statuses, took


def test_hang_ups_and_slow_connections_harm_nobody(
    bundle: Path, times: Times, record: Record, bodies: list[bytes]
) -> None:
    rounds, seconds = max(3, times(7)), max(2, times(10))
    with server(bundle, NO_CACHE) as (url, process):
        asyncio.run(ask_for(url, bodies, 8, 2))
        pairs = [asyncio.run(beside_the_slow(url, bodies, seconds)) for _ in range(rounds)]
        hung_up = asyncio.run(hang_up(url, times(2000)))
        asyncio.run(quiet_again(url))
        assert held(process)[1] < 100  # their descriptors are free
    ratio = statistics.median(beside.p99 / alone.p99 for alone, beside in pairs)
    assert ratio <= 1.2
    assert all(alone.errors == beside.errors == 0 for alone, beside in pairs)
    tried = f"500 connections that send a byte a second, {rounds} times; {hung_up:,} hang-ups"
    record(
        22, "slow clients and hang-ups", tried, f"p99 of the others x {ratio:.2f}; no place in the queue stays taken"
    )


async def beside_the_slow(url: str, bodies: list[bytes], seconds: float) -> tuple[Load, Load]:
    """The load of 8 clients alone, and beside 500 who send their requests byte by byte."""
    alone = await ask_for(url, bodies, 8, seconds)
    host, port = Asker(url).host, Asker(url).port
    slow = [(await asyncio.open_connection(host, port))[1] for _ in range(500)]

    async def drip() -> None:
        while True:
            for writer in slow:
                with suppress(ConnectionError):
                    writer.write(b"P")
                await asyncio.sleep(1 / len(slow))

    dripping = asyncio.create_task(drip())
    try:
        return alone, await ask_for(url, bodies, 8, seconds)
    finally:
        dripping.cancel()
        for writer in slow:
            writer.close()


async def hang_up(url: str, count: int) -> int:
    """Ask, and go away before the answer."""
    generator = random.Random(0)
    for number in range(count):
        asker = Asker(url)
        asking = asyncio.create_task(asker.ask(body([f"nobody reads this {number}"] * 8)))
        await asyncio.sleep(generator.uniform(0, 0.005))
        asking.cancel()
        asker.close()
    return count


async def quiet_again(url: str) -> None:
    """Until nothing waits and nobody is waited for."""
    for _ in range(600):
        names = ("transduce_queue_sentences", "transduce_pending_requests")
        if [await asyncio.to_thread(metric, url, name) for name in names] == [0, 0]:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("places in the queue stay taken")


def test_nothing_grows(bundle: Path, times: Times, record: Record, bodies: list[bytes]) -> None:
    wanted = times(100_000)

    async def ask_often(url: str, count: int) -> None:
        async def one(number: int) -> None:
            asker = Asker(url)
            for at in range(number, count, 16):
                status, _, _ = await asker.ask(bodies[at % len(bodies)])
                assert status == 200
            asker.close()

        await asyncio.gather(*(one(number) for number in range(16)))

    with server(bundle) as (url, process):
        asyncio.run(ask_often(url, max(10_000, wanted // 10)))  # the cache is full after it
        asyncio.run(quiet_again(url))
        before = held(process)
        asyncio.run(ask_often(url, wanted))
        asyncio.run(quiet_again(url))
        after = held(process)
    growth = (after[0] - before[0]) / MEGABYTE
    assert growth < 10
    assert after[1] <= before[1] + 2
    assert after[2] <= before[2]
    outcome = f"memory {growth:+.1f} MB, descriptors {after[1] - before[1]:+d}, threads {after[2] - before[2]:+d}"
    record(23, "soak of the server", f"{wanted:,} requests from 16 clients", outcome)


def test_caps_and_keys_hold_and_no_key_is_logged(bundle: Path, tmp_path: Path, times: Times, record: Record) -> None:
    keys, log, wanted = tmp_path / "keys", tmp_path / "log", times(1000)
    keys.write_text("first-secret requests=30\nsecond-secret characters=100\n", encoding="utf-8")

    async def scene(url: str) -> Counter[tuple[str, int]]:
        found = Counter[tuple[str, int]]()

        async def ask(name: str, content: bytes, key: str) -> None:
            asker = Asker(url)
            with suppress(*LOST):
                status, _, answer = await asker.ask(content, headers=f"Authorization: Bearer {key}\r\n")
                assert key.encode() not in answer
                found[name, status] += 1
            asker.close()

        for _ in range(max(3, wanted // 100)):
            await ask("a body of 2 MB", b" " * (2 * MEGABYTE), "second-secret")
            await ask("10,000 texts", body(["a"] * 10_000), "second-secret")
            await ask("a word of 100,000 characters", body("a" * 100_000), "second-secret")
        for number in range(wanted):
            await ask("a wrong key", body("hello"), f"guess-{number}")
        for _ in range(60):
            await ask("a key of 30 a minute", body("hello"), "first-secret")
        return found

    with server(bundle, f"--api-keys={keys}", log=log) as (url, _):
        found = asyncio.run(scene(url))
    for name in ("a body of 2 MB", "10,000 texts", "a word of 100,000 characters"):
        assert {status for other, status in found if other == name} <= {413}
    assert found["a wrong key", 403] == wanted
    assert found["a key of 30 a minute", 200] >= 30
    assert found["a key of 30 a minute", 429] >= 1
    said = log.read_text(encoding="utf-8")
    assert not any(secret in said for secret in ("first-secret", "second-secret", "guess-", "Bearer"))
    outcome = ", ".join(f"{name}: {number:,} x {status}" for (name, status), number in sorted(found.items()))
    record(24, "caps and keys", f"{found.total():,} requests", f"{outcome}; no key in the log")
