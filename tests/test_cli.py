"""N lines in, N lines out, in order; scores with how they were made."""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command import Ran, transduce
from transduce.bundle import open_bundle
from transduce.cli.lines import read_file, read_stream
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.translator import Translation, Translator

GREEDY = ("--beam", "1")
ENGLISH = ["The dog sees the cat.", "A house is old.", "The cat, which is small, sees the dog."]

line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12)


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle)


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the model, so that a line of output tells which line of input it answers."""

    def repeat(self: Translator, lines: list[str], **options: object) -> list[Translation]:
        return [Translation(line.upper() if line.strip() else "", 0.0, 0.0) for line in lines]

    monkeypatch.setattr(Translator, "translate", repeat)


def warnings(ran: Ran) -> list[str]:
    return [line for line in ran.err.split("\n") if line.startswith("warning: ")]


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb\n", ["A", "", "B"]),
        (b" \t\na\n\xc2\xa0\n", ["", "A", ""]),
        (b"a\nb", ["A", "B"]),
        (b"a\r\nb\r\n", ["A", "B"]),
        (b"a\r\r\nb\r", ["A\r", "B"]),
        (b"\xef\xbb\xbfa\nb\n", ["A", "B"]),
        (b"\n\n\na\n\n", ["", "", "", "A", ""]),
        (b"a long line\nb\na longer line still\n", ["A LONG LINE", "B", "A LONGER LINE STILL"]),
    ],
)
def test_each_line_is_answered_in_its_place(bundle: Path, tmp_path: Path, text: bytes, expected: list[str]) -> None:
    ran = transduce("translate", bundle, stdin=text)
    assert (ran.code, ran.lines, ran.err) == (0, expected, "")
    if text:
        (tmp_path / "in").write_bytes(text)
        assert transduce("translate", bundle, tmp_path / "in").lines == expected


@pytest.mark.usefixtures("echo")
def test_more_lines_than_are_read_at_once_keep_their_order(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transduce.cli.translate.WINDOW", 7)
    lines = [f"line {number}" if number % 5 else "" for number in range(30)]
    ran = transduce("translate", bundle, stdin="\n".join(lines).encode())
    assert ran.lines == [line.upper() for line in lines]


def test_a_line_alone_is_translated_as_among_others(bundle: Path) -> None:
    together = transduce("translate", bundle, *GREEDY, stdin="\n".join(ENGLISH).encode())
    alone = [transduce("translate", bundle, *GREEDY, stdin=line.encode()) for line in ENGLISH]
    assert together.lines == [line for ran in alone for line in ran.lines]


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r", "\x1c", "\x00"])
def test_only_a_newline_ends_a_line(bundle: Path, tmp_path: Path, odd: str) -> None:
    text = f"one{odd}line\nanother\n".encode()
    (tmp_path / "in").write_bytes(text)
    for ran in (transduce("translate", bundle, stdin=text), transduce("translate", bundle, tmp_path / "in")):
        assert (ran.code, ran.lines) == (0, [f"ONE{odd}LINE", "ANOTHER"])


@given(lines=st.lists(line_text, max_size=8))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_lines_are_answered_by_as_many(translator: Translator, lines: list[str]) -> None:
    read = [text for text, _ in read_stream(BytesIO("".join(line + "\n" for line in lines).encode()))]
    assert len(read) == len(lines)
    texts = [translation.text for translation in translator.translate(read, beam=1)]
    assert "".join(text + "\n" for text in texts).count("\n") == len(lines)
    assert all(text == "" for text, line in zip(texts, read, strict=True) if not line.strip())


@given(data=st.lists(st.binary(max_size=8).map(lambda raw: raw.replace(b"\n", b"")), min_size=1, max_size=8))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_and_stdin_are_read_alike_whatever_their_bytes(tmp_path: Path, data: list[bytes]) -> None:
    text = b"".join(line + b"\n" for line in data)
    if text.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"\xfd7zXZ\x00")):
        return  # UTF-16, gzip and xz are known by their first bytes, in files only
    path = tmp_path / "in"
    path.write_bytes(text)
    from_stdin = list(read_stream(BytesIO(text)))
    assert len(from_stdin) == len(data)
    assert list(read_file(path)) == from_stdin


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize("from_file", [True, False])
def test_bad_bytes_are_replaced_and_their_line_is_named(bundle: Path, tmp_path: Path, from_file: bool) -> None:
    text = b"a\nb \xff\xfe c\nd\n\xc3(\n"
    (tmp_path / "in").write_bytes(text)
    inputs = [tmp_path / "in"] if from_file else []
    ran = transduce("--quiet", "translate", bundle, *inputs, stdin=text)
    assert (ran.code, ran.lines) == (0, ["A", "B \ufffd\ufffd C", "D", "\ufffd("])
    name = tmp_path / "in" if from_file else "stdin"
    assert warnings(ran) == [f"warning: {name}: line {n}: not UTF-8: bad bytes became U+FFFD" for n in (2, 4)]


def test_a_line_too_long_for_the_model_is_split_and_named(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def repeat(self: Translator, requests: list[Request], *rest: object) -> list[list[Hypothesis]]:
        return [[Hypothesis(request.source, 0.0, 0.0)] for request in requests]  # one vocabulary for both sides

    monkeypatch.setattr(Translator, "_search", repeat)
    long = " ".join(["The dog sees the cat."] * 2000)
    ran = transduce("translate", bundle, stdin=f"a\n{long}\nb\n".encode())
    assert (ran.code, ran.lines) == (0, ["a", long, "b"])
    (warning,) = warnings(ran)
    found = re.fullmatch(r"warning: line 2: (\d+) tokens, over 1000: translated in (\d+) parts", warning)
    assert found
    assert int(found[1]) > 10_000
    assert int(found[2]) > 10


def test_a_doubtful_or_missing_translation_is_named_and_has_its_line(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translate(self: Translator, lines: list[str], **options: object) -> list[Translation]:
        return [
            Translation("x", 0.0, 0.0),
            Translation("y y y", 0.0, 0.0, warning="repeats itself"),
            Translation("", 0.0, 0.0, error="the term fits nowhere"),
        ]

    monkeypatch.setattr(Translator, "translate", translate)
    ran = transduce("translate", bundle, stdin=b"a\nb\nc\n")
    assert (ran.code, ran.lines) == (0, ["x", "y y y", ""])
    assert warnings(ran) == [
        "warning: line 2: repeats itself",
        "warning: line 3: not translated: the term fits nowhere",
    ]


@pytest.mark.usefixtures("echo")
def test_several_files_are_read_in_turn(bundle: Path, tmp_path: Path) -> None:
    writers: dict[str, Callable[[bytes], bytes]] = {"a": bytes, "b.gz": gzip.compress, "c.xz": lzma.compress}
    for (name, pack), line in zip(writers.items(), ENGLISH, strict=True):
        (tmp_path / name).write_bytes(pack(line.encode()))  # no newline: each file still ends its line
    ran = transduce("translate", bundle, *(tmp_path / name for name in writers))
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [line.upper() for line in ENGLISH]


def test_an_output_file_holds_what_stdout_would(bundle: Path, tmp_path: Path) -> None:
    text = "\n".join(ENGLISH).encode()
    printed = transduce("translate", bundle, *GREEDY, stdin=text)
    ran = transduce("translate", bundle, *GREEDY, "--output", tmp_path / "out", stdin=text)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "out").read_text(encoding="utf-8") == printed.out
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_output_that_fails_midway_leaves_nothing(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.cli.translate.WINDOW", 1)
    translate, begun = Translator.translate, []

    def fail_later(self: Translator, lines: list[str], **options: object) -> object:
        begun.append([path.name for path in tmp_path.iterdir()])
        if options["first_line"] == 3:
            raise KeyboardInterrupt
        return translate(self, lines, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", fail_later)
    ran = transduce("translate", bundle, *GREEDY, "-o", tmp_path / "out", stdin="\n".join(ENGLISH).encode())
    assert (ran.code, ran.out) == (130, "")
    assert len(begun) == 3
    assert all(names != [] and "out" not in names for names in begun)
    assert list(tmp_path.iterdir()) == []


def test_n_best_lines_are_numbered_scored_and_sorted(bundle: Path) -> None:
    text = f"{ENGLISH[0]}\n\n{ENGLISH[1]}\n".encode()
    ran = transduce("translate", bundle, "--beam", "4", "--n-best", "3", stdin=text)
    best = transduce("translate", bundle, "--beam", "4", stdin=text)
    assert ran.code == 0
    rows = [line.split("\t") for line in ran.lines]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    assert all(re.fullmatch(r"-?\d+\.\d{4}", row[1]) for row in rows)
    first = {row[0]: row[2] for row in reversed(rows)}
    assert [first[number] for number in "123"] == best.lines
    for number in "13":
        scores = [float(row[1]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)
        assert len({row[2] for row in rows if row[0] == number}) > 1


@pytest.fixture
def pairs(phrasebook: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two files of twenty lines."""
    for side in ("en", "de"):
        lines = (phrasebook / f"valid.{side}").read_text(encoding="utf-8").split("\n")[:20]
        (tmp_path / f"test.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "test.en", tmp_path / "test.de"


def test_evaluate_prints_both_bleus_chrf_and_perplexity_with_how_they_were_made(
    run: Path, pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    source, reference = pairs
    flags = ("--source", source, "--reference", reference, *GREEDY, "--output", tmp_path / "out")
    ran = transduce("evaluate", run, *flags)
    assert (ran.code, ran.err) == (0, "")
    sacre, character, paper, perplexity = ran.lines
    assert re.fullmatch(r"BLEU [\d.]+ \(20 sentences; nrefs:1\|case:mixed\|.*tok:13a\|.*version:[\d.]+\)", sacre)
    assert re.fullmatch(r"chrF2 [\d.]+ \(20 sentences; nrefs:1\|.*\|nc:6\|nw:0\|.*version:[\d.]+\)", character)
    assert re.fullmatch(r"paper BLEU [\d.]+ \(20 sentences; .*tok:moses-de\+compounds\|.*sacremoses:[\d.]+\)", paper)
    found = re.fullmatch(r"perplexity ([\d.]+) \(per token of (\d+); no label smoothing\)", perplexity)
    assert found
    assert float(found[1]) > 1
    assert int(found[2]) > 20
    again = transduce("evaluate", "--hypothesis", tmp_path / "out", "--reference", reference, "--lang", "de")
    assert again.lines == [sacre, character, paper]


def test_a_text_against_itself_is_perfect_and_without_a_language_one_score_is_left_out(
    pairs: tuple[Path, Path],
) -> None:
    flags = ("--hypothesis", pairs[1], "--reference", pairs[1])
    ran = transduce("evaluate", *flags)
    assert ran.code == 0
    assert [line.split(" (")[0] for line in ran.lines] == ["BLEU 100.00", "chrF2 100.00"]
    assert "--lang" in ran.err
    assert transduce("--quiet", "evaluate", *flags).err == ""


def test_the_doctor_prints_a_table_or_json(pairs: tuple[Path, Path]) -> None:
    table = transduce("doctor", "--source", pairs[0], "--target", pairs[1])
    assert (table.code, table.err) == (0, "")
    assert re.search(r"usable pairs +20", table.out)
    as_json = transduce("doctor", "--source", pairs[0], "--target", pairs[1], "--json")
    assert (as_json.code, as_json.err) == (0, "")
    assert json.loads(as_json.out)


def test_train_prints_where_the_bundle_is_and_takes_its_flags_into_the_config(
    pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "it's a run"
    shape = ("model.d_model=16", "model.d_ff=16", "model.encoder_layers=1", "model.decoder_layers=1")
    sets = [part for setting in shape for part in ("--set", setting)]
    files = ("--source", pairs[0], "--target", pairs[1], "--out", out)
    flags = ("--preset", "tiny", "--steps", "2", "--vocabulary", "300", "--seed", "7", "--threads", "1")
    ran = transduce("--quiet", "train", *files, *flags, "--device", "cpu", "--target-lang", "de-AT", *sets)
    assert (ran.code, ran.lines) == (0, [str(out / "model")]), ran.err
    assert warnings(ran) == [line for line in ran.err.split("\n") if line]
    opened = open_bundle(out)
    assert (opened.config.train.steps, opened.config.train.seed, opened.config.text.vocabulary) == (2, 7, 300)
    assert (opened.source_lang, opened.target_lang) == ("en", "de-AT")
    again = transduce("train", "--resume", out)
    assert (again.code, again.lines) == (0, ran.lines)
    assert "resuming at step 2" in again.err
