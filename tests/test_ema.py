"""A moving average of the weights: its formula, that training does not feel it, and that it is what a run keeps."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from test_guard import spoil
from test_training import new_loop
from transduce import Trainer
from transduce.bundle import WEIGHTS, read_weights
from transduce.data.store import Store
from transduce.errors import Interrupted
from transduce.text import Symbols
from transduce.train.beginning import decided
from transduce.train.ema import MovingAverage
from transduce.train.guard import Verdict
from transduce.train.loop import Loop
from transduce.train.progress import Validation
from transduce.train.state import (
    AVERAGE,
    OPTIMIZER,
    State,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
    set_damaged_aside,
    step_of,
)
from transduce.verify.resume import ending
from trials import Recorder, StopAfter, copy_of

Letters = tuple[Store, Symbols]
DECAY = 0.6


def averaging(letters: Letters, directory: Path, *settings: str, decay: float = DECAY) -> tuple[Loop, MovingAverage]:
    loop = new_loop(*letters, directory, f"train.ema={decay}", *settings)
    loop.average = MovingAverage.of(loop.model, loop.optimizer, loop.config.train)
    assert loop.average is not None
    return loop, loop.average


def weights(loop: Loop) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in loop.model.named_parameters()}


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    assert ours.keys() == theirs.keys()
    return all(torch.equal(weight, theirs[name]) for name, weight in ours.items())


@pytest.mark.parametrize("left_out", [set(), {1}, {3, 4}])
def test_it_is_the_formula_over_the_updates_that_were_made(
    tmp_path: Path, letters: Letters, left_out: set[int]
) -> None:
    loop, average = averaging(letters, tmp_path / "a", "train.steps=8")
    spoil(loop, lambda step: step in left_out)
    expected, made, follow = weights(loop), 0, average.update

    def checked(fine: Tensor) -> None:
        nonlocal expected, made
        follow(fine)
        made += bool(fine)
        decay = min(DECAY, (1 + made) / (10 + made)) if fine else 1.0
        expected = {name: decay * expected[name] + (1 - decay) * now for name, now in weights(loop).items()}
        for name, weight in average.weights.items():
            assert torch.allclose(weight, expected[name], rtol=1e-6, atol=1e-7), (loop.state.step, name)

    average.update = checked  # type: ignore[method-assign]
    loop.run()
    assert made == 8 - len(left_out)
    assert not equal(average.weights, weights(loop))


def test_it_moves_by_no_less_than_the_decay_leaves(tmp_path: Path, letters: Letters) -> None:
    loop, average = averaging(letters, tmp_path / "a", "train.steps=1", decay=0.9)
    loop.run()
    start = {name: torch.zeros_like(weight) for name, weight in average.weights.items()}
    for count, share in ((1, 9 / 11), (80, 0.1), (10**6, 0.1)):
        for state in loop.optimizer.state.values():
            state["step"].fill_(count)
        average.load(start)
        average.update(torch.tensor(True))
        for name, weight in weights(loop).items():
            assert torch.allclose(average.weights[name], share * weight, rtol=1e-6)
        average.update(torch.tensor(False))
        assert torch.allclose(average.weights["decoder.memory.weight"], share * loop.model.decoder.memory.weight)


def test_it_stands_in_for_the_weights_and_gives_them_back_whatever_happens(tmp_path: Path, letters: Letters) -> None:
    loop, average = averaging(letters, tmp_path / "a", "train.steps=3")
    loop.run()
    own, averaged = weights(loop), {name: weight.clone() for name, weight in average.weights.items()}
    seen = []

    def fail() -> None:
        with average.in_the_weights_stead():
            seen.append(weights(loop))
            raise RuntimeError("in between")

    with pytest.raises(RuntimeError, match="in between"):
        fail()
    assert equal(seen[0], averaged)
    assert equal(weights(loop), own)
    assert equal(average.weights, averaged)


def test_validations_see_it_and_training_does_not(tmp_path: Path, letters: Letters) -> None:
    recipe = ("train.steps=9", "train.validate_every=3", "train.save_every=3")
    loop, average = averaging(letters, tmp_path / "a", *recipe)
    seen: list[bool] = []

    def validate(step: int) -> Validation:
        seen.append(equal(weights(loop), average.weights))
        return Validation(step, 1.0, 0.0, (), 0.0)

    loop.validate = validate
    loop.run()
    assert seen == [True] * 3
    plain = new_loop(*letters, tmp_path / "b", *recipe)
    plain.run()
    for ours, theirs in zip(checkpoints(tmp_path / "a"), checkpoints(tmp_path / "b"), strict=True):
        for name in (WEIGHTS, OPTIMIZER):
            assert (ours / name).read_bytes() == (theirs / name).read_bytes()
        assert {path.name for path in ours.iterdir()} - {path.name for path in theirs.iterdir()} == {AVERAGE}


def test_it_goes_back_with_the_run(tmp_path: Path, letters: Letters) -> None:
    loop, average = averaging(letters, tmp_path / "a", "train.steps=6", "train.save_every=4")
    loop.run()
    kept = {path.name: read_weights(path / AVERAGE) for path in checkpoints(tmp_path / "a")}
    assert equal(average.weights, kept["step-00000006"])
    (tmp_path / "a" / "step-00000006").rename(tmp_path / "elsewhere")
    loop.left_out = Verdict(6, np.arange(1), "the loss")
    loop.roll_back()
    assert loop.state.step == 4
    assert equal(average.weights, kept["step-00000004"])
    assert not equal(average.weights, kept["step-00000006"])


def test_a_checkpoint_without_it_starts_one_and_one_with_it_serves_who_keeps_none(
    tmp_path: Path, letters: Letters
) -> None:
    loop, average = averaging(letters, tmp_path / "a", "train.steps=2")
    loop.run()
    without = save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, State(step=2))
    other, started = averaging(letters, tmp_path / "c")
    load_checkpoint(without, other.model, other.optimizer, started)
    assert equal(started.weights, weights(loop))
    (whole,) = checkpoints(tmp_path / "a")
    load_checkpoint(whole, other.model, other.optimizer, started)
    assert equal(started.weights, average.weights)
    assert load_checkpoint(whole, other.model, other.optimizer).step == 2


def test_a_damaged_average_is_found(tmp_path: Path, letters: Letters) -> None:
    loop, _ = averaging(letters, tmp_path / "a", "train.steps=2")
    loop.run()
    (path,) = checkpoints(tmp_path / "a")
    content = bytearray((path / AVERAGE).read_bytes())
    content[-3] ^= 1
    (path / AVERAGE).write_bytes(content)
    (damage,) = set_damaged_aside(tmp_path / "a")
    assert AVERAGE in damage


@pytest.fixture(scope="module")
def unbroken(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run with both a moving average and R-Drop that nothing happened to, and what it said."""
    run = copied(small_run, tmp_path_factory.mktemp("ema") / "unbroken")
    heard = Recorder()
    Trainer.resume(run, listener=heard).run()
    return run, heard.said


