"""The training loop: updates, validations and checkpoints until the budget is spent."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor
from torch.optim import Adam

from transduce.config import Config, TrainConfig
from transduce.data.batching import Batch, Batching, Indices, collate
from transduce.data.store import Store
from transduce.errors import Interrupted, RunError
from transduce.model import Noise, Transformer
from transduce.text.codec import PAD
from transduce.train.loss import Loss, smoothed_cross_entropy
from transduce.train.progress import Listener, Report, Validation
from transduce.train.schedule import learning_rate
from transduce.train.state import State, prune, save_checkpoint

REPORT_SECONDS = 5.0


def make_optimizer(model: Transformer, train: TrainConfig) -> Adam:
    """Adam with the paper's constants; the schedule sets the learning rate before each update."""
    betas = (train.beta1, train.beta2)
    return Adam(model.parameters(), lr=0.0, betas=betas, eps=train.adam_eps, fused=True)


def batch_loss(model: Transformer, batch: Batch, noise: Noise | None, smoothing: float) -> Loss:
    """The loss summed over a batch's target tokens; padded positions are left out before the projection."""
    device = model.projection.weight.device
    source, target, expected = (
        torch.from_numpy(ids).to(device, non_blocking=True) for ids in (batch.source, batch.target, batch.expected)
    )
    hidden = model(source, target, noise=noise).flatten(0, 1)
    expected = expected.flatten()
    if batch.tokens < expected.numel():
        present = (expected != PAD).nonzero().squeeze(1)
        hidden, expected = hidden.index_select(0, present), expected.index_select(0, present)
    return smoothed_cross_entropy(hidden, model.projection.weight, model.projection.bias, expected, smoothing)


@dataclass
class Tally:
    """Sums since the last report; kept as tensors, so that no step waits for a number."""

    smoothed: Tensor
    nll: Tensor
    correct: Tensor
    tokens: int = 0
    updates: int = 0

    @classmethod
    def empty(cls) -> Tally:
        """Nothing yet."""
        return cls(torch.zeros(()), torch.zeros(()), torch.zeros((), dtype=torch.int64))

    def add(self, loss: Loss, tokens: int) -> None:
        """One micro-batch more."""
        self.smoothed = self.smoothed + loss.smoothed.detach()
        self.nll, self.correct = self.nll + loss.nll, self.correct + loss.correct
        self.tokens += tokens


