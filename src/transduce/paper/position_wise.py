"""The feed-forward network is one function for all positions (section 3.3): shown, and what it saves."""

from __future__ import annotations

from typing import Any

import torch

from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.model.layers import FeedForward
from transduce.model.transformer import shape_only
from transduce.paper.result import Table

POSITIONS = 50
VOCABULARY = 37_000  # section 5.1


@torch.no_grad()
def position_wise(model: Transformer) -> dict[str, Any]:
    """Over all feed-forward networks of a model: what moving a vector to other positions changes in its output."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, POSITIONS, model.config.d_model, generator=generator)
    order = torch.randperm(POSITIONS, generator=generator)
    networks = [module for module in model.modules() if isinstance(module, FeedForward)]
    moved = [(network(x[:, order], None) - network(x, None)[:, order]).abs().max().item() for network in networks]
    size = [network(x, None).abs().max().item() for network in networks]
    return {"moved": max(moved), "size": max(size), "networks": len(networks), **parameters(model)}


def parameters(model: Transformer) -> dict[str, int]:
    """Of the feed-forward networks, and of everything."""
    networks = [module for module in model.modules() if isinstance(module, FeedForward)]
    shared = sum(weight.numel() for network in networks for weight in network.parameters())
    return {"shared": shared, "all": model.num_parameters()}


def position_wise_parts(found: dict[str, Any]) -> list[str | Table]:
    """The demonstration and the parameters."""
    base = parameters(shape_only(ModelConfig(), VOCABULARY, VOCABULARY))
    rows = [
        [
            name,
            f"{each['shared'] / 1e6:.2f}M",
            f"{each['all'] / 1e6:.2f}M",
            f"{POSITIONS * each['shared'] / 1e6:,.1f}M",
            f"{(each['all'] + (POSITIONS - 1) * each['shared']) / 1e6:,.1f}M",
        ]
        for name, each in (("the whole model above", found), ("the paper's base, 37,000 subwords", base))
    ]
    text = (
        'Yes: they are "the same across different positions" and differ from layer to layer (section 3.3). '
        f"{POSITIONS} random vectors, put in another order, give the same outputs in that order: in "
        f"{found['networks']} networks no number differs by more than {found['moved']:.1g}, where the largest is "
        f"{found['size']:.1f}. A network of its own for every position would cost:"
    )
    apart = f"one for each of {POSITIONS} positions"
    heading = ["model", "feed-forward networks", "all parameters", f"networks, {apart}", f"all parameters, {apart}"]
    return [
        "## Are the weights of the feed-forward network shared by all positions?",
        text,
        Table("position-wise", heading, rows),
    ]
