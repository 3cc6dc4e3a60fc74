"""report.html: one file that needs nothing else, says what the log says, and lets no text become markup."""

from __future__ import annotations

import errno
import itertools
import math
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import transduce
from transduce.config import Config
from transduce.data.preparation import recall
from transduce.train.history import History
from transduce.train.progress import Listeners, Report, Sample, Validation, told
from transduce.train.recorders import recorders
from transduce.train.report_curves import (
    LARGEST,
    Curve,
    curves_svg,
    linear,
    linear_ticks,
    log_ticks,
    logarithmic,
    short,
)
from transduce.train.report_page import SHOWN, render

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>&amp;\x00\x1b[31m\u2028\ud800'
SVG = "{http://www.w3.org/2000/svg}"

values = st.floats(min_value=-1e12, max_value=1e12, allow_subnormal=False)
positive = st.floats(min_value=1e-12, max_value=1e12)


def report(step: int, value: float = 1.0) -> Report:
    return Report(step, 0, value, value, 0.5, value, value, float(step), None, None)


class Page(HTMLParser):
    """The tags of a page in order, every attribute's value, and the text outside of tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A run that has only just begun."""
    (tmp_path / "config.toml").write_text('preset = "tiny"\n', encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def written(run: Path) -> str:
    """The page of a trained run."""
    ran = transduce("watch", run, "--report")
    assert (ran.code, ran.lines, ran.err) == (0, [str(run / "report.html")], "")
    return (run / "report.html").read_text(encoding="utf-8")


def test_the_page_of_a_run_shows_curves_samples_corpus_and_configuration(written: str, run: Path) -> None:
    for title in ("Loss", "Perplexity", "BLEU", "Learning rate", "Tokens a second"):
        assert f"<figcaption>{title}" in written
    page = Page(written)
    assert page.tags.count("svg") == 5
    assert f"training pairs{len(recall(run).train):,}" in page.text
    assert "en to de" in page.text
    assert (run / "config.toml").read_text(encoding="utf-8") in page.text
    assert "wrote " in page.text


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(written: str) -> None:
    page = Page(written)
    assert {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags) == set()
    names = {name for name, _ in page.attributes}
    assert {"src", "href", "action", "style"} & names == set()
    assert [name for name in names if name.startswith("on")] == []
    assert "default-src 'none'" in written
    assert re.findall(r"url\(|@import", written) == []
    assert set(re.findall(r"https?://[^\s\"]+", written)) <= {"http://www.w3.org/2000/svg"}  # a name, not a place


def test_every_picture_is_well_formed_and_stays_inside_its_frame(written: str) -> None:
    for picture in re.findall(r"<svg.*?</svg>", written, re.DOTALL):
        root = ElementTree.fromstring(picture)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for line in root.iter(f"{SVG}polyline"):
            for point in line.attrib["points"].split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_no_text_becomes_markup(place: Path) -> None:
    (place / "config.toml").write_text(f"# {HOSTILE[:-1]}\n", encoding="utf-8")
    history = History()
    sample = {"source": HOSTILE, "reference": HOSTILE, "translation": HOSTILE}
    numbers = {"perplexity": 2.0, "bleu": 1.0, "seconds": 1.0}
    history.add({"event": "validation", "time": 1.0, "step": 1, "samples": [sample], **numbers})
    for kind in ("note", "warning"):
        history.add({"event": kind, "time": 2.0, "message": HOSTILE})
    history.add({"event": "start", "time": 3.0, "environment": {HOSTILE: HOSTILE}})
    history.add({"event": "end", "time": 4.0, "outcome": HOSTILE})
    run = place / '"><script>'
    run.mkdir()
    (place / "config.toml").rename(run / "config.toml")
    page = Page(render(run, history).encode().decode())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert [value for _, value in page.attributes if value and "alert" in value] == []
    assert page.text.count("<script>alert(1)</script>") >= 10
    assert not re.search(r"[\x00\x1b]", page.text)


def test_a_run_without_a_report_has_a_page(place: Path) -> None:
    page = Page(render(place, History()))
    assert "No report yet." in page.text
    assert "svg" not in page.tags


def test_the_page_is_written_after_each_validation_and_at_the_end(place: Path) -> None:
    path = place / "report.html"
    listener = Listeners(*recorders(place, Config().train))
    with told(listener, place, Config()):
        listener.report(report(1))
        assert not path.exists()
        listener.validated(Validation(1, 3.5, 12.25, (Sample("a", "b", "c"),), 1.0))
        first = path.read_text(encoding="utf-8")
        assert "12.25" in first
        assert "<p>training" in first
    assert "<p>finished" in path.read_text(encoding="utf-8")
    assert sorted(each.name for each in place.iterdir()) == ["config.toml", "log.jsonl", "report.html"]


def test_a_page_that_cannot_be_written_costs_the_page_and_not_the_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    listener = Listeners(*recorders(place, Config().train))
    with told(listener, place, Config()):
        listener.validated(Validation(1, 3.5, 12.25, (), 1.0))
    log = (place / "log.jsonl").read_text(encoding="utf-8")
    assert "ReportPage failed and is told no more: OSError: [Errno 28] No space left on device" in log
    assert '"outcome": "finished"' in log
    assert sorted(each.name for each in place.iterdir()) == ["config.toml", "log.jsonl"]


def test_a_sample_shows_only_changes_and_not_too_many(place: Path) -> None:
    said = ["a"] * 3 + [f"b{number}" for number in range(40)]
    history = History(validations=[
        Validation(step, 2.0, 1.0, (Sample("s", "r", text),), 1.0) for step, text in enumerate(said, start=1)
    ])  # fmt: skip
    cells = re.findall(r"<th>([\d,]+)</th><td[^>]*>(\w+)</td>", render(place, history))
    assert len(cells) == SHOWN
    assert cells[0] == ("1", "a")
    assert cells[-1] == ("43", "b39")
    assert f"{SHOWN} of 41 changes" in render(place, history)


@given(low=values, high=values)
def test_linear_ticks_span_the_values_evenly(low: float, high: float) -> None:
    low, high = sorted((low, high))
    ticks = linear_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    slack = 1e-6 * max(abs(low), abs(high), 1e-300)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-3, abs_tol=slack) for step in steps)


