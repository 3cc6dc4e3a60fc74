"""A study's result: the page, its tables and its pictures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study, shared_data

TABLE = Table("rows", ["row", "BLEU", "paper"], [["a | b", "24.9", "25.8"], ["c, d", "+0.1", ""]])


def test_the_csv_holds_every_cell(tmp_path: Path) -> None:
    Result("table9", "Table 9", "scope", [TABLE]).write(tmp_path, "origin")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [list(TABLE.heading), *map(list, TABLE.rows)]


def test_columns_of_numbers_stand_on_the_right_and_bars_in_cells_are_escaped() -> None:
    head, rule, first, _ = TABLE.markdown().split("\n")
    assert head == "| row | BLEU | paper |"
    assert rule == "|---|---:|---:|"
    assert first == "| a \\| b | 24.9 | 25.8 |"


def test_the_page_has_everything_in_order(tmp_path: Path) -> None:
    picture = Picture("curve", "A curve", "<svg/>")
    page = Result("table9", "Table 9", "scope", ["before", TABLE, picture, "after"]).write(tmp_path, "made today")
    text = page.read_text(encoding="utf-8")
    places = [text.index(part) for part in ("# Table 9", "scope", "before", "| row", "(curve.svg)", "after", "made")]
    assert places == sorted(places)
    assert (tmp_path / "curve.svg").read_text(encoding="utf-8") == "<svg/>"


def test_a_row_of_another_width_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="rows: 1 cells below 2 headings"):
        Table("rows", ["a", "b"], [["1"]])


def test_corpora_are_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRANSDUCE_DATA", str(tmp_path))
    assert shared_data() == Study().data == tmp_path
