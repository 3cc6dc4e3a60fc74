"""Files that a run depends on appear whole or not at all: temp, fsync, rename."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transduce.errors import UserError


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_directory(path: Path) -> None:
    """Make a rename inside `path` durable; Windows cannot open a directory and needs none of it."""
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot write {len(data)} bytes: {error.strerror or error}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_file(path, (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write files into a new directory that then appears as `path` in one rename.

    A directory already at `path` is moved aside first and removed last, so that a crash leaves the old one or the
    new one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    replaced = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        fill(temporary)
        for file in sorted(p for p in temporary.rglob("*") if p.is_file()):
            with file.open("rb+") as handle:
                os.fsync(handle.fileno())
        for directory in [temporary, *(p for p in temporary.rglob("*") if p.is_dir())]:
            fsync_directory(directory)
        if path.exists():
            path.rename(replaced)
        temporary.rename(path)
        fsync_directory(path.parent)
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot write: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
