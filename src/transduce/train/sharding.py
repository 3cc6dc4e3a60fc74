"""FSDP2: each rank keeps a part of every weight and of its optimiser's numbers; a layer is whole only while it runs.

For models that one device cannot hold beside Adam's two moments. A checkpoint is written whole all the same, so that
any number of processes can go on with it, sharded or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transduce.config import TrainConfig
from transduce.model import Transformer
from transduce.train.feed import LoadedBatch
from transduce.train.loss import Loss
from transduce.train.workers import Workers, total
from transduce.train.world import World

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def shard(model: Transformer, world: World) -> None:
    """Cut the weights of each layer, and what is left of the model, among all ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = init_device_mesh(model.projection.weight.device.type, (world.size,))
    for layer in chain(model.encoder.layers, model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):  # a sum and no mean: the losses are divided by the tokens of all ranks
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)


def sharded(tensor: Tensor) -> DTensor | None:
    """The tensor, if this rank has only a part of it."""
    return tensor if hasattr(tensor, "full_tensor") else None  # type: ignore[return-value]


def whole(tensor: Tensor) -> Tensor:
    """A tensor in one piece; if it is sharded, all ranks must ask at once."""
    parted = sharded(tensor)
    return tensor if parted is None else parted.full_tensor()


def own_part(tensor: Tensor) -> Tensor:
    """What this rank has of a tensor, sharing its memory."""
    parted = sharded(tensor)
    return tensor if parted is None else parted.to_local()


def as_part(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, which every rank has, on the device of another and cut as that is."""
    parted, tensor = sharded(like), tensor.to(like.device)
    if parted is None:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, parted.device_mesh, parted.placements, src_data_rank=None)


def norms_of(tensors: list[Tensor]) -> Tensor:
    """The Euclidean norm of each, in one exchange if they are sharded."""
    parted = [part for part in map(sharded, tensors) if part is not None]
    if not parted:
        return torch.stack(torch._foreach_norm(tensors))
    from torch.distributed.tensor import DTensor, Partial

    own = torch.stack(torch._foreach_norm([part.to_local() for part in parted]))
    squares = DTensor.from_local(own.square(), parted[0].device_mesh, [Partial()])
    return squares.full_tensor().sqrt()


def gathered(tensors: Mapping[str, Tensor], world: World) -> dict[str, Tensor]:
    """Each tensor whole, one after the other; only rank 0 keeps them, a sharded one in the CPU's memory."""
    found = {}
    for name, tensor in tensors.items():
        each = whole(tensor)
        if world.first:
            found[name] = each.contiguous() if each is tensor else each.cpu()
    return found


def gather(model: Transformer, plain: Transformer | None) -> None:
    """Copy the weights of a sharded model into the plain one that rank 0 has; another model has nothing to gather."""
    copies = {} if plain is None else dict(plain.named_parameters())
    for name, parameter in model.named_parameters():
        weight = whole(parameter.detach())
        if name in copies:
            copies[name].detach().copy_(weight)


class ShardedWorkers(Workers):
    """One worker, whose backward pass adds up the gradients of all ranks as it goes."""

    def __init__(self, model: Transformer, train: TrainConfig, world: World) -> None:
        super().__init__(model, train, world)
        self.count = 1

    def _differentiate(
        self,
        batches: Sequence[LoadedBatch],
        step: int,
        objective: Callable[[Tensor], Tensor],
        check: Callable[[], None],
    ) -> Loss:
        """All ranks must have as many batches."""
        self.model.zero_grad(set_to_none=True)
        losses = []
        with self.world.watched():
            for number, batch in enumerate(batches):
                check()
                differentiated, loss = self.loss(batch, step, number)
                torch.autograd.backward(objective(differentiated))
                losses.append(loss)
        return total(losses)

    def exchange(self, loss: Loss) -> Loss:
        """The losses' sums over all ranks; the gradients have been added up."""
        return self.sum_of(loss)
