"""What a model is made of, read from its modules: the boxes of Figure 1 with their shapes and weights.

Matrices are written as in the paper, which multiplies from the right: rows in, columns out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from transduce.model import Transformer
from transduce.model.attention import Compatibility, CrossAttention, SelfAttention
from transduce.model.layers import EncoderLayer, FeedForward, Residual
from transduce.model.positions import Learned
from transduce.model.transformer import Decoder, Embedding, Encoder

Kind = Literal["embedding", "positions", "attention", "norm", "feed-forward", "linear", "softmax"]
NAMES = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU"}


@dataclass(frozen=True)
class Part:
    """A box: its title, the lines below the title, and how many weights are its own."""

    kind: Kind
    title: str
    details: tuple[str, ...] = ()
    weights: int = 0


@dataclass(frozen=True)
class Sublayer:
    """A sub-layer with its residual connection; `dropout` is of its output, before it is added."""

    part: Part
    norm: Part
    norm_first: bool
    dropout: float
    reads_memory: bool


@dataclass(frozen=True)
class Stack:
    """N identical layers, and the norm after them if there is one."""

    count: int
    sublayers: tuple[Sublayer, ...]
    final_norm: Part | None

    @property
    def weights(self) -> int:
        """Of all layers."""
        each = sum(sublayer.part.weights + sublayer.norm.weights for sublayer in self.sublayers)
        return self.count * each + (self.final_norm.weights if self.final_norm else 0)


@dataclass(frozen=True)
class Head:
    """One attention as Figure 2 shows it: its widths, and what its softmax is of."""

    num_heads: int
    d_model: int
    d_k: int
    d_v: int
    compatibility: Literal["scaled", "unscaled", "additive"]
    window: int | None
    dropout: float


@dataclass(frozen=True)
class Parts:
    """A whole model. The part that lends its matrix to tied ones has the weights; the others have none."""

    source: Part
    source_positions: Part
    target: Part
    target_positions: Part
    encoder: Stack
    decoder: Stack
    linear: Part
    softmax: Part
    head: Head
    d_ff: int
    source_tied: bool
    linear_tied: bool

    @property
    def weights(self) -> int:
        """Of the whole model, tied ones once."""
        single = (self.source, self.source_positions, self.target, self.target_positions, self.linear)
        return sum(part.weights for part in single) + self.encoder.weights + self.decoder.weights


def read_parts(model: Transformer) -> Parts:
    """Walk the modules of a model; numbers are not looked at, so that a model without them will do."""
    source, target, first = model.source_embedding, model.target_embedding, model.encoder.layers[0]
    assert isinstance(first, EncoderLayer)
    source_tied = source.tokens.weight is target.tokens.weight
    linear_tied = model.projection.weight is target.tokens.weight
    return Parts(
        source=_embedding("Input Embedding", source, lent=False),
        source_positions=_positions(source),
        target=_embedding("Output Embedding", target, lent=source_tied),
        target_positions=_positions(target),
        encoder=_stack(model, model.encoder),
        decoder=_stack(model, model.decoder),
        linear=_linear(model.projection, lent=linear_tied),
        softmax=Part("softmax", "Softmax"),
        head=_head(first.self_attention),
        d_ff=first.feed_forward.inner.out_features,
        source_tied=source_tied,
        linear_tied=linear_tied,
    )


def shape(weight: Tensor | Sequence[int]) -> str:
    """`512 × 2,048` for a matrix, `512` for a vector."""
    sizes = weight.shape if isinstance(weight, Tensor) else weight
    return " × ".join(f"{size:,}" for size in sizes)


def short(count: int) -> str:
    """A count of weights as a person says it: 63.0 M, 525 k, 64."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            digits = max(0, 2 - int(math.log10(count / size)))
            return f"{count / size:.{digits}f} {letter}"
    return str(count)


def _embedding(title: str, embedding: Embedding, *, lent: bool) -> Part:
    rows, width = embedding.tokens.weight.shape
    return Part("embedding", title, (f"{shape((rows, width))}, times √{width}",), 0 if lent else rows * width)


def _positions(embedding: Embedding) -> Part:
    if isinstance(embedding.positions, Learned):
        weight = embedding.positions.weight
        return Part("positions", "Positional Embedding", ("learned", shape(weight)), weight.numel())
    return Part("positions", "Positional Encoding", ("sinusoids",))


def _linear(projection: nn.Linear, *, lent: bool) -> Part:
    details = [shape(projection.weight.t())]
    if projection.bias is not None:
        details.append(f"bias {shape(projection.bias)}")
    weights = _count(projection.parameters()) - (projection.weight.numel() if lent else 0)
    return Part("linear", "Linear", (", ".join(details),), weights)


