"""Files that take hours: killed and gone on with, in shards, compressed; every line gets its line."""

from __future__ import annotations

import errno
import fcntl
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import ENVIRONMENT, transduce, words
from loud import WINDOW, Loud
from test_files import Crash, Faults
from test_mistakes import refused
from transduce.bundle import MANIFEST, write_manifest
from transduce.cli.lines import read_stream
from transduce.data.lines import MAX_LINE
from transduce.decode.job import part_of, record_of, shard_of
from transduce.decode.translator import Translation, Translator
from transduce.verify.lines import nasty_lines

LINES = [f"line {number}" if number % 5 else "" for number in range(1, 11)]
UPPER = "".join(line.upper() + "\n" for line in LINES).encode()
FULL = OSError(errno.ENOSPC, "No space left on device")
WINDOWED = """
import sys
import transduce.cli.translate
from transduce.cli import main

transduce.cli.translate.WINDOW = int(sys.argv.pop(1))
main()
"""


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> Loud:
    return Loud().take_part(monkeypatch)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with ten lines, in.txt."""
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def break_off(run: Path, place: Path, loud: Loud, *flags: str | Path, at: int = 9) -> None:
    """Translate in.txt to out.txt up to the window that begins at this line."""
    loud.break_at = at
    assert transduce("translate", run, place / "in.txt", "-o", place / "out.txt", *flags).code == 130
    loud.break_at = None


@pytest.mark.parametrize(
    ("name", "error"),
    [("out.txt", Crash()), ("out.txt.gz", Crash()), ("out.txt", FULL)],
    ids=["crash", "crash, gzip", "error"],
)
@pytest.mark.usefixtures("loud")
def test_after_a_fault_at_any_step_the_same_command_ends_with_the_same_bytes(
    small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
) -> None:
    translator = Translator.load(small_run)
    monkeypatch.setattr(Translator, "load", lambda path, **options: translator)
    assert transduce("translate", small_run, place / "in.txt", "-o", place / name).code == 0
    whole = (place / name).read_bytes()
    for n in count():
        output = place / str(n) / name
        output.parent.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, n, error)
            try:
                code = transduce("translate", small_run, place / "in.txt", "-o", output).code
            except Crash:
                code = None
        if not faults.failed:
            break
        assert code == (None if isinstance(error, Crash) else 2)
        assert not output.exists() or output.read_bytes() == whole
        again = transduce("translate", small_run, place / "in.txt", "-o", output)
        assert (again.code, output.read_bytes()) == (0, whole), again.err
        assert names(output.parent) == {name}
    assert n > 4 * 3  # four steps a window


def test_killed_at_any_instant_the_same_command_ends_with_the_same_bytes(
    small_run: Path, phrasebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, generator = 20, random.Random(0)
    monkeypatch.setattr("transduce.cli.translate.WINDOW", window)
    lines = (phrasebook / "train.en").read_text(encoding="utf-8").split("\n")[:400]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    flags = ("--beam", "1", tmp_path / "in.txt", "-o")
    assert transduce("translate", small_run, *flags, tmp_path / "whole").code == 0
    output = tmp_path / "out.txt"
    command = [sys.executable, "-c", WINDOWED, str(window), *words(["translate", small_run, *flags, output])[1:]]
    kept = [0]
    for _ in range(3):
        with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and lines_kept(output) <= kept[-1]:
                time.sleep(0.001)
            time.sleep(generator.uniform(0, 0.05))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert not output.exists()
        kept.append(lines_kept(output))
    assert all(number % window == 0 for number in kept)
    last = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True)
    assert f"going on after {kept[-1]:,} of 400 lines" in last.stderr.decode()
    assert output.read_bytes() == (tmp_path / "whole").read_bytes()
    assert names(tmp_path) == {"in.txt", "whole", "out.txt"}


def lines_kept(output: Path) -> int:
    return kept_of(output)[0]


def kept_of(output: Path) -> tuple[int, int]:
    """Lines and bytes that the record tells of."""
    try:
        record = json.loads(record_of(output).read_bytes())
    except FileNotFoundError:
        return 0, 0
    return record["lines"], record["bytes"]


def test_a_window_is_the_unit_of_work_and_goes_on_where_it_ended(small_run: Path, place: Path, loud: Loud) -> None:
    break_off(small_run, place, loud)
    assert part_of(place / "out.txt").read_bytes() == b"".join(UPPER.splitlines(keepends=True)[:8])
    record = json.loads(record_of(place / "out.txt").read_bytes())
    assert (record["lines"], record["bytes"]) == (8, part_of(place / "out.txt").stat().st_size)
    assert transduce("translate", small_run, place / "in.txt", "-o", place / "out.txt").code == 0
    assert loud.windows == [(1, 4), (5, 4), (9, 2), (9, 2)]
    assert (place / "out.txt").read_bytes() == UPPER
    assert names(place) == {"in.txt", "out.txt"}


@pytest.mark.parametrize(("batch_tokens", "batches"), [(1, 20), (4096, 3)])
def test_only_whole_windows_are_kept_however_many_batches_they_take(
    small_run: Path,
    phrasebook: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch_tokens: int,
    batches: int,
) -> None:
    monkeypatch.setattr("transduce.cli.translate.WINDOW", 8)
    lines = (phrasebook / "train.en").read_text(encoding="utf-8").split("\n")[:20]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    translator, kept = Translator.load(small_run), []
    translator.search = translator.search.model_copy(update={"batch_tokens": batch_tokens})
    translator.between = lambda: kept.append(lines_kept(tmp_path / "out"))
    monkeypatch.setattr(Translator, "load", lambda path, **options: translator)
    ran = transduce("translate", small_run, tmp_path / "in.txt", "-o", tmp_path / "out", "--beam", "1")
    assert ran.code == 0
    assert set(kept) == {0, 8, 16}
    assert len(kept) >= batches


def test_what_was_warned_of_is_not_warned_of_again(small_run: Path, place: Path, loud: Loud) -> None:
    (place / "in.txt").write_bytes(b"\xff\n" * 10)
    break_off(small_run, place, loud)
    ran = transduce("--quiet", "translate", small_run, place / "in.txt", "-o", place / "out.txt")
    numbers = [line.split(": ")[2] for line in ran.err.split("\n")[:-1]]
    assert numbers == ["line 9", "line 10"]


def test_one_who_stops_is_told_what_is_kept(small_run: Path, place: Path, loud: Loud) -> None:
    for at, kept in ((1, None), (5, 4)):
        loud.break_at = at
        ran = transduce("translate", small_run, place / "in.txt", "-o", place / "out.txt")
        assert ran.code == 130
        if kept is None:
            assert ran.err == ""
            assert names(place) == {"in.txt"}
        else:
            told = f"warning: {place / 'out.txt.part'}: 4 lines are kept; the same command goes on with them\n"
            assert ran.err == told


CHANGES: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "a line more": (
        lambda place: (place / "in.txt").write_bytes((place / "in.txt").read_bytes() + b"more\n"),
        (),
        "the input had 10 lines and now has 11",
    ),
    "another word": (
        lambda place: (place / "in.txt").write_bytes((place / "in.txt").read_bytes().replace(b"3", b"7")),
        (),
        "the input's text has changed",
    ),
    "beam": (bool, ("--beam", "2"), "beam was unset and now is 2"),
    "alpha": (bool, ("--alpha", "1"), "alpha was unset and now is 1.0"),
    "a shard": (bool, ("--shards", "1/2"), "shards was unset and now is 1/2"),
    "columns": (bool, ("--format", "tsv", "--column", "1"), "column was unset and now is 1; format was text and now"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_work_is_refused_by_name(small_run: Path, place: Path, loud: Loud, change: str) -> None:
    act, flags, told = CHANGES[change]
    break_off(small_run, place, loud)
    act(place)
    said = refused(place, "translate", small_run, place / "in.txt", "-o", place / "out.txt", *flags)
    assert f"out.txt.part: begun otherwise: {told}" in said
    assert "remove it and out.txt.part.json to begin anew" in said


def test_another_model_is_refused_and_a_copy_is_none(small_run: Path, place: Path, loud: Loud) -> None:
    bare = shutil.ignore_patterns("ctranslate2")  # what an engine keeps there is not the model
    copy, other = (shutil.copytree(small_run / "model", place / name, ignore=bare) for name in ("copy", "other"))
    (other / "README.md").write_text("Another model.\n", encoding="utf-8")
    (other / MANIFEST).unlink()
    write_manifest(other, {})
    Translator.load(other)  # and now it is there
    break_off(small_run, place, loud)
    arguments = (place / "in.txt", "-o", place / "out.txt")
    assert "begun otherwise: the model is another: " in refused(place, "translate", other, *arguments)
    assert transduce("translate", copy, *arguments).code == 0
    assert (place / "out.txt").read_bytes() == UPPER


def test_the_same_lines_compressed_are_the_same_input(small_run: Path, place: Path, loud: Loud) -> None:
    break_off(small_run, place, loud)
    (place / "in.gz").write_bytes(gzip.compress((place / "in.txt").read_bytes()))
    assert transduce("translate", small_run, place / "in.gz", "-o", place / "out.txt").code == 0
    assert (place / "out.txt").read_bytes() == UPPER


def test_where_nothing_is_done_yet_anything_may_change(small_run: Path, place: Path, loud: Loud) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, 3, Crash())  # the first window is written and not yet recorded
        with pytest.raises(Crash):
            transduce("translate", small_run, place / "in.txt", "-o", place / "out.txt", "--beam", "2")
    assert lines_kept(place / "out.txt") == 0
    assert part_of(place / "out.txt").exists()
    assert transduce("translate", small_run, place / "in.txt", "-o", place / "out.txt").code == 0
    assert (place / "out.txt").read_bytes() == UPPER


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no record": (lambda out: record_of(out).unlink(), "bytes of unknown origin (no out.txt.part.json): move it away"),
    "no part": (lambda out: part_of(out).unlink(), "tells of out.txt.part, which is gone"),
    "a short part": (lambda out: part_of(out).write_bytes(b"x"), "1 bytes, and out.txt.part.json tells of 50"),
    "half a record": (lambda out: record_of(out).write_bytes(record_of(out).read_bytes()[:99]), "damaged, or of"),
    "an odd record": (lambda out: record_of(out).write_bytes(b'{"lines": -1}'), "damaged, or of another version"),
    "a large record": (lambda out: record_of(out).write_bytes(b" " * (2 << 20)), "damaged, or of another version"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_part_that_does_not_fit_its_record_is_refused(small_run: Path, place: Path, loud: Loud, damage: str) -> None:
    act, told = DAMAGES[damage]
    break_off(small_run, place, loud)
    act(place / "out.txt")
    assert told in refused(place, "translate", small_run, place / "in.txt", "-o", place / "out.txt")


def test_a_full_disk_names_file_and_bytes_and_keeps_what_is_done(small_run: Path, place: Path, loud: Loud) -> None:
    size = sum(len(line) + 1 for line in LINES[4:8])
    with pytest.MonkeyPatch.context() as patch:
        fsync = os.fsync

        def full(handle: int) -> None:
            if len(loud.windows) > 1:
                raise FULL
            fsync(handle)

        patch.setattr(os, "fsync", full)
        ran = transduce("--quiet", "translate", small_run, place / "in.txt", "-o", place / "out.txt")
    assert ran.code == 2
    assert f"out.txt.part: cannot write {size} bytes: No space left on device: make room" in ran.err
    assert "4 lines are kept" in ran.err
    assert transduce("translate", small_run, place / "in.txt", "-o", place / "out.txt").code == 0
    assert (place / "out.txt").read_bytes() == UPPER


@pytest.mark.usefixtures("loud")
def test_two_processes_do_not_make_one_output(small_run: Path, place: Path) -> None:
    with part_of(place / "out.txt").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = refused(place, "translate", small_run, place / "in.txt", "-o", place / "out.txt")
    assert "out.txt.part: another process is writing it: wait for it" in said


def test_an_input_that_changes_meanwhile_is_noticed(small_run: Path, place: Path, loud: Loud) -> None:
    translate = loud.translate

    def cut_off(lines: list[str], **options: object) -> list[Translation]:
        (place / "in.txt").write_bytes(b"")
        return translate(lines, **options)  # type: ignore[arg-type]

    with (place / "in.txt").open("a", encoding="utf-8") as file:
        file.write("x" * 70 + "\n")
        file.write(("y" * 1000 + "\n") * 1000)  # more than is read at once
    loud.translate = cut_off  # type: ignore[method-assign]
    ran = transduce("--quiet", "translate", small_run, place / "in.txt", "-o", place / "out.txt")
    assert ran.code == 2
    assert "of 1,011 lines: the input was changed meanwhile" in ran.err
    assert not (place / "out.txt").exists()


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_shards_in_a_row_are_the_whole(small_run: Path, place: Path, n: int, suffix: str) -> None:
    assert transduce("translate", small_run, place / "in.txt", "-o", place / f"whole{suffix}").code == 0
    shards = [place / f"{number}{suffix}" for number in range(1, n + 1)]
    for number, path in enumerate(shards, 1):
        flags = ("--shards", f"{number}/{n}", "-o", path)
        ran = transduce("translate", small_run, place / "in.txt", *flags)
        assert ran.code == 0
        assert ("has no lines: 10 are cut only after each 4th" in ran.err) is (path.stat().st_size == 0)
    assert b"".join(path.read_bytes() for path in shards) == (place / f"whole{suffix}").read_bytes()


@pytest.mark.usefixtures("loud")
def test_shards_count_lines_from_the_beginning_of_the_whole(small_run: Path, place: Path) -> None:
    flags = ("--n-best", "2", "--beam", "2")
    whole = transduce("translate", small_run, place / "in.txt", *flags)
    shards = [transduce("translate", small_run, place / "in.txt", *flags, "--shards", f"{i}/2") for i in (1, 2)]
    assert [line for shard in shards for line in shard.lines] == whole.lines
    assert [line.split("\t")[0] for line in whole.lines] == [str(n) for n in range(1, 11) for _ in "ab"]


@given(st.integers(1, 10_000), st.integers(1, 50), st.integers(1, 40))
def test_shards_are_ranges_of_whole_windows_in_a_row(lines: int, window: int, n: int) -> None:
    shards = [shard_of(lines, window, shard=number, of=n) for number in range(1, n + 1)]
    assert [line for shard in shards for line in shard] == list(range(lines))
    assert all(shard.start % window == 0 for shard in shards)
    windows = [-(-len(shard) // window) for shard in shards]
    assert max(windows) - min(windows) <= 1


@pytest.mark.parametrize("shards", ["0/2", "3/2", "2", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_a_shard_that_is_none(small_run: Path, place: Path, shards: str) -> None:
    ran = transduce("translate", small_run, place / "in.txt", "--shards", shards)
    assert (ran.code, ran.out) == (2, "")
    assert "write I/N, such as 2/4, with I from 1 to N" in ran.err.replace("\n", " ")


def test_stdin_has_no_shards(small_run: Path, tmp_path: Path) -> None:
    assert "--shards needs input files" in refused(tmp_path, "translate", small_run, "--shards", "1/2", stdin=b"a\n")


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize("from_file", [True, False])
def test_gzip_in_gzip_out(small_run: Path, place: Path, from_file: bool) -> None:
    text = (place / "in.txt").read_bytes()
    (place / "in.gz").write_bytes(gzip.compress(text))
    inputs = [place / "in.gz"] if from_file else []
    assert transduce("translate", small_run, *inputs, "-o", place / "out.gz", stdin=text).code == 0
    data = (place / "out.gz").read_bytes()
    assert gzip.decompress(data) == UPPER
    assert data.count(b"\x1f\x8b\x08") == 3  # a member a window


@pytest.mark.usefixtures("loud")
def test_an_output_that_cannot_be(small_run: Path, place: Path) -> None:
    arguments = ("translate", small_run, place / "in.txt", "-o")
    (place / "link.txt").hardlink_to(place / "in.txt")
    assert "exists and is one of the inputs" in refused(place, *arguments, place / "in.txt")
    assert "exists and is one of the inputs" in refused(place, *arguments, place / "link.txt")
    assert "the output is plain text, or .gz" in refused(place, *arguments, place / "out.xz")
    assert "missing/out: cannot write: No such file or directory" in refused(place, *arguments, place / "missing/out")


def test_nasty_lines_in_a_file_each_get_their_line(small_run: Path, tmp_path: Path) -> None:
    lines = [probe.line for probe in nasty_lines("dog") if len(probe.line) < 1000]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    ran = transduce("--quiet", "translate", small_run, tmp_path / "in", "--beam", "1", "-o", tmp_path / "out")
    assert ran.code == 0
    assert (tmp_path / "out").read_bytes().count(b"\n") == len(lines)
    assert ran.err.count(": not UTF-8: ") == sum(not is_utf8(line) for line in lines)


def is_utf8(line: bytes) -> bool:
    try:
        return bool(line.decode()) or True
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("more", [-1, 0, 1, 1 << 19])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_line_of_stdin_takes_no_more_memory_than_one_of_a_file(bom: bytes, more: int, end: bytes) -> None:
    found = list(read_stream(BytesIO(bom + b"x" * (MAX_LINE + more) + end + (b"next\n" if end else b""))))
    assert found[0] == ("x" * (MAX_LINE + min(more, 0)), "over 1 MiB: the rest is cut off" if more > 0 else None)
    assert found[1:] == ([("next", None)] if end else [])


def test_no_more_than_a_window_is_read_ahead(
    small_run: Path, tmp_path: Path, loud: Loud, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, most = [], []

    def counting(stream: object) -> object:
        for number in range(40):
            given.append(number)
            yield f"line {number}", None

    def translate(lines: list[str], *, first_line: int, **options: object) -> list[Translation]:
        most.append(len(given) - (first_line - 1))
        return [Translation(line, 0.0, 0.0) for line in lines]

    monkeypatch.setattr("transduce.cli.lines.read_stream", counting)
    loud.translate = translate  # type: ignore[method-assign,assignment]
    assert transduce("translate", small_run, "-o", tmp_path / "out").code == 0
    assert most == [WINDOW] * 10
