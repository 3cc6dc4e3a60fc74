"""`train.average = "best"`: the bundle is the mean of the models that validated best, and of no others."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
import torch

from test_training import new_loop
from transduce import Trainer
from transduce.bundle import WEIGHTS, read_weights
from transduce.data.store import Store
from transduce.errors import Interrupted
from transduce.settings import load_config
from transduce.text import Symbols
from transduce.train.beginning import decided
from transduce.train.calibration import Budget, resolve
from transduce.train.loop import Loop
from transduce.train.progress import Validation
from transduce.train.signals import Stopped
from transduce.train.state import State, checkpoints, read_state, save_checkpoint, step_of, to_average
from trials import Recorder, copy_of

Letters = tuple[Store, Symbols]
BEST = "train.average=best"
SCORES = {3: 2.0, 6: 5.0, 9: 4.0, 12: 6.0, 15: 3.0, 16: 4.5}


def scored(letters: Letters, directory: Path, *settings: str) -> Loop:
    """A loop whose validations, every 3 updates, have these scores; checkpoints are asked for every 5."""
    loop = new_loop(*letters, directory, "train.validate_every=3", "train.save_every=5", *settings)
    loop.validate = lambda step: Validation(step, SCORES[step], 0.0, (), 0.0)
    return loop


def steps_of(paths: list[Path]) -> list[int]:
    return [step_of(path) for path in paths]


def test_each_validated_model_is_saved_though_checkpoints_fall_elsewhere(tmp_path: Path, letters: Letters) -> None:
    loop = scored(letters, tmp_path / "a", "train.steps=16", BEST, "train.average_count=2", "train.keep=20")
    loop.run()
    assert steps_of(checkpoints(tmp_path / "a")) == [3, 5, 6, 9, 10, 12, 15, 16]
    # the model of step 5 was saved after the best validation, but it is not the one that was validated
    assert steps_of(to_average(tmp_path / "a", loop.config.train)) == [3, 15]


def test_the_best_outlive_the_newest(tmp_path: Path, letters: Letters) -> None:
    loop = scored(letters, tmp_path / "a", "train.steps=16", BEST, "train.average_count=3", "train.keep=1")
    loop.run()
    assert steps_of(checkpoints(tmp_path / "a")) == [3, 9, 15, 16]
    assert steps_of(to_average(tmp_path / "a", loop.config.train)) == [3, 9, 15]


def test_the_end_of_a_run_is_validated_too_and_may_be_the_best(tmp_path: Path, letters: Letters) -> None:
    loop = scored(letters, tmp_path / "a", "train.steps=14", BEST, "train.average_count=2")
    loop.validate = lambda step: Validation(step, 20.0 - step, 0.0, (), 0.0)
    assert [step for step, *_ in loop.run().validations] == [3, 6, 9, 12, 14]
    assert steps_of(to_average(tmp_path / "a", loop.config.train)) == [12, 14]


def test_an_end_whose_validation_a_signal_broke_off_is_validated_when_the_run_is_resumed(
    small_run: Path, tmp_path: Path
) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=3, save_every=100, validate_every=2, average="best")
    decided(run)  # as if it had begun: no budget changes the recipe
    original, tried = Loop.validate_now, list[int]()

    def broken_off(loop: Loop) -> None:
        tried.append(loop.state.step)
        if tried == [2, 3]:
            loop.signals.number = signal.SIGINT
            raise Stopped
        original(loop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "validate_now", broken_off)
        with pytest.raises(Interrupted):
            Trainer.resume(run).run()
        assert not read_state(checkpoints(run / "checkpoints")[-1]).validated
        Trainer.resume(run).run()
    assert tried == [2, 3, 3]
    assert [step for step, *_ in read_state(checkpoints(run / "checkpoints")[-1]).validations] == [2, 3]
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert [event["step"] for event in events if event["event"] == "validation"] == [2, 3]


@pytest.mark.parametrize("end", [1.0, 9.0])
def test_the_end_does_not_count_for_patience(tmp_path: Path, letters: Letters, end: float) -> None:
    loop = scored(letters, tmp_path / "a", "train.steps=16", BEST, "train.patience=5")
    loop.validate = lambda step: Validation(step, {**SCORES, 16: end}[step], 0.0, (), 0.0)
    state = loop.run()
    assert state.validations[-1] == (16, end, 0.0)
    assert (state.without_improvement, state.best_perplexity) == (4, 2.0)  # of 3, 6, 9, 12, 15 the first was best


def test_the_last_are_saved_and_averaged_as_before(tmp_path: Path, letters: Letters) -> None:
    loop = scored(letters, tmp_path / "a", "train.steps=16", "train.average_count=2", "train.keep=20")
    loop.run()
    assert steps_of(checkpoints(tmp_path / "a")) == [5, 10, 15, 16]
    assert steps_of(to_average(tmp_path / "a", loop.config.train)) == [15, 16]


def test_best_by_bleu_are_other_checkpoints_than_by_perplexity(tmp_path: Path, letters: Letters) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=1")
    loop.run()
    for step, perplexity, bleu in ((1, 9.0, 0.0), (2, 2.0, 10.0), (3, 3.0, 20.0), (4, 4.0, 30.0), (5, 8.0, 20.0)):
        state = State(step=step, validations=((step, perplexity, bleu),))
        save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, state)

    def chosen(average: str) -> list[int]:
        settings = ["train.average_count=2", "train.save_every=1", f"train.average={average}"]
        return steps_of(to_average(tmp_path / "b", load_config(settings=settings).train))

    assert chosen("best") == [2, 3]
    assert chosen("best_bleu") == [4, 5]  # of equals the later


def test_where_the_best_are_averaged_a_short_budget_has_more_to_choose_from() -> None:
    def validations(*settings: str) -> int:
        train, _ = resolve(load_config(preset="tiny", settings=settings).train, Budget(0.1, 100, 1000))
        return 1000 // train.validate_every

    assert (validations(), validations(BEST), validations("train.average=best_bleu")) == (4, 20, 20)


@pytest.mark.parametrize(("average", "expected"), [("best", [2]), ("last", [4])])
def test_of_moving_averages_one_is_kept(tmp_path: Path, letters: Letters, average: str, expected: list[int]) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=1")
    loop.run()
    for step, perplexity in ((1, 4.0), (2, 3.0), (3, 5.0), (4, 3.5)):
        state = State(step=step, validations=((step, perplexity, 0.0),))
        save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, state)
    settings = ["train.ema=0.9", "train.average_count=3", "train.save_every=1", f"train.average={average}"]
    assert steps_of(to_average(tmp_path / "b", load_config(settings=settings).train)) == expected


def test_the_bundle_is_the_mean_of_the_best_and_the_log_names_them(small_run: Path, tmp_path: Path) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=7, save_every=5, validate_every=2, average="best", average_count=2)
    decided(run)  # as if it had begun: no budget changes the recipe
    heard = Recorder()
    Trainer.resume(run, listener=heard).run()
    scores = {step: perplexity for step, perplexity, _ in read_state(checkpoints(run / "checkpoints")[-1]).validations}
    assert list(scores) == [2, 4, 6, 7]
    best = sorted(sorted(scores, key=scores.__getitem__)[:2])
    weights = [read_weights(run / "checkpoints" / f"step-{step:08d}" / WEIGHTS) for step in best]
    for name, weight in read_weights(run / "model" / WEIGHTS).items():
        mean = (weights[0][name].double() + weights[1][name].double()) / 2
        assert torch.equal(weight, mean.float())
    told = f"averaged 2 checkpoints, those of steps {best[0]}, {best[1]}: validation perplexity"
    assert any(line.startswith(told) for line in heard.said)
    assert any("each validation is saved" in line for line in heard.said)
