"""The paper's equations written out on a model's own weights, for one pair: no batch, no cache, no fused products.

Everything on the way is kept, to be looked at, and what comes out is compared with what the model itself says.
S source length, T target length, D d_model, H heads, K d_k, V d_v.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.model import AttentionRecord, Transformer
from transduce.model.attention import Compatibility, CrossAttention, SelfAttention, causal_mask
from transduce.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
from transduce.model.transformer import Embedding
from transduce.model.window import in_window

TOLERANCE = 1e-3
"""Two orders of adding up in float32 may differ by this much of the largest value."""


@dataclass(frozen=True, eq=False)
class AttentionSteps:
    """Multi-head attention (section 3.2), the steps of equation 1 for all heads."""

    queries: Tensor
    """HTK."""
    keys: Tensor
    """HSK."""
    values: Tensor
    """HSV."""
    scores: Tensor
    """HTS, before the softmax and the mask."""
    may_attend: Tensor | None
    """TS; None: every key may be attended to."""
    weights: Tensor
    """HTS."""
    heads: Tensor
    """HTV, what each head says."""
    output: Tensor
    """TD, Concat(head_1, ..., head_h) W^O."""


@dataclass(frozen=True, eq=False)
class FeedForwardSteps:
    """Equation 2."""

    hidden: Tensor
    """Behind the first product and the activation: T d_ff."""
    output: Tensor
    """TD."""


@dataclass(frozen=True, eq=False)
class Sublayer:
    """A sub-layer with its residual connection and layer normalisation (section 3.1): all TD."""

    read: Tensor
    """What the sub-layer reads."""
    steps: AttentionSteps | FeedForwardSteps
    added: Tensor
    """x + Sublayer(x)."""
    output: Tensor


@dataclass(frozen=True, eq=False)
class InputSteps:
    """Embedding and position (sections 3.4 and 3.5): all TD."""

    embedded: Tensor
    scaled: Tensor
    positions: Tensor
    output: Tensor


@dataclass(frozen=True, eq=False)
class Computed:
    """A whole forward pass."""

    source: InputSteps
    encoder: list[list[Sublayer]]
    memory: Tensor
    target: InputSteps
    decoder: list[list[Sublayer]]
    states: Tensor
    """Of the decoder, behind its last layer: TD."""
    probabilities: Tensor
    """Of every token of the vocabulary, at each step."""


@torch.inference_mode()
def compute(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Computed:
    """The forward pass over what encoder and decoder read: ids with the end token, and ids behind the start token."""
    read, shifted = torch.tensor([*source]), torch.tensor([*target])
    entered = _input(model.source_embedding, read)
    window = _window(model, len(source), causal=False)
    x = entered.output
    encoder: list[list[Sublayer]] = []
    for layer in model.encoder.layers:
        encoder.append(_encoder_layer(layer, x, window))
        x = encoder[-1][-1].output
    memory = _normed(x, model.encoder.norm)
    begun = _input(model.target_embedding, shifted)
    mask = _window(model, len(target), causal=True)
    if mask is None:
        mask = causal_mask(len(target), len(target), read.device)
    x = begun.output
    decoder: list[list[Sublayer]] = []
    for layer, (keys, values) in zip(model.decoder.layers, _memory_projections(model, memory), strict=True):
        decoder.append(_decoder_layer(layer, x, mask, keys, values))
        x = decoder[-1][-1].output
    states = _normed(x, model.decoder.norm)
    probabilities = _product(states, model.projection.weight, model.projection.bias).softmax(dim=-1)
    computed = Computed(entered, encoder, memory, begun, decoder, states, probabilities)
    _compare(model, read, shifted, computed)
    return computed


def _compare(model: Transformer, source: Tensor, target: Tensor, computed: Computed) -> None:
    """The model's own attention and probabilities, computed its own way, must be these."""
    record = AttentionRecord()
    logits = model.logits(model(source.unsqueeze(0), target.unsqueeze(0), source_padded=False, record=record))
    theirs = [*record.encoder, *record.decoder, *record.cross]
    own = [layer[0] for layer in (*computed.encoder, *computed.decoder)] + [layer[1] for layer in computed.decoder]
    for place, (sublayer, weights) in enumerate(zip(own, theirs, strict=True)):
        assert isinstance(sublayer.steps, AttentionSteps)
        _same(f"attention {place + 1}", sublayer.steps.weights, weights[0])
    _same("probabilities", computed.probabilities, logits[0].softmax(dim=-1))


def _same(what: str, plain: Tensor, model: Tensor) -> None:
    apart = float((plain - model).abs().max())
    assert apart <= TOLERANCE * float(model.abs().max()), f"{what}: the equations and the model are {apart} apart"


def _input(embedding: Embedding, ids: Tensor) -> InputSteps:
    embedded = embedding.tokens.weight[ids]
    scaled = embedded * embedding.scale
    positions = embedding.positions(0, len(ids))
    return InputSteps(embedded, scaled, positions, scaled + positions)


