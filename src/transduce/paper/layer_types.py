"""The layer types of Table 1, each a function from a sequence of n vectors of width d to another.

Attention sees both sides, as in the encoder. Convolutions look back only, as in a decoder: there a stack of dilated
ones connects every two positions. B batch, n length, d width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import Compatibility, SelfAttention, join_heads, scaled_dot_product, split_heads
from transduce.model.window import windowed

KERNEL = 3
"""k where it does not vary: ConvS2S and ByteNet used 3."""
NEIGHBOURHOOD = 64
"""r where it does not vary."""
HEAD_WIDTH = ModelConfig().key_width
"""d_k of every head: the paper's base and big models both have this one, and more heads where d is larger."""


def attention_config(d: int, neighbourhood: int | None = None) -> ModelConfig:
    """Self-attention of width d with heads as wide as the paper's."""
    return ModelConfig(d_model=d, num_heads=max(1, d // HEAD_WIDTH), window=neighbourhood)


class AttentionFunction(nn.Module):
    """Attention alone: queries, keys and values are the input itself."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.config = attention_config(d)
        self.compatibility = Compatibility(self.config)

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        heads = split_heads(x, self.config.num_heads)
        return join_heads(self.compatibility(heads, heads, heads, None))


class WrittenOut(AttentionFunction):
    """The same as equation 1 is written: all weights of all queries are in memory."""

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        heads = split_heads(x, self.config.num_heads)
        return join_heads(scaled_dot_product(heads, heads, heads))


class Restricted(AttentionFunction):
    """Attention alone to a neighbourhood of size r, by blocks."""

    def __init__(self, d: int, neighbourhood: int) -> None:
        super().__init__(d)
        self.neighbourhood = neighbourhood

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        heads, size = split_heads(x, self.config.num_heads), self.neighbourhood
        blocks = windowed(self.compatibility, heads, heads, heads, None, size, causal=False, noise=None, record=None)
        return join_heads(blocks)


class Projected(nn.Module):
    """Self-attention as in the model: with its projections."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.attention = SelfAttention(attention_config(d), causal=False)

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        attended: Tensor = self.attention(x, None)
        return attended


class Recurrent(nn.Module):
    """An LSTM or a GRU."""

    def __init__(self, recurrence: type[nn.LSTM] | type[nn.GRU], d: int) -> None:
        super().__init__()
        self.recurrence = recurrence(d, d, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        states: Tensor = self.recurrence(x)[0]
        return states


class Convolution(nn.Module):
    """A kernel over k positions that ends at each position's own; dilated, they are that far apart."""

    def __init__(self, d: int, kernel: int, dilation: int = 1, *, groups: int = 1) -> None:
        super().__init__()
        self.reach = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(d, d, kernel, dilation=dilation, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        convolved: Tensor = self.convolution(F.pad(x.transpose(1, 2), (self.reach, 0)))  # Bdn
        return convolved.transpose(1, 2)


class Separable(nn.Module):
    """A separable convolution (section 4): over k positions of each channel, then over channels."""

    def __init__(self, d: int, kernel: int) -> None:
        super().__init__()
        self.depthwise, self.pointwise = Convolution(d, kernel, groups=d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        """Bnd -> Bnd."""
        projected: Tensor = self.pointwise(self.depthwise(x))
        return projected


@dataclass(frozen=True)
class LayerType:
    """A row of Table 1. `make` takes d and the size of the kernel or neighbourhood, which most have none of."""

    name: str
    complexity: str
    exponents: str
    """Of n and d in the paper's complexity."""
    sequential: str
    make: Callable[[int, int], nn.Module]
    varied: str = ""
    """k or r, if the complexity has one."""


ATTENTION = LayerType("self-attention", "n² · d", "2, 1", "O(1)", lambda d, _: AttentionFunction(d))
PROJECTED = LayerType(
    "self-attention with projections", "n² · d (+ n · d²)", "1 to 2, 1 to 2", "O(1)", lambda d, _: Projected(d)
)
LSTM = LayerType("recurrent: LSTM", "n · d²", "1, 2", "O(n)", lambda d, _: Recurrent(nn.LSTM, d))
GRU = LayerType("recurrent: GRU", "n · d²", "1, 2", "O(n)", lambda d, _: Recurrent(nn.GRU, d))
CONTIGUOUS = LayerType("convolutional", "k · n · d²", "1, 2", "O(1)", Convolution, "k")
RESTRICTED = LayerType("self-attention, restricted", "r · n · d", "1, 1", "O(1)", Restricted, "r")
LAYER_TYPES = (
    ATTENTION,
    LayerType("self-attention, written out", "n² · d", "2, 1", "O(1)", lambda d, _: WrittenOut(d)),
    PROJECTED,
    LSTM,
    GRU,
    CONTIGUOUS,
    LayerType("convolutional, dilated", "k · n · d²", "1, 2", "O(1)", lambda d, k: Convolution(d, k, k), "k"),
    LayerType("convolutional, separable", "k · n · d + n · d²", "1, 1 to 2", "O(1)", Separable),
    RESTRICTED,
)


def usual_size(layer: LayerType) -> int:
    """The kernel or neighbourhood where it does not vary."""
    return NEIGHBOURHOOD if layer.varied == "r" else KERNEL
