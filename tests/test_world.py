"""Several processes that torchrun starts train as one would, fall together and rise together."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from command import ENVIRONMENT, Ran
from transduce import Trainer, trainer
from transduce.bundle import MANIFEST
from transduce.config import Config, TrainConfig
from transduce.data.batching import Batching
from transduce.data.preparation import Prepared
from transduce.data.store import Store
from transduce.errors import RunError
from transduce.model import Transformer
from transduce.settings import load_config
from transduce.text import Symbols
from transduce.train import world as world_module
from transduce.train.feed import share, updates
from transduce.train.guard import Guard
from transduce.train.state import checkpoints, read_state
from transduce.train.workers import Workers
from transduce.train.world import World, buckets, joined
from transduce.verify.resume import ending
from trials import SMALL, Recorder, copy_of

CPU = torch.device("cpu")
STEPS = 60
HANG = 120  # seconds: nothing here takes so long unless it never ends


@contextmanager
def torchrun(*arguments: str | Path, ranks: int = 2, restarts: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A module or script in several processes of this machine."""
    launcher = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        f"--max-restarts={restarts}",
    ]
    with subprocess.Popen(
        [sys.executable, *launcher, *map(str, arguments)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()  # it ends its processes; killed it would leave them behind
            process.communicate(timeout=HANG)


def ended(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=HANG)
    return Ran(process.returncode, out, err)


def train(*arguments: str | Path) -> Ran:
    with torchrun("-m", "transduce", "train", *arguments) as process:
        return ended(process)


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.005)


def process_of(rank: int, launcher: subprocess.Popen[str]) -> int:
    """The number of a rank's process."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            variables = (directory / "environ").read_bytes().split(b"\0") if parent == launcher.pid else []
        except OSError:  # it has ended, or is another user's
            continue
        if f"RANK={rank}".encode() in variables:
            return int(directory.name)
    raise AssertionError(f"rank {rank} does not run")


@pytest.fixture(scope="module")
def corpus(small_run: Path) -> list[str | Path]:
    """The arguments for a run on a few pairs."""
    directory = small_run.parent
    budget = [f"train.steps={STEPS}", "train.save_every=5", "train.validate_every=30", "data.max_ratio=20.0"]
    budget.append("train.cooldown=0.5")
    settings = [word for setting in [*SMALL, *budget] for word in ("--set", setting)]
    return ["--source", directory / "train.en", "--target", directory / "train.de", "--preset", "tiny", *settings]


@pytest.fixture(scope="module")
def unbroken(corpus: list[str | Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nothing happened to."""
    run = tmp_path_factory.mktemp("world") / "run"
    ran = train(*corpus, "--out", run)
    assert ran.code == 0, ran.err
    assert ran.out == f"{run / 'model'}\n", "one of the two speaks"
    return run


def test_two_processes_make_the_files_of_one(unbroken: Path, small_run: Path) -> None:
    def files(run: Path) -> set[str]:
        inside = (path.relative_to(run) for path in run.rglob("*") if path.is_file())
        return {path.as_posix() for path in inside if path.parts[0] not in ("data", "checkpoints")}

    assert files(unbroken) == files(small_run)
    manifests = [json.loads((run / "model" / MANIFEST).read_text(encoding="utf-8")) for run in (unbroken, small_run)]
    assert manifests[0].keys() == manifests[1].keys()
    assert manifests[0]["files"].keys() == manifests[1]["files"].keys()
    log = [json.loads(line) for line in (unbroken / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    assert [event["step"] for event in log if event["event"] == "validation"] == [30, STEPS]
    assert [event["step"] for event in log if event["event"] == "checkpoint"] == list(range(5, STEPS + 1, 5))
    assert read_state(checkpoints(unbroken / "checkpoints")[-1]).world_size == 2


def test_a_rank_that_is_killed_brings_all_down_and_the_run_goes_on_bit_for_bit(
    unbroken: Path, corpus: list[str | Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with torchrun("-m", "transduce", "train", *corpus, "--out", run) as process:
        until(lambda: bool(checkpoints(run / "checkpoints")))
        os.kill(process_of(1, process), signal.SIGKILL)
        broken = ended(process)
    assert broken.code != 0
    assert re.search(r"rank +: 1 \(local_rank: 1\)", broken.err), "it may end rank 0 before that speaks"
    assert not (run / "model").exists()
    resumed = train("--resume", run)
    assert resumed.code == 0, resumed.err
    assert ending(run) == ending(unbroken)


@contextmanager
def by_hand(rank: int, port: int, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """One of two processes, with nobody above them to end the other."""
    place = {"RANK": f"{rank}", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": f"{rank}"}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
    with subprocess.Popen(
        [sys.executable, "-m", "transduce", "train", *map(str, arguments)],
        env={**ENVIRONMENT, **place, **meeting},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_who_is_left_names_the_rank_that_is_gone(corpus: list[str | Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with by_hand(0, port, *corpus, "--out", run) as first, by_hand(1, port, *corpus, "--out", run) as second:
        until(lambda: bool(checkpoints(run / "checkpoints")))
        second.kill()
        broken = ended(first)
    assert broken.code == 2
    assert "rank 0 of 2: rank 1 is gone" in broken.err


def test_torchrun_starts_a_run_again_by_itself(unbroken: Path, corpus: list[str | Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    with torchrun("-m", "transduce", "train", *corpus, "--out", run, restarts=1) as process:
        until(lambda: bool(checkpoints(run / "checkpoints")))
        os.kill(process_of(0, process), signal.SIGKILL)
        ran = ended(process)
    assert ran.code == 0, ran.err
    assert "resuming at step" in ran.err
    assert ending(run) == ending(unbroken)


def test_a_signal_to_torchrun_saves_and_any_number_of_processes_goes_on(
    unbroken: Path, corpus: list[str | Path], tmp_path: Path
) -> None:
    run, alone = tmp_path / "run", tmp_path / "alone"
    with torchrun("-m", "transduce", "train", *corpus, "--out", run) as process:
        until(lambda: bool(checkpoints(run / "checkpoints")))
        process.send_signal(signal.SIGTERM)
        stopped = ended(process)
    step = read_state(checkpoints(run / "checkpoints")[-1]).step
    assert f"SIGTERM: saved at step {step};" in stopped.err
    assert 5 <= step < STEPS
    shutil.copytree(run, alone)
    resumed = train("--resume", run)
    assert resumed.code == 0, resumed.err
    assert ending(run) == ending(unbroken)
    heard = Recorder()
    Trainer.resume(alone, listener=heard).run()
    assert any(line.startswith("processes 2 -> 1: training goes on, but not bit for bit") for line in heard.said)
    assert read_state(checkpoints(alone / "checkpoints")[-1]).step == STEPS


def test_a_mistake_in_the_corpus_ends_all_processes_at_once(tmp_path: Path) -> None:
    ran = train("--source", tmp_path / "none.en", "--target", tmp_path / "none.de", "--out", tmp_path / "run")
    assert ran.code != 0
    assert "none.en" in ran.err
    assert not (tmp_path / "run").exists()


def float64_run(small_run: Path, directory: Path, *, steps: int, parallel: str) -> Path:
    """A run without dropout, to be trained by `train_in_float64`."""
    run = copy_of(small_run, directory, steps=steps, validate_every=1000, save_every=1000, parallel=parallel)
    path = run / "config.toml"
    text = path.read_text(encoding="utf-8")
    dropout = load_config(preset="tiny").model.dropout
    assert f"\ndropout = {dropout}\n" in text
    path.write_text(text.replace(f"\ndropout = {dropout}\n", "\ndropout = 0.0\n"), encoding="utf-8")
    return run


def train_in_float64(run: Path) -> None:
    """Train a run, alone or as torchrun says; rank 0 writes the loss of each update to losses.json in it."""
    losses: list[float] = []
    new_model, apply = trainer.new_model, Guard.apply

    def double(config: Config, prepared: Prepared) -> Transformer:
        return new_model(config, prepared).double()

    def kept(guard: Guard, step: int, pairs, loss, rate: float) -> Tensor:  # type: ignore[no-untyped-def]
        losses.append(loss.smoothed.item())
        return apply(guard, step, pairs, loss, rate)

    with pytest.MonkeyPatch.context() as patch, joined() as world:
        patch.setattr(trainer, "new_model", double)
        patch.setattr(Guard, "apply", kept)
        Trainer.resume(run, world=world).run()
        if world.first:
            (run / "losses.json").write_text(json.dumps(losses), encoding="utf-8")


def losses_of(run: Path, *, ranks: int) -> list[float]:
    if ranks == 1:
        train_in_float64(run)
    else:
        with torchrun(__file__, run, ranks=ranks) as process:
            ran = ended(process)
            assert ran.code == 0, ran.err
    losses: list[float] = json.loads((run / "losses.json").read_text(encoding="utf-8"))
    return losses


def test_two_processes_learn_what_one_learns(small_run: Path, tmp_path: Path) -> None:
    one, two = (
        losses_of(float64_run(small_run, tmp_path / f"{ranks}", steps=100, parallel="data"), ranks=ranks)
        for ranks in (1, 2)
    )
    assert len(one) == 100
    assert one[-1] < one[0]
    assert two == pytest.approx(one, abs=1e-9, rel=1e-9)


Letters = tuple[Store, Symbols]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("parts", [1, 2])
def test_each_pair_of_an_update_is_one_process_s(letters: Letters, size: int, parts: int) -> None:
    store, _ = letters
    batching = Batching.of(store, batch_tokens=60, micro_batch_tokens=30, seed=1)
    worlds = [World(rank, size) for rank in range(size)]
    feeds = [updates(store, batching, CPU, parts=parts, epoch=0, update=0, world=world) for world in worlds]
    for cuts in batching.epoch(0):
        found = [next(feed) for feed in feeds]
        expected = sum(int(store.target.lengths[cut].sum()) for cut in cuts)
        assert {update.tokens for update in found} == {expected}
        assert sum(batch.tokens for update in found for batch in update.batches) == expected
        rows = [row for update in found for batch in update.batches for row in zip(*content(batch), strict=True)]
        assert sorted(rows) == sorted(zip(*pairs(store, np.concatenate(cuts)), strict=True))
        assert all(np.array_equal(update.pairs, found[0].pairs) for update in found)


def content(batch) -> tuple[list[tuple[int, ...]], ...]:  # type: ignore[no-untyped-def]
    """The rows of a batch of which something is expected, without padding, BOS and EOS."""
    if not batch.tokens:
        return [], []
    return tuple(
        [tuple(token for token in row if token > 3) for row in side.tolist()] for side in (batch.source, batch.target)
    )


def pairs(store: Store, indices: np.ndarray) -> tuple[list[tuple[int, ...]], ...]:
    return tuple(
        [tuple(int(token) for token in side[i] if token > 3) for i in indices] for side in (store.source, store.target)
    )


def test_a_process_without_a_pair_adds_nothing(letters: Letters) -> None:
    store, codec = letters
    torch.manual_seed(0)
    model = Transformer(load_config(preset="tiny", settings=SMALL).model, codec.size, codec.size)
    workers = Workers(model, TrainConfig(threads=1))
    (batch,) = share(store, np.arange(2), CPU, parts=1, world=World(rank=2, size=3))
    loss = workers.backward([batch], step=1, others=9)
    assert batch.tokens == 0
    assert [float(each) for each in loss] == [0.0, 0.0, 0.0]
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


shapes = st.lists(st.tuples(st.integers(0, 3000), st.sampled_from([torch.float32, torch.float64])), max_size=12)


@given(shapes)
def test_buckets_hold_every_tensor_once_in_order_and_no_more_than_fits(sizes: list[tuple[int, torch.dtype]]) -> None:
    tensors = [torch.empty(size, dtype=dtype) for size, dtype in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world_module, "BUCKET", 10_000)
        found = list(buckets(tensors))
    assert [id(tensor) for bucket in found for tensor in bucket] == [id(tensor) for tensor in tensors]
    for bucket in found:
        assert len({tensor.dtype for tensor in bucket}) == 1
        assert len(bucket) == 1 or sum(tensor.nbytes for tensor in bucket) <= 10_000


def test_an_error_of_communication_names_this_rank_and_the_one_that_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        other.wait()
    world = World(rank=0, size=3, peers=((1, os.getpid()), (2, other.pid), (1, other.pid)))
    with pytest.raises(RunError, match=r"^rank 0 of 3: rank 2 is gone: "), world.watched():
        raise RuntimeError("Connection closed by peer")


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_module, "ENDING", 0.0)
    world = World(rank=0, size=2, peers=((1, os.getpid()), (1, os.getpid())))
    with pytest.raises(RuntimeError, match=r"^a bug$"), world.watched():
        raise RuntimeError("a bug")


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as world:
        assert (world.rank, world.size, world.first) == (0, 1, True)
        ones = torch.ones(3)
        world.sum([ones])
        assert ones.tolist() == [1, 1, 1]
        assert world.highest([3, 4]) == [3, 4]
        assert world.tell("said") == "said"


if __name__ == "__main__":
    train_in_float64(Path(sys.argv[1]))
