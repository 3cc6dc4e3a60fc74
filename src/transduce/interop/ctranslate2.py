"""A bundle as a CTranslate2 model, which runs fast on a CPU.

CTranslate2's own sinusoids start at position 1 and have other frequencies, so that the position table is written out.
It has the rows that the bundle's settings can ask for, and asking for more is an error there. PAD and BOS keep their
probability, so that the log-probability of a given output is the bundle's: who searches must suppress the two.

Weights in int8 keep to 7 bits. Processors without VNNI add two products of 8 bits in 16, and full weights overflow
there in silence: half of the outputs were others. A product of 255 and 63, twice, fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from transduce.bundle import Bundle, load_model
from transduce.config import Config, ModelConfig
from transduce.errors import UserError, require
from transduce.text.codec import BOS, EOS, SPECIALS, UNK, Codec

if TYPE_CHECKING:
    from torch import Tensor, nn

    from transduce.model import Transformer
    from transduce.model.attention import SelfAttention
    from transduce.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
    from transduce.model.transformer import Embedding

EXTRA = "fast"
WEIGHTS = "model.bin"
VMAP = "vmap.txt"  # the shortlist
LARGEST = 63.0
"""The largest weight in int8."""
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}


def refusal(config: ModelConfig) -> str | None:
    """What CTranslate2 has no equal of, in a few words; None: it can run this variant."""
    if config.window is not None:
        return f"restricted self-attention (window {config.window})"
    if config.attention == "additive":
        return "additive attention"
    if config.key_width != config.value_width:
        return f"values of another width than keys (d_k {config.key_width}, d_v {config.value_width})"
    return None


def table_rows(config: Config) -> int:
    """Positions that a conversion has: those learned, or what the longest input and its longest output need."""
    if config.model.positions == "learned":
        return config.model.max_positions
    return config.search.max_input + 1 + config.search.extra_length


def convert(bundle: Bundle, directory: Path, compute_type: str) -> None:
    """Write a CTranslate2 model into a directory; `compute_type` is that of its matrices: int8, float32 and so on."""
    if reason := refusal(bundle.config.model):
        raise UserError(f"{bundle.path}: CTranslate2 has no {reason}: translate with PyTorch")
    specs = require("ctranslate2", extra=EXTRA).specs
    model = load_model(bundle)
    spec = _empty(specs, bundle.config.model)
    _fill(spec, model, table_rows(bundle.config))
    spec.register_source_vocabulary(tokens(bundle.source_codec))
    spec.register_target_vocabulary(tokens(bundle.target_codec))
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (SPECIALS[id] for id in (UNK, BOS, EOS))
    spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = bundle.config.model.layer_norm_eps
    if compute_type == "int8":
        _quantize(specs, spec)
    spec.validate()
    spec.optimize(quantization=None if compute_type == "int8" else compute_type)
    directory.mkdir(parents=True, exist_ok=True)
    spec.save(str(directory))


def tokens(codec: Codec) -> list[str]:
    """One string per id, no two the same; what a line of UTF-8 text cannot hold is written as its number."""
    pieces = codec.pieces(range(codec.size))
    found = [piece if _is_line(piece) else f"<id:{id}>" for id, piece in enumerate(pieces)]
    assert len(set(found)) == codec.size, "two ids read the same"
    return found


def _is_line(piece: str) -> bool:
    try:
        return b"\n" not in piece.encode()
    except UnicodeEncodeError:
        return False


def _empty(specs: Any, config: ModelConfig) -> Any:
    """What CTranslate2 shall be told, without its numbers."""
    shape: dict[str, Any] = {
        "pre_norm": config.norm == "pre",
        "activation": specs.Activation[ACTIVATIONS[config.activation]],
    }
    if config.key_width * config.num_heads != config.d_model:
        shape["head_dim"] = config.key_width
    encoder = specs.TransformerEncoderSpec(config.encoder_layers, config.num_heads, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers, config.num_heads, **shape)
    spec = specs.TransformerSpec(encoder, decoder)
    if config.attention == "unscaled":
        for layer in encoder.layer:
            layer.self_attention.queries_scale = 1.0
        for layer in decoder.layer:
            layer.self_attention.queries_scale = layer.attention.queries_scale = 1.0
    return spec


def _quantize(specs: Any, spec: Any) -> None:
    """Every matrix that CTranslate2 knows in int8, row by row: a weight is its integer divided by the row's scale."""
    import numpy as np

    def visit(part: Any, name: str, value: Any) -> None:
        if name.endswith("/weight") and hasattr(part, "weight_scale"):
            largest = np.abs(value).max(axis=1, keepdims=True)
            scale = LARGEST / np.where(largest > 0, largest, LARGEST)
            part.weight = np.rint(value * scale).astype(np.int8)
            part.weight_scale = scale[:, 0].astype(np.float32)

    specs.model_spec.visit_spec(spec, visit)


