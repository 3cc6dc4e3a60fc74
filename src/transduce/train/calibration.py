"""How long an update takes here, and so what a budget buys; known before the first update."""

from __future__ import annotations

import math
import time
from collections.abc import Container
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from statistics import median

import torch

from transduce.config import Config, ModelConfig, TrainConfig
from transduce.data.batching import Batching
from transduce.data.store import Store
from transduce.errors import ConfigError
from transduce.model import Transformer
from transduce.text.codec import SPECIALS
from transduce.train.choice import Size
from transduce.train.device import choose_device
from transduce.train.feed import LoadedBatch, updates
from transduce.train.recompute import recompute_layers
from transduce.train.workers import Workers
from transduce.train.world import ALONE, World

CALIBRATION_SECONDS = 4.0
TRIAL_SECONDS = 2.0
TRIAL_TOKENS = 128  # of a side for each worker at first, twice as many whenever there is time
SYMBOLS = 100
"""Entries taken for a vocabulary of symbols (letters, phonemes, brackets), which only its data knows."""
WARMUPS = 4  # a budget has room for so many: a longer warm-up is shortened to such a part of it
VALIDATIONS, CHECKPOINTS = 4, 20  # a budget has at least so many; as many of both, where the best are chosen from
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
        loss = workers.exchange(workers.backward(update.batches, step=0, others=update.others))
        loss.smoothed.item()  # a GPU has done all of it by then
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
    """The recipe with what the budget decides filled in, and a line about it; keys that were `given` stay.

    So does the peak of the learning rate: a shorter warm-up alone would raise it.
    """
    updates = budget.updates
    if updates is None:  # the last checkpoints come after the best one: that is how patience ends a run
        chosen = {} if "train.average" in given else {"average": "best"}
        return train.model_copy(update={"patience": train.patience or PATIENCE, **chosen}), endless_cooldown(train)
    if train.minutes is not None:
        _refuse_too_short(train.minutes, budget)
    changes: dict[str, float] = {}
    if updates < WARMUPS * train.warmup_steps:
        changes["warmup_steps"] = max(1, updates // WARMUPS)
    validations = VALIDATIONS if train.average == "last" else CHECKPOINTS
    if updates < validations * train.validate_every:
        changes["validate_every"] = max(1, updates // validations)
    if updates < CHECKPOINTS * train.save_every:
        changes["save_every"] = max(1, updates // CHECKPOINTS)
    changes = {name: value for name, value in changes.items() if f"train.{name}" not in given}
    if shorter := changes.get("warmup_steps"):
        # the schedule's peak is as warmup_steps^-0.5, whoever set the factor
        changes["learning_rate"] = train.learning_rate * (shorter / train.warmup_steps) ** 0.5
    fitted = ", ".join(f"{name} {getattr(train, name):,} -> {value:,.4g}" for name, value in changes.items())
    told = [f"fitted to about {updates:,} updates: {fitted}"] if changes else []
    resolved = train.model_copy(update=changes)
    if train.minutes is not None and updates < resolved.validate_every:
        told.append(
            f"no validation before the end: train.validate_every = {resolved.validate_every:,}, and about "
            f"{updates:,} updates fit into {train.minutes:g} minutes: lower it, or give more minutes"
        )
    return resolved, told


def endless_cooldown(train: TrainConfig) -> list[str]:
    """A line for who asks for a cool-down in a run that only patience ends."""
    if not train.cooldown:
        return []
    way_out = "give --minutes, train.steps or train.epochs"
    return [f"train.cooldown = {train.cooldown:g} does nothing: the run has no budget whose end is known: {way_out}"]


def _refuse_too_short(minutes: float, budget: Budget) -> None:
    """A budget that is spent before its first update is done is no budget."""
    seconds = budget.seconds_per_update
    if minutes * 60 < seconds:
        enough = math.ceil(VALIDATIONS * seconds / 6) / 10
        raise ConfigError(
            f"train.minutes = {minutes:g}: an update takes about {seconds:.1f} s here: start again with --minutes "
            f"{enough:g} or more, a smaller --preset or fewer train.batch_tokens"
        )


def expected(config: Config, size: Size, world: World = ALONE) -> Budget:
    """What a run will come to, before anything is prepared for it; a budget in minutes takes a trial to say."""
    train, seconds = config.train, 0.0
    if train.minutes is not None:
        if world.size > 1 and train.threads is None:
            shared = {"train": train.model_copy(update={"threads": world.cores})}
            config = config.model_copy(update=shared)
        speed = tokens_per_second(config, size) * world.size
        seconds = size.tokens_an_update(train) / speed
    return budget(train, seconds, size.updates_per_epoch(train))


def tokens_per_second(config: Config, size: Size, *, seconds: float = TRIAL_SECONDS) -> float:
    """Target tokens whose gradients are made in a second, by a trial with sentences of the mean lengths.

    Weights and words are random, and torch's randomness stays as it was. The batches grow as long as there is time;
    the largest count, and the first pass, which also sets things up, does not.
    """
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config.model, *vocabularies(config)).to(choose_device(config.train))
    if config.train.recompute:
        recompute_layers(model)
    threads = torch.get_num_threads()
    with closing(Workers(model, config.train)) as workers:
        passes = _passes(workers, config, size, seconds)
    torch.set_num_threads(threads)  # the workers' own may be others
    largest = passes[-1][0]
    return largest / median(took for made, took in passes[1:] or passes if made == largest)


def _passes(workers: Workers, config: Config, size: Size, seconds: float) -> list[tuple[int, float]]:
    """Target tokens and seconds of passes forward and backward that get larger; two, unless one takes too long."""
    train, passes = config.train, list[tuple[int, float]]()
    most = max(1, min(train.batch_tokens, train.micro_batch_tokens) // workers.count)
    tokens = min(TRIAL_TOKENS, most)
    while True:
        batches = [random_batch(config, size, tokens, workers.device) for _ in range(workers.count)]
        start = time.monotonic()
        workers.backward(batches, step=0).smoothed.item()
        took = time.monotonic() - start
        passes.append((sum(batch.tokens for batch in batches), took))
        seconds -= took
        if seconds > 2 * took:
            tokens = min(2 * tokens, most)
        elif len(passes) > 1 or seconds < 0:
            return passes


def random_batch(config: Config, size: Size, tokens: int, device: torch.device) -> LoadedBatch:
    """As many sentences of the mean lengths as make about so many tokens of the longer side, without padding."""
    source, target = (max(1, min(round(each), config.data.max_length)) for each in (size.source, size.target))
    rows = max(1, round(tokens / max(source, target)))
    generator = torch.Generator().manual_seed(0)
    ids = [
        torch.randint(len(SPECIALS), entries, (rows, length), generator=generator).to(device)
        for entries, length in zip(vocabularies(config), (source, target), strict=True)
    ]
    return LoadedBatch(ids[0], ids[1], ids[1].flatten(), present=None, source_padded=False)


def vocabularies(config: Config) -> tuple[int, int]:
    """How many entries the source's and the target's have, as far as the configuration knows."""
    kinds = (config.text.source_codec, config.text.target_codec)
    source, target = (config.text.vocabulary if kind in ("subwords", "words") else SYMBOLS for kind in kinds)
    return source, target


def multiplications(model: ModelConfig, vocabulary: int) -> int:
    """Multiply-adds of one source and one target token through the model, attention's n^2 part aside."""
    width = model.num_heads * (model.key_width + model.value_width)
    attention = 2 * model.d_model * width
    feed_forward = 2 * model.d_model * model.d_ff
    encoder = model.encoder_layers * (attention + feed_forward)
    decoder = model.decoder_layers * (2 * attention + feed_forward)
    return encoder + decoder + model.d_model * vocabulary
