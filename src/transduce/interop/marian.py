"""Where the weights of a MarianMT model (Hugging Face's format of OPUS-MT) are in ours.

Theirs is the same function with three differences of layout. The sinusoids stand in halves, all sines and then all
cosines, where the paper interleaves them: that is a permutation of the d_model dimensions, which every weight that
reads or writes the residual stream follows. Q, K and V are matrices of their own, and so are the memory's keys and
values. And ids have another order.

V vocabulary, D d_model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.text.codec import BOS, EOS, PAD, SPECIALS, UNK

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
"""Ours and theirs; both read "silu" too."""

LAYER_NORM_EPS = 1e-5
"""MarianMT has no setting for it."""


@dataclass(frozen=True)
class Part:
    """A matrix or a norm of theirs, and the one of ours that holds it; parts of one of ours come in its order."""

    theirs: str
    ours: str
    reads: bool
    """Its columns are the residual stream; else its rows are, and its bias, or it is a norm."""


def parts(encoder_layers: int, decoder_layers: int) -> list[Part]:
    """All layers, with the attention's projections one by one."""
    encoder = [part for n in range(encoder_layers) for part in _layer("encoder", n)]
    decoder = [part for n in range(decoder_layers) for part in (*_layer("decoder", n), *_cross_attention(n))]
    return encoder + decoder


def _layer(stack: str, number: int) -> list[Part]:
    theirs, ours = f"model.{stack}.layers.{number}", f"{stack}.layers.{number}"
    projections = [Part(f"{theirs}.self_attn.{x}_proj", f"{ours}.self_attention.qkv", reads=True) for x in "qkv"]
    return [
        *projections,
        Part(f"{theirs}.self_attn.out_proj", f"{ours}.self_attention.output", reads=False),
        Part(f"{theirs}.self_attn_layer_norm", f"{ours}.self_residual.norm", reads=False),
        Part(f"{theirs}.fc1", f"{ours}.feed_forward.inner", reads=True),
        Part(f"{theirs}.fc2", f"{ours}.feed_forward.outer", reads=False),
        Part(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_residual.norm", reads=False),
    ]


def _cross_attention(number: int) -> list[Part]:
    theirs, ours = f"model.decoder.layers.{number}", f"decoder.layers.{number}"
    return [
        Part(f"{theirs}.encoder_attn.q_proj", f"{ours}.cross_attention.query", reads=True),
        Part(f"{theirs}.encoder_attn.k_proj", "decoder.memory", reads=True),
        Part(f"{theirs}.encoder_attn.v_proj", "decoder.memory", reads=True),
        Part(f"{theirs}.encoder_attn.out_proj", f"{ours}.cross_attention.output", reads=False),
        Part(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_residual.norm", reads=False),
    ]


def halves(d_model: int) -> Tensor:
    """Our dimensions in the order of theirs: the sines' (even), then the cosines' (odd)."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def interleaved(d_model: int) -> Tensor:
    """Their dimensions in the order of ours."""
    return halves(d_model).argsort()


def layers_to_theirs(weights: Mapping[str, Tensor], parts: Sequence[Part], d_model: int) -> dict[str, Tensor]:
    """Our layers under their names; a bias that ours does not have is zero."""
    order, counts = halves(d_model), Counter(part.ours for part in parts)
    blocks = {
        f"{name}.{kind}": iter(weights[f"{name}.{kind}"].chunk(count))
        for name, count in counts.items()
        for kind in ("weight", "bias")
        if f"{name}.{kind}" in weights
    }
    found = {}
    for part in parts:
        weight, biases = next(blocks[f"{part.ours}.weight"]), blocks.get(f"{part.ours}.bias")
        bias = torch.zeros(weight.size(0)) if biases is None else next(biases)
        found[f"{part.theirs}.weight"] = weight[:, order] if part.reads else weight[order]
        found[f"{part.theirs}.bias"] = bias if part.reads else bias[order]
    return found


def layers_to_ours(tensors: Mapping[str, Tensor], parts: Sequence[Part], d_model: int) -> dict[str, Tensor]:
    """Their layers under our names."""
    order = interleaved(d_model)
    blocks: dict[str, list[Tensor]] = defaultdict(list)
    for part in parts:
        weight, bias = tensors[f"{part.theirs}.weight"], tensors[f"{part.theirs}.bias"]
        blocks[f"{part.ours}.weight"].append(weight[:, order] if part.reads else weight[order])
        blocks[f"{part.ours}.bias"].append(bias if part.reads else bias[order])
    return {name: torch.cat(found) for name, found in blocks.items()}


def ids_in_their_order(size: int, pad: int) -> list[int]:
    """Our ids as theirs are wont to be: the end token 0, the unknown one 1, and padding, at `pad`, the last."""
    ids = [EOS, UNK, *range(len(SPECIALS), size), BOS]
    ids.insert(pad, PAD)
    return ids