def _fill(spec: Any, model: Transformer, rows: int) -> None:
    _embedding(spec.encoder, spec.encoder.embeddings[0], model.source_embedding, rows)
    _embedding(spec.decoder, spec.decoder.embeddings, model.target_embedding, rows)
    encoder_layers = cast("Iterable[EncoderLayer]", model.encoder.layers)
    for part, layer in zip(spec.encoder.layer, encoder_layers, strict=True):
        _self_attention(part.self_attention, layer.self_attention, layer.self_residual)
        _feed_forward(part.ffn, layer.feed_forward, layer.feed_forward_residual)
    decoder_layers = cast("Iterable[DecoderLayer]", model.decoder.layers)
    for part, decoder_layer, memory in zip(spec.decoder.layer, decoder_layers, _memories(model), strict=True):
        _self_attention(part.self_attention, decoder_layer.self_attention, decoder_layer.self_residual)
        _cross_attention(part.attention, decoder_layer, memory)
        _feed_forward(part.ffn, decoder_layer.feed_forward, decoder_layer.feed_forward_residual)
    if model.config.norm == "pre":
        _norm(spec.encoder.layer_norm, model.encoder.norm)
        _norm(spec.decoder.layer_norm, model.decoder.norm)
    _linear(spec.decoder.projection, model.projection.weight, model.projection.bias)


def _memories(model: Transformer) -> Iterable[tuple[Tensor, Tensor | None]]:
    """The projection of the memory to keys and values, layer by layer."""
    layers, memory = model.config.decoder_layers, model.decoder.memory
    biases = [None] * layers if memory.bias is None else memory.bias.chunk(layers)
    return zip(memory.weight.chunk(layers), biases, strict=True)


def _embedding(spec: Any, tokens: Any, embedding: Embedding, rows: int) -> None:
    spec.scale_embeddings = embedding.scale
    spec.position_encodings.encodings = embedding.positions(0, rows).numpy()
    tokens.weight = embedding.tokens.weight.numpy()


def _self_attention(spec: Any, attention: SelfAttention, residual: Residual) -> None:
    _linear(spec.linear[0], attention.qkv.weight, attention.qkv.bias)
    _linear(spec.linear[1], attention.output.weight, attention.output.bias)
    _norm(spec.layer_norm, residual.norm)


def _cross_attention(spec: Any, layer: DecoderLayer, memory: tuple[Tensor, Tensor | None]) -> None:
    attention = layer.cross_attention
    _linear(spec.linear[0], attention.query.weight, attention.query.bias)
    _linear(spec.linear[1], *memory)
    _linear(spec.linear[2], attention.output.weight, attention.output.bias)
    _norm(spec.layer_norm, layer.cross_residual.norm)


def _feed_forward(spec: Any, network: FeedForward, residual: Residual) -> None:
    _linear(spec.linear_0, network.inner.weight, network.inner.bias)
    _linear(spec.linear_1, network.outer.weight, network.outer.bias)
    _norm(spec.layer_norm, residual.norm)


def _linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = weight.numpy()
    if bias is not None:
        spec.bias = bias.numpy()


def _norm(spec: Any, norm: nn.Module) -> None:
    spec.gamma, spec.beta = norm.weight.numpy(), norm.bias.numpy()  # type: ignore[operator]
