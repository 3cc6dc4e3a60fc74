"""Virtual environments for peers, each with its own pinned requirements, kept in a cache for the next run."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "peers"


def cache() -> Path:
    """Where environments and results are kept, outside the tree."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "transduce" / "bench"


def interpreter(name: str) -> Path | str:
    """The Python of an environment made from peers/NAME.txt, or why it could not be made."""
    requirements = REQUIREMENTS / f"{name}.txt"
    directory = cache() / name
    stamp = directory / f"stamp-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    python = directory / "bin" / "python"
    if stamp.is_file():
        return python
    shutil.rmtree(directory, ignore_errors=True)
    make: list[str | Path] = [sys.executable, "-m", "venv", directory]
    extra = shlex.split(os.environ.get("PIP_ARGS", ""))
    install: list[str | Path] = [python, "-m", "pip", "install", *extra, "-r", requirements]
    for command in (make, install):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"did not install: {last_line(done.stderr or done.stdout)}"
    stamp.touch()
    return python


def last_line(text: str) -> str:
    """The last line that says something, in which an error usually stands."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[-1] if lines else "no message"
