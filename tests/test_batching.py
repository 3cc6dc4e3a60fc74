from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_data import shared_lines
from transduce.data.batching import Batching, collate
from transduce.data.phrasebook import phrases
from transduce.data.store import Store, write_store
from transduce.text import Subwords, Symbols
from transduce.text.codec import BOS, EOS, PAD

lengths = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200)


def batching(pairs: list[tuple[int, int]], *, batch: int = 60, micro: int = 60, seed: int = 1) -> Batching:
    source, target = np.array(pairs, np.int64).T
    return Batching(source, target, batch, min(batch, micro), seed)


def padding(store: Store, tokens: int) -> float:
    updates = Batching.of(store, batch_tokens=tokens, micro_batch_tokens=tokens, seed=1).epoch(0)
    found = [collate(store, cut) for update in updates for cut in update]
    real = sum(batch.tokens + batch.source_tokens for batch in found)
    return 1 - real / sum(batch.source.size + batch.target.size for batch in found)


@given(lengths, st.integers(0, 3))
def test_an_epoch_holds_every_pair_once_within_the_budget(pairs: list[tuple[int, int]], epoch: int) -> None:
    cuts = [cut for update in batching(pairs).epoch(epoch) for cut in update]
    assert sorted(np.concatenate(cuts).tolist()) == list(range(len(pairs)))
    for cut in cuts:
        longest = max(max(pairs[i]) for i in cut)
        assert longest * len(cut) <= 60 or len(cut) == 1


@given(lengths)
def test_the_order_is_a_function_of_seed_and_epoch(pairs: list[tuple[int, int]]) -> None:
    first, again = batching(pairs).epoch(3), batching(pairs).epoch(3)
    assert [[c.tolist() for c in u] for u in first] == [[c.tolist() for c in u] for u in again]


def test_epochs_and_seeds_differ() -> None:
    pairs = [(i % 7 + 1, i % 5 + 1) for i in range(300)]

    def flat(seed: int, epoch: int) -> list[int]:
        updates = batching(pairs, seed=seed).epoch(epoch)
        return np.concatenate([cut for update in updates for cut in update]).tolist()

    assert flat(1, 0) != flat(1, 1)
    assert flat(1, 0) != flat(2, 0)


def test_an_update_gathers_micro_batches_up_to_its_tokens() -> None:
    pairs = [(10, 10)] * 120
    updates = batching(pairs, batch=240, micro=60).epoch(0)
    assert [len(update) for update in updates] == [4] * 5
    assert all(len(cut) == 6 for update in updates for cut in update)


def test_the_decoder_reads_what_it_must_say_one_place_later(tmp_path: Path) -> None:
    letters = Symbols(["a", "b", "c"])
    store = write_store(tmp_path / "ids", [(1, "a b", "c"), (2, "c", "a b c")], letters, letters, max_length=9)
    batch = collate(store, np.array([0, 1]))
    a, b, c = letters.encode("a b c")
    assert batch.source.tolist() == [[a, b, EOS], [c, EOS, PAD]]
    assert batch.expected.tolist() == [[c, EOS, PAD, PAD], [a, b, c, EOS]]
    assert batch.target.tolist() == [[BOS, c, PAD, PAD], [BOS, a, b, c]]
    assert (batch.tokens, batch.source_tokens) == (6, 5)


@pytest.mark.parametrize("tokens", [1500, 3000, 4000])
def test_little_of_the_phrasebook_is_padding(tmp_path: Path, tokens: int) -> None:
    found = phrases("train", 8000)
    codec = Subwords.learn([p.source for p in found], vocabulary=700, seed=1, sample_lines=8000).codec
    triples = ((line, p.source, p.target) for line, p in enumerate(found))
    assert padding(write_store(tmp_path / "ids", triples, codec, codec, max_length=200), tokens) < 0.08


def test_less_than_five_percent_of_multi30k_is_padding(tmp_path: Path) -> None:
    source, target = shared_lines("multi30k", "train.en.gz"), shared_lines("multi30k", "train.de.gz")
    codec = Subwords.learn([*source, *target], vocabulary=5000, seed=1, sample_lines=10**6).codec
    triples = ((line, *pair) for line, pair in enumerate(zip(source, target, strict=True), 1))
    assert padding(write_store(tmp_path / "ids", triples, codec, codec, max_length=250), 3000) < 0.05
