"""Numbers that go wrong change nothing; a run that keeps going wrong goes back, and in the end says why it stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from test_training import Recorder, new_loop
from transduce.data.store import Store
from transduce.errors import RunError
from transduce.text import Symbols
from transduce.train.feed import updates
from transduce.train.guard import UNREAD, Guard
from transduce.train.loop import Loop
from transduce.train.state import State, checkpoints, latest, read_state

Letters = tuple[Store, Symbols]
CPU = torch.device("cpu")


class Listening(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.left_out: list[tuple[int, str, list[int]]] = []

    def skipped(self, step: int, culprit: str, lines: list[int]) -> None:
        self.left_out.append((step, culprit, lines))


def numbers(loop: Loop) -> list[torch.Tensor]:
    """Weights, and all that Adam remembers."""
    kept = [p.detach().clone() for p in loop.model.parameters()]
    return kept + [value.clone() for p in loop.model.parameters() for value in loop.optimizer.state[p].values()]


def spoil(loop: Loop, bad: Callable[[int], bool]) -> None:
    """Let the loss of some steps be NaN."""
    backward = loop.workers.backward

    def spoilt(batches, step, **options):  # type: ignore[no-untyped-def]
        loss = backward(batches, step, **options)
        return loss._replace(smoothed=loss.smoothed * float("nan")) if bad(step) else loss

    loop.workers.backward = spoilt  # type: ignore[method-assign]


def listened(letters: Letters, directory: Path, *settings: str) -> tuple[Loop, Listening]:
    loop = new_loop(*letters, directory, *settings)
    loop.listener = heard = Listening()
    return loop, heard


@pytest.mark.parametrize("culprit", ["the loss", "the gradient of decoder.memory.weight"])
def test_an_update_that_is_not_finite_changes_nothing(tmp_path: Path, letters: Letters, culprit: str) -> None:
    loop, _ = listened(letters, tmp_path / "a", "train.steps=2", "train.clip_norm=1")
    loop.run()
    before = numbers(loop)
    update = next(updates(loop.store, loop.batching, CPU, parts=1, epoch=0, update=2))
    loss = loop.workers.backward(update.batches, 3)
    if culprit == "the loss":
        loss = loss._replace(smoothed=loss.smoothed * float("inf"))
    else:
        gradient = loop.model.decoder.memory.weight.grad
        assert gradient is not None
        gradient[0, 0] = float("nan")
    assert not loop.guard.apply(3, update.pairs, loss, rate=1.0)
    assert [verdict.culprit for verdict in loop.guard.read()] == [culprit]
    assert all(torch.equal(a, b) for a, b in zip(before, numbers(loop), strict=True))
    assert all(parameter.grad is None for parameter in loop.model.parameters())


def test_what_was_left_out_is_named_by_its_lines_and_the_run_goes_on(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=6")
    spoil(loop, lambda step: step in (2, 5))
    state = loop.run()
    assert (state.step, state.skipped, state.rollbacks) == (6, 0, 0)
    assert [step for step, _, _ in heard.left_out] == [2, 5]
    epoch = loop.batching.epoch(0)
    expected = sorted(int(loop.store.lines[pair]) for cut in epoch[1] for pair in cut)
    assert heard.left_out[0][2] == expected
    assert f"step 2 left out: the loss is not finite; pairs of lines {expected[0]}, " in heard.warnings[0]
    made = {int(loop.optimizer.state[p]["step"]) for p in loop.model.parameters()}
    assert made == {4}


def test_reports_count_only_updates_that_were_made(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=6", "train.clip_norm=0.5")
    spoil(loop, lambda step: step == 4)
    loop.run()
    assert heard.reports
    for report in heard.reports:
        assert 0 <= report.loss < 4  # that of a guess among ten symbols is log 10
        assert report.gradient_norm is not None


def test_ten_in_a_row_go_back_to_the_last_good_checkpoint_with_half_the_rate(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=20", "train.save_every=4")
    spoilt = set(range(7, 17))
    spoil(loop, lambda step: loop.state.rollbacks == 0 and step in spoilt)
    full = loop.learning_rate(5)
    state = loop.run()
    assert (state.step, state.rollbacks, state.skipped) == (20, 1, 0)
    assert any("back to step 4, with the learning rate halved" in warning for warning in heard.warnings)
    assert loop.learning_rate(5) == full / 2
    assert {read_state(path).rollbacks for path in checkpoints(tmp_path / "a")} == {1}
    newest = latest(tmp_path / "a")
    assert newest is not None
    assert newest.name == "step-00000020"


def test_without_a_checkpoint_there_is_nothing_to_go_back_to(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=14", "train.save_every=50")
    spoil(loop, lambda step: 3 <= step <= 12)
    state = loop.run()
    assert (state.step, state.rollbacks, state.skipped) == (14, 1, 0)
    assert any("going on without a checkpoint from step 12, with the learning" in said for said in heard.warnings)


def test_three_times_back_and_the_run_says_why_it_stops(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=60", "train.save_every=4")
    spoil(loop, lambda step: step > 6)
    with pytest.raises(RunError, match=r"step 16: the loss is not finite; pairs of lines \d+, .*halved 3 times: lower"):
        loop.run()
    assert sum("halved" in warning for warning in heard.warnings) == 3
    assert read_state(checkpoints(tmp_path / "a")[-1]).rollbacks == 3


def test_weights_that_blew_up_are_left_behind(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=24", "train.save_every=4")
    backward = loop.workers.backward
    blown = []

    def blow_up(batches, step, **options):  # type: ignore[no-untyped-def]
        if step == 7 and not blown:
            blown.append(step)
            for parameter in loop.model.parameters():
                parameter.data.mul_(1e300)
        return backward(batches, step, **options)

    loop.workers.backward = blow_up  # type: ignore[method-assign]
    state = loop.run()
    assert (state.step, state.rollbacks) == (24, 1)
    assert len(heard.left_out) == 10
    assert all(bool(p.isfinite().all()) and p.abs().max() < 100 for p in loop.model.parameters())


def test_clipping_scales_the_gradient_to_the_norm_and_no_smaller_one(tmp_path: Path, letters: Letters) -> None:
    for clip in (1e-3, 1e9):
        loop, _ = listened(letters, tmp_path / "a", f"train.clip_norm={clip}")
        update = next(updates(loop.store, loop.batching, CPU, parts=1, epoch=0, update=0))
        loss = loop.workers.backward(update.batches, 1)
        norm = torch.nn.utils.get_total_norm([p.grad for p in loop.model.parameters() if p.grad is not None])
        loop.guard.apply(1, update.pairs, loss, rate=0.0)
        assert loop.guard.norm == pytest.approx(norm.item())
        seen = [loop.optimizer.state[p]["exp_avg"] / (1 - loop.config.train.beta1) for p in loop.model.parameters()]
        assert torch.nn.utils.get_total_norm(seen).item() == pytest.approx(min(clip, norm.item()), rel=1e-2)


def test_a_loss_scale_that_is_too_large_is_lowered_without_a_word(tmp_path: Path, letters: Letters) -> None:
    loop, heard = listened(letters, tmp_path / "a", "train.steps=3", "train.precision=float16")
    loop.model.float()
    loop.guard.scaler.load_state_dict({**loop.guard.scaler.state_dict(), "scale": 2.0**126})
    state = loop.run()
    assert heard.left_out == []
    assert state.loss_scale is not None
    assert state.loss_scale.value < 2.0**126
    other = Guard(loop.model, loop.optimizer, loop.config.train)
    other.restore(state.loss_scale)
    assert other.loss_scale == state.loss_scale == read_state(checkpoints(tmp_path / "a")[-1]).loss_scale


def test_a_state_is_the_same_whatever_the_clock_says() -> None:
    state = State(step=3, skipped=1)
    assert state.equals(replace(state, seconds=9.0, threads=4, workers=2))
    assert not state.equals(replace(state, skipped=2))


def test_verdicts_read_late_as_a_gpu_s_are_give_the_same_run(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = []
    for name in ("at once", "late"):
        if name == "late":
            monkeypatch.setattr(Guard, "due", property(lambda guard: len(guard.unread) >= UNREAD))
        loop, heard = listened(letters, tmp_path / name, "train.steps=14", "train.save_every=7")
        spoil(loop, lambda step: step in (2, 3, 7, 12))
        loop.run()
        loops.append((loop, heard.left_out))
    (one, told), (other, told_late) = loops
    assert told == told_late
    assert one.state.equals(other.state)
    for path, late in zip(checkpoints(tmp_path / "at once"), checkpoints(tmp_path / "late"), strict=True):
        assert read_state(path).equals(read_state(late))
    assert all(torch.equal(a, b) for a, b in zip(numbers(one), numbers(other), strict=True))
