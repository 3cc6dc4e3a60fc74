"""Updates on their device, made ready by a thread while the one before trains.

B sentences, S source length, T target length, N target tokens, padding not counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from transduce.data.batching import Batch, Batching, collate
from transduce.data.layout import Indices
from transduce.data.resampling import Resampling
from transduce.data.store import Store
from transduce.train.world import ALONE, World

AHEAD = 2  # updates ready or under way: one can be late without training having to wait
CHECK_SECONDS = 0.5  # between two looks whether to go on waiting
Item = TypeVar("Item")


def go_on() -> None:
    """Nobody wants to stop."""


@dataclass(frozen=True)
class LoadedBatch:
    """A micro-batch on its device; what was easy to know on the way there need not be asked of the device."""

    source: Tensor  # BS
    target: Tensor  # BT
    expected: Tensor  # N
    present: Tensor | None  # N: where in BT flattened `expected` stands; None: everywhere
    source_padded: bool

    @property
    def tokens(self) -> int:
        """N."""
        return self.expected.numel()


@dataclass(frozen=True)
class Update:
    """This process's micro-batches of one update, and the place in the run after it."""

    batches: list[LoadedBatch]
    next_epoch: int
    next_update: int
    pairs: Indices = field(default_factory=lambda: np.empty(0, np.int64))  # of all processes: which of the store's
    others: int = 0  # target tokens that other processes have
    of_epoch: int = 0  # updates that its epoch has

    @property
    def tokens(self) -> int:
        """Target tokens of all processes, padding not counted."""
        return self.others + sum(batch.tokens for batch in self.batches)


def load(batch: Batch, device: torch.device) -> LoadedBatch:
    """A batch on `device`; to a GPU through pinned memory, so that nobody waits for the copy."""

    def move(ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Tensor:
        tensor = torch.from_numpy(ids)
        if device.type == "cuda":
            tensor = tensor.pin_memory()
        return tensor.to(device, non_blocking=True)

    present, expected = batch.present, batch.expected.ravel()
    return LoadedBatch(
        source=move(batch.source),
        target=move(batch.target),
        expected=move(expected if present is None else expected[present]),
        present=None if present is None else move(present),
        source_padded=batch.source_padded,
    )


def parted(indices: Indices, parts: int) -> list[Indices]:
    """The pairs of a micro-batch dealt out to so many parts, or fewer if there are fewer pairs."""
    return [indices[part::parts] for part in range(min(parts, len(indices)))]


def share(store: Store, cut: Indices, device: torch.device, *, parts: int, world: World = ALONE) -> list[LoadedBatch]:
    """This process's pairs of a micro-batch, in parts.

    Where there are fewer pairs than processes, one without any gets a pair of which nothing is expected: its gradient
    is zero, and all processes do the same work in the same order.
    """
    own = cut[world.rank :: world.size]
    if len(own):
        return [load(collate(store, part), device) for part in parted(own, parts)]
    borrowed = load(collate(store, cut[:1]), device)
    return [replace(borrowed, expected=borrowed.expected[:0], present=torch.empty(0, dtype=torch.int64, device=device))]


def updates(
    store: Store,
    batching: Batching,
    device: torch.device,
    *,
    parts: int,
    epoch: int,
    update: int,
    world: World = ALONE,
    resampling: Resampling | None = None,
) -> Generator[Update, None, None]:
    """All updates from a place in a run on, epoch after epoch without end; each micro-batch comes in parts.

    With `resampling`, each epoch has a store of its own with the pairs of `store`.
    """
    assert len(store), "a store without pairs has no updates"
    with closing(_epochs(store, batching, resampling, epoch)) as epochs:
        for number, own, fitted in epochs:
            cuts = fitted.epoch(number)
            for place in range(update, len(cuts)):
                batches = [part for cut in cuts[place] for part in share(own, cut, device, parts=parts, world=world)]
                pairs = np.concatenate(cuts[place])
                others = int(fitted.target_lengths[pairs].sum()) - sum(batch.tokens for batch in batches)
                last = place + 1 == len(cuts)
                yield Update(batches, number + last, 0 if last else place + 1, pairs, others, len(cuts))
            update = 0


def _epochs(
    store: Store, batching: Batching, resampling: Resampling | None, epoch: int
) -> Generator[tuple[int, Store, Batching], None, None]:
    """The epochs from this one on, each with the store that it sees and how that is cut into updates."""
    if resampling is None:
        yield from ((number, store, batching) for number in count(epoch))
        return
    with closing(resampling.stores(epoch)) as stores:
        for number, own in enumerate(stores, epoch):
            yield number, own, batching.fitted(own)


def ahead(
    items: Iterator[Item],
    number: int = AHEAD,
    *,
    check: Callable[[], None] = go_on,
    give_up: Callable[[], None] = go_on,
) -> Generator[Item, None, None]:
    """The same items in the same order, `number` of them made in advance by one thread.

    An error of theirs is raised where its item is due; `check` may raise one while an item is waited for. Closing this
    iterator ends the thread: `give_up` lets it leave an item that would take long.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="feed")
    try:
        coming = deque(thread.submit(next, items, None) for _ in range(number))
        while True:
            while not wait([coming[0]], timeout=CHECK_SECONDS).done:
                check()
            if (item := coming.popleft().result()) is None:
                break
            coming.append(thread.submit(next, items, None))
            yield item
    finally:
        give_up()
        thread.shutdown(cancel_futures=True)
