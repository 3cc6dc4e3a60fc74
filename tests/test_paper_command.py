"""`transduce paper`: which parts are made, what is written, and what a part that fails does to the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.cli import app, paper
from transduce.cli.paper import PARTS, choose, load
from transduce.errors import UserError
from transduce.paper.result import Result, Table
from transduce.paper.study import Study


def test_parts_are_made_once_each_the_quick_ones_first() -> None:
    assert choose(["table3", "figure1", "table3"]) == ["figure1", "table3"]
    assert choose(["all"]) == choose(["all", "table1"]) == list(PARTS)


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(UserError, match="no part table5: choose from table1, "):
        choose(["table1", "table5"])


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_function_of_its_name(part: str) -> None:
    assert load(part).__name__ == part


def test_a_part_that_fails_is_told_of_and_the_others_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def study_of(part: str):  # type: ignore[no-untyped-def]
        def study(given: Study) -> Result:
            if part == "figure1":
                raise UserError("no such bundle")
            return Result(part, part.title(), f"at {given.scale}", [Table(part, ["a"], [["1"]])])

        return study

    monkeypatch.setattr(paper, "load", study_of)
    command = ["paper", "figure1", "table1", "--out", str(tmp_path), "--scale", "small"]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == "figure1: no such bundle"
    text = (tmp_path / "table1.md").read_text(encoding="utf-8")
    assert "Made by `transduce paper table1 --scale small` on " in text
    assert result.stdout.strip() == text.strip()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table1.csv", "table1.md"]
