"""Training loops to compare: each takes the same batches, drops at the same places, and does one Adam update a batch.

A contender's file is imported only where it runs: its environment may lack what another's needs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from benchmarks.batches import Batch
from benchmarks.shapes import Shape

if TYPE_CHECKING:
    from torch import Tensor


class Contender(Protocol):
    """A model that can be trained by one batch."""

    def update(self, batch: Batch, number: int) -> Tensor:
        """One update, the `number`th; returns the smoothed loss per target token before it."""
        ...


Maker = Callable[[Shape], Contender]

OURS = "transduce"
OURS_RESIDUAL = "transduce, residual dropout only"
TORCH_NN = "torch.nn.Transformer loop"
ANNOTATED = "Annotated-style modules"
MARIAN = "Hugging Face Marian loop"


CONTENDERS = {
    OURS: "ours:ours",
    OURS_RESIDUAL: "ours:ours_residual",
    TORCH_NN: "torch_nn:torch_nn",
    ANNOTATED: "annotated:annotated",
    MARIAN: "marian:marian",
}
"""By name, the module and the function that makes it."""

LEVERS = {
    "workers: each its own sentences, on one core": "without:without_workers",
    "products by oneDNN, on AMD's AVX-512": "without:without_onednn",
    "dropout masks drawn and widened by numpy": "without:without_own_dropout",
    "attention with its gradient written out": "without:without_written_out_attention",
    "projection and loss in chunks": "without:without_chunked_loss",
    "freed memory kept": "without:without_kept_memory",
    "fused Adam": "without:without_fused_adam",
}
"""Ours without one of its fast ways, by the name of that."""


def maker(name: str) -> Maker:
    """Imports what a contender needs and no more."""
    module, _, function = {**CONTENDERS, **LEVERS}[name].partition(":")
    make: Maker = getattr(import_module(f"benchmarks.contenders.{module}"), function)
    return make
