import math
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared_data import shared_lines
from transduce.data import layout as module
from transduce.data.batching import Batching, collate, in_turn
from transduce.data.layout import cut as cut_cells
from transduce.data.layout import walks
from transduce.data.phrasebook import phrases
from transduce.data.store import Part, Store, write_store
from transduce.text import Subwords, Symbols
from transduce.text.codec import BOS, EOS, PAD

# many cells of few pairs, some over the budget; or few cells that fill several batches each
lengths = st.one_of(
    st.lists(st.tuples(st.integers(1, 80), st.integers(1, 80)), min_size=1, max_size=200),
    st.lists(st.tuples(st.integers(1, 3), st.integers(7, 9)), min_size=1, max_size=200),
)


def batching(pairs: list[tuple[int, int]], *, batch: int = 60, micro: int = 60, seed: int = 1) -> Batching:
    source, target = np.array(pairs, np.int64).T
    return Batching(source, target, batch, min(batch, micro), seed)


def padding(store: Store, tokens: int) -> float:
    updates = Batching.of(store, batch_tokens=tokens, micro_batch_tokens=tokens, seed=1).epoch(0)
    found = [collate(store, cut) for update in updates for cut in update]
    real = sum(batch.tokens + batch.source_tokens for batch in found)
    return 1 - real / sum(batch.source.size + batch.target.size for batch in found)


def cost(cuts: list[list[tuple[int, int]]], budget: int) -> float:
    """Padded tokens, and half a budget a batch; without end if a batch of several pairs exceeds the budget."""
    total = 0.0
    for cut in cuts:
        tall, wide = (max(side) for side in zip(*cut, strict=True))
        total += (tall + wide) * len(cut) + budget // 2
        if max(tall, wide) * len(cut) > budget and len(cut) > 1:
            return float("inf")
    return total


@given(lengths, st.integers(0, 3))
def test_an_epoch_holds_every_pair_once_within_the_budget(pairs: list[tuple[int, int]], epoch: int) -> None:
    cuts = [cut for update in batching(pairs).epoch(epoch) for cut in update]
    assert sorted(np.concatenate(cuts).tolist()) == list(range(len(pairs)))
    for cut in cuts:
        longest = max(max(pairs[i]) for i in cut)
        assert longest * len(cut) <= 60 or len(cut) == 1


@given(lengths, st.integers(1, 100), st.integers(1, 4))
def test_an_epoch_has_as_many_updates_as_was_said(pairs: list[tuple[int, int]], micro: int, group: int) -> None:
    one = batching(pairs, batch=group * micro, micro=micro)
    assert [len(one.epoch(number)) for number in (0, 7)] == [one.updates_per_epoch] * 2


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=9), st.integers(5, 40))
def test_consecutive_pairs_are_cut_where_it_costs_least(pairs: list[tuple[int, int]], budget: int) -> None:
    source, target = np.array(pairs, np.int64).T
    ends, total = cut_cells(source, target, np.ones_like(source), budget=budget, pieces=1)
    ways = (
        [pairs[a:b] for a, b in pairwise((0, *between, len(pairs)))]
        for number in range(len(pairs))
        for between in combinations(range(1, len(pairs)), number)
    )
    assert total == min(cost(way, budget) for way in ways)
    assert total == cost([pairs[a:b] for a, b in pairwise((0, *ends.tolist()))], budget)


@given(lengths)
def test_every_walk_passes_each_cell_once(pairs: list[tuple[int, int]]) -> None:
    for walk in walks(*np.array(pairs, np.int64).T):
        assert sorted(walk.tolist()) == list(range(len(pairs)))


def test_pairs_of_one_length_meet_others_in_every_epoch() -> None:
    one = batching([(5, 5)] * 240)

    def company(epoch: int) -> set[int]:
        return {int(i) for update in one.epoch(epoch) for cut in update if 0 in cut for i in cut}

    assert len(set.union(*(company(epoch) for epoch in range(20)))) > 100


@given(lengths)
def test_the_order_is_a_function_of_seed_and_epoch(pairs: list[tuple[int, int]]) -> None:
    first, again = batching(pairs).epoch(3), batching(pairs).epoch(3)
    assert [[c.tolist() for c in u] for u in first] == [[c.tolist() for c in u] for u in again]


