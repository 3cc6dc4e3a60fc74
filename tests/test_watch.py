"""`transduce watch`: from the log of a run under way, over, killed or just begun, in a terminal or not."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command import ENVIRONMENT, command, transduce
from transduce.cli.braille import BLANK, braille
from transduce.cli.watch import headline, printable
from transduce.train.history import History, read_history
from transduce.train.progress import Log, Report, Sample, Validation


def report(step: int, loss: float = 3.0, *, remaining: float | None = None) -> Report:
    return Report(step, 0, loss, 20.0, 0.5, 0.001, 1234.0, float(step), remaining, None)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A run that has only just begun."""
    (tmp_path / "config.toml").write_text('preset = "tiny"\n', encoding="utf-8")
    return tmp_path


@pytest.fixture
def busy(place: Path) -> Path:
    """A run under way, or killed: nobody can tell."""
    log = Log(place / "log.jsonl")
    log.note("28,998 usable pairs")
    for step in range(10, 60, 10):
        log.report(report(step, 5 - step / 20))
    log.validated(Validation(50, 9.5, 21.25, (Sample("a dog", "ein Hund", "eine Katze"),), 0.5))
    return place


def test_one_frame_of_a_run_under_way(busy: Path) -> None:
    ran = transduce("watch", busy, "--once")
    assert (ran.code, ran.err) == (0, "")
    for expected in ("step 50", "loss 2.5", "validation perplexity 9.5", "BLEU 21.2", "tokens/s 1,234", "eine Katze"):
        assert expected in ran.out
    assert re.search(r"[\u2801-\u28ff]", ran.out)


def test_a_finished_run_is_shown_and_left(busy: Path) -> None:
    Log(busy / "log.jsonl").ended("finished")
    ran = transduce("watch", busy)
    assert (ran.code, ran.err) == (0, "")
    assert f"{busy.name}: finished" in ran.out


def test_a_trained_run_is_shown(run: Path) -> None:
    ran = transduce("watch", run)
    assert (ran.code, ran.err) == (0, "")
    assert "run: finished" in ran.out
    assert f"step {read_history(run).reports[-1].step:,}  " in ran.out


@pytest.mark.parametrize("log", [None, b"", b'{"event": "no', b"\xff\xfe\n[]\n{}\n7\n"], ids=repr)
def test_a_run_without_a_report_says_so(place: Path, log: bytes | None) -> None:
    if log is not None:
        (place / "log.jsonl").write_bytes(log)
    ran = transduce("watch", place, "--once")
    assert (ran.code, ran.lines, ran.err) == (0, [f"{place.name}: no report yet"], "")


@given(cut=st.integers(min_value=0))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_a_log_cut_anywhere_tells_what_its_whole_lines_tell(busy: Path, cut: int) -> None:
    whole = (busy / "log.jsonl").read_bytes()
    kept = whole[: cut % (len(whole) + 1)]
    copy = busy / "copy"
    copy.mkdir(exist_ok=True)
    shutil.copy(busy / "config.toml", copy)
    (copy / "log.jsonl").write_bytes(kept)
    ended = kept[: kept.rfind(b"\n") + 1]
    steps = [json.loads(line)["step"] for line in ended.split(b"\n") if b'"report"' in line]
    more = [report.step for report in read_history(copy).reports[len(steps) :]]
    assert [report.step for report in read_history(copy).reports][: len(steps)] == steps
    assert len(more) <= 1  # a line that is whole but for its end


@given(steps=st.lists(st.integers(1, 50), max_size=40))
def test_what_is_done_again_replaces_what_was_lost(steps: list[int]) -> None:
    history = History()
    for place, step in enumerate(steps):
        history.add({"event": "report", "time": 0.0, **report(step, float(place)).__dict__})
    told = [each.step for each in history.reports]
    assert told == sorted(set(told))
    assert told[-1:] == steps[-1:]
    for each in history.reports:
        assert steps[int(each.loss)] == each.step
        assert all(later > each.step for later in steps[int(each.loss) + 1 :])


