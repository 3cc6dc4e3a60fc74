"""Modules and tensors in float64 with numbers that no initialisation would give."""

from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def randomized(module: Module, seed: int = 0) -> Module:
    """In float64, with every weight drawn anew, biases and norms too."""
    generator = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.7, generator=generator)
    return module


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
