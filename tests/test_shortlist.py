"""Vocabulary shortlists against counting by hand, and how much of unseen translations they hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ctranslate2 import Translator

from transduce.bundle import open_bundle
from transduce.data.preparation import Prepared, recall
from transduce.data.shortlist import (
    Shortlist,
    coverage,
    learn,
    learn_shortlist,
    read_vmap,
    same_pieces,
)
from transduce.data.store import Sequences, Store, write_store
from transduce.errors import CodecError, CorpusError
from transduce.interop import ctranslate2
from transduce.text import Symbols
from transduce.text.codec import SPECIALS

SOURCE_SIZE, TARGET_SIZE = 40, 50
NULL = SOURCE_SIZE


@pytest.fixture(scope="module")
def prepared(run: Path) -> Prepared:
    return recall(run)


@pytest.fixture(scope="module")
def pairs(prepared: Prepared) -> list[tuple[list[int], list[int]]]:
    """Unseen ones."""
    sides = (
        prepared.source_codec.encode_many(prepared.valid_source),
        prepared.target_codec.encode_many(prepared.valid_target),
    )
    return list(zip(*sides, strict=True))


@pytest.fixture(scope="module")
def store() -> Store:
    """Random pairs in which some target tokens follow from source tokens."""
    generator = np.random.default_rng(0)
    sources = [generator.integers(4, SOURCE_SIZE, generator.integers(0, 9)).tolist() for _ in range(300)]
    targets = [[t + 7 for t in s if t % 3] + generator.integers(4, TARGET_SIZE, 2).tolist() for s in sources]
    return as_store(sources, targets)


def as_store(sources: list[list[int]], targets: list[list[int]]) -> Store:
    sides = (
        Sequences(np.array([i for row in rows for i in row], np.uint16), np.cumsum([0, *map(len, rows)]))
        for rows in (sources, targets)
    )
    return Store(*sides, lines=np.arange(len(sources)), too_long=0)


def same(one: Shortlist, other: Shortlist) -> bool:
    rows = zip([one.always, *one.rows], [other.always, *other.rows], strict=True)
    return all(a.tolist() == b.tolist() for a, b in rows)


def explained(sides: list[list[set[int]]], others: set[int], partners: int) -> dict[tuple[int, int], int]:
    """IBM's model 1 with a null token, an equation at a time: how often each source explains each target."""
    met = Counter((s, t) for source, target in zip(*sides, strict=True) for s in source for t in target & others)
    kept = {(NULL, t) for t in others}
    for token in range(SOURCE_SIZE):
        kept |= set(sorted((m for m in met if m[0] == token), key=lambda m: (-met[m], m))[:partners])
    probability = dict.fromkeys(kept, 1.0)
    counts: Counter[tuple[int, int]] = Counter()
    for _ in range(5):
        counts = Counter()
        for source, target in zip(*sides, strict=True):
            for t in target & others:
                likely = {(s, t): probability.get((s, t), 0.0) for s in [*sorted(source), NULL]}
                for meeting, share in likely.items():
                    counts[meeting] += round(share / sum(likely.values()) * 2**20)
        totals: Counter[int] = Counter()
        for (s, _), count in counts.items():
            totals[s] += count
        probability = {meeting: counts[meeting] / totals[meeting[0]] for meeting in kept if counts[meeting]}
    return counts


@pytest.mark.parametrize("partners", [256, 4])
def test_a_list_is_what_the_model_by_hand_gives(store: Store, monkeypatch: pytest.MonkeyPatch, partners: int) -> None:
    monkeypatch.setattr("transduce.data.shortlist.PARTNERS", partners)
    sides = [[set(side[i].tolist()) for i in range(len(store))] for side in (store.source, store.target)]
    frequency = Counter(t for target in sides[1] for t in target)
    always = {*range(len(SPECIALS)), *sorted(frequency, key=lambda t: (-frequency[t], t))[:5]}
    counts = explained(sides, set(frequency) - always, partners)
    found = learn(store, SOURCE_SIZE, TARGET_SIZE, frequent=5, best=3, copies=[(6, 30), (0, 0)])
    assert found.always.tolist() == sorted(always)
    for token in range(SOURCE_SIZE):
        ranked = sorted((m for m in counts if m[0] == token and counts[m]), key=lambda m: (-counts[m], m))[:3]
        expected = {t for _, t in ranked} | ({30} if token == 6 else set())
        assert found.rows[token].tolist() == sorted(expected)


def test_a_token_brings_along_what_it_is_translated_by(store: Store) -> None:
    found = learn(store, SOURCE_SIZE, TARGET_SIZE, frequent=0, best=1, copies=[])
    assert all(found.rows[token].tolist() == [token + 7] for token in range(4, SOURCE_SIZE) if token % 3)


def test_counting_in_parts_is_counting_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learn(store, SOURCE_SIZE, TARGET_SIZE, frequent=4, best=6, copies=[])
    monkeypatch.setattr("transduce.data.shortlist.PRODUCTS", 30)
    monkeypatch.setattr("transduce.data.shortlist.CELLS", 100)
    assert same(learn(store, SOURCE_SIZE, TARGET_SIZE, frequent=4, best=6, copies=[]), whole)


def test_the_order_of_pairs_does_not_matter(store: Store) -> None:
    order = np.random.default_rng(1).permutation(len(store))
    shuffled = as_store(*([side[i].tolist() for i in order] for side in (store.source, store.target)))
    lists = [learn(each, SOURCE_SIZE, TARGET_SIZE, frequent=4, best=6, copies=[]) for each in (store, shuffled)]
    assert same(*lists)


