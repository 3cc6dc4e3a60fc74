"""Running `transduce` as a person would: in this process, which is quick, or in one of its own."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "COLUMNS": "200"}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Of stdout; every line must be ended."""
        assert self.out == "" or self.out.endswith("\n")
        return self.out.split("\n")[:-1]


def transduce(*arguments: str | Path, stdin: bytes = b"") -> Ran:
    """What the command would do; an exception that it does not handle is one here."""
    from transduce.cli import main

    streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for name in ("stdout", "stderr")}
    terminate, hook = signal.getsignal(signal.SIGTERM), sys.excepthook
    try:
        with (
            mock.patch.multiple(sys, **streams, stdin=io.TextIOWrapper(io.BytesIO(stdin)), argv=words(arguments)),
            mock.patch.dict(os.environ, ENVIRONMENT),
        ):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        signal.signal(signal.SIGTERM, terminate)
        sys.excepthook = hook
    assert isinstance(code, int)
    out, err = (read_back(stream) for stream in streams.values())
    return Ran(code, out, err)


def words(arguments: Sequence[str | Path]) -> list[str]:
    return ["transduce", *map(str, arguments)]


def read_back(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("utf-8")


def command(*arguments: str | Path) -> list[str]:
    """For a process of its own."""
    return [sys.executable, "-m", *words(arguments)]


def spawn(*arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None) -> Ran:
    """The command in a process of its own."""
    done = subprocess.run(command(*arguments), input=stdin, cwd=cwd, env=ENVIRONMENT, capture_output=True, check=False)
    return Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))