def copied(small_run: Path, directory: Path) -> Path:
    run = copy_of(small_run, directory, steps=8, save_every=3, validate_every=4, ema=DECAY, r_drop=2.0)
    decided(run)  # as if it had begun: no budget changes the recipe
    return run


def test_the_bundle_is_the_last_average_and_the_log_says_so(unbroken: tuple[Path, list[str]]) -> None:
    run, said = unbroken
    last = checkpoints(run / "checkpoints")[-1]
    assert equal(read_weights(run / "model" / WEIGHTS), read_weights(last / AVERAGE))
    assert not equal(read_weights(last / AVERAGE), read_weights(last / WEIGHTS))
    assert any("are of a moving average of the weights, decay 0.6" in line for line in said)
    assert any("moving average of the weights, decay 0.6, at step 8: validation perplexity" in line for line in said)


@pytest.mark.parametrize("steps", [{3}, {6}])
def test_a_run_that_was_stopped_ends_with_the_same_average(
    small_run: Path, unbroken: tuple[Path, list[str]], tmp_path: Path, steps: set[int]
) -> None:
    run = copied(small_run, tmp_path / "run")
    with pytest.raises(Interrupted):
        Trainer.resume(run, listener=StopAfter(set(steps), signal.SIGTERM)).run()
    Trainer.resume(run).run()
    assert ending(run) == ending(unbroken[0])
    ends = [checkpoints(each / "checkpoints") for each in (run, unbroken[0])]
    for mine, theirs in zip(*ends, strict=True):
        assert step_of(mine) == step_of(theirs)
        assert (mine / AVERAGE).read_bytes() == (theirs / AVERAGE).read_bytes()
