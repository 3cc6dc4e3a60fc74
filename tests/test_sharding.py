"""Weights cut among processes learn what whole ones learn, and are saved whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import transduce
from test_world import float64_run, losses_of, train
from transduce import Trainer
from transduce.bundle import WEIGHTS, read_weights
from transduce.train.state import AVERAGE, OPTIMIZER, checkpoints, read_state
from trials import Recorder, copy_of


def test_sharded_weights_learn_what_whole_ones_learn(small_run: Path, tmp_path: Path) -> None:
    whole, parts = (float64_run(small_run, tmp_path / f"{ranks}", steps=40, parallel="fsdp") for ranks in (1, 2))
    one, two = losses_of(whole, ranks=1), losses_of(parts, ranks=2)
    assert len(one) == 40
    assert two == pytest.approx(one, abs=1e-9, rel=1e-9)
    for name in ("model.safetensors", OPTIMIZER):
        ends = [read_weights(checkpoints(run / "checkpoints")[-1] / name) for run in (whole, parts)]
        assert ends[0].keys() == ends[1].keys()
        for key, tensor in ends[0].items():
            assert ends[1][key].numpy() == pytest.approx(tensor.numpy(), abs=1e-7), key


def test_a_sharded_run_is_gone_on_with_by_any_number_of_processes(small_run: Path, tmp_path: Path) -> None:
    run = copy_of(small_run, tmp_path / "run", steps=4, clip_norm=1.0, parallel="fsdp", ema=0.9, r_drop=1.0)
    ran = train("--resume", run)
    assert ran.code == 0, ran.err
    assert read_state(checkpoints(run / "checkpoints")[-1]).world_size == 2
    heard = Recorder()
    Trainer.resume(run, more=2, listener=heard).run()
    assert any("processes 2 -> 1" in line for line in heard.said)
    again = train("--resume", run, "--more", "2")
    assert again.code == 0, again.err
    assert "processes 1 -> 2" in again.err
    last = read_state(checkpoints(run / "checkpoints")[-1])
    assert (last.step, last.skipped) == (8, 0)
    assert [step for step, _, _ in last.validations] == list(range(1, 9))
    averages = read_weights(checkpoints(run / "checkpoints")[-1] / AVERAGE)
    for name, weight in read_weights(run / "model" / WEIGHTS).items():
        assert weight.equal(averages[name]), name
    translated = transduce("translate", run, stdin=b"the dog barks\n")
    assert (translated.code, len(translated.lines)) == (0, 1)


def test_sharding_and_compiling_together_are_refused(tmp_path: Path) -> None:
    settings = ["--set", "train.parallel=fsdp", "--set", "train.compile=true"]
    ran = transduce(
        "train", "--source", tmp_path / "a", "--target", tmp_path / "b", "--out", tmp_path / "run", *settings
    )
    assert ran.code == 2
    assert "choose one of them" in ran.err
