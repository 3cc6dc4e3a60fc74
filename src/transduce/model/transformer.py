"""The Transformer (Figure 1): embeddings, encoder, decoder and the output projection.

B batch, R rows (B x beam), S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transduce.config import ModelConfig
from transduce.model.attention import causal_mask, split_heads
from transduce.model.cache import Cache, KeysValues
from transduce.model.dropout import Dropout, Noise, WordDropout, number_sites
from transduce.model.layers import DecoderLayer, EncoderLayer
from transduce.model.positions import Learned, Sinusoidal
from transduce.model.record import AttentionRecord

PAD = 0  # of every codec


class Embedding(nn.Module):
    """Token embedding times sqrt(d_model), plus position (sections 3.4 and 3.5)."""

    def __init__(self, config: ModelConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.tokens = tokens
        self.scale = math.sqrt(config.d_model)
        learned = config.positions == "learned"
        self.positions = Learned(config.d_model, config.max_positions) if learned else Sinusoidal(config.d_model)
        self.word_dropout = WordDropout(config.word_dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, start: int, noise: Noise | None) -> Tensor:
        """BT -> BTD; the first id stands at position `start`. A word that is left out leaves its position behind."""
        words = self.word_dropout.words(self.tokens(ids) * self.scale, ids, noise)
        dropped: Tensor = self.dropout(words + self.positions(start, start + ids.size(1)), noise)
        return dropped


class Encoder(nn.Module):
    """A stack of N encoder layers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.d_model, config.layer_norm_eps) if config.norm == "pre" else nn.Identity()

    def forward(
        self, x: Tensor, may_attend: Tensor | None, *, noise: Noise | None, record: AttentionRecord | None
    ) -> Tensor:
        """BSD -> BSD."""
        for layer in self.layers:
            x = layer(x, may_attend, noise=noise, record=record)
        normed: Tensor = self.norm(x)
        return normed


class Decoder(nn.Module):
    """A stack of N decoder layers; the memory's keys and values of all layers are one projection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.widths = [config.num_heads * w for w in (config.key_width, config.value_width)]
        width = config.decoder_layers * sum(self.widths)
        self.memory = nn.Linear(config.d_model, width, bias=config.attention_bias)
        self.layers = nn.ModuleList(DecoderLayer(config, layer) for layer in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.d_model, config.layer_norm_eps) if config.norm == "pre" else nn.Identity()

    def project(self, memory: Tensor) -> list[KeysValues]:
        """The memory's keys and values for each layer: BSD -> [(BHSK, BHSV)]."""
        parts = self.memory(memory).split(self.widths * self.config.decoder_layers, dim=-1)
        heads = [split_heads(part, self.config.num_heads) for part in parts]
        return list(zip(heads[::2], heads[1::2], strict=True))

    def forward(
        self,
        x: Tensor,
        memory: list[KeysValues],
        memory_may_attend: Tensor | None,
        *,
        cache: Cache | None,
        noise: Noise | None,
        record: AttentionRecord | None,
    ) -> Tensor:
        """RTD -> RTD."""
        length, past = x.size(1), 0 if cache is None else cache.length
        mask = None
        if length > 1 and self.config.window is None:
            mask = causal_mask(length, past + length, x.device)
        for layer, keys_values in zip(self.layers, memory, strict=True):
            x = layer(x, mask, keys_values, memory_may_attend, cache=cache, noise=noise, record=record)
        normed: Tensor = self.norm(x)
        return normed


