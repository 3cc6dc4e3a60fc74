"""How long an update takes here, and so what a budget buys; known before the first update."""

from __future__ import annotations

import time
from collections.abc import Container
from dataclasses import dataclass
from itertools import islice
from statistics import median

from transduce.config import ModelConfig, TrainConfig
from transduce.data.batching import Batching
from transduce.data.store import Store
from transduce.train.feed import updates
from transduce.train.workers import Workers

CALIBRATION_SECONDS = 4.0
WARMUPS = 4  # a budget has room for so many: a longer warm-up is shortened to such a part of it
VALIDATIONS, CHECKPOINTS = 4, 20  # a budget has at least so many
PATIENCE = 6


@dataclass(frozen=True)
class Budget:
    """What the run comes to, if updates go on taking as long as those tried."""

    seconds_per_update: float
    updates_per_epoch: int
    updates: int | None
    """None: only patience ends the run."""

    @property
    def seconds(self) -> float | None:
        """Until the budget is spent."""
        return None if self.updates is None else self.updates * self.seconds_per_update


def calibrate(workers: Workers, store: Store, batching: Batching) -> Budget:
    """Time the gradients of a few updates, on all processes at once; weights and randomness stay as they are."""
    coming = updates(store, batching, workers.device, parts=workers.count, epoch=0, update=0, world=workers.world)
    passes: list[float] = []
    for update in islice(coming, batching.updates_per_epoch):
        start = time.monotonic()
        workers.exchange(workers.backward(update.batches, step=0, others=update.others))
        passes.append(time.monotonic() - start)
        if any(workers.world.highest([sum(passes) > CALIBRATION_SECONDS and len(passes) > 1])):
            break
    workers.model.zero_grad(set_to_none=True)
    seconds = median(passes[1:] or passes)  # the first pass also sets things up
    return budget(workers.train, seconds, batching.updates_per_epoch)


def budget(train: TrainConfig, seconds_per_update: float, updates_per_epoch: int) -> Budget:
    """The smallest of the limits that are set, in updates."""
    limits = []
    if train.steps is not None:
        limits.append(train.steps)
    if train.epochs is not None:
        limits.append(train.epochs * updates_per_epoch)
    if train.minutes is not None:
        limits.append(max(1, round(train.minutes * 60 / seconds_per_update)))
    return Budget(seconds_per_update, updates_per_epoch, min(limits, default=None))


def resolve(train: TrainConfig, budget: Budget, *, given: Container[str] = ()) -> tuple[TrainConfig, list[str]]:
    """The recipe with what the budget decides filled in, and a line about it; keys that were `given` stay."""
    updates = budget.updates
    if updates is None:  # the last checkpoints come after the best one: that is how patience ends a run
        chosen = {} if "train.average" in given else {"average": "best"}
        return train.model_copy(update={"patience": train.patience or PATIENCE, **chosen}), []
    changes: dict[str, float] = {}
    if updates < WARMUPS * train.warmup_steps:
        shorter = changes["warmup_steps"] = max(1, updates // WARMUPS)
        # the schedule's peak is warmup_steps^-0.5: a short warm-up must not raise it
        changes["learning_rate"] = train.learning_rate * (shorter / train.warmup_steps) ** 0.5
    if updates < VALIDATIONS * train.validate_every:
        changes["validate_every"] = max(1, updates // VALIDATIONS)
    if updates < CHECKPOINTS * train.save_every:
        changes["save_every"] = max(1, updates // CHECKPOINTS)
    changes = {name: value for name, value in changes.items() if f"train.{name}" not in given}
    if "warmup_steps" not in changes:
        changes.pop("learning_rate", None)
    if not changes:
        return train, []
    fitted = ", ".join(f"{name} {getattr(train, name):,} -> {value:,.4g}" for name, value in changes.items())
    return train.model_copy(update=changes), [f"few updates (about {updates:,}): {fitted}"]


def multiplications(model: ModelConfig, vocabulary: int) -> int:
    """Multiply-adds of one source and one target token through the model, attention's n^2 part aside."""
    width = model.num_heads * (model.key_width + model.value_width)
    attention = 2 * model.d_model * width
    feed_forward = 2 * model.d_model * model.d_ff
    encoder = model.encoder_layers * (attention + feed_forward)
    decoder = model.decoder_layers * (2 * attention + feed_forward)
    return encoder + decoder + model.d_model * vocabulary
