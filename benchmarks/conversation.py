"""A contender in its own process, which is asked by lines of JSON and answers with others."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from benchmarks.environments import last_line

ROOT = Path(__file__).parent.parent
NOTHING: Mapping[str, str] = {}


class ContenderError(Exception):
    """A contender could not be started or died; says why."""


class Conversation:
    """Between questions the process sleeps. What it says besides is kept in a file."""

    def __init__(self, command: list[str | Path], errors: Path, variables: Mapping[str, str] = NOTHING) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", **variables}
        environment.pop("OMP_WAIT_POLICY", None)  # as users have it
        self.errors = errors
        with errors.open("w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=environment,
                cwd=ROOT,
                encoding="utf-8",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, question: Mapping[str, object]) -> Any:
        """The answer; a process that is gone has said why."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(json.dumps(question), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.process.wait()
            said = self.errors.read_text(encoding="utf-8", errors="replace")
            raise ContenderError(f"failed: {last_line(said)}")
        return json.loads(answer)
