"""Whatever fails while a checkpoint is written, the one before it stays, and nothing half-made does."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from test_training import new_loop
from transduce.bundle import read_manifest
from transduce.data.store import Store
from transduce.errors import UserError
from transduce.text import Symbols
from transduce.train import state as state_module
from transduce.train.loop import Loop
from transduce.train.state import LATEST, State, checkpoints, latest, read_state, save_checkpoint

Letters = tuple[Store, Symbols]
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def saved(tmp_path: Path, letters: Letters) -> Loop:
    """A loop with one checkpoint, of step 1."""
    loop = new_loop(*letters, tmp_path / "run", "train.steps=1")
    loop.run()
    return loop


def fail_at(patch: pytest.MonkeyPatch, names: tuple[str, ...], n: int) -> list[str]:
    """Let the n-th call of these functions of `os` fail; the list says which it was."""
    failed: list[str] = []
    left = n

    def failing(name: str, step: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            failed.append(name)
            raise FULL
        return step(*arguments, **options)

    for name in names:
        patch.setattr(os, name, partial(failing, name, getattr(os, name)))
    return failed


@pytest.mark.parametrize("names", [("fsync",), ("rename", "replace"), ("mkdir",)])
def test_a_fault_at_any_step_of_a_save_leaves_the_old_checkpoint_and_no_trace(
    saved: Loop, names: tuple[str, ...]
) -> None:
    directory, told = saved.checkpoints, []
    for n in count():
        with pytest.MonkeyPatch.context() as patch:
            failed = fail_at(patch, names, n)
            try:
                save_checkpoint(directory, saved.model, saved.optimizer, State(step=2 + n))
            except UserError as error:
                told.append(str(error))
        kept = checkpoints(directory)
        assert kept[0].name == "step-00000001"
        for path in kept:
            read_manifest(path)
        assert {path.name for path in directory.iterdir()} == {LATEST, *(path.name for path in kept)}
        assert latest(directory) in kept
        if not failed:
            break
    assert n > 0
    assert len(told) == n
    for message in told:
        assert "bytes: No space left on device" in message


def test_a_full_disk_names_the_file_and_the_bytes(saved: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise UserError(f"{path}: cannot write {len(data):,} bytes: No space left on device")

    monkeypatch.setattr(state_module, "write_file", full)
    with pytest.raises(UserError, match=r"model\.safetensors: cannot write [\d,]+ bytes"):
        save_checkpoint(saved.checkpoints, saved.model, saved.optimizer, State(step=2))
    assert {path.name for path in saved.checkpoints.iterdir()} == {LATEST, "step-00000001"}


def test_a_failed_rewrite_of_a_checkpoint_leaves_the_old_one(saved: Loop) -> None:
    path = checkpoints(saved.checkpoints)[0]
    for n in count():
        with pytest.MonkeyPatch.context() as patch:
            failed = fail_at(patch, ("fsync", "rename", "replace"), n)
            with suppress(UserError):
                save_checkpoint(saved.checkpoints, saved.model, saved.optimizer, State(step=1, rollbacks=1))
        read_manifest(path)
        assert read_state(path).rollbacks in (0, 1)
        if not failed:
            break
    assert read_state(path).rollbacks == 1


@pytest.mark.parametrize("content", [None, b"", b"step-00000009\n", b"../elsewhere\n", b"\xff"])
def test_readers_do_without_the_name_of_the_latest(saved: Loop, content: bytes | None) -> None:
    newest = save_checkpoint(saved.checkpoints, saved.model, saved.optimizer, State(step=5))
    assert (saved.checkpoints / LATEST).read_text(encoding="utf-8") == "step-00000005\n"
    assert latest(saved.checkpoints) == newest
    (saved.checkpoints / LATEST).unlink()
    if content is not None:
        (saved.checkpoints / LATEST).write_bytes(content)
    assert latest(saved.checkpoints) == newest
