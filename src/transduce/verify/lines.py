"""N lines in, N lines out, in order: nasty lines between plain ones, through the command as a shell would run it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from transduce.decode.translator import Translator
from transduce.errors import RunError

TOKENS = 10_000


@dataclass(frozen=True)
class Probe:
    """A line of input, and what its line of output must be; None: anything, as long as it is one line."""

    line: bytes
    expected: str | None


@dataclass(frozen=True)
class Answered:
    """What came of so many lines."""

    lines: int
    nasty: int
    problems: tuple[str, ...]


def nasty_lines(word: str) -> list[Probe]:
    """Lines that have made translators lose their place; `word` is one that the model knows."""
    some = word.encode()
    return [
        Probe(b"", ""),
        Probe(b"   \t ", ""),
        Probe("\u00a0\u2003".encode(), ""),
        Probe(b"a\0b", None),
        Probe("one\u2028two\u2029three\x85four".encode(), None),
        Probe("\ufeffone".encode(), None),
        Probe(b"one\rtwo", None),
        Probe(some + b"\r", None),
        Probe(b"one\x0btwo\x0cthree\x1cfour", None),
        Probe("😀 👩‍👩‍👧 🏳️‍🌈".encode(), None),
        Probe("e\u0301 שלום \u202eabc \ufffd".encode(), None),
        Probe(b"not \xff\xfe UTF-8", None),
        Probe(some * 2000, None),
        Probe((some + b" ") * TOKENS, None),
    ]


def check_lines(model: Path, sources: Sequence[str]) -> Answered:
    """Translate from stdin and from a file, the last line without its newline; compare places with `sources` alone."""
    plain = list(dict.fromkeys(sources))[:50]
    alone = dict(zip(plain, (found.text for found in Translator.load(model).translate(plain)), strict=True))
    probes: list[Probe] = []
    nasty = nasty_lines(plain[0].split()[0])
    for each, source in zip(nasty, cycle(plain), strict=False):
        probes += [each, Probe(source.encode(), alone[source])]
    text = b"\xef\xbb\xbf" + b"\n".join(probe.line for probe in probes)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "lines"
        file.write_bytes(text)
        outputs = {"stdin": _translate(model, stdin=text), "a file": _translate(model, str(file))}
    problems = [f"{name}: {problem}" for name, out in outputs.items() for problem in compare(probes, out)]
    return Answered(len(probes), len(nasty), tuple(problems))


def compare(probes: Sequence[Probe], output: bytes) -> list[str]:
    """How the lines of an output fail to answer the probes, each in its place."""
    lines = output.decode("utf-8").split("\n")
    if lines.pop() != "":
        return ["the last line is not ended"]
    if len(lines) != len(probes):
        return [f"{len(probes)} lines in, {len(lines)} lines out"]
    return [
        f"line {number}: {probe.line[:40]!r} gave {line[:80]!r}, not {probe.expected!r}"
        for number, (probe, line) in enumerate(zip(probes, lines, strict=True), 1)
        if probe.expected not in (None, line)
    ]


def _translate(model: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = [sys.executable, "-m", "transduce", "--quiet", "translate", str(model), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False)
    if done.returncode:
        raise RunError(f"{model}: `transduce translate` failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
