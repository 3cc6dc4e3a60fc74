"""What a large corpus costs before training: `python -m benchmarks.ingest 10000000`.

Pairs are written, looked at by the doctor, prepared and cut into the batches of two epochs, each in a process of its
own that is watched from outside: its time on a processor, which a busy machine leaves alone; the peak of its anonymous
memory, which nobody can take back; and that of all its pages, those of files included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from transduce.config import Config, DataConfig, TextConfig
from transduce.data.batching import Batching
from transduce.data.corpus import training_corpus
from transduce.data.doctor import examine
from transduce.data.phrasebook import phrases
from transduce.data.preparation import prepare, recall

PHRASES, CHUNK = 20_000, 50_000
VOCABULARY = 2_000
TICK = 0.02  # seconds between looks at a process


@dataclass
class Cost:
    """Of one stage."""

    stage: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    anonymous: int = 0  # bytes, at the most
    resident: int = 0


def write_pairs(directory: Path, count: int) -> None:
    """So many pairs of one or two sentences of the phrasebook; hardly any two are the same."""
    found = phrases("train", PHRASES)
    rng = Random(1)
    with (directory / "train.en").open("wb") as source, (directory / "train.de").open("wb") as target:
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            drawn = list(zip(rng.choices(found, k=size), rng.choices(found, k=size), strict=True))
            source.write("".join(f"{a.source} {b.source}\n" for a, b in drawn).encode())
            target.write("".join(f"{a.target} {b.target}\n" for a, b in drawn).encode())


def configuration(directory: Path) -> Config:
    """Of a run on these pairs."""
    data = DataConfig(source=(str(directory / "train.en"),), target=(str(directory / "train.de"),))
    return Config(data=data, text=TextConfig(vocabulary=VOCABULARY))


def look(directory: Path) -> None:
    """The doctor."""
    tell("doctor")
    data = configuration(directory).data
    examine(training_corpus(data), data=data)


def make_ready(directory: Path) -> None:
    """Everything between the doctor and training."""
    (directory / "run").mkdir(exist_ok=True)
    known: set[str] = set()

    def progress(done: int, total: int, what: str) -> None:
        if what not in known:
            known.add(what)
            tell(what)

    prepare(configuration(directory), directory / "run", lambda note: None, progress)


def batch(directory: Path) -> None:
    """The batches of two epochs."""
    tell("batches of two epochs")
    train = configuration(directory).train
    batching = Batching.of(
        recall(directory / "run").train,
        batch_tokens=train.batch_tokens,
        micro_batch_tokens=train.micro_batch_tokens,
        seed=train.seed,
    )
    for epoch in range(2):
        batching.epoch(epoch)


PARTS: dict[str, Callable[[Path], None]] = {"doctor": look, "prepare": make_ready, "batch": batch}


def tell(stage: str) -> None:
    """Let the process that watches know what begins."""
    print(stage, flush=True)


def costs(part: str, directory: Path) -> list[Cost]:
    """Run a part in a process of its own and watch it."""
    command = [sys.executable, "-m", "benchmarks.ingest", "--part", part, "--directory", str(directory)]
    found: list[Cost] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        heard = threading.Thread(target=lambda lines: found.extend(map(begun, lines)), args=(process.stdout,))
        heard.start()
        before, used_before = time.monotonic(), 0.0
        while process.poll() is None:
            time.sleep(TICK)
            now, used = time.monotonic(), max(used_before, cpu_seconds(process.pid))
            if found:
                cost, (anonymous, resident) = found[-1], memory(process.pid)
                cost.seconds += now - before
                cost.cpu_seconds += used - used_before
                cost.anonymous, cost.resident = max(cost.anonymous, anonymous), max(cost.resident, resident)
            before, used_before = now, used
        heard.join()
    if process.returncode:
        raise RuntimeError(f"{part}: exit code {process.returncode}")
    return found


def begun(line: str) -> Cost:
    """A stage that costs nothing yet."""
    return Cost(line.strip())


def memory(process: int) -> tuple[int, int]:
    """Anonymous and all resident bytes; nothing of a process that has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except OSError:
        return 0, 0
    sizes = dict(line.split(":", 1) for line in status.split("\n") if ":" in line)
    anonymous, resident = (1024 * int(sizes.get(name, "0 kB").split()[0]) for name in ("RssAnon", "VmRSS"))
    return anonymous, resident


def cpu_seconds(process: int) -> float:
    """Time that a process has spent on processors; nothing of one that has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    user, system = fields[11:13]  # utime and stime of proc(5)
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def ingest(count: int, directory: Path) -> Iterator[Cost]:
    """The cost of each stage, as it becomes known."""
    write_pairs(directory, count)
    for part in PARTS:
        yield from costs(part, directory)


def main() -> None:
    """Print a table, or with --part be the process that is watched."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=int, nargs="?", default=200_000)
    parser.add_argument("--directory", type=Path, help="where to write; else a temporary directory")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one object a line instead of a table")
    given = parser.parse_args()
    if given.part:
        PARTS[given.part](given.directory)
        return
    with tempfile.TemporaryDirectory(prefix="transduce-ingest-") as temporary:
        directory = given.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        for cost in ingest(given.pairs, directory):
            if given.json:
                print(json.dumps(vars(cost)), flush=True)
            else:
                speed = given.pairs / max(cost.seconds, TICK)
                times = f"{cost.seconds:8.1f} s  {cost.cpu_seconds:8.1f} s on a processor  {speed:9,.0f} pairs/s"
                sizes = f"{cost.anonymous / 1e6:6.0f} MB anonymous  {cost.resident / 1e6:6.0f} MB resident"
                print(f"{cost.stage:<24} {times}  {sizes}", flush=True)


if __name__ == "__main__":
    main()
