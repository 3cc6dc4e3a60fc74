"""Table 2: both costs, BLEU of given bundles, and the corpora that mtdata fetches."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from transduce.errors import CorpusError, MissingExtra
from transduce.paper import race, scores, table2, wmt
from transduce.paper.race import Race
from transduce.paper.result import Table
from transduce.paper.scores import find_sets, score_bundle
from transduce.paper.study import Study
from transduce.train.progress import Listener
from trials import SMALL

LINES = 12


class Recorder(Listener):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        self.warnings.append(message)


@pytest.fixture
def data(tmp_path: Path, phrasebook: Path) -> Path:
    """A test set that is called newstest2014, as it would lie there."""
    directory = tmp_path / "data" / "newstest2014"
    directory.mkdir(parents=True)
    for side, language in (("src", "en"), ("ref", "de")):
        lines = (phrasebook / f"valid.{language}").read_text(encoding="utf-8").split("\n")[:LINES]
        text = "".join(line + "\n" for line in lines)
        (directory / f"en-de.{side}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path / "data"


def test_the_papers_way_gives_the_papers_costs() -> None:
    (table,) = (part for part in table2._cost() if isinstance(part, Table))
    rows = {row[0]: row for row in table.rows}
    for name, printed, counted in (("base", "3.3e18", "9.5e17"), ("big", "2.3e19", "9.7e18")):
        row = rows[f"Transformer {name}"]
        assert row[2] == row[3] == printed
        assert row[4] == counted


def test_the_whole_of_the_papers_table_is_there() -> None:
    (table,) = (part for part in table2._paper() if isinstance(part, Table))
    assert len(table.rows) == 10
    assert list(table.rows[-1]) == ["Transformer big", "28.4", "41.8", "2.3e19", "2.3e19"]


def test_a_bundle_is_scored_by_both_bleus_once(
    data: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scored,) = score_bundle(bundle, data, tmp_path / "work", Listener())
    assert (scored.languages, scored.test_set, scored.lines) == ("en-de", "newstest2014", LINES)
    assert scored.bleu > 10
    assert "tok:13a" in scored.signature
    assert "moses-de+compounds" in scored.paper_signature
    monkeypatch.setattr(scores, "Translator", None)
    assert score_bundle(bundle, data, tmp_path / "work", Listener()) == [scored]


def test_a_bundle_without_a_test_set_is_named(tmp_path: Path, bundle: Path) -> None:
    heard = Recorder()
    assert score_bundle(bundle, tmp_path, tmp_path / "work", heard) == []
    assert [f"no test set for en-de in {tmp_path}" in warning for warning in heard.warnings] == [True]


def test_test_sets_are_those_of_the_languages(data: Path) -> None:
    assert [each.name for each in find_sets(data, "en", "de")] == ["newstest2014"]
    assert find_sets(data, "en", "fr") == find_sets(data, None, None) == []
    for name in (
        "multi30k/test_2016_flickr",
        "multi30k/test_2017_flickr",
        "multi30k/test_2017_mscoco",
        "tatoeba-en-de/test",
    ):
        for side in ("en", "de"):
            path = data / f"{name}.{side}.gz"
            path.parent.mkdir(exist_ok=True)
            path.touch()
    for name, other in (("newstest2013", "de"), ("newstest2017", "de"), ("newstest2014", "fr")):
        (data / name).mkdir(exist_ok=True)
        for file in ("src.en", f"ref.{other}"):
            (data / name / f"en-{other}.{file}.gz").touch()
    news, others = ["newstest2013", "newstest2014", "newstest2017"], ["Multi30k 2016", "Multi30k 2017", "Multi30k COCO"]
    assert [each.name for each in find_sets(data, "en", "de")] == [*news, *others, "Tatoeba"]
    assert [each.name for each in find_sets(data, "de", "en")] == [*others, "Tatoeba"]
    assert find_sets(data, "de", "en")[-1].source == data / "tatoeba-en-de" / "test.de.gz"
    assert [each.name for each in find_sets(data, "en", "fr")] == ["newstest2014"]


def test_the_study_ends_with_a_page_and_does_not_train_twice(
    data: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = Race("tiny", minutes=60, marks=1, settings=(*SMALL, "train.steps=2"))
    monkeypatch.setitem(table2.RACES, "tiny", contest)
    monkeypatch.setattr(race, "PHRASES", {"train": 300, "valid": 20, "test": 10})
    study = Study(work=tmp_path / "work", data=data, bundles=(bundle,))
    result = table2.table2(study)
    page = result.write(tmp_path / "page", "made here").read_text(encoding="utf-8")
    for part in ("ByteNet", "27.3", "3.3e18", "the embedded phrasebook", "newstest2014", "mtdata get -l eng-deu"):
        assert part in page
    assert {path.name for path in (tmp_path / "page").glob("*.csv")} == {
        f"table2-{name}.csv" for name in ("paper", "bleu", "cost", "recipes", "race", "test")
    }
    monkeypatch.setattr(race, "Trainer", None)
    monkeypatch.setattr(race, "RecurrentTrainer", None)
    assert table2.table2(study).markdown("made here") == page


def stand_in(directory: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A module that is called mtdata, found before any other, here and in processes that are started."""
    package = directory / "packages" / "mtdata"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "__main__.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.delitem(sys.modules, "mtdata", raising=False)


