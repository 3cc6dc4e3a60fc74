"""One run, one process: a lock that the kernel releases even when its holder is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.errors import RunError
from transduce.files import take_lock

LOCK = "lock"  # in the run; it stays there, and holds the number of the last process that trained


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Within, nobody else trains in `run`. Where files cannot be locked, nothing is checked."""
    with (run / LOCK).open("a+", encoding="utf-8") as file:
        if not take_lock(file, wait=False):
            file.seek(0)
            holder = file.read().strip() or "of unknown number"
            raise RunError(f"{run}: process {holder} is training in it: wait for it or stop it")
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
