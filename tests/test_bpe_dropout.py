"""BPE-dropout: other subwords in every epoch, the same ones in every run, and the same pairs always."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from test_subwords import HOSTILE, LINE, LINES, MODEL
from transduce import Trainer
from transduce.data import resampling as resampling_module
from transduce.data.batching import Batching
from transduce.data.preparation import prepare, recall
from transduce.data.resampling import EPOCHS, GivenUp, Resampling, remove_others
from transduce.data.store import Part, Store, Writer, write_store
from transduce.errors import ConfigError, UserError
from transduce.settings import load_config
from transduce.text import Subwords, Symbols
from transduce.text.codec import SPECIALS
from transduce.text.merges import Merges
from transduce.text.subwords import SMALLEST
from transduce.train.feed import Update, updates
from transduce.train.loop import Loop
from transduce.train.state import checkpoints, read_state
from transduce.train.world import World
from transduce.verify.resume import ending
from trials import Order, Recorder, StopAfter, content, copy_of, train_through

CPU = torch.device("cpu")
CODEC = Subwords(MODEL)
IDS = CODEC.encode_many(LINES)


@given(lines=st.lists(LINE | HOSTILE, max_size=5), dropout=st.floats(0.01, 0.99), seed=st.integers(0, 2**31 - 1))
def test_subwords_that_are_cut_anew_are_the_same_text(lines: list[str], dropout: float, seed: int) -> None:
    cut = CODEC.cut_anew(CODEC.encode_many(lines), dropout=dropout, seed=seed)
    assert [CODEC.decode(ids) for ids in cut] == lines
    assert all(len(SPECIALS) <= id < CODEC.size for ids in cut for id in ids)


def test_what_is_drawn_follows_from_the_seed_whatever_was_drawn_before_and_wherever() -> None:
    first = CODEC.cut_anew(IDS, dropout=0.2, seed=7)
    assert CODEC.cut_anew(IDS, dropout=0.2, seed=8) != first
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: Subwords(MODEL).cut_anew(IDS, dropout=0.2, seed=7), range(8)))
    assert all(each == first for each in found)
    assert CODEC.encode_many(LINES) == IDS, "and what is not training stays as it was"


def test_another_process_draws_the_same(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(MODEL)
    (tmp_path / "ids.json").write_text(json.dumps(IDS), encoding="utf-8")
    program = (
        "import json, pathlib; from transduce.text import Subwords\n"
        "codec = Subwords(pathlib.Path('model').read_bytes())\n"
        "ids = json.loads(pathlib.Path('ids.json').read_text())\n"
        "print(json.dumps(codec.cut_anew(ids, dropout=0.2, seed=7)))"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == CODEC.cut_anew(IDS, dropout=0.2, seed=7)


@given(lines=st.lists(LINE | HOSTILE, max_size=5))
def test_with_every_merge_the_subwords_are_those_of_sentencepiece(lines: list[str]) -> None:
    ids = CODEC.encode_many(lines)
    assert CODEC.cut_anew(ids, dropout=0.0, seed=1) == ids
    assert Subwords(MODEL).cut_anew([], dropout=0.5, seed=1) == []


def test_each_possible_merge_is_left_out_by_itself_at_every_step() -> None:
    pieces = ["<s>", "ab", "bc", "abc", "_", "a", "b", "c"]
    merges, count, dropout = Merges(pieces, whole=1, space="_"), 40_000, 0.3
    cut = merges.cut_anew([[3]] * count, dropout=dropout, seed=1)
    found = Counter(" ".join(pieces[id] for id in ids) for ids in cut)
    kept = 1 - dropout
    expected = {  # ab is older than bc; what is left of either can become abc
        "a b c": dropout**2,
        "ab c": kept * dropout,
        "a bc": dropout * kept * dropout,
        "abc": kept * kept + dropout * kept * kept,
    }
    assert sum(expected.values()) == pytest.approx(1)
    assert set(found) == set(expected)
    for pattern, share in expected.items():
        assert found[pattern] / count == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / count))


def test_a_vocabulary_without_merges_is_cut_into_its_letters() -> None:
    codec = Subwords.learn(["a b"], vocabulary=SMALLEST, seed=1, sample_lines=1).codec
    ids = codec.encode_many(["a b", ""])
    assert codec.cut_anew(ids, dropout=0.5, seed=1) == ids


def test_the_more_merges_are_left_out_the_shorter_are_the_pieces() -> None:
    sizes = [sum(map(len, CODEC.cut_anew(IDS, dropout=rate, seed=1))) for rate in (1e-9, 0.1, 0.5, 0.999)]
    assert sizes == sorted(sizes)
    assert sizes[0] == sum(map(len, IDS)) < sizes[1]
    assert sizes[3] > 0.9 * sum(len(line) + 1 for line in LINES), "nearly each character by itself"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    triples = [(3 * number, line, line[::-1]) for number, line in enumerate(LINES, 1)]
    store = write_store(tmp_path_factory.mktemp("pairs") / "ids", triples, CODEC, CODEC, max_length=200)
    half = len(store) // 2
    return replace(store, parts=(Part(0, half, 1.0), Part(half, len(store), 2.0)))


def resampling(pairs: Store, directory: Path, *settings: str) -> Resampling:
    config = load_config(preset="tiny", settings=["train.bpe_dropout=0.2", *settings])
    return Resampling(config, pairs, (CODEC, CODEC), directory)


def rows(store: Store) -> list[tuple[list[int], list[int]]]:
    return [(store.source[i].tolist(), store.target[i].tolist()) for i in range(len(store))]


def test_an_epoch_has_the_same_pairs_in_other_subwords(tmp_path: Path, pairs: Store) -> None:
    stores = [resampling(pairs, tmp_path / "epochs").store(epoch) for epoch in range(2)]
    for store in stores:
        assert store.lines.tolist() == pairs.lines.tolist()
        assert (store.parts, store.too_long) == (pairs.parts, pairs.too_long)
        texts = [tuple(map(CODEC.decode, row)) for row in rows(store)]
        assert texts == [tuple(map(CODEC.decode, row)) for row in rows(pairs)]
    assert rows(stores[0]) != rows(stores[1]) != rows(pairs)


def test_an_epochs_store_is_the_same_whenever_it_is_made(tmp_path: Path, pairs: Store) -> None:
    one, other = resampling(pairs, tmp_path / "one"), resampling(pairs, tmp_path / "other")
    for epoch in range(3):
        one.store(epoch)
    other.store(2)
    assert content(tmp_path / "one" / "2") == content(tmp_path / "other" / "2")
    seeded = resampling(pairs, tmp_path / "seeded", "train.seed=2").store(2)
    assert rows(seeded) != rows(one.store(2))


def test_a_pair_that_would_become_too_long_keeps_its_subwords_on_both_sides(tmp_path: Path, pairs: Store) -> None:
    limit = 20
    free = rows(resampling(pairs, tmp_path / "free").store(0))
    kept = rows(resampling(pairs, tmp_path / "limited", f"data.max_length={limit}").store(0))
    too_long = [max(map(len, row)) > limit for row in free]
    assert any(too_long)
    assert not all(too_long)
    assert kept == [before if over else after for before, after, over in zip(rows(pairs), free, too_long, strict=True)]


def test_the_next_store_is_made_while_one_is_in_use_and_those_before_are_removed(tmp_path: Path, pairs: Store) -> None:
    work = resampling(pairs, tmp_path / EPOCHS / "0")
    wanted = [rows(resampling(pairs, tmp_path / "alone").store(epoch)) for epoch in range(4)]
    with closing(work.stores(0)) as stores:
        for epoch, store in enumerate(islice(stores, 4)):
            assert rows(store) == wanted[epoch]
            names = {path.name for path in work.directory.iterdir() if not path.name.startswith(".")}
            assert {str(epoch)} <= names <= {str(epoch - 1), str(epoch), str(epoch + 1)}
    assert not any(thread.name.startswith("resampling") for thread in threading.enumerate())
    assert not list(work.directory.glob(".*")), "what was given up leaves no half behind"
    work.close()
    assert not (tmp_path / EPOCHS).exists()


def test_nobody_waits_for_a_store_that_is_given_up(
    tmp_path: Path, pairs: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resampling_module, "PAIRS", 1)
    begun, given_up = threading.Event(), threading.Event()
    cut = Resampling._cut_anew

    def slow(self: Resampling, places: range, epoch: int) -> object:
        begun.set()
        assert given_up.wait(60)
        return cut(self, places, epoch)

    monkeypatch.setattr(Resampling, "_cut_anew", slow)
    work = resampling(pairs, tmp_path / "epochs")
    with ThreadPoolExecutor(1) as thread, closing(work.stores(0)) as stores:
        coming = thread.submit(next, stores)
        assert begun.wait(60)
        work.give_up()
        given_up.set()
        with pytest.raises(GivenUp):
            coming.result(60)
    assert not list((tmp_path / "epochs").glob("*"))


def test_the_stores_of_processes_that_are_no_more_are_removed(tmp_path: Path) -> None:
    for name in ("0", "1", "2", "10", "notes"):
        (tmp_path / name).mkdir()
    remove_others(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "notes"}


def test_what_a_killed_run_left_is_made_again(tmp_path: Path, pairs: Store) -> None:
    expected = rows(resampling(pairs, tmp_path / "epochs").store(0))
    resampling(pairs, tmp_path / "epochs", "train.seed=2").store(0)
    (tmp_path / "epochs" / ".1.123.tmp").mkdir()
    again = resampling(pairs, tmp_path / "epochs")
    assert rows(again.store(0)) == expected
    assert [path.name for path in (tmp_path / "epochs").iterdir()] == ["0"]


def test_a_store_that_cannot_be_written_is_told_of_when_it_is_due(
    tmp_path: Path, pairs: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = resampling(pairs, tmp_path / "epochs")
    work.store(0)
    begun = threading.Event()

    def full(writer: Writer, *arguments: object) -> None:
        begun.set()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Writer, "append", full)
    stores = work.stores(0)
    assert len(next(stores)) == len(pairs)
    assert begun.wait(60)
    with pytest.raises(UserError, match=r"epochs/1: cannot write .*No space left"):
        next(stores)


def ids(update: Update) -> list[list[list[int]]]:
    return [[batch.source.tolist(), batch.target.tolist(), batch.expected.tolist()] for batch in update.batches]


def test_updates_fit_the_lengths_of_their_epoch_and_the_same_follows_from_any_place(
    tmp_path: Path, pairs: Store
) -> None:
    batching = Batching.of(pairs, batch_tokens=600, micro_batch_tokens=300, seed=1)
    alone = resampling(pairs, tmp_path / "alone")
    lengths = [len(batching.fitted(alone.store(epoch)).epoch(epoch)) for epoch in range(2)]
    assert lengths[0] > batching.updates_per_epoch
    work = resampling(pairs, tmp_path / "epochs")

    def following(epoch: int, update: int, wanted: int) -> list[Update]:
        coming = updates(pairs, batching, CPU, parts=1, epoch=epoch, update=update, resampling=work)
        with closing(coming):
            return list(islice(coming, wanted))

    whole = following(0, 0, sum(lengths))
    places = [(each.next_epoch, each.next_update) for each in whole]
    assert places[lengths[0] - 1] == (1, 0)
    assert places[-1] == (2, 0)
    for each in whole:
        assert each.others == 0
        assert all(max(batch.source.numel(), batch.target.numel()) <= 300 for batch in each.batches)
    for past in (0, lengths[0] - 2, lengths[0] - 1, lengths[0]):
        assert ids(following(*places[past], 1)[0]) == ids(whole[past + 1])
    seen = np.bincount(np.concatenate([each.pairs for each in whole[: lengths[0]]]))
    assert seen.tolist() == [1 if place < pairs.parts[1].start else 2 for place in range(len(pairs))]


def test_processes_that_cut_for_themselves_share_the_same_updates(tmp_path: Path, pairs: Store) -> None:
    batching = Batching.of(pairs, batch_tokens=600, micro_batch_tokens=300, seed=1)
    found = []
    for rank in range(2):
        work = resampling(pairs, tmp_path / str(rank))
        world = World(rank=rank, size=2)
        coming = updates(pairs, batching, CPU, parts=1, epoch=0, update=0, world=world, resampling=work)
        with closing(coming):
            found.append(list(islice(coming, 5)))
    for one, other in zip(*found, strict=True):
        assert one.pairs.tolist() == other.pairs.tolist()
        own = [sum(batch.tokens for batch in each.batches) for each in (one, other)]
        assert (one.others, other.others) == (own[1], own[0])


def test_other_codecs_are_refused_before_anything_is_encoded(tmp_path: Path, pairs: Store) -> None:
    files = [tmp_path / "a.x", tmp_path / "a.y"]
    for path in files:
        path.write_text("a b c\nb c a\n" * 10, encoding="utf-8")
    symbols = ["text.source_codec=symbols", "text.target_codec=symbols", "train.bpe_dropout=0.1"]
    config = load_config(
        preset="tiny", settings=[f"data.source=['{files[0]}']", f"data.target=['{files[1]}']", *symbols]
    )
    with pytest.raises(ConfigError, match=r"train.bpe_dropout = 0.1: the source has no byte-pair encoding"):
        prepare(config, tmp_path / "run", lambda note: None)
    assert not list((tmp_path / "run" / "data").glob("train-*"))
    with pytest.raises(ConfigError, match=r"the target has no .* text.target_codec"):
        Resampling(config, pairs, (CODEC, Symbols(["a"])), tmp_path / "epochs")


class Tokens(Order):
    """Which pairs a run trained on, and how many target tokens each update had."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.tokens: list[int] = []
        original = Loop.update

        def update(loop: Loop, update: Update) -> None:
            original(loop, update)
            self.tokens.append(update.tokens)

        monkeypatch.setattr(Loop, "update", update)


