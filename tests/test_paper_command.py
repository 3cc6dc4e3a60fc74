"""`transduce paper`: which parts are made, what is written, and what a part that fails does to the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from random_bundle import random_bundle
from transduce.cli import app, paper
from transduce.cli.paper import PARTS, choose, load
from transduce.errors import BundleError, UserError
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


def made_of(failing: dict[str, Exception]) -> Callable[[str], Callable[[Study], Result]]:
    """Parts that are a table, and some that fail."""

    def study_of(part: str) -> Callable[[Study], Result]:
        def study(given: Study) -> Result:
            if part in failing:
                raise failing[part]
            models = ", ".join(path.name for path in given.bundles)
            return Result(part, part.title(), f"at {given.scale}, of {models}", [Table(part, ["a"], [["1"]])])

        return study

    return study_of


def test_a_part_that_fails_is_told_of_and_the_others_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = {"figure1": UserError("no such bundle"), "table2": OSError(28, "No space left on device")}
    monkeypatch.setattr(paper, "load", made_of(failing))
    command = ["paper", "figure1", "table1", "table2", "table3", "--out", str(tmp_path), "--scale", "small"]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, UserError)
    assert str(result.exception) == "figure1: no such bundle; table2: [Errno 28] No space left on device"
    text = (tmp_path / "table1.md").read_text(encoding="utf-8")
    assert "Made by `transduce paper table1 --scale small`, written on " in text
    assert result.stdout.startswith(text.strip())
    names = [f"{part}.{suffix}" for part in ("table1", "table3") for suffix in ("csv", "md")]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_page_that_cannot_be_written_does_not_end_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "load", made_of({}))
    (tmp_path / "table1.md").mkdir()
    result = CliRunner().invoke(app, ["paper", "table1", "table3", "--out", str(tmp_path)])
    assert "table1: " in str(result.exception)
    assert (tmp_path / "table3.md").is_file()


@pytest.fixture
def parser(tmp_path: Path) -> Path:
    random_bundle(tmp_path / "parser", tying="target", outputs="(S )S XX")
    return tmp_path / "parser"


def test_each_part_gets_the_models_that_it_fits(
    bundle: Path, parser: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "load", made_of({}))
    out = tmp_path / "out"
    given = [f"--model={bundle}", f"--model={parser}"]
    assert CliRunner().invoke(app, ["paper", "all", "--out", str(out), *given]).exit_code == 0
    pages = {part: (out / f"{part}.md").read_text(encoding="utf-8") for part in PARTS}
    both = f"of {bundle.name}, parser"
    assert all(both in pages[part] for part in ("figure1", "figure2"))
    assert all(f"of {bundle.name}\n" in pages[part] for part in ("table2", "figure3", "figure4", "figure5"))
    assert "of parser\n" in pages["table4"]


def test_a_model_that_fits_no_part_asked_for_is_refused_and_with_all_the_part_has_its_own(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "load", made_of({}))
    out = tmp_path / "out"
    named = CliRunner().invoke(app, ["paper", "table1", "table4", "--out", str(out), f"--model={bundle}"])
    assert "table4: " in str(named.exception)
    assert "not a parser: give a model trained on trees, or leave --model out" in str(named.exception)
    assert not out.exists()  # before anything was made
    assert CliRunner().invoke(app, ["paper", "all", "--out", str(out), f"--model={bundle}"]).exit_code == 0
    assert "of \n" in (out / "table4.md").read_text(encoding="utf-8")


def test_a_model_that_is_not_there_is_found_out_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "load", made_of({}))
    result = CliRunner().invoke(app, ["paper", "all", "--out", str(tmp_path / "out"), f"--model={tmp_path / 'none'}"])
    assert isinstance(result.exception, BundleError)
    assert not (tmp_path / "out").exists()