@given(low=positive, high=positive)
def test_log_ticks_are_round_and_span_the_values(low: float, high: float) -> None:
    low, high = sorted((low, high))
    ticks = log_ticks(low, high)
    assert ticks == sorted(ticks)
    assert ticks[0] <= low * (1 + 1e-9)
    assert ticks[-1] >= high * (1 - 1e-9)
    assert {f"{tick:.3e}"[:5] for tick in ticks} <= {"1.000", "2.000", "5.000"}


@given(points=st.lists(st.tuples(st.integers(0, 10**6), st.floats()), max_size=30), log=st.booleans())
def test_any_numbers_give_a_picture_or_none(points: list[tuple[int, float]], log: bool) -> None:
    picture = curves_svg("t", [Curve("training", sorted(points))], logarithmic if log else linear)
    drawable = [v for _, v in points if abs(v) <= LARGEST and (v >= 1 / LARGEST or not log)]
    assert bool(picture) == bool(drawable)
    if picture:
        text = ElementTree.tostring(ElementTree.fromstring(picture), encoding="unicode")
        assert "nan" not in text
        assert "inf" not in text


def test_a_long_curve_keeps_its_extremes_and_ends() -> None:
    points = [(step, math.sin(step / 50)) for step in range(20_000)]
    points[7777] = (7777, 9.0)
    picture = ElementTree.fromstring(curves_svg("t", [Curve("training", points)]))
    (line,) = picture.iter(f"{SVG}polyline")
    drawn = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(drawn) < 1000
    top = min(drawn, key=lambda point: point[1])
    assert math.isclose(top[0], drawn[0][0] + (drawn[-1][0] - drawn[0][0]) * 7777 / 19_999, abs_tol=0.2)


def test_numbers_are_said_in_three_digits() -> None:
    spoken = {0: "0", 2.5: "2.5", 123.456: "123", 1500: "1,500", 12_500: "12.5k", 3e6: "3M", 0.00012: "1.2e-4"}
    assert {value: short(value) for value in spoken} == spoken