SHORT = {"batch_tokens": 1200, "micro_batch_tokens": 600}
COOLED = {"batch_tokens": 100, "micro_batch_tokens": 100, "epochs": 2, "cooldown": 1.0}


@pytest.mark.parametrize(("budget", "steps", "stops"), [(SHORT, 10, {2, 8}), (COOLED, 1000, {2, 100})])
def test_a_run_that_is_broken_and_killed_ends_as_an_unbroken_one(
    tmp_path: Path,
    small_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    budget: dict[str, float],
    steps: int,
    stops: set[int],
) -> None:
    settings = {"bpe_dropout": 0.1, "save_every": 2, "validate_every": 1000, **budget}
    unbroken, broken = (copy_of(small_run, tmp_path / name, steps=steps, **settings) for name in ("unbroken", "broken"))
    seen, heard = Tokens(monkeypatch), Recorder()
    Trainer.resume(unbroken, listener=heard).run()
    updates = len(seen.pairs)
    if "cooldown" in budget:  # the resumed run begins within the second epoch, which is longer or shorter
        state = read_state(checkpoints(unbroken / "checkpoints")[-1])
        assert updates - state.of_epoch < max(stops) < updates
        assert updates != 2 * state.of_epoch
    assert sum("into subwords anew" in line for line in heard.said) == 1
    plain = recall(small_run).train.target.lengths
    longer = [tokens - plain[pairs].sum() for tokens, pairs in zip(seen.tokens, seen.pairs, strict=True)]
    assert min(longer) >= 0
    assert np.mean(np.sign(longer)) > 0.9, "nearly every update"
    assert len({pair for pairs in seen.pairs for pair in pairs}) < sum(map(len, seen.pairs)), "more than one epoch"
    stale = broken / EPOCHS / "0" / "0"
    stale.mkdir(parents=True)
    (stale / "lines").write_bytes(b"half")
    (broken / EPOCHS / "0" / ".1.99.tmp").mkdir()
    assert train_through(broken, StopAfter(set(stops), signal.SIGINT)) == 2
    assert ending(broken) == ending(unbroken)
    assert (seen.pairs[:updates], seen.tokens[:updates]) == (seen.pairs[updates:], seen.tokens[updates:])
    assert not (unbroken / EPOCHS).exists()
    assert not (broken / EPOCHS).exists()