WRITES = """
import pathlib, sys
arguments = sys.argv[1:]
out = pathlib.Path(arguments[arguments.index("-o") + 1])
out.mkdir(parents=True)
(out / "arguments").write_text("\\n".join(arguments))
for part in ("train", "dev", "test1"):
    for language in arguments[arguments.index("-l") + 1].split("-"):
        (out / f"{part}.{language}").write_text("a line\\n")
"""


def test_corpora_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, WRITES)
    out = tmp_path / "wmt14-en-fr"
    fetched = wmt.fetch("en-fr", out)
    assert fetched.missing() == []
    assert [path.name for path in fetched.train] == ["train.eng", "train.fra"]
    assert (out / "arguments").read_text(encoding="utf-8").split("\n") == wmt.arguments("en-fr", out)[1:]
    (out / "arguments").unlink()
    assert wmt.fetch("en-fr", out) == fetched
    assert not (out / "arguments").exists()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("raise SystemExit(3)", "mtdata ended with exit code 3: is there internet.*mtdata get -l eng-deu"),
        ("", "train.eng: mtdata did not write it.*mtdata get -l eng-deu"),
    ],
)
def test_what_mtdata_could_not_do_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    stand_in(tmp_path, monkeypatch, program)
    with pytest.raises(CorpusError, match=message):
        wmt.fetch("en-de", tmp_path / "out")


def test_without_mtdata_the_papers_scale_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wmt, "find_spec", lambda name: None)
    study = Study(scale="paper", work=tmp_path / "work", data=tmp_path)
    with pytest.raises(MissingExtra, match=r"pip install '.\[fetch\]' brings it; it would run: mtdata get -l eng-deu"):
        table2.table2(study)


def test_the_commands_of_the_page_name_the_files_that_are_fetched() -> None:
    page = "\n".join(part for part in table2._commands() if isinstance(part, str))
    for pair in ("en-de", "en-fr"):
        found = wmt.locate(pair, Path(f"wmt14-{pair}"))
        assert f"--source {found.train[0]} --target {found.train[1]}" in page
        assert f"--out {found.train[0].parent}/" not in page  # a run needs a directory of its own
    assert page.count("torchrun") == len(table2.RECIPES)


def test_a_run_on_fetched_text_knows_its_languages(tmp_path: Path) -> None:
    from transduce.settings import load_config

    fetched = wmt.locate("en-de", tmp_path)
    data = load_config(preset="wmt14-en-de", settings=wmt.settings("en-de", fetched)).data
    assert (data.source_lang, data.target_lang) == ("en", "de")
    assert data.valid_target == (str(tmp_path / "dev.deu"),)