class Loop:
    """A run of training from `state` on; `validate` scores the model as it is now."""

    def __init__(
        self,
        model: Transformer,
        optimizer: Adam,
        store: Store,
        config: Config,
        *,
        state: State,
        checkpoints: Path,
        validate: Callable[[int], Validation],
        listener: Listener,
    ) -> None:
        self.model, self.optimizer, self.store, self.config = model, optimizer, store, config
        self.state, self.checkpoints, self.validate, self.listener = state, checkpoints, validate, listener
        train = config.train
        self.batching = Batching.of(
            store,
            batch_tokens=train.batch_tokens,
            micro_batch_tokens=train.micro_batch_tokens,
            seed=train.seed,
        )
        self.signal: int | None = None
        self.tally = Tally.empty()
        self.started = self.reported = time.monotonic() - state.seconds

    def run(self) -> State:
        """Train until the budget is spent; on a signal, save and raise Interrupted."""
        self.started = time.monotonic() - self.state.seconds
        self.reported = time.monotonic()
        with self.listening_to_signals():
            while not self.finished():
                updates = self.batching.epoch(self.state.epoch)
                while self.state.update < len(updates) and not self.finished():
                    self.update(updates[self.state.update])
                    last = self.state.update + 1 == len(updates)
                    self.state = replace(
                        self.state,
                        step=self.state.step + 1,
                        update=0 if last else self.state.update + 1,
                        epoch=self.state.epoch + last,
                        seconds=time.monotonic() - self.started,
                    )
                    self.after_update()
                    if last:
                        break
        self.save()
        return self.state

    def update(self, micro_batches: list[Indices]) -> None:
        """One update: gradients of all micro-batches, divided by the target tokens of the whole update."""
        train, step = self.config.train, self.state.step + 1
        batches = [collate(self.store, indices) for indices in micro_batches]
        tokens = sum(batch.tokens for batch in batches)
        for number, batch in enumerate(batches):
            noise = Noise(train.seed, step, number)
            noise.seed_device(self.model.projection.weight.device)
            loss = batch_loss(self.model, batch, noise, train.label_smoothing)
            (loss.smoothed / tokens).backward()
            self.tally.add(loss, batch.tokens)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(step)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.tally.updates += 1

    def after_update(self) -> None:
        """Report, validate, save and obey signals, each when it is due."""
        train, step = self.config.train, self.state.step
        if time.monotonic() - self.reported >= REPORT_SECONDS:
            self.report()
        if step % train.validate_every == 0:
            self.report()
            validation = self.validate(step)
            self.state = self.state.after_validation(validation.perplexity, validation.bleu)
            self.listener.validated(validation)
            self.reported = time.monotonic()
        if step % train.save_every == 0:
            self.save()
        if self.signal is not None:
            self.save()
            name = signal.Signals(self.signal).name
            message = f"{name}: saved at step {step}; `transduce train --resume` goes on from there"
            raise Interrupted(message, exit_code=128 + self.signal)

    def save(self) -> None:
        """Write a checkpoint of this step, unless there is one, and prune old ones."""
        path = self.checkpoints / f"step-{self.state.step:08d}"
        if path.exists():
            return
        self.refuse_bad_numbers()
        self.state = replace(self.state, seconds=time.monotonic() - self.started)
        path = save_checkpoint(self.checkpoints, self.model, self.optimizer, self.state)
        self.listener.saved(path, self.state.step)
        prune(self.checkpoints, self.config.train)

    def refuse_bad_numbers(self) -> None:
        """A model with a NaN or infinity in it is never saved: the last good checkpoint must stay the newest."""
        for name, weight in self.model.named_parameters():
            if not bool(weight.isfinite().all()):
                raise RunError(
                    f"{self.checkpoints}: step {self.state.step:,}: {name} is not finite: lower train.learning_rate or "
                    "lengthen train.warmup_steps, and start again with another --out"
                )

    def report(self) -> None:
        """Tell the listener how training went since the last report."""
        if not self.tally.updates:
            return
        now = time.monotonic()
        tally, tokens = self.tally, self.tally.tokens
        share = self.share()
        seconds = now - self.started
        self.listener.report(
            Report(
                step=self.state.step,
                epoch=self.state.epoch,
                loss=tally.smoothed.item() / tokens,
                perplexity=math.exp(min(tally.nll.item() / tokens, 700.0)),
                accuracy=tally.correct.item() / tokens,
                learning_rate=self.learning_rate(self.state.step),
                tokens_per_second=tokens / (now - self.reported),
                seconds=seconds,
                remaining=seconds * (1 - share) / share if share else None,
                share=share,
            )
        )
        self.tally, self.reported = Tally.empty(), now

    def learning_rate(self, step: int) -> float:
        """The schedule's value for an update."""
        train = self.config.train
        return learning_rate(
            step,
            d_model=self.model.config.d_model,
            warmup_steps=train.warmup_steps,
            factor=train.learning_rate,
        )

    def share(self) -> float | None:
        """How much of the budget is spent, 0 to 1; None when only patience ends the run."""
        train, state = self.config.train, self.state
        shares = []
        if train.steps is not None:
            shares.append(state.step / train.steps)
        if train.epochs is not None:
            shares.append((state.epoch + state.update / max(1, self.updates_per_epoch())) / train.epochs)
        if train.minutes is not None:
            shares.append((time.monotonic() - self.started) / 60 / train.minutes)
        return min(1.0, max(shares)) if shares else None

    def updates_per_epoch(self) -> int:
        """About how many updates an epoch has."""
        tokens = max(int(self.batching.source_lengths.sum()), int(self.batching.target_lengths.sum()))
        return max(1, round(tokens / self.config.train.batch_tokens))

    def finished(self) -> bool:
        """Whether the budget or the patience is used up."""
        train, state = self.config.train, self.state
        return (
            (train.steps is not None and state.step >= train.steps)
            or (train.epochs is not None and state.epoch >= train.epochs)
            or (train.minutes is not None and time.monotonic() - self.started >= train.minutes * 60)
            or (train.patience is not None and state.without_improvement >= train.patience)
        )

    @contextmanager
    def listening_to_signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM stop after the update under way; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def heard(number: int, frame: FrameType | None) -> None:
            self.signal = number
            self.listener.warn(f"{signal.Signals(number).name}: stopping after this update; again to stop at once")
            for each, handler in before.items():
                signal.signal(each, handler)

        for number in before:
            signal.signal(number, heard)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
