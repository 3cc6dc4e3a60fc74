"""From gradients to weights, unless a number went wrong: an update with a NaN or an infinity in it changes nothing.

Whether one is there is decided and heeded on the device: a GPU is never waited for before its verdicts are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Adam

from transduce.config import TrainConfig
from transduce.data.layout import Indices
from transduce.model import Transformer
from transduce.train.loss import Loss
from transduce.train.sharding import norms_of
from transduce.train.state import LossScale

UNREAD = 10  # verdicts that a GPU may be ahead of us


@dataclass(frozen=True)
class Attempt:
    """An update that was tried, its verdict still on the device."""

    step: int
    pairs: Indices
    fine: Tensor  # a truth value
    loss: Tensor
    norms: Tensor  # of the gradient by each parameter
    scale: Tensor | None  # of the loss, with float16


@dataclass(frozen=True)
class Verdict:
    """What became of an update: `culprit` is what was not finite, None if all was well."""

    step: int
    pairs: Indices
    culprit: str | None


class Guard:
    """Applies gradients with Adam: unscaled if they were scaled, clipped if asked for, and only if they are finite."""

    def __init__(self, model: Transformer, optimizer: Adam, train: TrainConfig) -> None:
        self.optimizer, self.clip_norm = optimizer, train.clip_norm
        self.names, self.parameters = zip(*model.named_parameters(), strict=True)
        self.device = model.projection.weight.device
        self.scaler = GradScaler(self.device.type, enabled=train.precision == "float16")
        self.scale(torch.zeros((), device=self.device))  # makes the scale, before threads ask for it
        self.unread: list[Attempt] = []
        self.norm: Tensor | None = None

    def scale(self, loss: Tensor) -> Tensor:
        """The loss as it is differentiated: with float16 it is scaled, so that small gradients do not vanish."""
        scaled: Tensor = self.scaler.scale(loss)
        return scaled

    def apply(self, step: int, pairs: Indices, loss: Loss, rate: float) -> Tensor:
        """One step of Adam by the gradients that are there; returns whether it was made, as a truth value."""
        scale = self.scaler._scale.clone() if self.scaler.is_enabled() and self.scaler._scale is not None else None
        if scale is not None:
            self.scaler.unscale_(self.optimizer)
        norms = norms_of([p.grad for p in self.parameters])
        self.norm = torch.linalg.vector_norm(norms)
        fine = self.norm.isfinite() & loss.smoothed.isfinite()
        if self.clip_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip_norm, self.norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.found_inf = (~fine).float()  # type: ignore[attr-defined]  # torch's fused Adam heeds it
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if scale is not None:
            self.scaler.update()
        self.unread.append(Attempt(step, pairs, fine, loss.smoothed, norms, scale))
        return fine

    @property
    def due(self) -> bool:
        """Whether verdicts should be read: at once where that costs nothing."""
        return self.device.type == "cpu" or len(self.unread) >= UNREAD

    def read(self) -> list[Verdict]:
        """The verdicts since the last reading, oldest first."""
        attempts, self.unread = self.unread, []
        return [Verdict(attempt.step, attempt.pairs, self._culprit(attempt)) for attempt in attempts]

    def _culprit(self, attempt: Attempt) -> str | None:
        if bool(attempt.fine):
            return None
        if not bool(attempt.loss.isfinite()):
            return "the loss"
        if attempt.scale is not None and attempt.scale.item() > 1:
            return None  # the scale was too large for float16 and is lower now, which is how a good one is found
        bad = (~attempt.norms.isfinite()).nonzero()
        return f"the gradient of {self.names[int(bad[0])]}" if len(bad) else "the norm of the gradient"

    @property
    def loss_scale(self) -> LossScale | None:
        """For the checkpoint."""
        if not self.scaler.is_enabled():
            return None
        kept = self.scaler.state_dict()
        return LossScale(kept["scale"], kept["_growth_tracker"])

    def restore(self, scale: LossScale | None) -> None:
        """Go on from a checkpoint; what it has no scale for starts as a new run would."""
        self.unread.clear()
        if scale is not None and self.scaler.is_enabled():
            kept = {**self.scaler.state_dict(), "scale": scale.value, "_growth_tracker": scale.steps}
            self.scaler.load_state_dict(kept)