def _stack(model: Transformer, stack: Encoder | Decoder) -> Stack:
    shapes = [[parameter.shape for parameter in layer.parameters()] for layer in stack.layers]
    assert all(each == shapes[0] for each in shapes), "the layers of a stack differ"
    modules = list(stack.layers[0].children())
    pairs = zip(modules[::2], modules[1::2], strict=True)  # a sub-layer, then the residual connection around it
    norm = stack.norm if isinstance(stack.norm, nn.LayerNorm) else None
    return Stack(
        count=len(stack.layers),
        sublayers=tuple(_sublayer(model, module, residual) for module, residual in pairs),
        final_norm=None if norm is None else _norm("Norm", norm),
    )


def _sublayer(model: Transformer, module: nn.Module, residual: nn.Module) -> Sublayer:
    assert isinstance(residual, Residual), f"no residual connection: {type(residual).__name__}"
    match module:
        case SelfAttention():
            part = _self_attention(module)
        case CrossAttention():
            part = _cross_attention(model, module)
        case FeedForward():
            part = _feed_forward(module)
        case _:
            raise AssertionError(f"no sub-layer of the paper: {type(module).__name__}")
    title = "Norm" if residual.norm_first else "Add & Norm"
    return Sublayer(
        part=part,
        norm=_norm(title, residual.norm),
        norm_first=residual.norm_first,
        dropout=residual.dropout.rate,
        reads_memory=isinstance(module, CrossAttention),
    )


def _norm(title: str, norm: nn.LayerNorm) -> Part:
    return Part("norm", title, (f"γ, β: {shape(norm.weight)}",), _count(norm.parameters()))


def _self_attention(attention: SelfAttention) -> Part:
    blocks = attention.qkv.weight.split(attention.widths)
    title = f"{'Masked ' if attention.causal else ''}Multi-Head Attention"
    matrices = [*zip("QKV", blocks, strict=True), ("O", attention.output.weight)]
    return Part("attention", title, _attention_details(attention, matrices), _count(attention.parameters()))


def _cross_attention(model: Transformer, attention: CrossAttention) -> Part:
    memory = model.decoder.memory
    keys, values = model.blocks("decoder.memory.weight", memory.weight)[:2]
    matrices = [("Q", attention.query.weight), ("K", keys), ("V", values), ("O", attention.output.weight)]
    # the keys and values of all layers are one projection: a layer has its share
    weights = _count(attention.parameters()) + _count(memory.parameters()) // len(model.decoder.layers)
    return Part("attention", "Multi-Head Attention", _attention_details(attention, matrices), weights)


def _attention_details(
    attention: SelfAttention | CrossAttention, matrices: Sequence[tuple[str, Tensor]]
) -> tuple[str, ...]:
    head = _head(attention)
    by_shape: dict[str, list[str]] = {}
    for name, weight in matrices:
        by_shape.setdefault(shape(weight.t()), []).append(name)
    widths = f"h = {head.num_heads}, d_k = {head.d_k}, d_v = {head.d_v}"
    kind = {"scaled": (), "unscaled": ("dot products unscaled",), "additive": ("additive",)}[head.compatibility]
    window = () if head.window is None else (f"restricted, r = {head.window}",)
    extra = ", ".join((*kind, *window))
    lines = [f"{', '.join(names)}: {size}" for size, names in by_shape.items()]
    return (widths, *lines, extra) if extra else (widths, *lines)


def _head(attention: SelfAttention | CrossAttention) -> Head:
    query = attention.qkv if isinstance(attention, SelfAttention) else attention.query
    key = attention.widths[0] if isinstance(attention, SelfAttention) else query.out_features
    heads = attention.num_heads
    d_k, d_v = key // heads, attention.output.in_features // heads
    return Head(
        num_heads=heads,
        d_model=query.in_features,
        d_k=d_k,
        d_v=d_v,
        compatibility=_compatibility(attention.compatibility, d_k),
        window=attention.window if isinstance(attention, SelfAttention) else None,
        dropout=attention.compatibility.dropout.rate,
    )


def _compatibility(module: Compatibility, d_k: int) -> Literal["scaled", "unscaled", "additive"]:
    if module.hidden is not None:
        return "additive"
    return "scaled" if math.isclose(module.scale, d_k**-0.5) else "unscaled"


def _feed_forward(module: FeedForward) -> Part:
    widths = f"{module.inner.in_features:,} → {module.inner.out_features:,} → {module.outer.out_features:,}"
    activation = NAMES[module.activation.__name__]
    return Part("feed-forward", "Feed Forward", (f"{widths}, {activation}",), _count(module.parameters()))


def _count(parameters: Iterable[Tensor]) -> int:
    return sum(parameter.numel() for parameter in parameters)
