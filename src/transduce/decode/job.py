"""Translating a file that takes hours: windows of lines, committed one by one, so that a killed job goes on.

Beside OUT lie OUT.part, the windows that are done, and OUT.part.json, the record: whose work that is, and how far it
went. A window is written and fsynced before a record that counts it takes the place of the one before, so the record
never tells of more than there is; what OUT.part holds beyond it is cut off when the work goes on. OUT appears when all
lines are there.

Windows are cut by line number alone and each is translated by itself. So a job that goes on, or that is done in
shards, makes the same bytes as one that was never broken.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from transduce.errors import UserError
from transduce.files import fsync_directory, take_lock, write_json

MAX_RECORD = 1 << 20
"""Bytes; a record is a few lines."""


class Work(BaseModel):
    """All that decides what an output will be."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    lines: NonNegativeInt
    """Of the input."""
    sha256: str
    """Of the input's lines, whether they are compressed or not."""
    model: str
    """The SHA-256 of the bundle's manifest, which hashes every file of it."""
    settings: dict[str, str | bool | int | float | None]
    """What else was asked for."""

    def changes(self, now: Work) -> list[str]:
        """What is no longer as it was."""
        found = []
        if self.lines != now.lines:
            found.append(f"the input had {self.lines:,} lines and now has {now.lines:,}")
        elif self.sha256 != now.sha256:
            found.append("the input's text has changed")
        if self.model != now.model:
            found.append("the model is another")
        for name in sorted(self.settings.keys() | now.settings.keys()):
            before, after = self.settings.get(name), now.settings.get(name)
            if before != after:
                found.append(f"{name} was {_spelled(before)} and now is {_spelled(after)}")
        return found


class Record(BaseModel):
    """Whose work OUT.part is, and how many lines of input and bytes of output are done."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    work: Work
    lines: NonNegativeInt = 0
    bytes: NonNegativeInt = 0


class Job:
    """An output in the making."""

    def __init__(self, output: Path, work: Work) -> None:
        self.output, self.part, self.told = output, part_of(output), record_of(output)
        self.record = Record(work=work)

    def commit(self, data: bytes, lines: int) -> None:
        """Add a window: from now on it is done, whatever happens."""
        try:
            with self.part.open("r+b") as file:
                file.seek(self.record.bytes)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            told = f"{self.part}: cannot write {len(data):,} bytes: {error.strerror or error}"
            raise UserError(f"{told}: make room, or mend what is wrong, and give the same command again") from error
        done = {"lines": self.record.lines + lines, "bytes": self.record.bytes + len(data)}
        record = self.record.model_copy(update=done)
        write_json(self.told, record.model_dump(mode="json"))
        self.record = record

    def go_on(self) -> None:
        """Take up what is there, if it is this work; begin if nothing is done."""
        size = self.part.stat().st_size
        record = read_record(self.told) if self.told.exists() else None
        if record is None and size:
            raise UserError(f"{self.part}: {size:,} bytes of unknown origin (no {self.told.name}): move it away")
        if record is None or record.lines == 0:
            self._begin()
            return
        if changes := record.work.changes(self.record.work):
            told = f"{self.part}: begun otherwise: {'; '.join(changes)}"
            raise UserError(f"{told}: give the former again, or remove it and {self.told.name} to begin anew")
        if size < record.bytes:
            told = f"{self.part}: {size:,} bytes, and {self.told.name} tells of {record.bytes:,}"
            raise UserError(f"{told}: remove both to begin anew")
        os.truncate(self.part, record.bytes)
        self.record = record

    def appear(self) -> None:
        """The part becomes the output."""
        self.part.replace(self.output)
        fsync_directory(self.output.parent)
        self.forget()

    def discard(self) -> None:
        """Remove all of it."""
        self.part.unlink(missing_ok=True)
        self.forget()

    def forget(self) -> None:
        """Remove what processes that were killed while writing a record left behind, and then the record."""
        for left in self.told.parent.glob(f".{_literal(self.told.name)}.*.tmp"):
            left.unlink(missing_ok=True)
        self.told.unlink(missing_ok=True)

    def _begin(self) -> None:
        try:
            os.truncate(self.part, 0)
            write_json(self.told, self.record.model_dump(mode="json"))
        except BaseException:
            self.discard()
            raise


def part_of(output: Path) -> Path:
    """Where the windows that are done lie."""
    return output.with_name(output.name + ".part")


def record_of(output: Path) -> Path:
    """Where the record lies."""
    return output.with_name(output.name + ".part.json")


@contextmanager
def resumable(output: Path, work: Work, *, lines: int) -> Iterator[Job]:
    """The job that makes `output`, from where it was left; it appears when the block has committed so many lines.

    If the block raises, what was committed stays for the next time; if that is nothing, nothing stays.
    """
    job = Job(output, work)
    if output.exists():
        yield _appeared(job, lines)
        job.forget()
        return
    if job.told.exists() and not job.part.exists() and read_record(job.told).lines:
        raise UserError(f"{job.told}: tells of {job.part.name}, which is gone: remove it to begin anew")
    with _locked(job):
        if output.exists():  # its maker held the lock until now
            raise UserError(f"{output}: exists: choose another --output")
        job.go_on()
        try:
            yield job
            if job.record.lines != lines:
                raise UserError(f"{job.part}: {job.record.lines:,} of {lines:,} lines: the input was changed meanwhile")
            job.appear()
        except BaseException:
            if job.record.lines == 0:
                job.discard()
            raise


def shard_of(lines: int, window: int, *, shard: int, of: int) -> range:
    """The lines, from 0, of shard 1 to `of`: whole windows in a row, as many as the others have or one more."""
    windows = -(-lines // window)
    start, stop = (windows * number // of * window for number in (shard - 1, shard))
    return range(start, min(stop, lines))


def read_record(path: Path) -> Record:
    """What a record says, if it is one."""
    try:
        if path.stat().st_size > MAX_RECORD:
            raise ValueError("too large")
        return Record.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        told = f"{path}: damaged, or of another version"
        raise UserError(f"{told}: remove it and {path.stem} to begin anew") from None


def _appeared(job: Job, lines: int) -> Job:
    """A job that was killed after its output had appeared, with no more to do than to remove its record."""
    if job.told.exists() and not job.part.exists():
        record = read_record(job.told)
        done = (record.work, record.lines, record.bytes)
        if done == (job.record.work, lines, job.output.stat().st_size):
            job.record = record
            return job
    raise UserError(f"{job.output}: exists: choose another --output")


@contextmanager
def _locked(job: Job) -> Iterator[None]:
    """Within, no other process makes this output; the kernel lets go when its holder is killed."""
    try:
        handle = job.part.open("ab")
    except OSError as error:
        told = f"{job.output}: cannot write: {error.strerror or error}"
        raise UserError(f"{told}: choose another --output") from None
    with handle:
        if not take_lock(handle, wait=False):
            told = f"{job.part}: another process is writing it"
            raise UserError(f"{told}: wait for it, stop it, or choose another --output")
        if sys.platform == "win32":
            handle.close()  # a file that is open cannot be renamed there
        yield


def _spelled(value: str | int | float | None) -> str:
    return "unset" if value is None else str(value)


def _literal(name: str) -> str:
    """A name as a glob that matches only it."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
