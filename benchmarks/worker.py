"""One contender in a process of its own: its memory is its own, and it may have its own interpreter.

`python -m benchmarks.worker CONTENDER SHAPE BATCHES` reads a JSON line a command from stdin and answers with one on
stdout: {"train": [3, 4]} does an update with each of these batches and says in how many "seconds"; {"memory": true}
says the "peak" in bytes so far, above what the process held after its imports.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.batches import Batch, read_batches
from benchmarks.contenders import Contender, maker
from benchmarks.shapes import Shape


def memory(field: str) -> int:
    """VmRSS (what is held now) or VmHWM (the most that was) of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").split("\n"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/self/status has no {field}")


class Worker:
    """Obeys commands."""

    def __init__(self, contender: Contender, batches: list[Batch], held: int) -> None:
        self.contender, self.batches, self.held = contender, batches, held
        self.updates = 0

    def train(self, numbers: list[int]) -> float:
        """Seconds that the updates took."""
        start = time.perf_counter()
        for number in numbers:
            self.contender.update(self.batches[number], self.updates)
            self.updates += 1
        return time.perf_counter() - start

    def answer(self, command: dict[str, Any]) -> dict[str, float]:
        """What a command asks for."""
        if "train" in command:
            return {"seconds": self.train(command["train"])}
        return {"peak": memory("VmHWM") - self.held}


def main() -> None:
    replies, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    contender, shape, path = sys.argv[1:]
    make = maker(contender)
    batches = read_batches(Path(path))
    held = memory("VmRSS")
    worker = Worker(make(Shape(**json.loads(shape))), batches, held)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
