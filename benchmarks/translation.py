"""Translation, side by side: translators take turns, round after round, each in its own process."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.conversation import NOTHING, ContenderError, Conversation
from benchmarks.corpus import Text
from benchmarks.results import Contest, Rate, this_machine
from benchmarks.translators import BEST, DEFAULTS, GENERATE, OURS, OURS_SHORTLIST, OURS_TORCH
from transduce.bundle import open_bundle
from transduce.evaluate.bleu import bleu
from transduce.text import Codec

FAST = 10_000
LINES = {OURS: FAST, OURS_SHORTLIST: FAST, BEST: FAST, DEFAULTS: 1_000, OURS_TORCH: 1_000, GENERATE: 1_000}
"""A round, enough for some seconds each."""
SINGLE_LINES = dict.fromkeys((OURS, OURS_SHORTLIST, DEFAULTS, OURS_TORCH, GENERATE), 100)
UNTRAINED_LINES = dict.fromkeys((OURS_TORCH, GENERATE), 200)
LENGTH = 20
"""Tokens of an output, where all are made equally long."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Our CTranslate2 engine needs no telling: a call of one line is one thread's work."""
PACKAGES = ("ctranslate2", "transformers", "sentencepiece")


@dataclass
class Entrant:
    """A translator's part in a contest: what it did in each round, or why it is out."""

    name: str
    lines: int
    conversation: Conversation | None = None
    seconds: list[float] = field(default_factory=list)
    reason: str | None = None

    def start(self, directory: Path, logs: Path, variables: Mapping[str, str], stack: ExitStack) -> None:
        """Start its process; the stack ends it."""
        command: list[str | Path] = [sys.executable, "-m", "benchmarks.translators", self.name, directory]
        self.conversation = stack.enter_context(Conversation(command, logs / f"{self.name}.log", variables))

    def ask(self, question: Mapping[str, object]) -> dict[str, Any] | None:
        """The answer; one that fails is out, and the contest goes on."""
        if self.conversation is None:
            return None
        try:
            answer: dict[str, Any] = self.conversation.ask(question)
        except ContenderError as error:
            self.conversation, self.reason = None, str(error)
            return None
        return answer

    def translate(self, calls: list[list[str]], beam: int, length: int | None) -> None:
        """A round."""
        if answer := self.ask({"calls": calls, "beam": beam, "length": length}):
            self.seconds.append(answer["seconds"])

    def rate(self, test: Text, outputs: list[str], codec: Codec) -> Rate:
        """Its numbers; `outputs` are its translations of the test lines, whose tokens the codec counts."""
        answer = self.ask({"memory": True})
        if answer is None:
            return Rate(self.name, reason=self.reason, lines=self.lines)
        return Rate(
            self.name,
            rounds=[self.lines / seconds for seconds in self.seconds],
            peak_memory=answer["peak"],
            lines=self.lines,
            bleu=score(outputs, test),
            words=words(outputs),
            tokens=statistics.mean(map(len, codec.encode_many(outputs))),
        )


def contest(
    directory: Path,
    corpus: Text,
    test: Text,
    lines: Mapping[str, int],
    *,
    beam: int,
    rounds: int,
    single: bool = False,
    length: int | None = None,
) -> Contest:
    """Each round gives every translator the same lines, one translator after the other; the slow ones get the first.

    All begin with the test lines, which warms them up. `single`: a call for each line, on one thread.
    `length`: that of every output, in tokens.
    """
    entrants = [Entrant(name, count) for name, count in lines.items()]
    pool, sources = mixed(corpus, test), [source for source, _ in test.pairs]
    outputs: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as logs, ExitStack() as stack:
        for entrant in entrants:
            entrant.start(directory, Path(logs), ONE_THREAD if single else NOTHING, stack)
            answer = entrant.ask({"calls": [sources], "beam": beam, "length": length})
            outputs[entrant.name] = answer["translations"] if answer else []
        for number in range(rounds):
            for entrant in entrants:
                some = turn(pool, number, entrant.lines, step=max(lines.values()))
                entrant.translate([[line] for line in some] if single else [some], beam, length)
        codec = open_bundle(directory / "run").target_codec
        rates = [entrant.rate(test, outputs[entrant.name], codec) for entrant in entrants]
    return Contest(this_machine(), {name: version(name) for name in PACKAGES}, corpus.name, test.name, beam, rates)


def mixed(corpus: Text, test: Text) -> list[str]:
    """All sources in an order that says nothing, the same each time: any part of them is like the whole."""
    sources = [source for source, _ in [*test.pairs, *corpus.pairs]]
    random.Random(1).shuffle(sources)
    return sources


def turn(pool: Sequence[str], number: int, count: int, *, step: int) -> list[str]:
    """The first `count` lines of a round; each begins `step` lines after the last, and the pool is a ring."""
    return [pool[(number * step + place) % len(pool)] for place in range(count)]


def score(outputs: Sequence[str], test: Text) -> float:
    """sacreBLEU."""
    return bleu(outputs, [target for _, target in test.pairs]).value


def words(outputs: Sequence[str]) -> float:
    """Of an output, on average."""
    return statistics.mean(len(output.split()) for output in outputs)
