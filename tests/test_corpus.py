from __future__ import annotations

import errno
import gzip
import json
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.config import DataConfig
from transduce.data.corpus import (
    Corpus,
    fingerprint,
    languages,
    read_batches,
    read_pairs,
    training_corpus,
    validation_corpus,
)
from transduce.data.lines import CHUNK, MAX_LINE, read_blocks
from transduce.data.problems import Problem, Tally
from transduce.data.selection import held_out, held_out_share, survey, usable_pairs
from transduce.errors import CorpusError

WRITERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}
DATA = DataConfig()

line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=30)


def two_files(folder: Path, source: bytes, target: bytes) -> Corpus:
    (folder / "a.en").write_bytes(source)
    (folder / "a.de").write_bytes(target)
    return Corpus((folder / "a.en",), (folder / "a.de",))


def one_file(folder: Path, name: str, content: bytes) -> Corpus:
    (folder / name).write_bytes(content)
    return Corpus(pairs=(folder / name,))


def mended(lines: list[str]) -> list[str]:
    """What reading may change: one BOM at the very start, one CR before each newline."""
    whole = "\n".join([*lines, ""]).removeprefix("\ufeff")
    return [line.removesuffix("\r") for line in whole.split("\n")[:-1]]


@pytest.mark.parametrize("suffix", WRITERS)
@given(pairs=st.lists(st.tuples(line_text, line_text), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_lines_read_back_as_they_were_written(suffix: str, pairs: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"a.{side}{suffix}" for side in ("en", "de")]
        for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
            path.write_bytes(WRITERS[suffix]("".join(f"{line}\n" for line in lines).encode()))
        read = list(read_pairs(Corpus((paths[0],), (paths[1],))))
    assert [pair.source for pair in read] == mended([source for source, _ in pairs])
    assert [pair.target for pair in read] == mended([target for _, target in pairs])
    assert [pair.line for pair in read] == list(range(1, len(pairs) + 1))


@given(pairs=st.lists(st.tuples(line_text, line_text), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_jsonl_keeps_every_character(pairs: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as folder:
        rows = "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in pairs)
        read = list(read_pairs(one_file(Path(folder), "a.jsonl", rows.encode())))
    assert [(pair.source, pair.target) for pair in read] == pairs


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    odd = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h"
    assert [p.source for p in read_pairs(two_files(tmp_path, f"{odd}\nx\n".encode(), b"1\n2\n"))] == [
        odd,
        "x",
    ]


@pytest.mark.parametrize(("content", "lines"), [(b"a\nb\n", 2), (b"a\nb", 2), (b"a\n\n", 2), (b"\n", 1)])
def test_the_last_line_may_lack_its_newline(tmp_path: Path, content: bytes, lines: int) -> None:
    (tmp_path / "a").write_bytes(content)
    assert sum(len(block.texts) for block in read_blocks(tmp_path / "a")) == lines


def test_bom_and_cr_before_newline_are_mended_and_counted(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, b"\xef\xbb\xbfone\r\ntwo\n", b"eins\r\nzwei\r\n")
    tally = Tally()
    pairs = list(usable_pairs(corpus, DATA, tally))
    assert [(p.source, p.target) for p in pairs] == [("one", "eins"), ("two", "zwei")]
    assert (tally.boms, tally.crs) == (1, 3)


def test_files_follow_one_another_and_each_pair_knows_its_place(tmp_path: Path) -> None:
    for name, text in {"a.en": "1\n2\n", "a.de": "1\n2\n", "b.en": "3\n4", "b.de": "3\n4\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8", newline="\n")
    corpus = Corpus((tmp_path / "a.en", tmp_path / "b.en"), (tmp_path / "a.de", tmp_path / "b.de"))
    read = list(read_pairs(corpus))
    assert [(p.line, p.source, p.target, p.file, p.file_line) for p in read] == [
        (1, "1", "1", 0, 1),
        (2, "2", "2", 0, 2),
        (3, "3", "3", 1, 1),
        (4, "4", "4", 1, 2),
    ]


@pytest.mark.parametrize("length", [MAX_LINE + 1, MAX_LINE + CHUNK // 2, 3 * MAX_LINE + 7])
def test_a_line_over_the_cap_is_cut_flagged_and_still_one_line(tmp_path: Path, length: int) -> None:
    corpus = two_files(tmp_path, b"a\n" + b"x" * length + b"\nc\n", b"1\n2\n3\n")
    pairs = list(read_pairs(corpus))
    assert [len(p.source) for p in pairs] == [1, MAX_LINE, 1]
    assert [p.problem for p in pairs] == [None, Problem.OVER_LONG, None]
    assert [p.target for p in pairs] == ["1", "2", "3"]


def test_a_line_of_just_the_cap_is_whole(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, b"x" * MAX_LINE + b"\nb\n", b"1\n2\n")
    assert [(len(p.source), p.problem) for p in read_pairs(corpus)] == [(MAX_LINE, None), (1, None)]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_bomb_needs_bounded_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(WRITERS[suffix](b"\0" * (128 << 20)))
    tracemalloc.start()
    blocks = [(len(block.texts), block.problems) for block in read_blocks(path)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert blocks == [(1, {0: Problem.OVER_LONG})]
    assert peak < 16 << 20


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_several_compressed_streams_are_one_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(WRITERS[suffix](b"one\ntw") + WRITERS[suffix](b"o\n"))
    assert [text for block in read_blocks(path) for text in block.texts] == ["one", "two"]


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_truncated_and_damaged_compression_name_the_file(tmp_path: Path, suffix: str) -> None:
    whole = WRITERS[suffix](os.urandom(5000))
    path = tmp_path / f"a.en{suffix}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusError, match=rf"a\.en\{suffix}: .*ends too early.*fetch it again"):
        list(read_blocks(path))
    path.write_bytes(whole[:-8] + bytes(8))
    with pytest.raises(CorpusError, match=rf"a\.en\{suffix}: .*damaged.*fetch it again"):
        list(read_blocks(path))
    path.write_bytes(b"plain text\n")
    with pytest.raises(CorpusError, match=rf"a\.en\{suffix}: is not {suffix[1:]} data.*rename it"):
        list(read_blocks(path))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = two_files(tmp_path, b"a\n", b"b\n")
    target = corpus.target[0]
    target.unlink()
    with pytest.raises(CorpusError, match=r"a\.de: cannot read: No such file.*check the path"):
        list(read_pairs(corpus))
    target.mkdir()
    with pytest.raises(CorpusError, match=r"a\.de: is a directory: name the files"):
        list(read_pairs(corpus))
    target.rmdir()
    target.write_bytes(b"")
    with pytest.raises(CorpusError, match=r"a\.de: is empty"):
        list(read_pairs(corpus))
    target.unlink()
    os.mkfifo(target)
    with pytest.raises(CorpusError, match=r"a\.de: a pipe .*save it to a file first"):
        list(read_pairs(corpus))
    target.unlink()
    target.write_bytes(b"b\n")

    def refuse(self: Path, mode: str = "r") -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CorpusError, match=r"a\.en: cannot read: Permission denied: check its permissions"):
        list(read_pairs(corpus))


def test_an_empty_compressed_file_and_utf_16_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(CorpusError, match=r"a\.en\.gz: holds no line"):
        list(read_pairs(Corpus((tmp_path / "a.en.gz",), (tmp_path / "a.de.gz",))))
    with pytest.raises(CorpusError, match=r"a\.en: line 1 looks like UTF-16: .*iconv"):
        list(read_pairs(two_files(tmp_path, "one\n".encode("utf-16"), b"eins\n")))


def test_differing_line_counts_are_an_error_with_both_counts(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, b"a\nb\nc\n", b"1\n2\n")
    with pytest.raises(CorpusError, match=r"a\.en: 3 lines, .*a\.de: 2;.*mend it or cut both"):
        list(read_pairs(corpus))
    with pytest.raises(CorpusError, match=r"a\.en: 3 lines, .*a\.de: 2;"):
        survey(corpus, DATA)


def test_a_corpus_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="2 source files, 1 target files: give as many"):
        Corpus((Path("a"), Path("b")), (Path("c"),))
    with pytest.raises(CorpusError, match="not both"):
        Corpus((Path("a"),), (Path("b"),), (Path("c.tsv"),))
    with pytest.raises(CorpusError, match=r"c\.txt: neither \.tsv nor \.jsonl.*rename"):
        Corpus(pairs=(Path("c.txt"),))
    with pytest.raises(CorpusError, match=r"no training data: give data\.source"):
        training_corpus(DataConfig())


def test_the_configuration_names_both_corpora() -> None:
    data = DataConfig(source=("a.en",), target=("a.de",), valid_pairs=("v.tsv",))
    assert training_corpus(data) == Corpus((Path("a.en"),), (Path("a.de"),))
    assert validation_corpus(data) == Corpus(pairs=(Path("v.tsv"),))
    assert validation_corpus(DataConfig(source=("a.en",), target=("a.de",))) is None


def test_tsv_takes_the_first_two_columns(tmp_path: Path) -> None:
    corpus = one_file(tmp_path, "a.tsv.gz", gzip.compress(b"one\teins\tCC-BY\ntwo\tzwei\n"))
    assert [(p.source, p.target) for p in read_pairs(corpus)] == [("one", "eins"), ("two", "zwei")]


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("a.tsv", "only one", "has 1 column: write source, a tab, target"),
        ("a.jsonl", "{", "is not JSON: write one object a line"),
        ("a.jsonl", "[1]", "is a JSON list: write one object a line"),
        (
            "a.jsonl",
            '{"source": "x", "text": "y"}',
            "has no key 'target', only 'source', 'text': set data.columns",
        ),
        ("a.jsonl", '{"source": "x", "target": 3}', "'target' is a int: it must be a string"),
    ],
)
def test_rows_that_are_no_pair_are_named(tmp_path: Path, name: str, row: str, message: str) -> None:
    good = "x\ty" if name == "a.tsv" else '{"source": "x", "target": "y"}'
    corpus = one_file(tmp_path, name, f"{good}\n{row}\n".encode())
    with pytest.raises(CorpusError) as error:
        list(read_pairs(corpus))
    assert str(error.value) == f"{tmp_path / name}: line 2: {message}"


def test_half_a_surrogate_pair_in_json_is_bad_utf8(tmp_path: Path) -> None:
    corpus = one_file(tmp_path, "a.jsonl", b'{"source": "\\ud800", "target": "y"}\n')
    assert [p.problem for p in read_pairs(corpus)] == [Problem.BAD_UTF8]


GARBAGE = {
    Problem.BAD_UTF8: (b"\xff\xfe and more", b"gut"),
    Problem.NUL: (b"fine", b"a\0b"),
    Problem.CARRIAGE_RETURN: (b"one\rtwo", b"gut"),
    Problem.LINE_BREAK: (b"fine", "a\u2028b".encode()),
    Problem.EMPTY_SOURCE: (b" \t ", b"gut"),
    Problem.EMPTY_TARGET: (b"fine", b""),
    Problem.OVER_LONG: (b"w " * 2600, b"w " * 2600),
    Problem.LENGTH_RATIO: (b"x", b"y" * 50),
}


def test_each_kind_of_garbage_is_dropped_counted_and_named(tmp_path: Path) -> None:
    good = [(b"line %d" % i, b"zeile %d" % i) for i in range(200)]
    rows = [*good[:100], *GARBAGE.values(), *good[100:]]
    corpus = two_files(tmp_path, *(b"".join(row[side] + b"\n" for row in rows) for side in (0, 1)))
    tally = Tally()
    kept = list(usable_pairs(corpus, DATA, tally))
    assert [(p.source.encode(), p.target.encode()) for p in kept] == good
    assert tally.pairs == 208
    assert tally.usable == 200
    for line, problem in enumerate(GARBAGE, start=101):
        assert tally.dropped[problem].count == 1
        assert [str(place) for place in tally.dropped[problem].places] == [f"{corpus.source[0]}:{line}"]
    assert survey(corpus, DATA) == tally


def test_the_first_five_places_are_kept_of_any_number(tmp_path: Path) -> None:
    rows = [b"" if i % 50 == 0 else b"fine" for i in range(1000)]
    corpus = two_files(tmp_path, b"\n".join(rows) + b"\n", b"gut\n" * 1000)
    finding = survey(corpus, DATA).dropped[Problem.EMPTY_SOURCE]
    assert finding.count == 20
    assert [place.line for place in finding.places] == [1, 51, 101, 151, 201]


def test_more_than_a_twentieth_unusable_is_an_error_and_strict_allows_none(tmp_path: Path) -> None:
    def corpus(bad: int) -> Corpus:
        return two_files(tmp_path, b"a\n" * (100 - bad) + b"\n" * bad, b"b\n" * 100)

    assert survey(corpus(5), DATA).usable == 95
    with pytest.raises(CorpusError, match=r"a\.en.*6 of 100.*empty source 6 \(lines 95, 96.*more than 5%; mend"):
        survey(corpus(6), DATA)
    with pytest.raises(CorpusError, match=r"1 of 100.*empty source 1 \(line 100\).*data\.strict=false"):
        list(usable_pairs(corpus(1), DataConfig(strict=True)))
    with pytest.raises(CorpusError, match="nothing is left"):
        survey(corpus(100), DATA)


@pytest.mark.parametrize(
    ("source", "target", "usable"),
    [("ab", "x" * 18, True), ("ab", "x" * 20, True), ("ab", "x" * 21, False), ("abc", "x" * 26, True)],
)
def test_the_ratio_counts_only_above_twenty_characters(tmp_path: Path, source: str, target: str, usable: bool) -> None:
    rows = 100
    corpus = two_files(tmp_path, b"a\n" * rows + f"{source}\n".encode(), b"b\n" * rows + f"{target}\n".encode())
    assert survey(corpus, DATA).usable == rows + usable


@given(pairs=st.integers(1, 10**9))
def test_the_held_out_share_stays_within_its_bounds(pairs: int) -> None:
    share = held_out_share(pairs)
    assert share <= 0.1
    assert share * pairs <= 2000.001
    assert share * pairs >= min(199.999, 0.0999 * pairs)


def test_held_out_pairs_are_about_the_share_and_grow_with_it() -> None:
    texts = [f"sentence {i}" for i in range(20000)]
    chosen = [{text for text in texts if held_out(text, share)} for share in (0.0, 0.01, 0.1, 1.0)]
    assert [len(part) for part in chosen[::3]] == [0, 20000]
    assert 140 < len(chosen[1]) < 260
    assert 1800 < len(chosen[2]) < 2200
    assert chosen[1] < chosen[2]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("train.en.gz", "train.de.gz", ("en", "de")),
        ("a.b.pt-BR", "a.b.zh_Hans.txt", ("pt-BR", "zh_Hans")),
        ("train.src", "train.tgt", (None, None)),
        ("train.txt", "english", (None, None)),
        ("Tatoeba.de-en.en", "Tatoeba.de-en.de", ("en", "de")),
    ],
)
def test_languages_come_from_file_names(source: str, target: str, expected: tuple[str | None, str | None]) -> None:
    assert languages(Corpus((Path(source),), (Path(target),)), DATA) == expected


def test_languages_come_from_settings_first_and_from_pairs() -> None:
    two = Corpus((Path("a.en"),), (Path("a.de"),))
    assert languages(two, DataConfig(target_lang="de-AT")) == ("en", "de-AT")
    assert languages(Corpus(pairs=(Path("x.en-fr.tsv.gz"),)), DATA) == ("en", "fr")
    assert languages(Corpus(pairs=(Path("x.jsonl"),), columns=("en", "fi")), DATA) == ("en", "fi")
    assert languages(Corpus(pairs=(Path("x.tsv"),)), DATA) == (None, None)


def test_a_fingerprint_follows_content_order_and_format(tmp_path: Path) -> None:
    corpus = two_files(tmp_path, b"a\n", b"b\n")
    first = fingerprint(corpus)
    assert fingerprint(two_files(tmp_path, b"a\n", b"b\n")) == first
    assert fingerprint(Corpus(corpus.target, corpus.source)) != first
    assert fingerprint(two_files(tmp_path, b"a\n", b"c\n")) != first
    rows = one_file(tmp_path, "a.jsonl", b"{}\n")
    assert fingerprint(rows) != fingerprint(Corpus(pairs=rows.pairs, columns=("en", "de")))


def test_batches_cover_every_line_once_however_the_blocks_fall(tmp_path: Path) -> None:
    source = [f"{i} " + "x" * (i % 97) for i in range(30000)]
    target = [f"{i} " + "y" * (i * 7 % 31) for i in range(30000)]
    corpus = two_files(tmp_path, "\n".join(source).encode(), "\n".join(target).encode())
    batches = list(read_batches(corpus))
    assert len(batches) > 3
    assert [text for batch in batches for text in batch.sources] == source
    assert [text for batch in batches for text in batch.targets] == target
