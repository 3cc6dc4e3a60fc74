"""Faults that a run must survive, each tried a few times; tests/soak tries them many times over."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from command import spawn, transduce
from test_files import Crash
from transduce import Trainer, Translator
from transduce.bundle import read_weights
from transduce.data.preparation import recall
from transduce.errors import Interrupted, RunError, UserError
from transduce.train import loop as loop_module
from transduce.train import state as state_module
from transduce.train.loop import Loop, make_optimizer
from transduce.train.loss import Loss
from transduce.train.progress import Listener, Validation
from transduce.train.state import State, checkpoints, load_checkpoint, read_state, save_checkpoint
from transduce.train.workers import Workers
from transduce.trainer import make_batching, new_model
from transduce.verify.resume import Ending, check_resume, ending, rehearse
from trials import (
    HOSTILE,
    Order,
    Recorder,
    StopAfter,
    content,
    copy_of,
    disk_with,
    faults_in_a_save,
    finite,
    flips,
    hostile,
    small_disk,
    train_through,
    truncations,
)

STEPS = 12


@pytest.fixture(scope="module")
def unbroken(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Ending:
    """How a run of twelve steps ends that nothing happens to."""
    run = tmp_path_factory.mktemp("unbroken") / "run"
    rehearse(small_run, run, steps=STEPS)
    Trainer.resume(run).run()
    return ending(run)


def test_a_killed_run_ends_as_an_unbroken_one(small_run: Path) -> None:
    found = check_resume(small_run, steps=10 * STEPS, kills=2, note=print, seed=1)
    assert found.kills
    assert found.holds


def test_resumes_within_an_epoch_repeat_no_pair_and_skip_none(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = (copy_of(small_run, tmp_path / name, steps=30, save_every=1) for name in ("whole", "parts"))
    order = Order(monkeypatch)
    Trainer.resume(whole).run()
    expected, order.pairs = order.pairs, []
    assert train_through(parts, StopAfter({2, 3, 5, 8, 21}, signal.SIGTERM)) == 5
    assert order.pairs == expected
    epoch = read_state(checkpoints(parts / "checkpoints")[-1])
    assert epoch.epoch >= 1, "the first epoch was passed over whole"
    flat = [pair for update in expected for pair in update]
    pairs = max(flat) + 1
    assert sorted(flat[:pairs]) == list(range(pairs))


def in_a_step(monkeypatch: pytest.MonkeyPatch, send: Callable[[], None]) -> None:
    original = Workers.backward

    def backward(workers: Workers, batches: list[object], step: int, **options: object) -> Loss:
        if step == 5:
            send()
        return original(workers, batches, step, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "backward", backward)


def in_a_validation(monkeypatch: pytest.MonkeyPatch, send: Callable[[], None]) -> None:
    original = Translator.translate

    def translate(translator: Translator, lines: list[str], **options: object) -> object:
        send()
        return original(translator, lines, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Translator, "translate", translate)


def in_a_save(monkeypatch: pytest.MonkeyPatch, send: Callable[[], None]) -> None:
    original = state_module.write_manifest

    def write(directory: Path, facts: dict[str, object]) -> None:
        send()
        original(directory, facts)

    monkeypatch.setattr(state_module, "write_manifest", write)


@pytest.mark.parametrize("place", [in_a_step, in_a_validation, in_a_save])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops_wherever_it_comes(
    small_run: Path,
    tmp_path: Path,
    unbroken: Ending,
    place: Callable[[pytest.MonkeyPatch, Callable[[], None]], None],
    number: int,
) -> None:
    rehearse(small_run, tmp_path / "run", steps=STEPS)
    sent: list[int] = []

    def send() -> None:
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    with pytest.MonkeyPatch.context() as patch:
        place(patch, send)
        with pytest.raises(Interrupted, match=rf"{signal.Signals(number).name}: saved at step \d+") as interruption:
            Trainer.resume(tmp_path / "run").run()
    assert interruption.value.exit_code == 128 + number
    assert not (tmp_path / "run" / "model").exists()
    Trainer.resume(tmp_path / "run").run()
    assert ending(tmp_path / "run") == unbroken


@pytest.fixture
def loop(small_run: Path, tmp_path: Path) -> Loop:
    """A loop that has saved step 1, and is now at step 2."""
    run = copy_of(small_run, tmp_path / "run", steps=2, save_every=1)
    return new_loop(run, steps=2, threads=1)


def new_loop(run: Path, *, steps: int, threads: int) -> Loop:
    """The loop that Trainer would make, in float64 and without dropout."""
    trainer = Trainer.resume(run)
    train = trainer.config.train.model_copy(
        update={"steps": steps, "threads": threads, "batch_tokens": 2400, "micro_batch_tokens": 1200}
    )
    model_config = trainer.config.model.model_copy(update={"dropout": 0.0})
    config = trainer.config.model_copy(update={"train": train, "model": model_config})
    prepared = recall(run)
    model = new_model(config, prepared).double()
    (run / "checkpoints").mkdir(exist_ok=True)
    return Loop(
        model,
        make_optimizer(model, train),
        prepared.train,
        make_batching(train, prepared),
        Workers(model, train),
        config,
        state=State(),
        checkpoints=run / "checkpoints",
        validate=lambda step: Validation(step, 1.0, 0.0, (), 0.0),
        listener=Listener(),
    )


def test_a_full_disk_is_told_with_file_and_bytes_and_harms_no_checkpoint(loop: Loop) -> None:
    loop.run()
    (first, second), directory = checkpoints(loop.checkpoints), loop.checkpoints
    size = sum(map(len, content(second).values()))
    shutil.rmtree(second)
    before = content(directory)
    for share in (0, 0.2, 0.5, 0.8, 0.99):
        with (
            disk_with(int(share * size)),
            pytest.raises(UserError, match=r"\S+/[\w.]+: cannot write [\d,]+ bytes: No space left on device"),
        ):
            save_checkpoint(directory, loop.model, loop.optimizer, loop.state)
        assert content(directory) == before
        assert sorted(path.name for path in directory.iterdir() if path.is_dir()) == [first.name]
    assert save_checkpoint(directory, loop.model, loop.optimizer, loop.state) == second


def test_a_run_on_a_small_disk_stops_with_one_line_and_goes_on_elsewhere(
    small_run: Path, tmp_path: Path, unbroken: Ending
) -> None:
    with small_disk(tmp_path / "disk", 400_000) as disk:
        run = copy_of(small_run, disk / "run", steps=STEPS, keep=100)
        ran = spawn("--quiet", "train", "--resume", run)
        assert ran.code == 2, ran.err
        assert "No space left on device" in ran.err
        assert "bytes" in ran.err
        assert "Traceback" not in ran.err
        assert checkpoints(run / "checkpoints"), "it should have saved before the disk was full"
        assert not list(run.rglob("*.tmp"))
        shutil.copytree(run, tmp_path / "copy")
    Trainer.resume(tmp_path / "copy").run()
    assert ending(tmp_path / "copy") == unbroken


@pytest.mark.parametrize("error", [Crash(), OSError(errno.EIO, "Input/output error")], ids=["crash", "error"])
def test_a_fault_at_any_step_of_a_save_leaves_the_old_checkpoint_or_the_new(loop: Loop, error: BaseException) -> None:
    loop.run()
    shutil.rmtree(checkpoints(loop.checkpoints)[-1])

    def save() -> None:
        save_checkpoint(loop.checkpoints, loop.model, loop.optimizer, loop.state)

    found = faults_in_a_save(save, loop.checkpoints, error)
    assert found["old"] >= 10, "fsync and rename of four files, and of the directory"
    assert found["new"] >= 1


def test_damage_is_found_and_the_checkpoint_before_is_used(loop: Loop) -> None:
    loop.run()
    cut, flipped = truncations(loop.checkpoints, 20), flips(loop.checkpoints, 40)
    assert (cut.detected, cut.harmless) == (20, 0)
    assert flipped.detected + flipped.harmless == 40
    assert flipped.detected >= 30


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_bundle_is_refused_by_every_command(small_run: Path, tmp_path: Path, kind: str) -> None:
    bundle = hostile(shutil.copytree(small_run / "model", tmp_path / "bundle"), kind)
    for words in (["translate", bundle], ["evaluate", bundle, "--source", __file__, "--reference", __file__]):
        ran = transduce(*words, stdin=b"a\n")
        assert (ran.code, ran.out) == (2, ""), words
        assert ran.err.count("\n") == 1
    assert not (tmp_path / "harmed").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "outside"]


def test_another_number_of_threads_changes_no_more_than_rounding(small_run: Path, tmp_path: Path) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=20, save_every=5)
    loop = new_loop(run, steps=5, threads=1)
    loop.run()
    weights = []
    for threads in (1, 2):
        again = new_loop(run, steps=20, threads=threads)
        again.checkpoints = tmp_path / f"{threads}"
        again.checkpoints.mkdir()
        again.state = load_checkpoint(checkpoints(loop.checkpoints)[-1], again.model, again.optimizer)
        again.run()
        assert again.workers.count == threads
        weights.append(read_weights(checkpoints(again.checkpoints)[-1] / "model.safetensors"))
    for name, weight in weights[0].items():
        assert torch.allclose(weight, weights[1][name], atol=1e-9, rtol=0), name


def test_another_number_of_threads_is_warned_of(small_run: Path, tmp_path: Path) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=STEPS)
    with pytest.raises(Interrupted):
        Trainer.resume(run, listener=StopAfter({6}, signal.SIGINT)).run()
    path = run / "config.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("threads = 1", "threads = 2"), encoding="utf-8")
    heard = Recorder()
    Trainer.resume(run, listener=heard).run()
    assert any("threads 1 -> 2" in line for line in heard.said)


def not_finite(monkeypatch: pytest.MonkeyPatch, steps: range, *, in_loss: bool) -> None:
    """Let the gradients, or the loss, of some updates hold a NaN."""
    original = Workers.backward

    def backward(workers: Workers, batches: list[object], step: int, **options: object) -> Loss:
        loss = original(workers, batches, step, **options)  # type: ignore[arg-type]
        if step in steps and in_loss:
            return loss._replace(smoothed=loss.smoothed * float("nan"))
        if step in steps:
            gradient = workers.parameters[3].grad
            assert gradient is not None
            gradient.view(-1)[0] = float("nan")
        return loss

    monkeypatch.setattr(Workers, "backward", backward)


@pytest.mark.parametrize("in_loss", [True, False], ids=["loss", "gradient"])
def test_an_update_that_is_not_finite_is_left_out_and_told(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_loss: bool
) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=STEPS)
    not_finite(monkeypatch, range(4, 6), in_loss=in_loss)
    heard = Recorder()
    Trainer.resume(run, listener=heard).run()
    told = [line for line in heard.said if "left out" in line and "not finite" in line]
    assert len(told) == 2
    assert "step 4" in told[0]
    assert "lines" in told[0]
    assert finite(run)
    assert read_state(checkpoints(run / "checkpoints")[-1]).step == STEPS


def test_ten_bad_updates_in_a_row_roll_back_and_in_the_end_give_up(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=40, save_every=2, keep=2)
    not_finite(monkeypatch, range(8, 100), in_loss=False)
    heard = Recorder()
    with pytest.raises(RunError, match="not finite"):
        Trainer.resume(run, listener=heard).run()
    back = [line for line in heard.said if "updates in a row left out: back to step 6" in line]
    assert len(back) == loop_module.ROLLBACKS
    assert finite(run)
