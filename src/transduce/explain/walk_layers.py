"""The layers of a walk: equation 1 for one head and one query, all heads together, equation 2, residual and norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from transduce.config import ModelConfig
from transduce.explain.equations import AttentionSteps, FeedForwardSteps, Sublayer
from transduce.explain.stage import Grid, Row, Stage, Step, Vector

FIRST = 5
"""Values of a vector that are shown."""
ATTENTION = {
    "scaled": "softmax(Q Kᵀ / √d_k) V (1)",
    "unscaled": "softmax(Q Kᵀ) V",
    "additive": "softmax(w · tanh(q + k)) V",
}
SCORE = {"scaled": "q · k / √d_k", "unscaled": "q · k", "additive": "w · tanh(q + k)"}


class Look(NamedTuple):
    """What is shown of a layer: the tokens of its queries and of the memory, which query, and which head."""

    queries: Sequence[str]
    memory: Sequence[str]
    place: int
    head: int

    @property
    def piece(self) -> str:
        """The query."""
        return f"“{self.queries[self.place]}”"


def encoder_layer(config: ModelConfig, place: int, sublayers: Sequence[Sublayer], look: Look, *, opened: bool) -> Stage:
    """Self-attention and the feed-forward network."""
    own, fed = sublayers
    steps = [
        *_attention(config, "Self-attention", own, look, look.queries),
        *_feed_forward(config, fed, look),
    ]
    title = f"Encoder layer {place + 1} of {config.encoder_layers}"
    return Stage(title, _strongest(own, look, look.queries), steps, opened)


def decoder_layer(config: ModelConfig, place: int, sublayers: Sequence[Sublayer], look: Look, *, opened: bool) -> Stage:
    """Masked self-attention, attention to the memory, and the feed-forward network."""
    own, cross, fed = sublayers
    steps = [
        *_attention(config, "Masked self-attention", own, look, look.queries),
        *_attention(config, "Attention to the memory, the encoder's output", cross, look, look.memory),
        *_feed_forward(config, fed, look),
    ]
    title = f"Decoder layer {place + 1} of {config.decoder_layers}"
    return Stage(title, _strongest(cross, look, look.memory), steps, opened)


def vector(name: str, rows: Tensor, place: int) -> Vector:
    """A row of a matrix."""
    return Vector(name, tuple(rows.shape), tuple(rows[place, :FIRST].tolist()))


def _attended(sublayer: Sublayer) -> AttentionSteps:
    assert isinstance(sublayer.steps, AttentionSteps)
    return sublayer.steps


def _strongest(sublayer: Sublayer, look: Look, keys: Sequence[str]) -> str:
    weights = _attended(sublayer).weights[look.head, look.place]
    best = int(weights.argmax())
    return f"in head {look.head + 1}, {look.piece} looks most at “{keys[best]}”: {float(weights[best]):.3f}"


def _attention(config: ModelConfig, title: str, sublayer: Sublayer, look: Look, keys: Sequence[str]) -> list[Step]:
    """Equation 1 for one head and one query, then all heads together."""
    steps, place, head = _attended(sublayer), look.place, look.head
    weights = [f"{value:.3f}" for value in steps.weights[head, place].tolist()]
    scaled = f", √d_k = {math.sqrt(config.key_width):.3f}" if config.attention == "scaled" else ""
    read = "X" if keys is look.queries else "memory"
    bias = [f" + b^{letter}" if config.attention_bias else "" for letter in "QKVO"]
    projections = Step(
        f"{title}: queries, keys and values of head {head + 1}",
        "3.2.2, 3.2.3",
        f"Q = X W^Q{bias[0]}, K = {read} W^K{bias[1]}, V = {read} W^V{bias[2]}",
        [
            vector(f"q of {look.piece} in Q", steps.queries[head], place),
            vector(f"k of “{keys[0]}” in K", steps.keys[head], 0),
            vector(f"v of “{keys[0]}” in V", steps.values[head], 0),
        ],
    )
    scores = Step(
        "How well the query fits each key",
        "3.2.1",
        SCORE[config.attention] + scaled,
        [Row(look.piece, keys, _masked(steps, look))],
        "" if steps.may_attend is None else "Where a position may not look, the score is −∞ and the weight 0.",
    )
    softmax = Step(
        "Softmax: weights that sum to 1, by which the values are averaged",
        "3.2.1",
        f"Attention(Q, K, V) = {ATTENTION[config.attention]}",
        [
            Row(look.piece, keys, weights),
            Grid(f"All of head {head + 1}", look.queries, keys, steps.weights[head].tolist()),
            vector(f"head {head + 1} = weights V", steps.heads[head], place),
        ],
    )
    together = Step(
        "All heads side by side",
        "3.2.2",
        f"MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O{bias[3]}",
        [
            *(vector(f"head {number}", each, place) for number, each in enumerate(steps.heads, 1)),
            vector(f"Concat(...) W^O{bias[3]}", steps.output, place),
        ],
    )
    return [
        *_norm_first(config, sublayer, look),
        projections,
        scores,
        softmax,
        together,
        _residual(config, sublayer, look),
    ]


def _masked(steps: AttentionSteps, look: Look) -> list[str]:
    scores = steps.scores[look.head, look.place].tolist()
    seen = [True] * len(scores) if steps.may_attend is None else steps.may_attend[look.place].tolist()
    return [f"{score:.3f}" if sees else "−∞" for score, sees in zip(scores, seen, strict=True)]


def _feed_forward(config: ModelConfig, sublayer: Sublayer, look: Look) -> list[Step]:
    steps, relu = sublayer.steps, config.activation == "relu"
    assert isinstance(steps, FeedForwardSteps)
    active, units = int((steps.hidden[look.place] > 0).sum()), steps.hidden.size(1)
    hidden = "max(0, x W1 + b1)" if relu else f"{config.activation}(x W1 + b1)"
    network = Step(
        "Feed-forward network",
        "3.3",
        f"FFN(x) = {hidden} W2 + b2{' (2)' if relu else ''}",
        [vector(hidden, steps.hidden, look.place), vector("FFN(x)", steps.output, look.place)],
        f"{active:,} of {units:,} hidden units are above 0 for {look.piece}.",
    )
    return [*_norm_first(config, sublayer, look), network, _residual(config, sublayer, look)]


def _norm_first(config: ModelConfig, sublayer: Sublayer, look: Look) -> list[Step]:
    """What a pre-norm model does before each sub-layer."""
    return [] if config.norm == "post" else [layer_norm("before the sub-layer", sublayer.read, look)]


def layer_norm(place: str, normed: Tensor, look: Look) -> Step:
    """A layer normalisation that is not that of a residual connection."""
    return Step(
        f"Layer normalisation {place}",
        "3.1",
        "LayerNorm(x)",
        [vector(f"LayerNorm(x) of {look.piece}", normed, look.place)],
        "The paper normalises behind the residual connection instead; this model is pre-norm.",
    )


def _residual(config: ModelConfig, sublayer: Sublayer, look: Look) -> Step:
    post = config.norm == "post"
    added = vector("x + Sublayer(x)" if post else "x + Sublayer(LayerNorm(x))", sublayer.added, look.place)
    normed = [vector("LayerNorm of it", sublayer.output, look.place)] if post else []
    return Step(
        "Residual connection and layer normalisation" if post else "Residual connection",
        "3.1",
        "LayerNorm(x + Sublayer(x))" if post else "x + Sublayer(LayerNorm(x))",
        [added, *normed],
    )
