"""Memory and time of updates of ever new shapes, by how many shapes of products are remembered.

    python -m benchmarks.remembered

Each row is a process of its own: gradients of 300 batches of random sentences, one thread, preset tiny.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import torch

from benchmarks.markdown import table
from benchmarks.results import this_machine
from transduce.model import Transformer
from transduce.model.products import REMEMBERED
from transduce.settings import load_config
from transduce.train.allocator import keep_freed_memory
from transduce.train.calibration import random_batch
from transduce.train.choice import Size
from transduce.train.workers import Workers

UPDATES = 300
MANY = dict.fromkeys(REMEMBERED, "1024")


def measure(updates: int) -> None:
    """Print the resident memory before and after, in MB, and the seconds of the processor."""
    keep_freed_memory()
    config = load_config(preset="tiny", settings=["train.threads=1"])
    torch.set_num_threads(1)
    model = Transformer(config.model, config.text.vocabulary, config.text.vocabulary)
    generator, before, start = random.Random(1), resident(), time.process_time()
    with closing(Workers(model, config.train)) as workers:
        for step in range(updates):
            source = generator.randint(5, 40)
            target, tokens = max(3, source + generator.randint(-4, 4)), generator.randint(900, 1000)
            batch = random_batch(config, Size(1.0, source, target), tokens, torch.device("cpu"))
            workers.backward([batch], step=step)
        print(before, resident(), time.process_time() - start)


def resident() -> int:
    """Of this process, in MB."""
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") // 10**6


def row(label: str, environment: dict[str, str], updates: int = UPDATES) -> list[str]:
    """One process."""
    command = [sys.executable, "-m", "benchmarks.remembered", str(updates)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True, encoding="utf-8")
    before, after, seconds = done.stdout.split()
    return [label, f"{int(after) - int(before):,} MB", f"{float(seconds):.1f} s"]


def main() -> None:
    """A table of both."""
    machine = this_machine()
    ours = {name: str(shapes) for name, shapes in REMEMBERED.items()}
    name, other = REMEMBERED
    rows = [
        row("1,024 and 1,024", MANY),
        row(f"{ours[name]} and 1,024", {**MANY, name: ours[name]}),
        row(f"{ours[name]} and {ours[other]}, ours", ours),
    ]
    print(f"{machine.date}, {machine.processor}, one thread, torch {machine.torch}\n")
    print(table(["remembered by oneDNN and by its caller", "memory", f"{UPDATES} updates"], rows, numbers=(1, 2)))


if __name__ == "__main__":
    measure(int(sys.argv[1])) if sys.argv[1:] else main()
