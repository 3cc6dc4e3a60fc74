"""Peers that train by a command of their own, in an environment of their own: eole and JoeyNMT.

They get our corpus in our subwords, our shape and our batch size, and then use every core as they would for any user:
no line of theirs is changed. Their speed is what their own log says, about target tokens without padding.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import learn
from benchmarks.environments import interpreter, last_line
from benchmarks.recipes import RECIPES, SOURCE, TARGET, Recipe, Run
from benchmarks.shapes import Shape
from transduce.errors import CodecError
from transduce.text.codec import SPECIALS

REPORTS = 6
"""Lines of the log that are read. The first does not count: it pays for reading the corpus."""

LONGEST = 1800.0
"""Seconds after which a peer is stopped."""


@dataclass(frozen=True)
class PeerSpeed:
    """Target tokens a second, padding not counted, in each report of the log but the first.

    `peak_memory`: the most bytes that were resident up to the last report, less what a process holds that has only
    imported the peer. It counts the corpus as the peer keeps it. None where there is no /proc to read it from.
    """

    name: str
    rounds: list[float]
    peak_memory: int | None


def measure(name: str, shape: Shape, corpus: list[tuple[str, str]], directory: Path) -> PeerSpeed | str:
    """The speed of a short training in a subdirectory of `directory`, or the reason why there is none."""
    say(f"{name}: its environment, minutes where it has to be made")
    python = interpreter(name)
    if isinstance(python, str):
        return python
    say(f"{name}, {shape.name}: writing {len(corpus):,} pairs, seconds")
    try:
        run = prepare(shape, corpus, directory.resolve() / f"{name}-{shape.name}")
    except CodecError as error:
        return str(error)
    return train(name, python, RECIPES[name], run)


def prepare(shape: Shape, corpus: list[tuple[str, str]], directory: Path) -> Run:
    """Everything that a peer reads; fewer updates a report for a bigger model, and some left when it is stopped."""
    directory.mkdir(parents=True, exist_ok=True)
    codec = learn(corpus, shape.vocabulary)
    sides = [codec.encode_many(lines) for lines in zip(*corpus, strict=True)]
    pairs = [pair for pair in zip(*sides, strict=True) if all(pair)]
    for part, some in (("train", pairs), ("dev", pairs[:1])):
        for side, lines in zip((SOURCE, TARGET), zip(*some, strict=True), strict=True):
            write_lines(directory / f"{part}.{side}", [" ".join(map(str, line)) for line in lines])
    write_lines(directory / "vocabulary.txt", [str(id) for id in range(len(SPECIALS), codec.size)])
    every = max(4, 2048 // shape.d_model)
    return Run(shape, pairs=len(pairs), updates=(REPORTS + 1) * every, report_every=every, directory=directory)


def write_lines(path: Path, lines: list[str]) -> None:
    """A text file."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def train(name: str, python: Path, recipe: Recipe, run: Run) -> PeerSpeed | str:
    """Runs the peer's command until it has made its last report."""
    settings = run.directory / "settings.yaml"
    settings.write_text(json.dumps(recipe.settings(run), indent=2), encoding="utf-8")  # YAML contains JSON
    imported = memory_after_import(python, recipe.module)
    speeds: list[float] = []
    peak = None
    log = run.directory / "log.txt"
    command: list[str | Path] = [python, "-m", recipe.module, *recipe.arguments, settings]
    label = f"{name}, {run.shape.name}"
    say(f"{label}: {REPORTS} reports of {run.report_every} updates, the time to go follows the first")
    with log.open("w", encoding="utf-8") as kept, start(command, run.directory) as process:
        watchdog = threading.Timer(LONGEST, process.kill)
        watchdog.start()
        begin = time.monotonic()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(line)
                if found := recipe.report.search(line):
                    speeds.append(float(found[1]))
                    peak = memory(process.pid, "VmHWM")
                    left = (REPORTS - len(speeds)) * (time.monotonic() - begin)
                    begin = time.monotonic()
                    say(f"{label}: {len(speeds)} of {REPORTS}, {speeds[-1]:,.0f} tokens/s, at most {left:.0f} s to go")
                if len(speeds) == REPORTS:
                    break
        finally:
            watchdog.cancel()
            process.kill()
    if len(speeds) < REPORTS:
        return f"stopped after {len(speeds)} of {REPORTS} reports: {last_line(log.read_text(encoding='utf-8'))}"
    return PeerSpeed(name, speeds[1:], None if peak is None or imported is None else peak - imported)


def start(command: list[str | Path], directory: Path) -> subprocess.Popen[str]:
    """A process that says everything on stdout, line by line."""
    return subprocess.Popen(
        command,
        cwd=directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


def environment() -> dict[str, str]:
    """Ours, but for what would lead the peer's Python to our packages."""
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}


def memory_after_import(python: Path, module: str) -> int | None:
    """Bytes that a process holds which has imported what `python -m MODULE` imports, and done nothing."""
    program = f"import runpy; runpy.run_module({module!r}, run_name='imported'); print('ready', flush=True); input()"
    with subprocess.Popen(
        [python, "-c", program],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = any(line == "ready\n" for line in process.stdout)
        held = memory(process.pid, "VmRSS") if ready else None
        process.kill()
    return held


def memory(process: int, field: str) -> int | None:
    """VmRSS (what is held now) or VmHWM (the most that was) of a process, in bytes; None if it has ended.

    None too where the system has no /proc. Not from `wait4`: a child's peak there begins with the parent's.
    """
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    found = [int(line.split()[1]) * 1024 for line in status.split("\n") if line.startswith(field)]
    return found[0] if found else None


def say(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)
