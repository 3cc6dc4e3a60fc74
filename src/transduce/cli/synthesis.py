"""Text that a model makes for the training of another: in windows, so that a killed command goes on."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.display import Display
from transduce.cli.translate import Task, manifest_digest
from transduce.decode.columns import Row
from transduce.version import __version__

if TYPE_CHECKING:
    from transduce.config import DataConfig
    from transduce.data.pace import Tick
    from transduce.decode.job import Work
    from transduce.decode.translator import Translator

NOTE_EVERY = 15.0  # seconds
TOO_LONG = "too long for the model"


@dataclass(frozen=True)
class Synthesis(Task):
    """Windows of lines to make text from; a log, where no bar is seen, hears how far it is."""

    lines: int = 0
    """Of all files."""
    clock: Callable[[], float] = time.monotonic
    told: list[tuple[float, int]] = field(default_factory=list)
    """When the first window began and each note was made, and how many lines were done then."""

    def answer(self, window: list[Row], first_line: int) -> bytes:
        """The lines of the output that belong to a window."""
        if not self.told:
            self.told.append((self.clock(), first_line - 1))
        made = self.make(window, first_line)
        self.tell(first_line - 1 + len(window))
        return made

    def make(self, window: list[Row], first_line: int) -> bytes:
        """A translation for each line; where nothing is to be translated, an empty one."""
        return super().answer(window, first_line)

    def tell(self, done: int) -> None:
        """Say now and then how many lines are done and how long the others will take."""
        now, (began, before) = self.clock(), self.told[0]
        if self.display.console.is_terminal or now - self.told[-1][0] < NOTE_EVERY or done == self.lines:
            return
        left = timedelta(seconds=round((now - began) * (self.lines - done) / (done - before)))
        self.display.note(f"translating: {done:,} of {self.lines:,} lines, about {left} left")
        self.told.append((now, done))


@dataclass(frozen=True)
class Originals:
    """What is translated: files of which each line is looked at by the rules that training has for a pair's side."""

    files: tuple[Path, ...]
    translator: Translator

    @property
    def data(self) -> DataConfig:
        """The limits that the model was trained with."""
        assert self.translator.bundle is not None
        return self.translator.bundle.config.data

    @property
    def longest(self) -> int:
        """Tokens of a line that the model takes whole and has seen in training."""
        return min(self.translator.max_input, self.data.max_length)

    def rows(self, left_out: Counter[str] | None = None, tick: Tick | None = None) -> Iterator[Row]:
        """Every line; those that cannot be used have nothing to translate, and are counted by what is wrong."""
        from transduce.data.corpus import Batch
        from transduce.data.lines import check_file, read_blocks
        from transduce.data.selection import judge

        for path in self.files:
            check_file(path)
        done, total = 0, sum(path.stat().st_size for path in self.files)
        for block in (block for path in self.files for block in read_blocks(path)):
            found = judge(Batch(0, 1, 1, block.texts, block.texts, block.problems), self.data)
            reasons = {index: problem.value.replace(" source", "") for index, problem in found.items()}
            ids = self.translator.source_codec.encode_many(block.texts)
            for index, text in enumerate(block.texts):
                reason = reasons.get(index, TOO_LONG if len(ids[index]) > self.longest else None)
                if reason is not None and left_out is not None:
                    left_out[reason] += 1
                yield Row(text, text if reason is None else None)
            done += block.read
            if tick is not None:
                tick(done, total)

    def look_through(self, display: Display) -> Looked:
        """Read all of it once: how many lines there are, which, and how many cannot be used."""
        from transduce.data.pace import Notes, stage

        digest, lines, left_out = hashlib.sha256(), 0, Counter[str]()
        for row in self.rows(left_out, stage(Notes(display.note), "looking")):
            digest.update(row.line.encode() + b"\n")
            lines += 1
        return Looked(lines, digest.hexdigest(), left_out)


@dataclass(frozen=True)
class Looked:
    """What is known of a text before any of it is translated."""

    lines: int
    sha256: str
    left_out: Counter[str]
    """Lines that cannot be used, by what is wrong with them."""

    def work(self, translator: Translator, models: list[Path], settings: dict[str, str | bool | int | None]) -> Work:
        """All that decides what the output will be."""
        from transduce.cli import translate
        from transduce.decode.job import Work

        own: dict[str, str | bool | int | float | None] = {
            "engine": translator.engine.name,
            "transduce": __version__,
            "window": translate.WINDOW,
            "others": " ".join(manifest_digest(other) for other in models[1:]),
        }
        model = manifest_digest(models[0])
        return Work(lines=self.lines, sha256=self.sha256, model=model, settings={**own, **settings})


def reasons(left_out: Counter[str]) -> str:
    """What was left out, the most frequent reason first."""
    return ", ".join(f"{number:,} {reason}" for reason, number in left_out.most_common())
