"""What a budget buys, by trials on this machine, and what is done about one that buys little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from transduce import Trainer
from transduce.config import Config
from transduce.errors import ConfigError, RunError
from transduce.settings import load_config
from transduce.train import calibration
from transduce.train.calibration import (
    Budget,
    expected,
    random_batch,
    resolve,
    tokens_per_second,
    vocabularies,
)
from transduce.train.choice import Size
from transduce.train.feed import LoadedBatch
from transduce.train.loss import Loss
from transduce.train.workers import Workers
from transduce.train.world import ALONE
from trials import SMALL

SIZE = Size(1000, 9.6, 14.4)


def small(*settings: str) -> Config:
    return load_config(preset="tiny", settings=[*SMALL, *settings])


class Machine:
    """A machine that takes a second for so many tokens, and some longer for the first pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, speed: float, first: float = 0.0) -> None:
        self.speed, self.now, self.wait = speed, 0.0, first
        self.passes: list[int] = []
        monkeypatch.setattr(calibration, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(Workers, "backward", lambda workers, batches, step: self.backward(batches))

    def backward(self, batches: Sequence[LoadedBatch]) -> Loss:
        self.passes.append(sum(batch.tokens for batch in batches))
        self.now += self.wait + self.passes[-1] / self.speed
        self.wait = 0.0
        return Loss(*torch.zeros(3))


def test_a_trial_finds_the_speed_and_forgets_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, speed=1000.0, first=0.5)
    config = small("train.batch_tokens=3000", "train.micro_batch_tokens=3000")
    assert tokens_per_second(config, SIZE, seconds=20.0) == pytest.approx(1000.0)
    assert machine.now <= 20.0
    assert machine.passes == sorted(machine.passes)
    assert 2900 < machine.passes[-1] < 3100


@pytest.mark.parametrize(("seconds", "passes"), [(20.0, 2), (12.0, 1)])
def test_a_trial_of_a_slow_machine_is_one_small_pass_or_two(
    monkeypatch: pytest.MonkeyPatch, seconds: float, passes: int
) -> None:
    machine = Machine(monkeypatch, speed=10.0)
    config = small("train.batch_tokens=3000", "train.micro_batch_tokens=3000")
    assert tokens_per_second(config, SIZE, seconds=seconds) == pytest.approx(10.0)
    assert machine.passes == [126] * passes  # nine sentences, 12.6 seconds


@pytest.mark.parametrize("settings", [(), ("model.positions=learned",)], ids=str)
def test_a_trial_leaves_torch_as_it_was(settings: tuple[str, ...]) -> None:
    torch.manual_seed(5)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    assert tokens_per_second(small(*settings), SIZE, seconds=0.01) > 0
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_batches_of_a_trial_have_the_mean_lengths_and_the_vocabulary() -> None:
    config = small("text.vocabulary=300")
    batch = random_batch(config, SIZE, 140, torch.device("cpu"))
    assert (batch.source.shape, batch.target.shape) == ((10, 10), (10, 14))
    assert batch.tokens == 140
    for ids in (batch.source, batch.target):
        assert 4 <= int(ids.min()) <= int(ids.max()) < 300
    longest = random_batch(small("data.max_length=8"), SIZE, 10, torch.device("cpu"))
    assert longest.target.shape == (1, 8)


def test_a_vocabulary_of_symbols_is_a_guess() -> None:
    assert vocabularies(load_config(preset="tiny", settings=["text.vocabulary=777"])) == (777, 777)
    parsing = load_config(preset="parsing-tiny")
    assert vocabularies(parsing) == (parsing.text.vocabulary, calibration.SYMBOLS)


def test_what_a_run_comes_to_follows_from_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "tokens_per_second", lambda config, size: 100.0)
    config = load_config(preset="tiny", settings=["train.minutes=2", "train.batch_tokens=1000"])
    size = Size(1000, 10, 10)
    assert expected(config, size) == Budget(10.0, 10, 12)
    assert expected(config, size, replace(ALONE, size=2)) == Budget(5.0, 10, 24)


