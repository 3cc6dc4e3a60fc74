"""What trains next is made ready by a thread: the same, in the same order, and gone when training is."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.batching import Batching, collate
from transduce.data.store import Store, write_store
from transduce.text import Symbols
from transduce.text.codec import PAD
from transduce.train.feed import Update, ahead, load, updates

CPU = torch.device("cpu")


def feeding() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("feed")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    letters = Symbols(list("abcdef"))
    lengths = np.random.default_rng(0).integers(1, 9, (60, 2))
    triples = [(line, " ".join("abcdefab"[:s]), " ".join("fedcbafe"[:t])) for line, (s, t) in enumerate(lengths)]
    return write_store(tmp_path_factory.mktemp("store") / "ids", triples, letters, letters, max_length=9)


@pytest.fixture(scope="module")
def batching(store: Store) -> Batching:
    return Batching.of(store, batch_tokens=90, micro_batch_tokens=45, seed=1)


def ids(update: Update) -> list[list[list[int]]]:
    return [[batch.source.tolist(), batch.target.tolist(), batch.expected.tolist()] for batch in update.batches]


def test_updates_are_the_epochs_of_the_batching_one_after_the_other(store: Store, batching: Batching) -> None:
    found = islice(updates(store, batching, CPU, parts=1, epoch=0, update=0), 3 * batching.updates_per_epoch)
    for update, cuts in zip(found, (cuts for epoch in range(3) for cuts in batching.epoch(epoch)), strict=True):
        expected = [collate(store, cut) for cut in cuts]
        assert [batch.source.tolist() for batch in update.batches] == [batch.source.tolist() for batch in expected]
        assert update.tokens == sum(batch.tokens for batch in expected)


def test_parts_of_a_micro_batch_hold_its_pairs_and_fit_themselves(store: Store, batching: Batching) -> None:
    whole = next(updates(store, batching, CPU, parts=1, epoch=0, update=0))
    parted = next(updates(store, batching, CPU, parts=3, epoch=0, update=0))
    assert len(parted.batches) == 3 * len(whole.batches)
    assert parted.tokens == whole.tokens
    for number, batch in enumerate(whole.batches):
        rows = [row for part in parted.batches[3 * number : 3 * number + 3] for row in part.source.tolist()]
        assert sorted(_trimmed(row) for row in rows) == sorted(_trimmed(row) for row in batch.source.tolist())
    assert all((part.source != PAD).any(dim=0).all() for part in parted.batches)


def _trimmed(row: list[int]) -> list[int]:
    return [token for token in row if token != PAD]


def test_from_any_place_on_the_same_follows(store: Store, batching: Batching) -> None:
    wanted = batching.updates_per_epoch + 3
    whole = list(islice(updates(store, batching, CPU, parts=1, epoch=0, update=0), wanted))
    for past in range(wanted - 1):
        place = whole[past].next_epoch, whole[past].next_update
        again = next(updates(store, batching, CPU, parts=1, epoch=place[0], update=place[1]))
        assert ids(again) == ids(whole[past + 1])


def test_a_loaded_batch_knows_where_its_padding_is(store: Store, batching: Batching) -> None:
    padded = 0
    for cut in (cut for cuts in batching.epoch(0) for cut in cuts):
        batch = collate(store, cut)
        loaded = load(batch, CPU)
        assert loaded.source_padded == (PAD in batch.source)
        assert (loaded.present is None) == (PAD not in batch.expected)
        everywhere = torch.from_numpy(batch.expected).flatten()
        there = everywhere if loaded.present is None else everywhere[loaded.present]
        assert torch.equal(loaded.expected, there)
        assert loaded.expected.tolist() == batch.expected[batch.expected != PAD].tolist()
        padded += loaded.present is not None
    assert padded, "no batch of this test has padding"


@given(st.lists(st.integers()), st.integers(1, 4))
def test_nothing_is_lost_or_moved_on_the_way(items: list[int], number: int) -> None:
    assert list(ahead(iter(items), number)) == items


def test_the_next_is_made_while_this_one_is_in_use_and_no_more_than_asked_for() -> None:
    made = [threading.Event() for _ in range(12)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with closing(ahead(items(), 2)) as feed:
        for number in islice(feed, 10):
            assert made[number + 2].wait(60)
            assert not any(event.is_set() for event in made[number + 3 :])


def test_an_error_is_raised_where_its_item_is_due() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise ValueError("the sixth")

    feed = ahead(items())
    assert list(islice(feed, 5)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="the sixth"):
        next(feed)
    assert feeding() == []


def test_the_thread_ends_when_whoever_takes_the_items_stops_or_fails() -> None:
    with closing(ahead(count())) as feed:
        assert next(feed) == 0
        assert len(feeding()) == 1
    assert feeding() == []
    with pytest.raises(KeyError), closing(ahead(count())) as feed:
        raise KeyError(next(feed))
    assert feeding() == []


def test_who_waits_for_an_item_can_be_called_off() -> None:
    waiting, freed = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        waiting.set()
        assert freed.wait(60)
        yield 2

    def check() -> None:
        if waiting.is_set():
            raise KeyError

    with pytest.raises(KeyError), closing(ahead(items(), 1, check=check, give_up=freed.set)) as feed:
        list(feed)
    assert freed.is_set()
    assert not feeding()


def test_no_thread_starts_before_the_first_item_is_asked_for() -> None:
    with closing(ahead(count())):
        assert feeding() == []


def test_a_feed_that_nobody_closes_does_not_keep_python_from_ending() -> None:
    code = (
        "from itertools import count; from transduce.train.feed import ahead; feed = ahead(count()); print(next(feed))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=True)
    assert (ran.stdout, ran.stderr) == (b"0\n", b"")
