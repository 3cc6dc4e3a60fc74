from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.config import TextConfig
from transduce.decode.parser import split_words
from transduce.errors import CodecError
from transduce.text import learn_codec, load_codec, save_codecs
from transduce.text.codec import SPECIALS, UNK
from transduce.text.words import Words, shapes, split

LINES = ["the dog barks", "the dog walked", "", "Rex talked on B-12 and B-14", "the PTA and the UN jumped"]


def learned(lines: list[str], vocabulary: int = 1000) -> Words:
    codec = Words.learn(lines, vocabulary=vocabulary).codec
    assert isinstance(codec, Words)
    return codec


def test_a_word_seen_twice_has_an_id_and_a_rare_one_that_of_its_shape() -> None:
    codec = learned(LINES)
    the, dog, barks = codec.encode("the dog barks")
    assert codec.decode([the, dog]) == "the dog"
    assert codec.pieces([barks]) == ["?"]  # nothing else ends so
    assert codec.pieces(codec.encode("talked walked cooked")) == ["?~ked"] * 3


def test_a_shape_that_was_never_seen_is_read_without_its_ending_or_is_unknown() -> None:
    codec = learned(LINES)
    assert codec.pieces(codec.encode("sung B-99 Zoe")) == ["?", "?A#-", "?C"]
    assert codec.encode("mid-1990s") == [UNK]


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("Dictation", "?C~ion"),
        ("DNA", "?A"),
        ("mRNA-like", "?-~ike"),
        ("IL-2", "?A#-"),
        ("1,000", "?#"),
        ("a", "?"),
        ("ﬁ\u00a0x", "?"),
    ],
)
def test_shapes(word: str, shape: str) -> None:
    assert shapes(word)[0] == shape


def test_a_word_written_like_a_shape_is_a_word() -> None:
    codec = learned(["is it ? ? ?A \\? \\?", "?A or not"])
    mark, shape, backslash, other = codec.encode("? ?A \\? zebra")
    assert len({mark, shape, backslash, other}) == 4
    assert codec.decode([mark, shape, backslash]) == "? ?A \\?"
    assert codec.pieces([other]) == ["?"]


def test_words_without_an_id_are_named() -> None:
    assert learned(LINES).unknown("the mid-1990s were B-99") == ["mid-1990s"]


@given(st.lists(st.text(), min_size=1).filter(lambda lines: any(map(split, lines))), st.text())
def test_every_word_of_a_parser_has_one_id(lines: list[str], other: str) -> None:
    codec = learned(lines)
    for line in (*lines, other):
        found = split_words(line)
        assert len(codec.encode(" ".join(found))) == len(found)
    assert all(len(SPECIALS) <= id < codec.size for line in lines for id in codec.encode(line))


def test_a_vocabulary_is_no_larger_than_asked_for() -> None:
    codec = learned(LINES, vocabulary=len(SPECIALS) + 2)
    assert codec.pieces(range(len(SPECIALS), codec.size)) == ["the", "?"]
    assert codec.pieces(codec.encode("the dog barks")) == ["the", "?", "?"]


def test_it_is_kept_and_opened_again(tmp_path: Path) -> None:
    text = TextConfig(source_codec="words", target_codec="symbols", joint=False, vocabulary=20, normalize=("lower",))
    codec = learn_codec("words", LINES, text, seed=1).codec
    assert codec.size <= 20
    save_codecs(tmp_path, codec, codec)
    again = load_codec(tmp_path / "joint")
    assert again.fingerprint() == codec.fingerprint()
    assert again.encode("THE dog howled") == codec.encode("the dog howled")
    assert codec.fingerprint() != Words(["the"]).fingerprint()


def test_no_words_are_an_error() -> None:
    with pytest.raises(CodecError, match="2 lines, all empty"):
        Words.learn(["", " "])
