"""Threads that share out the sentences of an update.

torch would split every operation over the cores and wait for the slowest of them, thousands of times an update. But a
sentence needs no other sentence: here each worker takes its own ones through the whole model on one core, and all meet
once, when their gradients are summed; so do the processes of a `World`, whose workers have each their own sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from transduce.config import TrainConfig
from transduce.model import Noise, Transformer
from transduce.model.products import fast_products
from transduce.train.feed import LoadedBatch, go_on
from transduce.train.loss import Loss, smoothed_cross_entropy
from transduce.train.r_drop import r_drop, twice
from transduce.train.world import ALONE, World

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
WORKER_TOKENS = 512  # with fewer to a worker, operations would be too small to be worth their calls


def batch_loss(model: Transformer, batch: LoadedBatch, noise: Noise | None, smoothing: float) -> Loss:
    """The loss summed over a batch's target tokens."""
    hidden = states(model, batch, noise)
    return smoothed_cross_entropy(hidden, model.projection.weight, model.projection.bias, batch.expected, smoothing)


def states(model: Transformer, batch: LoadedBatch, noise: Noise | None) -> Tensor:
    """The decoder's states (ND); padded positions are left out before the projection."""
    hidden: Tensor = model(batch.source, batch.target, source_padded=batch.source_padded, noise=noise).flatten(0, 1)
    return hidden if batch.present is None else hidden.index_select(0, batch.present)


def as_it_is(loss: Tensor) -> Tensor:
    """Not scaled."""
    return loss


class Workers:
    """As many threads as the CPU has cores for and a micro-batch has work for; elsewhere one, which is parallel."""

    def __init__(self, model: Transformer, train: TrainConfig, world: World = ALONE) -> None:
        self.model, self.train, self.world = model, train, world
        self.device = model.projection.weight.device
        self.threads = train.threads or torch.get_num_threads()
        self.count = 1
        if self.device.type == "cpu" and not train.compile:
            micro_batch = min(train.batch_tokens, train.micro_batch_tokens) // world.size
            self.count = max(1, min(self.threads, micro_batch // WORKER_TOKENS))
        self.parameters = list(model.parameters())
        self.pool = ThreadPoolExecutor(self.count, thread_name_prefix="worker")

    def backward(
        self,
        batches: Sequence[LoadedBatch],
        step: int,
        *,
        others: int = 0,
        scale: Callable[[Tensor], Tensor] = as_it_is,
        check: Callable[[], None] = go_on,
    ) -> Loss:
        """Set every `grad` to the gradient of the mean loss of all target tokens; returns the losses' sums.

        Other processes may have `others` more of these tokens: then it is this one's part of the gradient. Before each
        batch `check` may raise: then no `grad` is changed. What is differentiated is `scale` of the loss.
        """
        tokens = others + sum(batch.tokens for batch in batches)
        return self._differentiate(batches, step, lambda loss: scale(loss / tokens), check)

    def _differentiate(
        self,
        batches: Sequence[LoadedBatch],
        step: int,
        objective: Callable[[Tensor], Tensor],
        check: Callable[[], None],
    ) -> Loss:
        """Worker i takes batches i, i + count, ...; sums have a fixed order, whoever is done first."""

        def work(worker: int) -> tuple[Loss, list[Tensor]]:
            return self._work(batches, step, worker, objective, check)

        workers = range(min(self.count, len(batches)))
        with self._threads_shared_out(), fast_products():
            found = [work(0)] if len(workers) == 1 else list(self.pool.map(work, workers))
            gradients = _summed([each for _, each in found])
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        return total([loss for loss, _ in found])

    def _work(
        self,
        batches: Sequence[LoadedBatch],
        step: int,
        worker: int,
        objective: Callable[[Tensor], Tensor],
        check: Callable[[], None],
    ) -> tuple[Loss, list[Tensor]]:
        losses: list[Loss] = []
        summed: list[Tensor] = []
        for number in range(worker, len(batches), self.count):
            check()
            differentiated, loss = self.loss(batches[number], step, number)
            gradients = list(torch.autograd.grad(objective(differentiated), self.parameters))
            summed = _summed([summed, gradients]) if summed else gradients
            losses.append(loss)
        return total(losses), summed

    def loss(self, batch: LoadedBatch, step: int, number: int) -> tuple[Tensor, Loss]:
        """What is differentiated for one batch, in the precision and with the noise of training, and what is told."""
        train, projection = self.train, self.model.projection
        noise = Noise(train.seed, step, number, self.world.rank)
        noise.seed_device(self.device)
        with torch.autocast(self.device.type, AUTOCAST.get(train.precision), enabled=train.precision in AUTOCAST):
            if not train.r_drop:
                loss = batch_loss(self.model, batch, noise, train.label_smoothing)
                return loss.smoothed, loss
            return r_drop(
                states(self.model, twice(batch), noise),
                projection.weight,
                projection.bias,
                batch.expected,
                smoothing=train.label_smoothing,
                alpha=train.r_drop,
            )

    def exchange(self, loss: Loss) -> Loss:
        """Add up every `grad` over all processes; returns the sums of their losses."""
        self.world.sum([parameter.grad for parameter in self.parameters if parameter.grad is not None])
        return self.sum_of(loss)

    def sum_of(self, loss: Loss) -> Loss:
        """The losses' sums over all processes."""
        if self.world.size == 1:
            return loss
        sums = torch.stack([each.double() for each in loss])
        self.world.sum([sums])
        return Loss(*(each.to(own.dtype) for each, own in zip(sums, loss, strict=True)))

    @contextmanager
    def _threads_shared_out(self) -> Iterator[None]:
        """Within, an operation has as many threads as there are to a worker."""
        torch.set_num_threads(max(1, self.threads // self.count))
        try:
            yield
        finally:
            torch.set_num_threads(self.threads)

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown()


def total(losses: list[Loss]) -> Loss:
    """Of several batches, without a gradient."""
    return Loss(*(torch.stack(sums).sum().detach() for sums in zip(*losses, strict=True)))


def _summed(gradients: list[list[Tensor]]) -> list[Tensor]:
    """The first list, to which the others have been added."""
    first, *others = gradients
    for other in others:
        torch._foreach_add_(first, other)
    return first