def test_of_a_large_store_pairs_from_end_to_end_are_looked_at(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.data.shortlist.PAIRS", 24)
    found = learn(store, SOURCE_SIZE, TARGET_SIZE, frequent=4, best=6, copies=[])
    places = [int(place) for place in np.linspace(0, len(store) - 1, 24)]
    part = as_store(*([side[i].tolist() for i in places] for side in (store.source, store.target)))
    assert same(found, learn(part, SOURCE_SIZE, TARGET_SIZE, frequent=4, best=6, copies=[]))
    assert places[-1] == len(store) - 1


def test_a_sentence_may_use_what_its_tokens_bring_and_what_is_always_allowed() -> None:
    rows = [np.array(row, np.int64) for row in ([], [5, 9], [7], [5, 8])]
    shortlist = Shortlist(np.array([0, 1, 2, 3, 6]), rows)
    assert shortlist.candidates([1, 3, 1]).tolist() == [0, 1, 2, 3, 5, 6, 8, 9]
    assert shortlist.candidates([]).tolist() == [0, 1, 2, 3, 6]
    found = coverage(shortlist, [([1, 3, 1], [5, 6, 8, 7]), ([2], [7, 7])])
    assert (found.tokens, found.covered, found.sentences, found.whole, found.candidates) == (6, 5, 2, 1, 14)


def test_equal_pieces_may_be_copied() -> None:
    assert same_pieces(["<pad>", "a", "7", "b"], ["<pad>", "7", "c", "a"]) == [(0, 0), (1, 3), (2, 1)]


def test_lists_of_the_phrasebook_hold_unseen_translations(
    prepared: Prepared, pairs: list[tuple[list[int], list[int]]]
) -> None:
    narrow, wide = (coverage(learn_shortlist(prepared, frequent=50, best=best), pairs) for best in (0, 20))
    assert wide.covered > 0.995 * wide.tokens > narrow.covered
    assert wide.candidates < 0.4 * prepared.target_codec.size * wide.sentences


def test_a_vmap_is_read_back_as_it_was_written(prepared: Prepared, tmp_path: Path) -> None:
    shortlist = learn_shortlist(prepared, frequent=30, best=8)
    codecs = prepared.source_codec, prepared.target_codec
    source, target = (codec.pieces(range(codec.size)) for codec in codecs)
    shortlist.write_vmap(tmp_path / "vmap.txt", source, target)
    assert same(read_vmap(tmp_path / "vmap.txt", source, target), shortlist)


def test_a_vmap_is_laid_out_as_ctranslate2_reads_it(tmp_path: Path) -> None:
    rows = [np.array(row, np.int64) for row in ([], [2, 3], [])]
    Shortlist(np.array([0, 1]), rows).write_vmap(
        tmp_path / "vmap.txt", ["<s>", "▁a", "b"], ["<s>", "</s>", "▁A", "\u00a0"]
    )
    assert (tmp_path / "vmap.txt").read_bytes() == "\t<s> </s>\n▁a\t▁A \u00a0\n".encode()


def test_ctranslate2_keeps_a_sentence_alone_to_its_own_list(
    run: Path, prepared: Prepared, pairs: list[tuple[list[int], list[int]]], tmp_path: Path
) -> None:
    ctranslate2.convert(open_bundle(run), tmp_path / "model", "float32")
    source, target = (ctranslate2.tokens(codec) for codec in (prepared.source_codec, prepared.target_codec))
    shortlist = learn_shortlist(prepared, frequent=20, best=2)
    shortlist.write_vmap(tmp_path / "model" / "vmap.txt", source, target)
    translator = Translator(str(tmp_path / "model"), inter_threads=1, intra_threads=1)
    lines = [[source[id] for id in ids] for ids, _ in pairs[:40]]
    free, kept = (
        [found.hypotheses[0] for found in translator.translate_batch(lines, max_batch_size=1, use_vmap=use)]
        for use in (False, True)
    )
    lists = [{target[id] for id in shortlist.candidates(ids)} for ids, _ in pairs[:40]]
    assert all(allowed.issuperset(tokens) for allowed, tokens in zip(lists, kept, strict=True))
    assert not all(allowed.issuperset(tokens) for allowed, tokens in zip(lists, free, strict=True))


def test_a_token_that_a_vmap_cannot_hold_is_named(tmp_path: Path) -> None:
    with pytest.raises(CodecError, match="'a b' cannot stand in a shortlist"):
        Shortlist(np.array([0]), []).write_vmap(tmp_path / "vmap.txt", [], ["a b"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "\ta\nz\ta\n", "\ta\na\tz\n", "a\n", "\ta  b\n"])
def test_what_is_no_shortlist_of_the_vocabulary_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "vmap.txt").write_text(text, encoding="utf-8")
    with pytest.raises(CorpusError, match=r"vmap\.txt: not a shortlist of this vocabulary"):
        read_vmap(tmp_path / "vmap.txt", ["a", "b"], ["a", "b"])


def test_a_store_of_nothing_allows_the_specials_and_copies(tmp_path: Path) -> None:
    codec = Symbols(["a", "b"])
    empty = write_store(tmp_path / "ids", [], codec, codec, max_length=9)
    found = learn(empty, codec.size, codec.size, frequent=5, best=5, copies=[(4, 4)])
    assert found.candidates([4, 5]).tolist() == [0, 1, 2, 3, 4]
