"""BPE-dropout (Provilkov et al. 2020): the training pairs cut into subwords anew for each epoch.

An epoch has a store of its own, which follows from the seed and the epoch's number alone: it can be made again at any
time, so that a resumed run sees what an unbroken one does. The texts are not read again: ids are taken apart into
letters. Pair i is the same pair in every epoch's store.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event

import numpy as np

from transduce.config import Config
from transduce.data.store import Store, Writer, open_store
from transduce.errors import ConfigError
from transduce.files import write_directory
from transduce.text import Codec, Subwords

EPOCHS = "epochs"  # in the run: an epoch's store, and the next one's
PAIRS = 1000  # cut at once


class GivenUp(Exception):  # noqa: N818 - what became of a store
    """A store is not wanted any more before it is whole."""


class Resampling:
    """The stores of the epochs of one process: that of the epoch under way, and the next one while it is made."""

    def __init__(self, config: Config, pairs: Store, codecs: tuple[Codec, Codec], directory: Path) -> None:
        self.pairs, self.directory = pairs, directory
        self.seed, self.dropout, self.max_length = config.train.seed, config.train.bpe_dropout, config.data.max_length
        self.source, self.target = as_subwords(codecs, self.dropout)
        self._unwanted = Event()
        shutil.rmtree(directory, ignore_errors=True)  # of a run that was killed, perhaps with other settings

    def store(self, epoch: int, given_up: Callable[[], bool] = lambda: False) -> Store:
        """An epoch's pairs; if it was not there, all but the one before it are removed to make room."""
        path = self.directory / str(epoch)
        if not path.is_dir():
            for other in self.directory.glob("*"):
                if other.name != str(epoch - 1):
                    shutil.rmtree(other, ignore_errors=True)
            write_directory(path, lambda temporary: self._write(temporary, epoch, given_up))
        return replace(open_store(path), parts=self.pairs.parts)

    def stores(self, epoch: int) -> Generator[Store, None, None]:
        """The stores of the epochs from this one on; while one is in use, a thread makes the next.

        Closing this iterator ends the thread, and what it makes is given up.
        """
        self._unwanted.clear()
        with ThreadPoolExecutor(1, thread_name_prefix="resampling") as thread:
            try:
                coming = thread.submit(self.store, epoch, self._unwanted.is_set)
                for following in count(epoch + 1):
                    store = coming.result()
                    coming = thread.submit(self.store, following, self._unwanted.is_set)
                    yield store
            finally:
                self.give_up()

    def give_up(self) -> None:
        """End the making of a store, so that nobody waits for it."""
        self._unwanted.set()

    def close(self) -> None:
        """Remove the stores: they can be made again."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with suppress(OSError):  # another process may have its stores beside them
            self.directory.parent.rmdir()

    def _write(self, directory: Path, epoch: int, given_up: Callable[[], bool]) -> None:
        with closing(Writer(directory, self.source.size, self.target.size)) as writer:
            for start in range(0, len(self.pairs), PAIRS):
                if given_up():
                    raise GivenUp
                places = range(start, min(start + PAIRS, len(self.pairs)))
                writer.append(self.pairs.lines[start : places.stop], *self._cut_anew(places, epoch))
            writer.describe(self.pairs.too_long)

    def _cut_anew(self, places: range, epoch: int) -> tuple[list[list[int]], list[list[int]]]:
        """Both sides of some pairs; a pair that would become too long stays as it was."""
        sides = ((self.source, self.pairs.source), (self.target, self.pairs.target))
        before = [[sequences[place].tolist() for place in places] for _, sequences in sides]
        after = [
            codec.cut_anew(before[side], dropout=self.dropout, seed=_seed(self.seed, epoch, places.start, side))
            for side, (codec, _) in enumerate(sides)
        ]
        for at, lengths in enumerate(zip(*(map(len, side) for side in after), strict=True)):
            if max(lengths) > self.max_length:
                after[0][at], after[1][at] = before[0][at], before[1][at]
        return after[0], after[1]


def remove_others(directory: Path, processes: int) -> None:
    """Of a run that was killed and had more processes, remove the stores of those that are no more."""
    for path in directory.glob("*"):
        if path.name.isdecimal() and int(path.name) >= processes:
            shutil.rmtree(path, ignore_errors=True)


def as_subwords(codecs: tuple[Codec, Codec], dropout: float) -> tuple[Subwords, Subwords]:
    """The codecs of both sides, if BPE-dropout can be had with them."""
    source, target = codecs
    if isinstance(source, Subwords) and isinstance(target, Subwords):
        return source, target
    side = "target" if isinstance(source, Subwords) else "source"
    raise ConfigError(
        f"train.bpe_dropout = {dropout:g}: the {side} has no byte-pair encoding whose merges could be left out: set "
        f'train.bpe_dropout=0, or text.{side}_codec="subwords" where the text allows it'
    )


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