def _encoder_layer(layer: nn.Module, x: Tensor, mask: Tensor | None) -> list[Sublayer]:
    assert isinstance(layer, EncoderLayer)
    attention, feed_forward = layer.self_attention, layer.feed_forward
    first = _sublayer(layer.self_residual, x, lambda read: _self_attention(attention, read, mask))
    second = _sublayer(layer.feed_forward_residual, first.output, lambda read: _feed_forward(feed_forward, read))
    return [first, second]


def _decoder_layer(layer: nn.Module, x: Tensor, mask: Tensor, keys: Tensor, values: Tensor) -> list[Sublayer]:
    assert isinstance(layer, DecoderLayer)
    attention, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
    first = _sublayer(layer.self_residual, x, lambda read: _self_attention(attention, read, mask))
    second = _sublayer(layer.cross_residual, first.output, lambda read: _cross_attention(cross, read, keys, values))
    third = _sublayer(layer.feed_forward_residual, second.output, lambda read: _feed_forward(feed_forward, read))
    return [first, second, third]


def _sublayer(
    residual: Residual, x: Tensor, steps_of: Callable[[Tensor], AttentionSteps | FeedForwardSteps]
) -> Sublayer:
    """LayerNorm(x + Sublayer(x)) as published, or x + Sublayer(LayerNorm(x))."""
    read = _normed(x, residual.norm) if residual.norm_first else x
    steps = steps_of(read)
    added = x + steps.output
    return Sublayer(read, steps, added, added if residual.norm_first else _normed(added, residual.norm))


def _self_attention(attention: SelfAttention, x: Tensor, mask: Tensor | None) -> AttentionSteps:
    weights = attention.qkv.weight.split(attention.widths)
    biases: Sequence[Tensor | None] = (
        [None] * 3 if attention.qkv.bias is None else attention.qkv.bias.split(attention.widths)
    )
    q, k, v = (
        _heads(_product(x, weight, bias), attention.num_heads) for weight, bias in zip(weights, biases, strict=True)
    )
    return _attention(attention, q, k, v, mask)


def _cross_attention(attention: CrossAttention, x: Tensor, keys: Tensor, values: Tensor) -> AttentionSteps:
    q = _heads(_product(x, attention.query.weight, attention.query.bias), attention.num_heads)
    return _attention(attention, q, keys, values, None)


def _attention(
    attention: SelfAttention | CrossAttention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> AttentionSteps:
    """softmax(Q K^T / sqrt(d_k)) V (equation 1), then Concat(head_1, ..., head_h) W^O."""
    scores = _scores(attention.compatibility, q, k)
    allowed = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    exponentials = (allowed - allowed.amax(dim=-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
    heads = weights @ v
    joined = heads.transpose(0, 1).flatten(1)  # HTV -> T(HV)
    output = _product(joined, attention.output.weight, attention.output.bias)
    return AttentionSteps(q, k, v, scores, mask, weights, heads, output)


def _scores(compatibility: Compatibility, q: Tensor, k: Tensor) -> Tensor:
    """q . k / sqrt(d_k), or one of the others of section 3.2.1."""
    if compatibility.hidden is not None:
        joined = torch.tanh(q.unsqueeze(2) + k.unsqueeze(1))  # HTSK
        return (joined * compatibility.hidden[:, None, None]).sum(dim=-1)
    products = q @ k.transpose(1, 2)
    return products if compatibility.scale == 1.0 else products / math.sqrt(q.size(-1))


def _feed_forward(feed_forward: FeedForward, x: Tensor) -> FeedForwardSteps:
    hidden = feed_forward.activation(_product(x, feed_forward.inner.weight, feed_forward.inner.bias))
    return FeedForwardSteps(hidden, _product(hidden, feed_forward.outer.weight, feed_forward.outer.bias))


def _memory_projections(model: Transformer, memory: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The memory's keys and values for each decoder layer: HSK and HSV."""
    decoder = model.decoder
    parts = _product(memory, decoder.memory.weight, decoder.memory.bias).split(
        decoder.widths * model.config.decoder_layers, dim=-1
    )
    heads = [_heads(part, model.config.num_heads) for part in parts]
    return list(zip(heads[::2], heads[1::2], strict=True))


def _window(model: Transformer, length: int, *, causal: bool) -> Tensor | None:
    """What restricted self-attention lets a position see; None: all of it."""
    if model.config.window is None:
        return None
    places = torch.arange(length)
    return in_window(places, places, model.config.window, causal=causal)


def _normed(x: Tensor, norm: nn.Module) -> Tensor:
    """Layer normalisation, written out; a stack that ends without one ends as it is."""
    if not isinstance(norm, nn.LayerNorm):
        return x
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / (centred.square().mean(dim=-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W + b; torch keeps W turned."""
    product = x @ weight.T
    return product if bias is None else product + bias


def _heads(x: Tensor, num_heads: int) -> Tensor:
    """T(HK) -> HTK."""
    heads: Tensor = x.unflatten(-1, (num_heads, -1))
    return heads.transpose(0, 1)
