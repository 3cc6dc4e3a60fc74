"""How long a user waits for the first update of `transduce train`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.corpus import Text
from benchmarks.results import Startup, this_machine

PATIENCE = 300.0  # seconds
# a checkpoint after each update, which the log tells of
SETTINGS = ("--preset", "tiny", "--set", "train.save_every=1", "--set", "train.validate_every=1000000")


def startup(text: Text, rounds: int) -> Startup:
    """Seconds from the command to the first update, of new runs and of the same ones resumed."""
    fresh, resumed = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            run = Path(directory) / "run"
            source, target = text.write(Path(directory))
            fresh.append(until_next_step(run, "--source", source, "--target", target, "--out", run, *SETTINGS))
            resumed.append(until_next_step(run, "--resume", run))
    return Startup(this_machine(), text.name, len(text.pairs), fresh, resumed)


def until_next_step(run: Path, *arguments: str | Path) -> float:
    """Start `transduce train` and end it as soon as it has saved a step that was not there before."""
    log = run / "log.jsonl"
    before = len(saved(log))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        start = time.time()
        process = subprocess.Popen([sys.executable, "-m", "transduce", "train", *arguments], stderr=errors)
        try:
            while len(steps := saved(log)) == before:
                time.sleep(0.02)
                if process.poll() is not None or time.time() - start > PATIENCE:
                    errors.seek(0)
                    raise RuntimeError(f"transduce train made no step:\n{errors.read()}")
        finally:
            process.kill()
            process.wait()
    return steps[before] - start


def saved(log: Path) -> list[float]:
    """When each checkpoint was written; a line that is being written does not count yet."""
    if not log.is_file():
        return []
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").split("\n")[:-1]]
    return [event["time"] for event in events if event["event"] == "checkpoint"]
