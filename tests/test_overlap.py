"""Parts that overlap come back in order, and nothing is left running when one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from short_phrases import short_phrases
from transduce import Translator
from transduce.decode.overlap import UNDER_WAY, overlapped

Wanted = Callable[[], None]


def test_results_come_in_the_order_of_their_parts() -> None:
    first_may_end = threading.Event()

    def work(part: int, wanted: Wanted) -> int:
        if part == 0:
            assert first_may_end.wait(60)
        else:
            first_may_end.set()  # a later part runs while the first is under way
        return part * part

    assert list(overlapped(range(5), work)) == [(part, part * part) for part in range(5)]


def test_no_more_parts_are_made_than_are_needed() -> None:
    made = []

    def parts():  # type: ignore[no-untyped-def]
        for part in count():
            made.append(part)
            yield part

    found = overlapped(parts(), lambda part, wanted: part)
    assert next(found) == (0, 0)
    found.close()
    assert len(made) == UNDER_WAY + 1


def test_a_part_that_fails_ends_the_others() -> None:
    others = []

    def work(part: int, wanted: Wanted) -> None:
        if part == 0:
            raise ValueError("the first")
        others.append(part)
        while True:  # until it is told that nobody waits for it
            wanted()

    with pytest.raises(ValueError, match="the first"):
        list(overlapped(range(9), work))
    assert len(others) <= UNDER_WAY


def test_lines_in_parts_are_translated_as_in_one(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [phrase.source for phrase in short_phrases("test", 400)][:60]
    lines[7], lines[11] = "", "the dog " * 700
    said: list[str] = []
    translator = Translator.load(bundle, engine="ctranslate2", warn=said.append)
    whole = [each.text for each in translator.translate(lines)]
    warned, said[:] = said[:], []
    monkeypatch.setattr(translator.engine, "part", 8)
    parts = [each.text for each in translator.translate(lines)]
    assert sum(a == b for a, b in zip(whole, parts, strict=True)) >= 59  # a near tie may be decided otherwise
    assert parts[7] == ""
    assert said == warned
    assert "line 12: " in warned[0]


def test_a_stop_between_batches_stops_all_parts(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.load(bundle, engine="ctranslate2")
    monkeypatch.setattr(translator.engine, "part", 2)

    def stop() -> None:
        raise KeyboardInterrupt

    translator.between = stop
    with pytest.raises(KeyboardInterrupt):
        translator.translate(["the dog sleeps"] * 20)