class Transformer(nn.Module):
    """Source ids in, a distribution over the next target token out."""

    def __init__(self, config: ModelConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        self.config = config
        target_tokens = nn.Embedding(target_size, config.d_model)
        if config.tying == "three-way":
            assert source_size == target_size, "three-way tying needs one vocabulary"
            source_tokens = target_tokens
        else:
            source_tokens = nn.Embedding(source_size, config.d_model)
        self.source_embedding = Embedding(config, source_tokens)
        self.target_embedding = Embedding(config, target_tokens)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.projection = nn.Linear(config.d_model, target_size, bias=config.output_bias)
        if config.tying != "none":
            self.projection.weight = target_tokens.weight
        number_sites(self)
        self.initialize()

    def initialize(self) -> None:
        """Xavier uniform for every matrix, with half the variance for queries, keys and values; N(0, 1/d_model) for
        embeddings.

        The paper does not say how it initialised. Smaller queries and keys start attention off nearly uniform, which
        post-norm needs to learn soon; torch.nn and fairseq do the same.
        """
        deviation = self.config.d_model**-0.5
        for name, parameter in self.named_parameters():
            if name.endswith("norm.weight"):
                nn.init.ones_(parameter)
            elif name.endswith((".tokens.weight", "projection.weight", "positions.weight")):
                nn.init.normal_(parameter, std=deviation)
            elif parameter.dim() == 1:
                nn.init.zeros_(parameter)
            else:
                attended = name.endswith(("qkv.weight", "query.weight", "decoder.memory.weight"))
                for block in self.blocks(name, parameter):
                    nn.init.xavier_uniform_(block, gain=0.5**0.5 if attended else 1.0)

    def blocks(self, name: str, weight: Tensor) -> list[Tensor]:
        """The matrices that one fused weight holds."""
        key = self.config.num_heads * self.config.key_width
        value = self.config.num_heads * self.config.value_width
        if name.endswith("qkv.weight"):
            return list(weight.detach().split([key, key, value]))
        if name == "decoder.memory.weight":
            return list(weight.detach().split([key, value] * self.config.decoder_layers))
        return [weight.detach()]

    def encode(
        self,
        source: Tensor,
        *,
        source_padded: bool | None = None,
        noise: Noise | None = None,
        record: AttentionRecord | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """BS -> the memory BSD, and which of its positions may be attended to (B11S; None = all).

        Who knows whether `source` is padded spares a GPU the wait for the answer.
        """
        may_attend = source_mask(source, source_padded)
        x = self.source_embedding(source, 0, noise)
        return self.encoder(x, may_attend, noise=noise, record=record), may_attend

    def start(self, memory: Tensor) -> Cache:
        """A cache with which `decode` takes only the newest tokens."""
        return Cache(self.decoder.project(memory))

    def decode(
        self,
        target: Tensor,
        memory: Tensor | None,
        may_attend: Tensor | None,
        *,
        cache: Cache | None = None,
        noise: Noise | None = None,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """RT -> RTD. With a cache `target` holds only tokens not yet decoded, and `memory` is not needed."""
        if cache is None:
            assert memory is not None, "decode needs a memory or a cache"
            keys_values = self.decoder.project(memory)
        else:
            keys_values = cache.memory
        x = self.target_embedding(target, 0 if cache is None else cache.length, noise)
        hidden: Tensor = self.decoder(x, keys_values, may_attend, cache=cache, noise=noise, record=record)
        return hidden

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_padded: bool | None = None,
        noise: Noise | None = None,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """BS, BT -> BTD: the decoder's states, from which `logits` or the loss go on."""
        memory, may_attend = self.encode(source, source_padded=source_padded, noise=noise, record=record)
        return self.decode(target, memory, may_attend, noise=noise, record=record)

    def logits(self, hidden: Tensor) -> Tensor:
        """BTD -> BTV."""
        return F.linear(hidden, self.projection.weight, self.projection.bias)

    def num_parameters(self) -> int:
        """How many weights there are, tied ones once."""
        return sum(p.numel() for p in self.parameters())


def source_mask(source: Tensor, padded: bool | None = None) -> Tensor | None:
    """B11S, True where there is a token; None when no position is padding, which is the faster path."""
    present = source != PAD
    if padded is None:
        padded = not bool(present.all())
    return present[:, None, None, :] if padded else None


def shape_only(config: ModelConfig, source_size: int, target_size: int) -> Transformer:
    """The model without its numbers, to count parameters or read shapes."""
    with torch.device("meta"):
        return Transformer(config, source_size, target_size)
