"""Under a fault or a crash at any step of a write there is the old content or the new, and never a part."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from transduce import files
from transduce.errors import UserError
from transduce.files import file_name, new_file, write_directory, write_file, write_json

OLD, NEW = {"a": b"old a", "b/c": b"old c"}, {"a": b"new a", "b/d": b"new d"}
STEPS = ("fsync", "rename", "replace")
TIDYING = ("unlink", "rmdir", "remove")


class Crash(BaseException):
    """The process is gone: nothing that it does from now on has an effect."""


class Faults:
    """Lets the n-th step that changes the disk fail; after a Crash, every later one too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int, error: BaseException) -> None:
        self.left, self.error, self.failed = n, error, False
        for name in (*STEPS, *TIDYING):
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name), counts=name in STEPS))

    def wrap(self, step: Callable[..., Any], *, counts: bool) -> Callable[..., Any]:
        def failing(*arguments: Any, **options: Any) -> Any:
            if self.failed and isinstance(self.error, Crash):
                raise self.error
            if counts:
                self.left -= 1
                if self.left == -1:
                    self.failed = True
                    raise self.error
            return step(*arguments, **options)

        return failing


def fill_with(content: dict[str, bytes]) -> Callable[[Path], None]:
    def fill(directory: Path) -> None:
        for name, data in content.items():
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_bytes(data)

    return fill


def content(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def without_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_exchange", lambda one, other: False)


def attempt(write: Callable[[], None], n: int, error: BaseException) -> bool:
    """Write with a fault at step n; returns whether there was such a step."""
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, n, error)
        with suppress(UserError if isinstance(error, OSError) else type(error)):
            write()
        return faults.failed


FAULTS = [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt(), SystemExit(143)]


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_a_fault_at_any_step_of_a_file_leaves_the_old_or_the_new_one_and_nothing_else(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "file"
    seen = set()
    for n in count():
        path.write_bytes(b"old")
        failed = attempt(lambda: write_file(path, b"new"), n, error)
        seen.add(path.read_bytes())
        assert names(tmp_path) == ["file"]
        if not failed:
            break
    assert path.read_bytes() == b"new"
    assert seen == {b"old", b"new"}
    assert n == 3  # fsync of the file, rename, fsync of the directory


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_a_fault_at_any_step_of_a_directory_leaves_the_old_or_the_new_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exchange: bool
) -> None:
    if not exchange:
        without_exchange(monkeypatch)
    path = tmp_path / "directory"
    write_directory(path, fill_with(OLD))
    for n in count():
        failed = attempt(lambda: write_directory(path, fill_with(NEW)), n, error)
        assert content(path) in (OLD, NEW)
        assert names(tmp_path) == ["directory"]
        if not failed:
            break
        write_directory(path, fill_with(OLD))
    assert content(path) == NEW
    assert n >= len(NEW)


def test_a_crash_at_any_step_leaves_the_old_or_the_new_directory(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    seen = []
    for n in count():
        write_directory(path, fill_with(OLD))
        failed = attempt(lambda: write_directory(path, fill_with(NEW)), n, Crash())
        assert content(path) in (OLD, NEW)
        seen.append(content(path))
        if not failed:
            break
    assert OLD in seen
    assert NEW in seen


def test_a_crash_between_two_renames_leaves_both_directories_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_exchange(monkeypatch)
    path = tmp_path / "directory"
    between = 0
    for n in count():
        write_directory(path, fill_with(OLD))
        failed = attempt(lambda: write_directory(path, fill_with(NEW)), n, Crash())
        if not path.exists():
            between += 1
            aside = {suffix: tmp_path / f".directory.{os.getpid()}.{suffix}" for suffix in ("old", "tmp")}
            assert content(aside["old"]) == OLD
            assert content(aside["tmp"]) == NEW
            aside["old"].rename(path)
        assert content(path) in (OLD, NEW)
        if not failed:
            break
    assert between == 1


def test_a_crash_at_any_step_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for n in count():
        path.write_bytes(b"old")
        failed = attempt(lambda: write_file(path, b"new"), n, Crash())
        assert path.read_bytes() in (b"old", b"new")
        if not failed:
            break
    assert n == 3


class FullDisk(io.FileIO):
    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_with_the_file_and_the_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(Path, "open", lambda self, mode: io.BufferedWriter(FullDisk(self, "w")))
    with pytest.raises(UserError, match=r"file: cannot write 12,345 bytes: No space left on device"):
        write_file(path, bytes(12_345))
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_what_fills_a_directory_may_fail(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    write_directory(path, fill_with(OLD))

    def fail(directory: Path) -> None:
        fill_with(NEW)(directory)
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        write_directory(path, fail)
    assert content(path) == OLD
    assert names(tmp_path) == ["directory"]


def test_a_block_that_raises_leaves_no_new_file(tmp_path: Path) -> None:
    def fail() -> None:
        with new_file(tmp_path / "file") as file:
            file.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(tmp_path) == []


def test_a_new_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    with new_file(tmp_path / "file") as file:
        file.write(b"whole")
        file.flush()
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_directory_does_not_replace_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    with pytest.raises(UserError, match="file: cannot write"):
        write_directory(path, fill_with(NEW))
    assert path.read_bytes() == b"mine"
    assert names(tmp_path) == ["file"]


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    write_directory(tmp_path / "there", fill_with(OLD))
    (tmp_path / "here").symlink_to("there")
    write_directory(tmp_path / "here", fill_with(NEW))
    assert content(tmp_path / "here") == NEW
    assert content(tmp_path / "there") == OLD
    assert names(tmp_path) == ["here", "there"]


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing/file: cannot write 1 bytes: No such file or directory"):
        write_file(tmp_path / "missing" / "file", b"x")


def test_json_is_text_that_people_can_read(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"Übung": [1]})
    assert (tmp_path / "a.json").read_bytes() == '{\n  "Übung": [\n    1\n  ]\n}\n'.encode()


@pytest.mark.parametrize("path", ["b.en", "a/b.en", "/home/me/b.en", r"a\b.en", r"C:\me\b.en", "./b.en"])
def test_a_name_holds_no_path(path: str) -> None:
    assert file_name(path) == "b.en"
