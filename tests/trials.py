"""Faults to try, a few times in the tests and many times in the soak."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from test_files import Crash, Faults
from transduce import Trainer
from transduce.bundle import MANIFEST, WEIGHTS, read_manifest, read_weights, write_manifest
from transduce.errors import Interrupted, UserError
from transduce.train.loop import Loop
from transduce.train.progress import Listener
from transduce.train.state import checkpoints, read_state, set_damaged_aside
from transduce.verify.resume import rehearse

SMALL = [
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.d_model=16",
    "model.d_ff=32",
    "model.num_heads=2",
    "model.norm=post",
    "text.vocabulary=400",
    "train.batch_tokens=300",
    "train.micro_batch_tokens=150",
    "train.warmup_steps=4",
    "train.learning_rate=0.1",
    "train.threads=1",
]


def content(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


@dataclass
class Damages:
    """What became of damage done to a checkpoint."""

    detected: int = 0
    harmless: int = 0
    """White space of the manifest: nothing that is read had changed."""


def damage_newest(directory: Path, damage: Callable[[bytes], bytes], name: str, tally: Damages) -> None:
    """Damage a file of the newest of some checkpoints; the one before it must be what is left, as it was."""
    *_, before, newest = checkpoints(directory)
    said, whole, earlier = read_manifest(newest), (newest / name).read_bytes(), content(before)
    (newest / name).write_bytes(damage(whole))
    found = set_damaged_aside(directory)
    if not found:
        assert (name, read_manifest(newest)) == (MANIFEST, said)
        tally.harmless += 1
    else:
        assert len(found) == 1
        assert f"{newest.name}/{name}" in found[0]
        assert checkpoints(directory)[-1] == before
        tally.detected += 1
        newest.with_name(f"damaged-{newest.name}").rename(newest)
    assert content(before) == earlier
    (newest / name).write_bytes(whole)
    read_manifest(newest)


def truncations(directory: Path, trials: int, seed: int = 0) -> Damages:
    """Cut files of the newest checkpoint short at random offsets."""
    generator, tally = random.Random(seed), Damages()
    names = sorted(content(checkpoints(directory)[-1]))
    for trial in range(trials):
        kept = generator.random()
        damage_newest(directory, lambda whole, kept=kept: whole[: int(kept * len(whole))], names[trial % 4], tally)
    return tally


def flips(directory: Path, trials: int, seed: int = 0) -> Damages:
    """Flip single bits of the newest checkpoint's files."""
    generator, tally = random.Random(seed), Damages()
    names = sorted(content(checkpoints(directory)[-1]))

    def flip(whole: bytes) -> bytes:
        place = generator.randrange(8 * len(whole))
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        return bytes(changed)

    for trial in range(trials):
        damage_newest(directory, flip, names[trial % 4], tally)
    return tally


def faults_in_a_save(save: Callable[[], object], directory: Path, error: BaseException) -> Counter[str]:
    """Let each step of a save that changes the disk fail in turn; counts which checkpoint was the newest then."""
    before = {path.name for path in checkpoints(directory)}
    found: Counter[str] = Counter()
    for n in count():
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, n, error)
            try:
                save()
            except (UserError, Crash, OSError):
                assert faults.failed
        if isinstance(error, OSError):
            assert not list(directory.glob(".*")), "an error leaves nothing half-made behind"
        assert set_damaged_aside(directory) == []
        newest = checkpoints(directory)[-1]
        read_manifest(newest)
        read_state(newest)
        if not faults.failed:
            break
        found["old" if newest.name in before else "new"] += 1
        for path in checkpoints(directory):
            if path.name not in before:
                shutil.rmtree(path)
    return found


class FillingDisk(io.FileIO):
    """A file on a disk with so many bytes left."""

    left = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if size > FillingDisk.left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        FillingDisk.left -= size
        return super().write(data)


@contextmanager
def disk_with(left: int) -> Iterator[None]:
    """Within, files that are opened for writing bytes take no more than this in all."""
    opened, FillingDisk.left = Path.open, left

    def open_(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode == "wb":
            return io.BufferedWriter(FillingDisk(self, "w"))
        return opened(self, mode, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", open_)
        yield


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[Path]:
    """A file system of its own, as root can make one; elsewhere the test is left out."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, check=False) if os.geteuid() == 0 else None
    if done is None or done.returncode:
        pytest.skip("only root can mount a small disk, and not in every container")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


class Order:
    """Which pairs a run trained on, update by update."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pairs: list[list[int]] = []
        original = Loop.update

        def update(loop: Loop, update: Any) -> None:
            original(loop, update)
            self.pairs.append(update.pairs.tolist())

        monkeypatch.setattr(Loop, "update", update)


class StopAfter(Listener):
    """Sends this process a signal when a checkpoint of one of these steps was written."""

    def __init__(self, steps: set[int], number: int) -> None:
        self.steps, self.number = steps, number

    def saved(self, path: Path, step: int) -> None:
        if step in self.steps:
            self.steps.discard(step)
            os.kill(os.getpid(), self.number)


class Recorder(Listener):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, message: str) -> None:
        self.said.append(message)

    def warn(self, message: str) -> None:
        self.said.append(message)


def train_through(run: Path, listener: Listener) -> int:
    """Resume a run until it is done; returns how often it was interrupted."""
    for interruptions in count():
        try:
            Trainer.resume(run, listener=listener).run()
        except Interrupted:
            continue
        return interruptions
    raise AssertionError


def copy_of(run: Path, directory: Path, *, steps: int, **train: object) -> Path:
    """A new run with the data of another, and other settings of `train`."""
    config = rehearse(run, directory, steps=steps)
    changed = config.model_copy(update={"train": config.train.model_copy(update=train)})
    (directory / "config.toml").write_text(changed.to_toml(), encoding="utf-8")
    return directory


def finite(run: Path) -> bool:
    files = [path / name for path in checkpoints(run / "checkpoints") for name in ("model", "optimizer")]
    tensors = [each for file in files for each in read_weights(file.with_suffix(".safetensors")).values()]
    return bool(tensors) and all(bool(tensor.isfinite().all()) for tensor in tensors)


HOSTILE = ("pickle", "header", "outside", "link")


class Harm:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def hostile(bundle: Path, kind: str) -> Path:
    """The bundle, remade as one who means harm would, with a manifest that fits; beside it stands a file `outside`."""
    (bundle.parent / "outside").write_bytes(b"mine")
    manifest = bundle / MANIFEST
    if kind == "pickle":
        (bundle / WEIGHTS).write_bytes(pickle.dumps(Harm(bundle.parent / "harmed")))
    elif kind == "header":
        (bundle / WEIGHTS).write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    elif kind == "link":
        (bundle / "README.md").unlink()
        (bundle / "README.md").symlink_to(bundle.parent / "outside")
    manifest.unlink()
    write_manifest(bundle, {})
    if kind == "outside":
        table = json.loads(manifest.read_text(encoding="utf-8"))
        del table["sha256"]
        table["files"]["../outside"] = hashlib.sha256(b"mine").hexdigest()
        table["sha256"] = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
        manifest.write_text(json.dumps(table), encoding="utf-8")
    return bundle
