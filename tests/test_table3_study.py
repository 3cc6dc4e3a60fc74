"""Table 3 made again: its rows at a smaller scale, its conclusions, and the study from end to end."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from transduce.config import Config, ModelConfig
from transduce.errors import CorpusError
from transduce.paper import table3 as study_of_rows
from transduce.paper.conclusions import (
    BROKEN,
    CONCLUSIONS,
    HIDDEN,
    HOLDS,
    STUDENT,
    UNKNOWN,
    Noise,
    Values,
    conclusions_table,
    judge,
)
from transduce.paper.corpora import Texts, at_most, longest, multi30k, phrasebook, read, write_pairs
from transduce.paper.longer import explain_cut, joined, longer_tests, median_length
from transduce.paper.result import Table
from transduce.paper.study import Study
from transduce.paper.table3 import Budget, table3
from transduce.paper.table3_rows import BASE, ROWS, Row, described, settings, small
from transduce.settings import load_config

WIDE = ("d_model", "d_ff", "d_k", "d_v", "encoder_layers", "decoder_layers", "num_heads")


def config(shape: dict[str, object]) -> ModelConfig:
    return ModelConfig.model_validate(shape)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_keeps_the_papers_ratio_to_base(row: Row) -> None:
    whole, scaled = (config({**BASE, **row.changes}), config(dict(small({**BASE, **row.changes}))))
    bases = config(dict(BASE)), config(dict(small(BASE)))
    for name in ("key_width", "value_width", *WIDE[:2], *WIDE[4:]):
        assert getattr(whole, name) / getattr(bases[0], name) == getattr(scaled, name) / getattr(bases[1], name), name
    assert (whole.dropout, whole.positions) == (scaled.dropout, scaled.positions)


def test_the_base_of_the_rows_is_the_papers_and_the_small_one_a_quarter_as_wide() -> None:
    assert config(dict(BASE)) == Config().model
    base = config(dict(small(BASE)))
    assert (base.encoder_layers, base.d_model, base.d_ff, base.num_heads, base.key_width) == (3, 128, 512, 8, 16)


def test_changes_are_written_in_the_papers_letters_and_read_as_settings() -> None:
    assert described(ROWS[1].changes) == "h=1, d_k=d_v=512"
    assert described(small(ROWS[7].changes)) == "N=1"
    assert described(ROWS[18].changes) == "learned positions"
    assert described(ROWS[16].recipe) == "eps_ls=0.0"
    for row in ROWS:
        given = load_config(settings=[*settings("model", row.changes), *settings("train", row.recipe)])
        assert {name: getattr(given.model, name) for name in row.changes} == row.changes
        assert {name: getattr(given.train, name) for name in row.recipe} == row.recipe


def test_the_quantiles_are_students() -> None:
    assert STUDENT[1] == pytest.approx(math.tan(math.pi * 0.45), abs=0.005)  # closed forms exist for 1, 2 and 4
    assert STUDENT[2] == pytest.approx(0.9 * math.sqrt(2 / (1 - 0.9**2)), abs=0.005)
    alpha = 4 * 0.95 * 0.05
    q = math.cos(math.acos(math.sqrt(alpha)) / 3) / math.sqrt(alpha)
    assert STUDENT[4] == pytest.approx(2 * math.sqrt(q - 1), abs=0.005)


def test_the_margin_is_for_a_mean_of_seeds_against_one_training() -> None:
    base = Values((24.0, 25.0, 26.0))
    noise = Noise.of(base)
    assert noise == Noise(1.0, 2)
    assert noise is not None
    assert noise.margin(base, Values((20.0,))) == pytest.approx(2.92 * math.sqrt(1 / 3 + 1))
    assert Noise.of(Values((24.0,))) is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(20.0, 30.0, HOLDS), (30.0, 20.0, BROKEN), (25.0, 25.5, HIDDEN), (25.5, 25.0, HIDDEN)],
)
def test_a_difference_counts_only_beyond_noise(low: float, high: float, verdict: str) -> None:
    rows = {"low": Values((low,)), "high": Values((high,))}
    assert judge([("high", "low")], [], rows, Noise(1.0, 2)) == verdict


def test_one_broken_comparison_breaks_a_conclusion_and_one_hidden_one_hides_it() -> None:
    rows = {"a": Values((1.0,)), "b": Values((20.0,)), "c": Values((20.5,))}
    noise = Noise(1.0, 2)
    assert judge([("b", "a"), ("c", "a")], [], rows, noise) == HOLDS
    assert judge([("b", "a"), ("c", "b")], [], rows, noise) == HIDDEN
    assert judge([("c", "b"), ("a", "b")], [], rows, noise) == BROKEN
    assert judge([], [("b", "c")], rows, noise) == HOLDS
    assert judge([], [("a", "c")], rows, noise) == BROKEN
    assert judge([("b", "missing")], [], rows, noise) == judge([("b", "a")], [], rows, None) == UNKNOWN


def test_of_its_conclusions_the_papers_own_table_breaks_one_by_bleu() -> None:
    table = conclusions_table({}, {})
    assert [row[1:3] for row in table.rows] == [[UNKNOWN, UNKNOWN]] * len(CONCLUSIONS)
    assert {row[3] for row in table.rows} == {HOLDS}
    assert [row[0] for row in table.rows if row[4] == BROKEN] == ["(C) deeper is better"]  # N=8 has 25.5, base 25.8


def test_every_conclusion_is_about_rows_that_exist() -> None:
    names = {row.name for row in ROWS}
    for conclusion in CONCLUSIONS:
        pairs = (*conclusion.by_perplexity, *conclusion.by_bleu, *conclusion.alike)
        assert pairs
        assert all({first, second} <= names for first, second in pairs)


def test_joined_pairs_are_neighbours_and_leftovers_are_left_out() -> None:
    pairs = [("a b", "A"), ("c", "C"), ("d", "D"), ("e", "E"), ("f", "F")]
    assert joined(pairs, 2) == [("a b c", "A C"), ("d e", "D E")]
    assert joined(pairs, 3) == [("a b c d", "A C D")]


def test_no_pair_of_the_longer_tests_is_as_short_as_the_training_pairs(tmp_path: Path) -> None:
    texts = phrasebook(tmp_path, train=200, valid=30)
    words = median_length(read(texts.train))
    short = read(at_most(texts, words, tmp_path).train)
    assert 0.4 * 200 < len(short) < 200
    assert max(map(longest, short)) == words
    tests = {name: read(sides) for name, sides in longer_tests(texts, words, tmp_path)}
    names = list(tests)
    assert max(map(longest, tests[names[0]])) <= words
    assert min(map(longest, tests[names[1]])) > words
    assert not set(tests[names[1]]) & set(short)


def test_the_phrasebook_is_written_once(tmp_path: Path) -> None:
    texts = phrasebook(tmp_path, train=5, valid=2)
    assert [len(read(sides)) for sides in (texts.train, texts.valid)] == [5, 2]
    times = [path.stat().st_mtime_ns for path in texts.train]
    assert phrasebook(tmp_path, train=5, valid=2) == texts
    assert [path.stat().st_mtime_ns for path in texts.train] == times
    assert multi30k(tmp_path) is None


def test_the_papers_scale_asks_for_wmt14(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"wmt14-en-de/train\.eng: no such file: .* mtdata get "):
        table3(Study(scale="paper", work=tmp_path / "work", data=tmp_path))


SOME = [ROWS[0], Row("A h=1", {"num_heads": 1}, 5.29, 24.9, recipe={"learning_rate": 1e30}), ROWS[18]]
SMALLER = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "d_ff": 64, "num_heads": 4}
TINY = (
    "text.vocabulary=300",
    "train.batch_tokens=300",
    "train.micro_batch_tokens=300",
    "train.warmup_steps=4",
    "train.threads=1",
    "search.beam=1",
    "search.extra_length=1",
)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows, one of which cannot be trained, of two updates each."""
    monkeypatch.setattr(study_of_rows, "ROWS", SOME)
    monkeypatch.setattr(study_of_rows, "ON_TWO_CORES", TINY)
    monkeypatch.setattr(study_of_rows, "BASE", SMALLER)
    monkeypatch.setattr(study_of_rows, "SEEDS", (1, 2))
    monkeypatch.setattr(study_of_rows, "PHRASES", 40)
    monkeypatch.setattr(study_of_rows, "BUDGETS", {"tiny": Budget(2, big=3)})
    monkeypatch.setattr(study_of_rows, "cores", lambda: 1)

    def texts(directory: Path, *, train: int, valid: int) -> Texts:
        return phrasebook(directory, train=train, valid=4)

    monkeypatch.setattr(study_of_rows, "phrasebook", texts)


