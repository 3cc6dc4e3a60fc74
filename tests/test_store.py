from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.store import open_store, write_store
from transduce.errors import CorpusError
from transduce.text import Symbols

LETTERS = Symbols([chr(c) for c in range(ord("a"), ord("z") + 1)])
texts = st.lists(st.sampled_from("abcdefg"), max_size=12).map(" ".join)


@given(pairs=st.lists(st.tuples(texts, texts), max_size=30), limit=st.integers(1, 12))
def test_a_store_gives_back_the_ids_of_every_pair_that_fits(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], limit: int
) -> None:
    directory = tmp_path_factory.mktemp("store") / "ids"
    triples = [(line, source, target) for line, (source, target) in enumerate(pairs, 1)]
    store = write_store(directory, iter(triples), LETTERS, LETTERS, max_length=limit)
    fitting = [t for t in triples if max(len(t[1].split()), len(t[2].split())) <= limit]
    assert store.too_long == len(triples) - len(fitting)
    assert store.lines.tolist() == [line for line, _, _ in fitting]
    for index, (_, source, target) in enumerate(fitting):
        assert store.source[index].tolist() == LETTERS.encode(source)
        assert store.target[index].tolist() == LETTERS.encode(target)
    assert store.source.lengths.tolist() == [len(s.split()) + 1 for _, s, _ in fitting]


def test_ids_take_two_bytes_until_the_vocabulary_needs_four(tmp_path: Path) -> None:
    pair = [(1, "a", "a")]
    large = Symbols([f"w{i}" for i in range(2**16)])
    assert write_store(tmp_path / "small", pair, LETTERS, LETTERS, max_length=9).source.ids.dtype == np.uint16
    assert write_store(tmp_path / "large", pair, large, large, max_length=9).source.ids.dtype == np.uint32


def test_a_damaged_store_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "ids"
    write_store(directory, [(1, "a b", "c"), (2, "a", "b")], LETTERS, LETTERS, max_length=9)
    (directory / "lines").write_bytes(b"\0" * 8)
    with pytest.raises(CorpusError, match="ids: a damaged store"):
        open_store(directory)
    (directory / "store.json").unlink()
    with pytest.raises(CorpusError, match="ids: a damaged store"):
        open_store(directory)
