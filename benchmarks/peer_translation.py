"""eole and JoeyNMT translate, by their own commands, with models of our shape that they have made themselves.

Our weights do not fit them: eole's decoder has its norms elsewhere, JoeyNMT has biases in its attention. A model is
made by an update or two of training and kept in the cache; as it knows nothing of where an output ends, it is told how
long outputs are. Lines come and go as our subwords; cutting is not in their time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.corpus import Text, learn
from benchmarks.environments import cache, interpreter, last_line
from benchmarks.peers import environment, prepare, say, write_lines
from benchmarks.recipes import RECIPES, Run, eole_settings, joeynmt_settings
from benchmarks.results import Rate
from benchmarks.shapes import TINY
from benchmarks.translation import LENGTH
from benchmarks.weights import VOCABULARIES
from transduce.text import Codec

UPDATES = 2
LINES, FEW = 500, 20
"""The seconds for FEW lines, which are those of starting, are taken from the seconds for LINES."""
LONGEST = 3600.0
"""Seconds after which a command is stopped."""


class PeerError(Exception):
    """A peer's command failed; says why."""


@dataclass(frozen=True)
class Way:
    """How a peer is told to train and save a model, and to translate a file of lines."""

    training: Callable[[Run], dict[str, Any]]
    arguments: tuple[str, ...]
    translation: Callable[[Run, Path, Path, int], dict[str, Any]]
    """Settings from the run, the file of lines, the file to write, and the beam."""
    reads_stdin: bool
    """And writes to stdout; else it is the settings that name the files."""


def eole_training(run: Run) -> dict[str, Any]:
    """As for speed, but with an end that is saved."""
    settings = eole_settings(run)
    settings["training"] |= {"save_checkpoint_steps": run.updates}
    return settings


def eole_translation(run: Run, lines: Path, output: Path, beam: int) -> dict[str, Any]:
    """The paper's length penalty; eole sorts by length."""
    return {
        "model_path": run.file("model"),
        "src": str(lines),
        "output": str(output),
        "beam_size": beam,
        "length_penalty": "wu",
        "alpha": 0.6,
        "min_length": LENGTH,
        "max_length": LENGTH,
        "batch_type": "sents",
        "batch_size": 64,
        "seed": 1,
    }


def joeynmt_training(run: Run) -> dict[str, Any]:
    """As for speed, but with an end that is validated on one pair, and so saved."""
    settings = joeynmt_settings(run)
    settings["training"] |= {"validation_freq": run.updates, "logging_freq": 1}
    return settings


def joeynmt_translation(run: Run, lines: Path, output: Path, beam: int) -> dict[str, Any]:
    """Its own length penalty, in batches of lines as they come."""
    search = {"beam_size": beam, "beam_alpha": 0.6, "min_output_length": LENGTH, "max_output_length": LENGTH}
    return {**joeynmt_training(run), "testing": {**search, "batch_type": "sentence", "batch_size": 64}}


WAYS = {
    "eole": Way(eole_training, ("predict", "-config"), eole_translation, reads_stdin=False),
    "joeynmt": Way(joeynmt_training, ("translate",), joeynmt_translation, reads_stdin=True),
}


class Peer:
    """A peer that has a model."""

    def __init__(self, name: str, corpus: Text) -> None:
        """A minute where the model has to be made."""
        self.name, self.way = name, WAYS[name]
        python = interpreter(name)
        if isinstance(python, str):
            raise PeerError(python)
        self.python = python
        shape = replace(TINY, vocabulary=VOCABULARIES[corpus.name], dropout=0.1)
        self.codec: Codec = learn(corpus.pairs, shape.vocabulary)
        directory = cache() / f"peer-{name}-{corpus.name}-{UPDATES}".lower()
        done = directory / "trained"
        self.run = replace(prepare(shape, corpus.pairs, directory), updates=UPDATES)
        if not done.is_file():
            say(f"{name}: making a model, once")
            self.command(RECIPES[name].arguments, self.way.training(self.run), "training")
            done.touch()

    def translate(self, lines: Sequence[str], beam: int) -> tuple[list[list[str]], float]:
        """The tokens of the translations, and the seconds from the start of the command to its end."""
        source, output = (self.run.directory / name for name in ("lines.txt", "output.txt"))
        write_lines(source, [" ".join(map(str, ids)) for ids in self.codec.encode_many(lines)])
        settings = self.way.translation(self.run, source, output, beam)
        begin = time.perf_counter()
        if self.way.reads_stdin:
            with source.open(encoding="utf-8") as stdin:
                output.write_text(self.command(self.way.arguments, settings, "translation", stdin), encoding="utf-8")
        else:
            self.command(self.way.arguments, settings, "translation")
        seconds = time.perf_counter() - begin
        found = output.read_text(encoding="utf-8").split("\n")[:-1]
        if len(found) != len(lines):
            raise PeerError(f"{len(found)} lines of output for {len(lines)}")
        return [line.split() for line in found], seconds

    def command(self, arguments: Sequence[str], settings: dict[str, Any], name: str, stdin: Any = None) -> str:
        """Its stdout."""
        path = self.run.directory / f"{name}.yaml"
        path.write_text(json.dumps(settings, indent=2), encoding="utf-8")  # YAML contains JSON
        done = subprocess.run(
            [self.python, "-m", RECIPES[self.name].module, *arguments, path],
            cwd=self.run.directory,
            env=environment(),
            stdin=stdin or subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=LONGEST,
        )
        if done.returncode:
            raise PeerError(f"ended with {done.returncode}: {last_line(done.stderr or done.stdout)}")
        return done.stdout


def measure(name: str, corpus: Text, test: Text, *, beam: int, rounds: int) -> Rate:
    """A peer's sentences a second on test lines, or the reason why there are none."""
    lines = [source for source, _ in test.pairs[: LINES + FEW]]
    try:
        peer, speeds = Peer(name, corpus), []
        for _ in range(rounds):
            starting = peer.translate(lines[:FEW], beam)[1]
            outputs, seconds = peer.translate(lines, beam)
            if seconds <= starting:
                raise PeerError(f"{len(lines)} lines took no longer than {FEW}: too noisy to tell")
            speeds.append((len(lines) - FEW) / (seconds - starting))
    except (PeerError, subprocess.TimeoutExpired) as error:
        return Rate(name, reason=str(error), lines=LINES)
    made = statistics.mean(map(len, outputs))
    if made != LENGTH:
        return Rate(name, reason=f"outputs of {made:.1f} tokens where {LENGTH} were asked for", lines=LINES)
    return Rate(name, speeds, lines=LINES)