ROUNDING = 1e-9  # 1.1 is a little more than a tenth more
weights = st.one_of(st.integers(1, 3).map(float), st.floats(0.01, 3.0))


def seen(one: Batching, epoch: int) -> list[int]:
    return [int(i) for update in one.epoch(epoch) for cut in update for i in cut]


@example([(1, 1)] * 9, 1.0, 1.1)
@given(lengths, weights, weights)
def test_an_epoch_sees_a_corpus_as_often_as_its_weight_says(
    pairs: list[tuple[int, int]], first: float, second: float
) -> None:
    middle = len(pairs) // 2
    parts = tuple(p for p in (Part(0, middle, first), Part(middle, len(pairs), second)) if p.end > p.start)
    one = replace(batching(pairs), parts=parts)
    epochs = [Counter(seen(one, epoch)) for epoch in range(4)]
    for start, end, weight in parts:
        for epoch, counts in enumerate(epochs):
            times = math.floor(weight)
            assert all(times <= counts[i] <= times + 2 for i in range(start, end))
            total = sum(counts[i] for i in range(start, end))
            assert abs(total - weight * (end - start)) < 1 + ROUNDING, epoch
        sums = [sum(counts[i] for counts in epochs) for i in range(start, end)]
        assert max(sums) - min(sums) <= 1, "each has its turn before any has its second one"
        assert abs(sum(sums) - 4 * weight * (end - start)) < 1 + ROUNDING


def test_weighted_epochs_are_functions_of_seed_and_epoch_that_differ() -> None:
    pairs = [(i % 7 + 1, i % 5 + 1) for i in range(300)]
    one, again, other = (
        replace(batching(pairs, seed=seed), parts=(Part(0, 200, 0.5), Part(200, 300, 2.0))) for seed in (1, 1, 2)
    )
    assert seen(one, 5) == seen(again, 5)
    assert set(seen(one, 0)) != set(seen(one, 1))
    assert set(seen(one, 0)) != set(seen(other, 0))


def test_turns_of_two_corpora_differ() -> None:
    assert in_turn(100, 0.5, 0, seed=1, part=0).tolist() != in_turn(100, 0.5, 0, seed=1, part=1).tolist()


def test_weights_of_one_change_nothing() -> None:
    pairs = [(i % 7 + 1, i % 5 + 1) for i in range(300)]
    assert seen(replace(batching(pairs), parts=(Part(0, 200, 1.0), Part(200, 300, 1.0))), 3) == seen(batching(pairs), 3)


@given(lengths, st.integers(1, 50))
def test_the_size_of_the_pieces_does_not_show(pairs: list[tuple[int, int]], piece: int) -> None:
    whole = seen(batching(pairs), 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", piece)
        assert seen(batching(pairs), 2) == whole


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


@pytest.mark.parametrize(("tokens", "share"), [(1500, 0.03), (3000, 0.045), (4000, 0.06)])
def test_little_of_the_phrasebook_is_padding(tmp_path: Path, tokens: int, share: float) -> None:
    found = phrases("train", 8000)
    codec = Subwords.learn([p.source for p in found], vocabulary=700, seed=1, sample_lines=8000).codec
    triples = ((line, p.source, p.target) for line, p in enumerate(found))
    assert padding(write_store(tmp_path / "ids", triples, codec, codec, max_length=200), tokens) < share


@pytest.mark.parametrize("vocabulary", [5_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_at_most_a_fortieth_of_multi30k_is_padding_and_nine_tenths_of_the_budget_are_used(
    tmp_path: Path, vocabulary: int
) -> None:
    source, target = shared_lines("multi30k", "train.en.gz"), shared_lines("multi30k", "train.de.gz")
    codec = Subwords.learn([*source, *target], vocabulary=vocabulary, seed=1, sample_lines=10**6).codec
    triples = ((line, *pair) for line, pair in enumerate(zip(source, target, strict=True), 1))
    store = write_store(tmp_path / "ids", triples, codec, codec, max_length=250)
    assert padding(store, 3000) < 0.025
    updates = Batching.of(store, batch_tokens=3000, micro_batch_tokens=3000, seed=1).updates_per_epoch
    assert int(store.target.offsets[-1] + len(store)) / updates > 0.9 * 3000
