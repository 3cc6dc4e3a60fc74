"""The recurrent model trained as the Transformer is: the same trainer, data, batches, loss and threads."""

from __future__ import annotations

from pathlib import Path

import torch

from transduce.config import Config
from transduce.data.preparation import Prepared
from transduce.model import Transformer
from transduce.paper.recurrent import Recurrent
from transduce.train.calibration import Budget
from transduce.train.state import State, checkpoints
from transduce.train.workers import Workers
from transduce.trainer import Trainer

PEAK, WARMUP, CLIP = 1e-2, 200, 1.0


class RecurrentTrainer(Trainer):
    """Trains a `Recurrent`. Its result is its last checkpoint: no bundle holds such a model."""

    def new_model(self, prepared: Prepared) -> Transformer:
        """A model whose first weights follow from the seed alone."""
        return new_recurrent(self.config, prepared).as_transformer()

    def _announce(self, model: Transformer, prepared: Prepared, budget: Budget, workers: Workers) -> None:
        """Say first what it is: the configuration knows only Transformers."""
        what = f"a GRU encoder-decoder with additive attention, {model.num_parameters():,} parameters"
        self.listener.note(f"{what}; what is told next of layers, heads and norms does not hold for it")
        super()._announce(model, prepared, budget, workers)

    def finish(self, model: Transformer, prepared: Prepared, state: State) -> Path:
        """The last checkpoint."""
        return checkpoints(self.out / "checkpoints")[-1]


def new_recurrent(config: Config, prepared: Prepared) -> Recurrent:
    """The recurrent model of a configuration."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        return Recurrent(config.model, prepared.target_codec.size)


def recipe(d_model: int) -> tuple[str, ...]:
    """Its own learning rate, and gradients clipped, as such models need it; the schedule has the Transformer's form."""
    factor = PEAK * (d_model * WARMUP) ** 0.5
    return (f"train.learning_rate={factor!r}", f"train.warmup_steps={WARMUP}", f"train.clip_norm={CLIP}")