def test_the_time_left_runs_down_between_reports_and_silence_is_named() -> None:
    history = History(reports=[report(10, remaining=100.0)], heard=1000.0)
    assert headline(history, 1010.0) == "training, 0:01:30 left"
    assert headline(history, 1070.0) == "training, 0:00:30 left; silent for 0:01:10"
    history.outcome = "interrupted"
    assert headline(history, 9999.0) == "interrupted; `transduce train --resume` goes on"


def test_a_text_cannot_command_the_terminal(busy: Path) -> None:
    nasty = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202e\ud800"
    log = Log(busy / "log.jsonl")
    log.path.write_text(
        log.path.read_text(encoding="utf-8").replace("eine Katze", json.dumps(nasty)[1:-1]), encoding="utf-8"
    )
    ran = transduce("watch", busy, "--once")
    assert ran.code == 0
    assert printable(nasty) in ran.out.replace("\n", "")
    assert set(printable(nasty)) & set(nasty) <= set("]0;title[2J31m")
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.out) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such directory"),
        (lambda path: path.write_text(""), "no such directory"),
        (lambda path: path.mkdir(), "no config.toml: not a run"),
        (lambda path: (path.mkdir(), (path / "manifest.json").write_text("{}")), "holds a bundle"),
    ],
    ids=["nothing", "a file", "empty", "a bundle"],
)
@pytest.mark.parametrize("flags", [(), ("--once",), ("--report",)], ids=repr)
def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path, make: object, message: str, flags: tuple[str]) -> None:
    assert callable(make)
    make(tmp_path / "x")
    ran = transduce("watch", tmp_path / "x", *flags)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"transduce: {tmp_path / 'x'}: {message}")
    assert ran.err.count("\n") == 1


def started(run: Path, **streams: int) -> subprocess.Popen[bytes]:
    environment = ENVIRONMENT | {"TERM": "xterm", "LINES": "40"}
    heed = signal.default_int_handler  # a shell that runs the tests in the background lets its children ignore SIGINT
    return subprocess.Popen(
        command("watch", run), env=environment, preexec_fn=lambda: signal.signal(signal.SIGINT, heed), **streams
    )  # type: ignore[call-overload,no-any-return]


def test_without_a_terminal_news_come_as_lines_until_the_end(busy: Path) -> None:
    process = started(busy, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    while b"eine Katze" not in (line := process.stdout.readline()):
        assert line
    log = Log(busy / "log.jsonl")
    log.report(report(60))
    log.ended("finished")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    *_, news, end = out.decode().rstrip("\n").split("\n")
    assert news.startswith("step 60 ")
    assert end == "finished"
    assert b"\x1b" not in out


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def test_in_a_terminal_frames_follow_each_other_until_ctrl_c(busy: Path, terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    process = started(busy, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"eine Katze" not in shown:
        shown += os.read(ours, 10_000)
    Log(busy / "log.jsonl").report(report(60))
    while b"step 60" not in shown:
        shown += os.read(ours, 10_000)
    process.send_signal(signal.SIGINT)
    while process.poll() is None:
        try:
            shown += os.read(ours, 10_000)
        except OSError:  # the other side has gone
            time.sleep(0.05)
    assert process.returncode == 0
    assert b"Traceback" not in shown


@given(
    points=st.lists(st.tuples(st.integers(0, 1000), st.floats()), max_size=40, unique_by=lambda point: point[0]),
    width=st.integers(1, 40),
    height=st.integers(1, 8),
)
def test_a_braille_curve_is_as_wide_and_high_as_asked_and_has_no_gap(
    points: list[tuple[int, float]], width: int, height: int
) -> None:
    lines = braille(sorted(points), width=width, height=height, end=1000)
    assert [len(line) for line in lines] == [width] * height
    assert all(BLANK <= ord(character) < BLANK + 256 for line in lines for character in line)
    filled = [any(ord(line[column]) > BLANK for line in lines) for column in range(width)]
    drawn = [column for column, some in enumerate(filled) if some]
    assert drawn == (list(range(drawn[0], drawn[-1] + 1)) if drawn else [])


def test_a_straight_line_is_a_diagonal_of_dots() -> None:
    rising = braille([(0, 0.0), (3, 3.0)], width=2, height=1, end=3)
    assert rising == [chr(BLANK + 0x40 + 0x20) + chr(BLANK + 0x02 + 0x08)]
