"""`transduce serve` under load: one sentence a request, from 1, 8 and 64 clients, beside what its engine does alone.

Clients are `wrk` where it is installed, which takes least from the server; else a program of our own in Python, which
takes more, and the table says so. The cache is off.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.results import Load, Serving, this_machine
from transduce.decode.translator import Translator

CLIENTS = (1, 8, 64)
PATH = "/api/translate"
HERE = "asyncio"
WRK = "wrk"
PROGRAM = """
local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
local at = 0
request = function()
  at = at % #bodies + 1
  return wrk.format("POST", "/api/translate", {["Content-Type"] = "application/json"}, bodies[at])
end
done = function(summary, latency, requests)
  local wrong = summary.errors
  io.write(string.format('\\n{"answers": %d, "seconds": %f, "p50": %f, "p99": %f, "errors": %d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    wrong.connect + wrong.read + wrong.write + wrong.status + wrong.timeout))
end
"""


class Asker:
    """A client with one connection that stays open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, body: bytes, *, path: str = PATH, headers: str = "") -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n{headers}"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        answer = await reader.readexactly(int(fields.get("content-length", "0")))
        if fields.get("connection") == "close":
            self.close()
        return int(head[0].split()[1]), fields, answer

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def ask_for(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> Load:
    """The load of our own clients."""
    took: list[float] = []
    errors = 0
    end = time.monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal errors
        asker, at = Asker(url), number
        while time.monotonic() < end:
            begin = time.perf_counter()
            status, _, _ = await asker.ask(bodies[at % len(bodies)])
            took.append(time.perf_counter() - begin)
            errors += status != 200
            at += clients
        asker.close()

    begin, cpu = time.monotonic(), time.process_time()
    await asyncio.gather(*(one(number) for number in range(clients)))
    wall = time.monotonic() - begin
    quantiles = statistics.quantiles(took, n=100) if len(took) > 1 else took * 99
    return Load(clients, len(took), wall, quantiles[49], quantiles[98], errors, time.process_time() - cpu)


def load(url: str, bodies: Path, clients: int, seconds: float) -> Load:
    """The load of a client program in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    if shutil.which(WRK) is None:
        command = [sys.executable, "-m", "benchmarks.serving", url, str(bodies), str(clients), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return Load(**json.loads(done.stdout))
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as program:
        program.write(PROGRAM)
        program.flush()
        command = [WRK, "-t1", f"-c{clients}", f"-d{seconds:.0f}s", "--timeout=30s", "-s", program.name, url]
        variables = {**os.environ, "BODIES": str(bodies)}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Load(clients=clients, cpu=cpu, **json.loads(done.stdout.strip().split("\n")[-1]))


@contextmanager
def server(run: Path, *flags: str, log: Path | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`transduce serve` on a port of its own: its URL, and its process, which ends with the block."""
    command = [sys.executable, "-m", "transduce", "serve", f"--pair=en-de={run}", "--port=0", *flags]
    with (
        (log or Path(os.devnull)).open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise RuntimeError(f"the server did not start: {' '.join(command)}")
            yield url, process
        finally:
            process.terminate()


def alone(run: Path, lines: Sequence[str]) -> float:
    """Sentences a second of the engine, all of them in one call."""
    translator = Translator.load(run)
    translator.translate(lines[:200])
    begin = time.perf_counter()
    translator.translate(lines)
    return len(lines) / (time.perf_counter() - begin)


def body(text: str | Sequence[str], **options: object) -> bytes:
    """Of a request."""
    return json.dumps({"text": text, **options}).encode()


def serving(run: Path, lines: Sequence[str], rounds: int, seconds: float) -> Serving:
    """In every round the engine alone, with all the lines in one call, then each number of clients for some seconds."""
    raw: list[float] = []
    loads: dict[int, list[Load]] = {clients: [] for clients in CLIENTS}
    with tempfile.TemporaryDirectory() as directory, server(run, "--cache=0", "--queue=4096") as (url, _):
        bodies = Path(directory) / "bodies"
        bodies.write_bytes(b"".join(body(line) + b"\n" for line in lines))
        load(url, bodies, 8, min(2.0, seconds))  # warms up
        for _ in range(rounds):
            raw.append(alone(run, lines))
            for clients, found in loads.items():
                found.append(load(url, bodies, clients, seconds))
    client = WRK if shutil.which(WRK) else HERE
    return Serving(this_machine(), client, len(os.sched_getaffinity(0)), len(lines), raw, loads)


def main() -> None:
    """A client in a process of its own: `python -m benchmarks.serving URL BODIES CLIENTS SECONDS`."""
    url, bodies, clients, seconds = sys.argv[1:]
    contents = Path(bodies).read_bytes().split(b"\n")[:-1]
    print(json.dumps(asdict(asyncio.run(ask_for(url, contents, int(clients), float(seconds))))))


if __name__ == "__main__":
    main()
