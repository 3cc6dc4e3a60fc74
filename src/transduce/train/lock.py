"""One run, one process: a lock that the kernel releases even when its holder is killed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transduce.errors import RunError

LOCK = "lock"  # in the run; it stays there, and holds the number of the last process that trained


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Within, nobody else trains in `run`. Where files cannot be locked, nothing is checked."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with (run / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "of unknown number"
            raise RunError(f"{run}: process {holder} is training in it: wait for it or stop it") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
                raise
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
