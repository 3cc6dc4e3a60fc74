from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shared_data import shared_lines
from transduce.config import TextConfig
from transduce.errors import CodecError
from transduce.text import learn_codec, load_codec
from transduce.text.codec import BOS, EOS, PAD, SPECIALS, UNK, Codec, Learned
from transduce.text.normalize import normalize
from transduce.text.subwords import MAX_CHARACTERS, SMALLEST, Subwords

LINES = [
    f"{who} {does} {what}{end}"
    for who in ("A man", "The old woman", "Ein Mädchen", "Zwei Hunde")
    for does in ("sees", "is looking at", "sieht", "schauen auf")
    for what in ("the garden", "a red ball", "den Garten", "einen roten Ball", "<s>nothing</s>")
    for end in (".", "!", " ...", "")
]
LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))
HOSTILE = st.lists(
    st.sampled_from(
        [
            "▁",
            " ",
            "  ",
            "▅",
            "\0",
            "\r",
            "\t",
            "\u2028",
            "\ufeff",
            "<s>",
            "</s>",
            "<unk>",
            "<0xE2>",
            "é",
            "a",
            "🧑‍🚀",
        ]
    )
).map("".join)


def learn(lines: list[str], *, vocabulary: int = 400, seed: int = 1, sample_lines: int = 10_000) -> Learned:
    return Subwords.learn(lines, vocabulary=vocabulary, seed=seed, sample_lines=sample_lines)


MODEL = learn(LINES).codec.files()[Subwords.FILE]


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Subwords(MODEL)


@settings(max_examples=500)
@given(line=LINE | HOSTILE)
def test_every_line_comes_back_exactly_and_needs_no_special(codec: Codec, line: str) -> None:
    ids = codec.encode(line)
    assert codec.decode(ids) == line
    assert all(len(SPECIALS) <= id < codec.size for id in ids)


def test_every_character_comes_back(codec: Codec) -> None:
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and c != ord("\n")]
    lines = ["a".join(characters[start : start + 500]) for start in range(0, len(characters), 500)]
    assert [codec.decode(ids) for ids in codec.encode_many(lines)] == lines


@given(lines=st.lists(LINE | HOSTILE))
def test_many_lines_are_encoded_as_each_alone(codec: Codec, lines: list[str]) -> None:
    assert codec.encode_many(iter(lines)) == [codec.encode(line) for line in lines]


def test_a_batch_for_threads_is_encoded_as_each_line_alone(codec: Codec) -> None:
    lines = [f"{line} {number} ▁" for number in range(10) for line in LINES]
    assert codec.encode_many(lines) == [codec.encode(line) for line in lines]


def test_a_word_has_the_same_pieces_wherever_it_stands(codec: Codec) -> None:
    assert codec.encode("Hunde Hunde") == 2 * codec.encode("Hunde")


def test_pieces_read_as_the_text(codec: Codec) -> None:
    pieces = codec.pieces(codec.encode("A man sees the garden."))
    assert "".join(pieces) == "▁A▁man▁sees▁the▁garden."
    assert len(pieces) < 12
    assert codec.pieces(codec.encode("☃")) == ["▁", "<0xE2>", "<0x98>", "<0x83>"]
    assert codec.pieces([PAD, UNK, BOS, EOS]) == list(SPECIALS)
    assert len(set(codec.pieces(range(codec.size)))) == codec.size


@given(ids=st.lists(st.integers(0, 399)))
def test_specials_are_left_out_of_text(codec: Codec, ids: list[int]) -> None:
    text = codec.decode(ids)
    assert text == codec.decode([BOS, *ids, EOS, PAD]) == codec.decode(np.array(ids, dtype=np.int64))


def test_the_byte_of_a_newline_decodes_to_a_space(codec: Codec) -> None:
    newline = len(SPECIALS) + ord("\n")
    assert codec.pieces([newline]) == ["<0x0A>"]
    assert codec.decode([*codec.encode("A"), newline, *codec.encode("man")]) == "A  man"


def test_the_same_lines_and_seed_give_the_same_bytes_and_nothing_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    first, second = (learn(LINES, sample_lines=200) for _ in range(2))
    assert first.codec.files() == second.codec.files()
    assert first.codec.fingerprint() == second.codec.fingerprint()
    assert learn(LINES, sample_lines=200, seed=2).codec.fingerprint() != first.codec.fingerprint()
    assert capfd.readouterr() == ("", "")


def test_every_line_is_accounted_for() -> None:
    result = learn([*LINES, "", "x" * (MAX_CHARACTERS + 1), ""], sample_lines=200)
    assert (result.lines, result.used, result.empty, result.too_long) == (len(LINES) + 3, 200, 2, 1)
    assert result.used + result.unsampled + result.empty + result.too_long == result.lines