@pytest.mark.usefixtures("few")
def test_the_study_trains_its_rows_shows_what_failed_and_is_done_once(tmp_path: Path) -> None:
    study = Study(work=tmp_path / "work", data=tmp_path)
    result = table3(study)
    page = result.write(tmp_path / "page", "made by a test").read_text(encoding="utf-8")
    with (tmp_path / "page" / "table3.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["row"]: row for row in csv.DictReader(file)}
    assert list(rows) == [row.name for row in SOME]
    assert " ± " in rows["base"]["PPL"]
    assert rows["base"]["updates"] == "2"
    assert rows["A h=1"]["PPL"].startswith("1 failed: ")
    assert "diverged" in rows["A h=1"]["PPL"]
    assert rows["E learned positions"]["here"] == "learned positions"
    assert (tmp_path / "page" / "table3-rows.svg").is_file()
    tables = {part.name: part for part in result.parts if isinstance(part, Table)}
    verdicts = {row[0]: row[1] for row in tables["conclusions"].rows}
    assert verdicts["(A) a single head is worse than 8"] == UNKNOWN
    assert verdicts["(E) learned positions are nearly as good as sinusoids"] in (HOLDS, BROKEN)
    assert len(tables["longer"].rows) == 4
    assert "Positions beyond the longest sentence" in page
    done = sorted((tmp_path / "work" / "table3" / "tiny").glob("*.json"))
    assert len(done) == 2 + 1 + 2
    times = [path.stat().st_mtime_ns for path in done]
    assert table3(study).markdown("") == result.markdown("")
    assert [path.stat().st_mtime_ns for path in done] == times


def test_the_page_says_which_pairs_were_short_enough(tmp_path: Path) -> None:
    lengths = (3, 5, 5, 5, 9)
    train = write_pairs(tmp_path / "train", [(" ".join("a" * length), "b") for length in lengths])
    assert "on 4 of the 5 training pairs, 80%: those whose longer side has at most 5 words" in explain_cut(train)
