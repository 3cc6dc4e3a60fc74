"""The batch that needs most memory comes first, changes nothing, and fails with advice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from test_training import new_loop
from transduce.data.store import Store
from transduce.errors import RunError
from transduce.text import Symbols
from transduce.train import workers as workers_module
from transduce.train.largest import largest, try_largest

Letters = tuple[Store, Symbols]


def test_no_batch_of_any_epoch_is_larger_or_longer(tmp_path: Path, letters: Letters) -> None:
    batching = new_loop(*letters, tmp_path / "a").batching
    lengths = (batching.source_lengths, batching.target_lengths)

    def sizes(cuts):  # type: ignore[no-untyped-def]
        tokens = [len(cut) * sum(int(side[cut].max()) for side in lengths) for cut in cuts]
        return max(tokens), max(int(side[cut].max()) for cut in cuts for side in lengths)

    every = [cut for epoch in range(4) for update in batching.epoch(epoch) for cut in update]
    assert sizes(largest(batching)) == sizes(every)


def test_trying_it_leaves_weights_gradients_and_randomness(tmp_path: Path, letters: Letters) -> None:
    loop = new_loop(*letters, tmp_path / "a")
    before = [p.detach().clone() for p in loop.model.parameters()]
    randomness = torch.get_rng_state()
    try_largest(loop.workers, loop.store, loop.batching, loop.config)
    assert all(p.grad is None and torch.equal(p, b) for p, b in zip(loop.model.parameters(), before, strict=True))
    assert torch.equal(torch.get_rng_state(), randomness)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA"), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_running_out_of_memory_names_sizes_and_settings(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    loop = new_loop(*letters, tmp_path / "a")
    monkeypatch.setattr(workers_module, "batch_loss", fail)
    expected = r"pairs of up to \d+ and \d+ tokens .*lower train.micro_batch_tokens \(now 150\) or data.max_length"
    with pytest.raises(RunError, match=expected):
        try_largest(loop.workers, loop.store, loop.batching, loop.config)


def test_another_error_is_not_taken_for_want_of_memory(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("a bug")

    loop = new_loop(*letters, tmp_path / "a")
    monkeypatch.setattr(workers_module, "batch_loss", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        try_largest(loop.workers, loop.store, loop.batching, loop.config)
