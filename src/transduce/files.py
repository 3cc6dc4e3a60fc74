"""Files that a run depends on appear whole or not at all: temp, fsync, rename."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, BinaryIO

from transduce.errors import UserError

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of linux/fcntl.h and linux/fs.h


def file_name(path: str) -> str:
    r"""The last part of a path, whichever system wrote it: a\b.en and a/b.en are b.en."""
    return PureWindowsPath(PurePosixPath(path).name).name


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


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which replaces `path` when the block ends; if the block raises, there is no trace of it."""
    temporary = _beside(path, "tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_directory(path.parent)
    finally:
        _remove(temporary)


def write_file(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: a reader sees the old file or the new one, never a part."""
    try:
        with new_file(path) as file:
            file.write(data)
    except OSError as error:
        raise UserError(f"{path}: cannot write {len(data):,} bytes: {error.strerror or error}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_file(path, (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode())


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write files into a new directory that then appears as `path` in one rename.

    A directory already at `path` changes places with the new one in one step where the system can do that (Linux),
    so that there is the old one or the new one at every instant. Elsewhere it takes two renames. A crash between
    them leaves nothing at `path`, but both directories beside it and whole: the old one as `.NAME.PID.old`, the new
    one as `.NAME.PID.tmp`; rename the one you want. An error between them, which is no crash, puts the old one back.
    """
    temporary = _beside(path, "tmp")
    try:
        _remove(temporary)
        temporary.mkdir(parents=True)
        fill(temporary)
        _fsync_tree(temporary)
        if not path.is_dir():
            temporary.rename(path)
        elif not _exchange(temporary, path):
            _replace_in_two(path, temporary)
        fsync_directory(path.parent)
    except OSError as error:
        size = sum(file.stat().st_size for file in temporary.rglob("*") if file.is_file())
        raise UserError(f"{path}: cannot write {size:,} bytes: {error.strerror or error}") from error
    finally:
        _remove(temporary)


def take_lock(file: IO[Any], *, wait: bool) -> bool:
    """Lock an open file until it is closed, and the kernel closes it even when its holder is killed.

    False: another holds it, and `wait` is not set. Where files cannot be locked nothing is, and that is True.
    """
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
            raise
    return True


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{suffix}")


def _fsync_tree(directory: Path) -> None:
    for file in sorted(p for p in directory.rglob("*") if p.is_file()):
        with file.open("rb+") as handle:
            os.fsync(handle.fileno())
    for each in [directory, *(p for p in directory.rglob("*") if p.is_dir())]:
        fsync_directory(each)


def _exchange(one: Path, other: Path) -> bool:
    """Let two directories change names in one step; False where the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)  # Python has no name for it
    if renameat2 is None:
        return False
    result = renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    return bool(result == 0)


def _replace_in_two(path: Path, new: Path) -> None:
    old = _beside(path, "old")
    try:
        path.rename(old)
        new.rename(path)
    except BaseException:  # a signal may raise too
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    """Remove what is at `path`, if it can be removed; this tidies up and must not hide why."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
