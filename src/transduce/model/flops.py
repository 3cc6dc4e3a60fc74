"""Operations of a model, counted from its configuration: what its matrix products multiply and add.

A multiplication and an addition are two operations. What is not a matrix product (softmax, norms, dropout, Adam) is
left out, as is usual: it is a few per cent. The decoder's own attention counts whole, though half of it is masked.
"""

from __future__ import annotations

from transduce.config import ModelConfig


def forward_flops(config: ModelConfig, source: int, target: int, vocabulary: int) -> int:
    """Of one pair, `source` and `target` tokens long, end tokens included, through a model and its output layer."""
    layers = config.encoder_layers * _encoder_layer(config, source)
    layers += config.decoder_layers * _decoder_layer(config, source, target)
    return 2 * (layers + target * config.d_model * vocabulary)


def training_flops(config: ModelConfig, source: int, target: int, vocabulary: int) -> int:
    """Of one pair forward and backward: each product has two in the backward pass, one for each of its factors."""
    return 3 * forward_flops(config, source, target, vocabulary)


def _encoder_layer(config: ModelConfig, source: int) -> int:
    """Multiply-adds, as in all that follows."""
    return source * (_projections(config) + _feed_forward(config)) + _attention(config, _pairs(config, source, sides=2))


def _decoder_layer(config: ModelConfig, source: int, target: int) -> int:
    """The memory's keys and values are projected once a source token, everything else once a target token."""
    keys, values = _widths(config)
    memory = source * config.d_model * (keys + values)
    own = target * (_projections(config) + _feed_forward(config))
    cross = target * config.d_model * (keys + values) + _attention(config, source * target)
    return memory + own + cross + _attention(config, _pairs(config, target, sides=1))


def _widths(config: ModelConfig) -> tuple[int, int]:
    """Of the keys and of the values of all heads."""
    return config.num_heads * config.key_width, config.num_heads * config.value_width


def _projections(config: ModelConfig) -> int:
    """Queries, keys, values and the output of self-attention, a token (section 3.2.2)."""
    keys, values = _widths(config)
    return config.d_model * (2 * keys + 2 * values)


def _feed_forward(config: ModelConfig) -> int:
    """Equation 2, a token."""
    return 2 * config.d_model * config.d_ff


def _attention(config: ModelConfig, pairs: int) -> int:
    """Equation 1: a score of each query and key, and its weight times the value; additive scores cost as much."""
    return pairs * sum(_widths(config))


def _pairs(config: ModelConfig, length: int, *, sides: int) -> int:
    """Queries and keys that meet in self-attention: all, or with a window those of neighbouring blocks.

    A block meets itself and the one before it, in the encoder (`sides` = 2) also the one after it (model/window.py).
    """
    if config.window is None:
        return length**2
    width = max(1, config.window // 2)
    blocks = -(-length // width)
    return blocks * width * (1 + sides) * width
