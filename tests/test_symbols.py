from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.config import TextConfig
from transduce.errors import CodecError
from transduce.text import learn_codec, load_codec
from transduce.text.codec import BOS, EOS, PAD, SPECIALS, UNK
from transduce.text.symbols import Symbols

LINES = ["HH AH L OW", "W ER L D", "", "L IH L IY"]


def learned(lines: list[str]) -> Symbols:
    codec = Symbols.learn(lines).codec
    assert isinstance(codec, Symbols)
    return codec


@given(st.lists(st.text(), min_size=1).filter(lambda lines: any(line.split() for line in lines)))
def test_what_was_learned_comes_back_with_single_spaces(lines: list[str]) -> None:
    codec = learned(lines)
    for line, ids in zip(lines, codec.encode_many(lines), strict=True):
        assert codec.decode(ids) == " ".join(line.split())
        assert ids == codec.encode(line)
        assert all(len(SPECIALS) <= id < codec.size for id in ids)


def test_ids_go_by_frequency_and_not_by_the_order_of_lines() -> None:
    assert learned(LINES).pieces([4, 5]) == ["L", "AH"]
    assert learned(LINES).files() == learned(LINES[::-1]).files()


def test_learning_counts_its_lines() -> None:
    result = Symbols.learn(LINES)
    assert (result.lines, result.used, result.empty) == (4, 3, 1)
    assert result.codec.size == len(SPECIALS) + 9


def test_an_unknown_symbol_is_unk_and_is_named() -> None:
    codec = learned(LINES)
    assert codec.encode("L ZH L Q")[1::2] == [UNK, UNK]
    assert codec.unknown("L ZH L Q") == ["ZH", "Q"]
    assert codec.unknown(LINES[0]) == []


def test_specials_are_left_out_of_text() -> None:
    codec = learned(LINES)
    assert codec.decode([BOS, *codec.encode("L OW"), UNK, EOS, PAD]) == "L OW"


def test_a_symbol_may_be_written_like_a_special() -> None:
    codec = learned(["<s> a </s> \\<s>", "<unk> <pad>"])
    ids = codec.encode("<s> a </s> \\<s> <unk> <pad>")
    assert min(ids) >= len(SPECIALS)
    assert codec.decode(ids) == "<s> a </s> \\<s> <unk> <pad>"
    everything = codec.pieces(range(codec.size))
    assert everything[:4] == list(SPECIALS)
    assert len(set(everything)) == codec.size


def test_a_directory_holds_all_of_it(tmp_path: Path) -> None:
    text = TextConfig(normalize=("lower",))
    codec = learn_codec("symbols", ["A b", "\u2581 ü"], text, seed=1).codec
    for name, data in codec.files().items():
        (tmp_path / name).write_bytes(data)
    loaded = load_codec(tmp_path)
    assert loaded.encode("a B ▁ Ü") == codec.encode("a B ▁ Ü")
    assert UNK not in loaded.encode("a B ▁ Ü")
    assert loaded.fingerprint() == codec.fingerprint()


def test_no_symbols_cannot_be_learned() -> None:
    with pytest.raises(CodecError, match="2 lines, all empty"):
        Symbols.learn(["", "  "])


@pytest.mark.parametrize("data", [b"\xff", b"[", b"{}", b"[1]", b'["a b"]', b'[""]', b'["a", "a"]'])
def test_a_damaged_list_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        Symbols.load(data, ())
