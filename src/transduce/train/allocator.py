"""glibc gives large blocks back to the system when they are freed; training asks for them again at once.

It also gives each thread a heap of its own, which it gives back whenever that is empty: one heap serves all workers.
"""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of malloc.h


def keep_freed_memory() -> bool:
    """Keep freed blocks in the process; on anything but glibc this does nothing. Returns whether it did."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((M_MMAP_THRESHOLD, 1 << 30), (M_TRIM_THRESHOLD, 2**31 - 1), (M_ARENA_MAX, 1))
    return all(mallopt(*setting) for setting in settings)