def test_a_budget_without_minutes_takes_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(calibration, "tokens_per_second")
    size = Size(1000, 10, 10)
    settings = ["train.batch_tokens=1000"]
    assert expected(load_config(settings=[*settings, "train.epochs=3"]), size).updates == 30
    assert expected(load_config(settings=[*settings, "train.steps=7"]), size).updates == 7
    assert expected(load_config(settings=settings), size).updates is None


def test_minutes_too_few_for_an_update_are_refused_with_enough_of_them() -> None:
    train = load_config(settings=["train.minutes=0.5"]).train
    with pytest.raises(ConfigError, match=r"train.minutes = 0.5: an update takes about 31.0 s here: .*--minutes 2.1 "):
        resolve(train, calibration.budget(train, 31.0, 100))
    resolve(train, calibration.budget(train, 30.0, 100))
    enough = train.model_copy(update={"minutes": 2.1})
    resolved, _ = resolve(enough, calibration.budget(enough, 31.0, 100))
    assert resolved.validate_every == 1


def test_of_a_run_that_is_refused_before_its_first_update_nothing_is_left(tmp_path: Path, small_corpus: Path) -> None:
    files = {"source": small_corpus / "train.en", "target": small_corpus / "train.de"}
    for out in (tmp_path / "new", tmp_path / "empty"):
        existed = out.name == "empty"
        if existed:
            out.mkdir()
        with pytest.raises(ConfigError, match="an update takes about"):
            Trainer(out, preset="tiny", settings=[*SMALL, "train.minutes=1e-6"], **files).run()
        assert out.is_dir() == existed
        Trainer(out, preset="tiny", settings=[*SMALL, "train.steps=1"], **files).run()
        with pytest.raises(RunError, match="holds another run"):
            Trainer(out, preset="tiny", settings=[*SMALL, "train.minutes=1e-6"], **files)
        assert (out / "model").is_dir()


@pytest.mark.parametrize("seconds", [0.5, 7.0, 29.0, 60.0])
def test_a_validation_falls_into_any_budget_that_has_an_update(seconds: float) -> None:
    train = load_config(preset="tiny", settings=["train.minutes=1"]).train
    found = calibration.budget(train, seconds, 100)
    resolved, _ = resolve(train, found)
    assert found.updates is not None
    assert resolved.validate_every <= found.updates


def test_a_given_interval_that_no_validation_comes_of_is_warned_of() -> None:
    train = load_config(preset="tiny", settings=["train.minutes=1", "train.validate_every=1000"]).train
    given = {"train.validate_every"}
    resolved, told = resolve(train, Budget(0.1, 100, 600), given=given)
    assert resolved.validate_every == 1000
    assert "no validation before the end: train.validate_every = 1,000, and about 600 updates fit" in told[-1]
    assert not any("no validation" in line for line in resolve(train, Budget(0.06, 100, 1000), given=given)[1])


def test_a_warm_up_that_is_shortened_leaves_the_peak_where_it_was_set() -> None:
    settings = ("train.steps=120", "train.learning_rate=0.2")
    train = load_config(preset="tiny", settings=settings).train
    resolved, told = resolve(train, Budget(0.1, 100, 120), given={"train.steps", "train.learning_rate"})
    peaks = [each.learning_rate * each.warmup_steps**-0.5 for each in (train, resolved)]
    assert resolved.warmup_steps == 30 < train.warmup_steps
    assert peaks[0] == pytest.approx(peaks[1])
    assert "learning_rate 0.2 -> " in told[0]
    kept, _ = resolve(train, Budget(0.1, 100, 120), given={"train.warmup_steps"})
    assert (kept.warmup_steps, kept.learning_rate) == (train.warmup_steps, 0.2)


def test_a_cool_down_without_a_budget_is_warned_of() -> None:
    settings = ("train.cooldown=0.5", "train.steps=600")
    endless, budgeted = (load_config(preset="tiny", settings=settings[:many]).train for many in (1, 2))
    (warning,) = resolve(endless, calibration.budget(endless, 0.1, 100))[1]
    assert "train.cooldown = 0.5 does nothing" in warning
    assert "--minutes" in warning
    assert not any("cooldown" in line for line in resolve(budgeted, calibration.budget(budgeted, 0.1, 100))[1])
