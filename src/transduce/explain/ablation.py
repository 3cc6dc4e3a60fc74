"""A model without some of its heads, to see what they were good for.

A head reaches the rest of the model only through its own columns of the output projection W^O (section 3.2.2:
Concat(head_1, ..., head_h) W^O). With these at 0 it adds nothing, and the model's code need not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from transduce.explain.head import Head, check_head
from transduce.model import Transformer
from transduce.model.attention import CrossAttention, SelfAttention


@contextmanager
def switched_off(model: Transformer, heads: Iterable[Head]) -> Iterator[None]:
    """Within the block these heads add nothing; after it the weights are what they were, bit for bit.

    Whoever else uses the model meanwhile has to do without the heads, too.
    """
    chosen = sorted(set(heads))
    for head in chosen:
        check_head(head, model.config)
    slices = [output_slice(model, head) for head in chosen]
    kept = [each.clone() for each in slices]
    try:
        with torch.no_grad():
            for each in slices:
                each.zero_()
        yield
    finally:
        with torch.no_grad():
            for each, before in zip(slices, kept, strict=True):
                each.copy_(before)


def output_slice(model: Transformer, head: Head) -> Tensor:
    """The columns of W^O that a head's values meet: d_model x d_v, a view of the weight."""
    width = model.config.value_width
    weight = attention_of(model, head).output.weight.detach()
    return weight[:, head.head * width : (head.head + 1) * width]


def attention_of(model: Transformer, head: Head) -> SelfAttention | CrossAttention:
    """The attention sub-layer that a head is part of."""
    if head.kind == "encoder":
        found = model.encoder.layers[head.layer].self_attention
    else:
        layer = model.decoder.layers[head.layer]
        found = layer.self_attention if head.kind == "decoder" else layer.cross_attention
    assert isinstance(found, SelfAttention | CrossAttention)
    return found