def test_the_longest_line_without_a_space_can_be_learned_from() -> None:
    longest = ["<s>" * (MAX_CHARACTERS // 3), "ab" * (MAX_CHARACTERS // 2), "語" * MAX_CHARACTERS]
    assert learn(longest, vocabulary=270).used == 3


def test_a_sample_is_drawn_from_all_of_the_text() -> None:
    half = [f"aaaa{'bbbb' * (i % 7)}" for i in range(5000)] + [f"cccc{'dddd' * (i % 7)}" for i in range(5000)]
    result = learn(half, vocabulary=SMALLEST + 6, sample_lines=20)
    pieces = result.codec.pieces(range(result.codec.size))
    assert {"a", "b", "c", "d"} <= set(pieces)
    assert (result.used, result.unsampled) == (20, 9980)


def most_subwords(lines: list[str]) -> int:
    with pytest.raises(CodecError, match="100000") as raised:
        learn(lines, vocabulary=100_000)
    way_out = re.search(r"--vocabulary (\d+) or less", str(raised.value))
    assert way_out
    return int(way_out[1])


@settings(max_examples=30, deadline=None)
@given(lines=st.lists(LINE | HOSTILE, max_size=8))
def test_every_vocabulary_up_to_the_one_named_can_be_learned(lines: list[str]) -> None:
    assume(any(lines))
    largest = most_subwords(lines)
    for vocabulary in {SMALLEST, (SMALLEST + largest) // 2, largest}:
        assert learn(lines, vocabulary=vocabulary).codec.size == vocabulary
    with pytest.raises(CodecError, match=f"--vocabulary {largest} or less"):
        learn(lines, vocabulary=largest + 1)


def test_too_small_a_vocabulary_names_the_smallest() -> None:
    with pytest.raises(CodecError, match=f"--vocabulary {SMALLEST} or more"):
        learn(LINES, vocabulary=SMALLEST - 1)


@pytest.mark.parametrize("lines", [[], [""], ["x" * (MAX_CHARACTERS + 1)]])
def test_nothing_to_learn_from(lines: list[str]) -> None:
    with pytest.raises(CodecError, match=f"{len(lines)} lines"):
        learn(lines)


def test_rare_characters_are_spelled_in_bytes_and_frequent_ones_are_not() -> None:
    lines = [f"ü {'e' * 99}"] * 4000 + ["ø"]
    codec = learn(lines, vocabulary=270).codec
    assert codec.pieces(codec.encode("ü")) == ["▁ü"]
    assert codec.pieces(codec.encode("ø")) == ["▁", "<0xC3>", "<0xB8>"]


def test_lone_surrogates_are_a_users_mistake(codec: Codec) -> None:
    for attempt in (
        lambda: codec.encode("a\ud800"),
        lambda: learn(["a\ud800"]),
        lambda: codec.encode("▁\ud800"),
    ):
        with pytest.raises(CodecError, match=r"'\\ud800'"):
            attempt()


@given(line=LINE)
def test_a_codec_normalises(line: str) -> None:
    steps = ("nfkc", "lower", "squeeze")
    loose = Subwords(MODEL, steps)
    assert loose.decode(loose.encode(line)) == normalize(line, steps)


def written(directory: Path, codec: Codec) -> Path:
    for name, data in codec.files().items():
        (directory / name).write_bytes(data)
    return directory


def test_a_directory_holds_all_of_it(tmp_path: Path) -> None:
    text = TextConfig(vocabulary=400, normalize=("lower",), sample_lines=100)
    learned = learn_codec("subwords", LINES, text, seed=3).codec
    loaded = load_codec(written(tmp_path, learned))
    assert loaded.encode_many(LINES) == learned.encode_many(LINES)
    assert loaded.encode("MAN") == loaded.encode("man")
    assert loaded.fingerprint() == learned.fingerprint()


def test_normalisation_is_part_of_the_fingerprint() -> None:
    assert Subwords(MODEL).fingerprint() != Subwords(MODEL, ["lower"]).fingerprint()


@pytest.mark.parametrize("name", ["codec.json", "subwords.model"])
def test_a_missing_cut_or_altered_file_is_refused(tmp_path: Path, codec: Codec, name: str) -> None:
    path = written(tmp_path, codec) / name
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:-9] + b"\0" + whole[-8:]):
        path.write_bytes(damaged)
        with pytest.raises(CodecError, match=re.escape(f"{tmp_path}: {name}")):
            load_codec(tmp_path)
    path.unlink()
    with pytest.raises(CodecError, match=f"there is no {name}"):
        load_codec(tmp_path)


@pytest.mark.parametrize("model", [b"", b"text", MODEL[: len(MODEL) // 3]])
def test_bytes_that_are_no_model_of_ours_are_refused(model: bytes) -> None:
    with pytest.raises(CodecError, match=r"subwords\.model"):
        Subwords(model)


def test_multi30k_comes_back_exactly() -> None:
    lines = shared_lines("multi30k", "train.en.gz")[:5000] + shared_lines("multi30k", "train.de.gz")[:5000]
    codec = learn(lines, vocabulary=4000).codec
    encoded = codec.encode_many(lines)
    assert [codec.decode(ids) for ids in encoded] == lines
    words = sum(len(line.split()) for line in lines)
    assert words < sum(map(len, encoded)) < 1.5 * words
