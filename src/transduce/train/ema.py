"""A moving average of the weights (Polyak & Juditsky 1992), which is validated and kept in their stead.

After update n it moves towards the weights by max(1 - decay, 9 / (10 + n)) of the way: by the large first steps the
weights that training started with are soon forgotten. An update that was left out does not move it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Adam

from transduce.config import TrainConfig
from transduce.model import Transformer
from transduce.train.sharding import as_part, own_part


class MovingAverage:
    """The average of each weight, in the weights' own precision; of sharded ones each rank has its part."""

    def __init__(self, model: Transformer, optimizer: Adam, decay: float) -> None:
        self.parameters, self.optimizer, self.decay = dict(model.named_parameters()), optimizer, decay
        self.weights = {name: parameter.detach().clone() for name, parameter in self.parameters.items()}

    @classmethod
    def of(cls, model: Transformer, optimizer: Adam, train: TrainConfig) -> MovingAverage | None:
        """As the recipe says, from the weights as they are; None without `train.ema`."""
        return cls(model, optimizer, train.ema) if train.ema else None

    @torch.no_grad()
    def update(self, made: Tensor) -> None:
        """Follow the weights after an update, if it was `made`: a truth value, which stays on its device."""
        first = next(iter(self.parameters.values()))
        count = self.optimizer.state[first]["step"]  # Adam's: of updates that were made, and in every checkpoint
        share = torch.clamp(9 / (10 + count), min=1 - self.decay) * made
        averages, weights = self._parts()
        torch._foreach_lerp_(averages, weights, [share.to(averages[0].dtype)] * len(averages))

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from a checkpoint's average, or from its weights if it has none."""
        for name, average in self.weights.items():
            average.copy_(as_part(weights[name], average))

    @contextmanager
    def in_the_weights_stead(self) -> Iterator[None]:
        """Within, the model has the average's weights; afterwards its own, bit for bit."""
        averages, weights = self._parts()
        own = [weight.clone() for weight in weights]
        torch._foreach_copy_(weights, averages)
        try:
            yield
        finally:
            torch._foreach_copy_(weights, own)

    def _parts(self) -> tuple[list[Tensor], list[Tensor]]:
        """What this rank has of the averages and of the weights."""
        weights = [parameter.detach() for parameter in self.parameters.values()]
        return [own_part(average) for average in self.weights.values()], [own_part(weight) for weight in weights]
