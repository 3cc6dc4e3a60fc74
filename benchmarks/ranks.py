"""How training scales from one process of one thread to two of them, as torchrun starts them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.corpus import Text
from benchmarks.environments import last_line
from benchmarks.results import Ranks, this_machine

MINUTES = 0.5  # of training, after the start
SIZES = (1, 2)
SETTINGS = {
    "train.minutes": MINUTES,
    "train.threads": 1,
    "train.validate_every": 10**6,
    "train.save_every": 10**6,
}


def ranks(text: Text, rounds: int) -> Ranks:
    """Target tokens a second of each number of processes, which take turns."""
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    with tempfile.TemporaryDirectory() as directory:
        source, target = text.write(Path(directory))
        for number in range(rounds):
            for size in SIZES:
                run = Path(directory) / f"run-{number}-{size}"
                found[size].append(train(run, source, target, size))
    return Ranks(this_machine(), text.name, found)


def train(run: Path, source: Path, target: Path, size: int) -> float:
    """Tokens a second of a run, the median of its reports; the first has the start in it."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}", "-m", "transduce", "train"]
    settings = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    files = ["--source", str(source), "--target", str(target), "--out", str(run), "--preset", "tiny"]
    done = subprocess.run(
        [sys.executable, *launcher, *files, *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{size} processes did not train: {last_line(done.stderr)}")
    log = (run / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    events = map(json.loads, log)
    reports = [float(event["tokens_per_second"]) for event in events if event["event"] == "report"]
    return statistics.median(reports[1:] or reports)
