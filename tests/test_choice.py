"""Which preset is chosen for a corpus and a budget, and why."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce import Trainer
from transduce.data.batching import Batching
from transduce.settings import load_config, presets
from transduce.train import calibration, choice
from transduce.train.choice import (
    FEW_EPOCHS,
    TABLE,
    Row,
    Size,
    budget_in_words,
    choose_preset,
    recommended_updates,
    settings_of,
    suitable,
)
from transduce.train.start import keys_of
from trials import SMALL, Recorder

SMALLER_FIRST = list(dict.fromkeys(row.preset for row in TABLE))


def test_the_largest_preset_that_gets_the_updates_it_needs_is_chosen() -> None:
    needs = {row.preset: row.needs for row in TABLE}
    enough = {"base": needs["base"] - 1, "small": needs["small"], "tiny": 10**9}
    chosen, why = choose_preset(3_000_000, enough.__getitem__, "90 minutes")
    assert chosen == "small"
    assert why == (
        f"3,000,000 pairs, 90 minutes: about {needs['small']:,} updates here; "
        f"base would get {needs['base'] - 1:,} of the {needs['base']:,} it needs"
    )


def test_the_smallest_is_taken_where_none_gets_enough_and_says_so() -> None:
    chosen, why = choose_preset(300_000, {"small": 3, "tiny": 40}.__getitem__, "1 minutes")
    assert chosen == "tiny"
    assert "about 40 updates here of the 1,200 it needs; small would get 3 of the 4,000 it needs" in why


@given(st.integers(0, 10**7), st.lists(st.integers(0, 50_000), min_size=3, max_size=3))
def test_no_preset_is_chosen_against_the_table(pairs: int, numbers: list[int]) -> None:
    got = dict(zip(SMALLER_FIRST, numbers, strict=True))
    rows = suitable(pairs)
    chosen, why = choose_preset(pairs, got.__getitem__, "a budget")
    assert f"{pairs:,} pairs" in why
    assert rows[chosen].pairs <= pairs
    enough = [name for name, row in rows.items() if got[name] >= row.needs]
    assert chosen == (enough[-1] if enough else SMALLER_FIRST[0])


def test_where_one_preset_is_left_nothing_is_tried_out() -> None:
    def updates(preset: str) -> int:
        raise AssertionError(f"{preset} was tried out")

    assert choose_preset(28_998, updates, "15 minutes") == ("tiny", "28,998 pairs are fewer than 200,000")


def test_without_a_budget_the_number_of_pairs_decides() -> None:
    assert choose_preset(2_000_000) == ("base", "2,000,000 pairs are at least 2,000,000")


def test_larger_presets_want_more_pairs_and_more_updates() -> None:
    assert TABLE[0].pairs == 0
    assert [row.pairs for row in TABLE] == sorted({row.pairs for row in TABLE})
    assert [row.needs for row in TABLE] == sorted(row.needs for row in TABLE)
    sizes = [load_config(preset=name).model.d_model for name in SMALLER_FIRST]
    assert sizes == sorted(set(sizes))


def test_no_preset_is_chosen_whose_warm_up_would_be_shortened() -> None:
    for row in TABLE:
        assert row.needs >= calibration.WARMUPS * load_config(preset=row.preset).train.warmup_steps


def test_every_setting_of_the_table_is_one() -> None:
    for row in TABLE:
        config = load_config(preset=row.preset, settings=[*row.settings, *row.few])
        for setting in (*row.settings, *row.few):
            section, key, value = re.split("[.=]", setting, maxsplit=2)
            assert str(getattr(getattr(config, section), key)) == value


def test_the_documentation_has_the_table() -> None:
    page = (Path(__file__).parent.parent / "docs" / "planning.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([\d,]+) \| (\w+) \| ([\d,]+) \| (?:`(.*)` )?\| (?:`(.*)` )?\|$", page, re.MULTILINE)
    rows = [
        (f"{row.pairs:,}", row.preset, f"{row.needs:,}", ", ".join(row.settings), ", ".join(row.few)) for row in TABLE
    ]
    assert found == rows
    assert f"fewer than {FEW_EPOCHS} epochs" in page


def test_what_a_file_sets_stays_set(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row(0, "tiny", 1, ("text.vocabulary=1000",), ("model.dropout=0.1",))
    monkeypatch.setattr(choice, "TABLE", (row,))
    assert settings_of("tiny", 5, 1.0) == [*row.settings, *row.few]
    assert settings_of("tiny", 5, 1.0, {"text.vocabulary", "train.seed"}) == list(row.few)
    assert settings_of("tiny", 5, 1.0, {"model.dropout"}) == list(row.settings)


@pytest.mark.parametrize("preset", presets())
def test_a_file_that_says_all_sets_what_it_says_otherwise_than_its_preset(tmp_path: Path, preset: str) -> None:
    """`transduce config` prints such files; what it does not set is still fitted to the budget."""
    path = tmp_path / "all.toml"
    settings = ["train.minutes=20", 'data.source=["a.en"]', 'data.target=["a.de"]', "model.word_dropout=0.5"]
    path.write_text(load_config(preset=preset, settings=settings).to_toml(), encoding="utf-8")
    assert keys_of(path) == {"train.minutes", "data.source", "data.target", "model.word_dropout"}
    path.write_text("[train]\nwarmup_steps = 4000\nsteps = 5\n", encoding="utf-8")
    assert keys_of(path) == {"train.warmup_steps", "train.steps"}
    assert keys_of(None) == set()


@pytest.mark.parametrize("epochs", [None, FEW_EPOCHS - 0.1, FEW_EPOCHS, FEW_EPOCHS + 1])
def test_few_epochs_have_little_dropout(epochs: float | None) -> None:
    few = epochs is not None and epochs < FEW_EPOCHS
    for row in TABLE:
        config = load_config(preset=row.preset, settings=settings_of(row.preset, row.pairs, epochs))
        assert config.model.dropout == (0.1 if few else load_config(preset=row.preset).model.dropout)


@pytest.mark.parametrize(
    ("budget", "dropout", "told"),
    [
        (["train.epochs=2"], 0.1, f"; about 2.0 epochs, fewer than {FEW_EPOCHS}; sets model.dropout=0.1"),
        (["train.epochs=100"], 0.3, "; about 100.0 epochs"),
        (["train.epochs=2", "model.dropout=0.2"], 0.2, f"; about 2.0 epochs, fewer than {FEW_EPOCHS}"),
        ([], 0.3, "300 pairs are fewer than 1,000"),
    ],
)
def test_training_has_the_dropout_that_its_epochs_ask_for(
    tmp_path: Path, small_corpus: Path, budget: list[str], dropout: float, told: str
) -> None:
    heard = Recorder()
    settings = [*budget, "text.vocabulary=400"]
    trainer = Trainer(tmp_path / "run", **sides(small_corpus), settings=settings, listener=heard)
    assert trainer.config.model.dropout == dropout
    (choice,) = (line for line in heard.said if line.startswith("preset tiny"))
    assert choice.endswith(told)


def test_a_budget_is_told_by_its_limits() -> None:
    train = load_config(settings=["train.minutes=2.5", "train.epochs=3", "train.steps=100000"]).train
    assert budget_in_words(train) == "2.5 minutes or 100,000 updates or 3 epochs"
    assert budget_in_words(load_config().train) == ""


def test_recommended_are_the_papers_updates_and_the_like() -> None:
    assert recommended_updates(load_config(preset="base").train) == 100_000
    assert recommended_updates(load_config(preset="wmt14-en-de-big").train) == 300_000
    for preset in presets():
        train = load_config(preset=preset).train
        assert recommended_updates(train) >= calibration.WARMUPS * train.warmup_steps
    for row in TABLE:
        assert recommended_updates(load_config(preset=row.preset).train) >= row.needs


@pytest.mark.parametrize(("source", "target"), [(10, 20), (20, 10), (16, 16)])
def test_updates_are_counted_as_batches_are_cut(source: int, target: int) -> None:
    train = load_config(settings=["train.batch_tokens=800", "train.micro_batch_tokens=400"]).train
    batching = Batching(np.full(1000, source), np.full(1000, target), 800, 400, seed=1)
    size = Size(1000, source, target)
    assert size.updates_per_epoch(train) == batching.updates_per_epoch
    first = batching.epoch(0)[0]
    assert size.tokens_an_update(train) == sum(target * len(cut) for cut in first)


def test_a_corpus_smaller_than_an_update_is_one_update() -> None:
    train, size = load_config().train, Size(50, 10, 12)
    assert (size.updates_per_epoch(train), size.tokens_an_update(train)) == (1, 50 * 12)


def two_presets(monkeypatch: pytest.MonkeyPatch, *, speed: float) -> None:
    """A table in which 300 pairs have a choice, on a machine of this speed."""
    monkeypatch.setattr(choice, "TABLE", (Row(0, "tiny", 20), Row(100, "small", 40)))
    monkeypatch.setattr(calibration, "tokens_per_second", lambda config, size: speed)


def sides(corpus: Path) -> dict[str, Path]:
    return {"source": corpus / "train.en", "target": corpus / "train.de"}


@pytest.mark.parametrize(
    ("speed", "budget", "preset"),
    [
        (10.0, "train.minutes=1", "tiny"),
        (1e6, "train.minutes=1", "small"),
        (10.0, "train.steps=39", "tiny"),
        (10.0, "train.steps=40", "small"),
        (10.0, "train.seed=1", "small"),
    ],
)
def test_training_takes_the_preset_that_fits(
    tmp_path: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch, speed: float, budget: str, preset: str
) -> None:
    two_presets(monkeypatch, speed=speed)
    heard = Recorder()
    trainer = Trainer(tmp_path / "run", **sides(small_corpus), settings=[*SMALL, budget], listener=heard)
    assert trainer.config.preset == preset
    assert any(line.startswith(f"preset {preset}: 300 pairs") for line in heard.said)
    assert ("trying out preset small" in heard.said) == ("minutes" in budget)


def test_a_preset_that_is_named_is_not_questioned(
    tmp_path: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_presets(monkeypatch, speed=10.0)
    named = tmp_path / "named.toml"
    named.write_text('preset = "small"\n', encoding="utf-8")
    for way in ({"preset": "small"}, {"config": named}):
        heard = Recorder()
        settings = [*SMALL, "train.minutes=1"]
        trainer = Trainer(tmp_path / "run", **sides(small_corpus), **way, settings=settings, listener=heard)
        assert trainer.config.preset == "small"
        assert not any(line.startswith(("preset", "trying")) for line in heard.said)


def test_settings_need_not_suit_a_preset_that_nobody_chose(tmp_path: Path, small_corpus: Path) -> None:
    settings = ["model.d_model=300"]  # which the eight heads of base do not divide, and the four of tiny do
    assert Trainer(tmp_path / "run", **sides(small_corpus), settings=settings).config.model.num_heads == 4


def test_a_model_to_start_from_has_its_own_vocabulary(tmp_path: Path, small_corpus: Path, small_run: Path) -> None:
    for path in sides(small_corpus).values():
        lines = path.read_text(encoding="utf-8").split("\n")[:50]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    heard = Recorder()
    Trainer(tmp_path / "run", **sides(small_corpus), start=small_run, listener=heard)
    (choice,) = (line for line in heard.said if line.startswith("preset tiny"))
    assert "sets" not in choice


def test_settings_that_are_given_win_over_those_of_the_table(tmp_path: Path, small_corpus: Path) -> None:
    for path in sides(small_corpus).values():
        lines = path.read_text(encoding="utf-8").split("\n")[:50]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    file = tmp_path / "own.toml"
    file.write_text("[text]\nvocabulary = 500\n", encoding="utf-8")

    def vocabulary(*settings: str, config: Path | None = None) -> int:
        return Trainer(tmp_path / "run", **sides(small_corpus), settings=settings, config=config).config.text.vocabulary

    assert TABLE[0].settings == (f"text.vocabulary={vocabulary()}",)
    assert vocabulary("text.vocabulary=400") == 400
    assert vocabulary(config=file) == 500
    assert vocabulary("text.vocabulary=400", config=file) == 400
