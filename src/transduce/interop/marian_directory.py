"""A MarianMT directory as it is found: what of it can be read, and what is refused."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError
from torch import Tensor

from transduce.bundle import WEIGHTS, read_weights
from transduce.config import Layers, Probability, Width
from transduce.errors import BundleError
from transduce.interop.marian import interleaved, parts
from transduce.model.positions import sinusoids

PICKLED = "pytorch_model.bin"
SHARED = "model.shared.weight"
ENCODER, DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"


class TheirConfig(BaseModel):
    """What config.json must say; the rest of it is left alone."""

    model_config = ConfigDict(frozen=True, strict=True)

    is_encoder_decoder: Literal[True] = True
    is_decoder: Literal[False] = False
    d_model: Width
    encoder_layers: Layers
    decoder_layers: Layers
    encoder_attention_heads: Width
    decoder_attention_heads: Width
    encoder_ffn_dim: Width
    decoder_ffn_dim: Width
    activation_function: Literal["relu", "gelu", "swish", "silu"]
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    max_position_embeddings: PositiveInt = 1024
    vocab_size: PositiveInt
    decoder_vocab_size: PositiveInt | None = None
    pad_token_id: int = Field(ge=0)
    eos_token_id: int = Field(ge=0)
    decoder_start_token_id: int = Field(ge=0)
    # older ones name what their code could do besides
    static_position_embeddings: Literal[True] = True
    normalize_before: Literal[False] = False
    normalize_embedding: Literal[False] = False
    add_final_layer_norm: Literal[False] = False

    @property
    def target_size(self) -> int:
        """Of the decoder's vocabulary."""
        return self.decoder_vocab_size or self.vocab_size


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{path}: missing: give a whole MarianMT directory, as OPUS-MT publishes them") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot read: {error.strerror}: check its permissions and disk") from None
    except (ValueError, RecursionError):
        raise BundleError(f"{path}: not JSON: download or export the model again") from None
    if not isinstance(table, dict):
        raise BundleError(f"{path}: not a JSON object: download or export the model again")
    return table


def read_config(directory: Path) -> TheirConfig:
    """config.json, if it is a MarianMT model's of the usual form."""
    path = directory / "config.json"
    if not directory.is_dir():
        raise BundleError(f"{directory}: no such directory: give a MarianMT directory")
    table = read_json(path)
    if table.get("model_type") != "marian":
        raise BundleError(f"{path}: model_type {table.get('model_type')!r}: only MarianMT models can be imported")
    try:
        return TheirConfig.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        found = "missing" if first["type"] == "missing" else f"{first['input']!r}: {first['msg']}"
        raise BundleError(f"{path}: {'.'.join(map(str, first['loc']))}: {found}: such a model is not known") from None


def tying(theirs: TheirConfig) -> Literal["three-way", "target", "none"]:
    """Which of their matrices are one."""
    if not theirs.tie_word_embeddings:
        return "none"
    return "three-way" if theirs.share_encoder_decoder_embeddings else "target"


def read_pieces(path: Path, size: int) -> dict[str, int]:
    """A vocabulary that names each of `size` ids once."""
    table = read_json(path)
    ids = list(table.values())
    if not all(isinstance(id, int) for id in ids) or sorted(ids) != list(range(size)):
        raise BundleError(f"{path}: does not name {size:,} ids, as config.json has it, once each: download it again")
    return table


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """All tensors in float32; a pickle may hold nothing else."""
    if (directory / WEIGHTS).exists():
        tensors = read_weights(directory / WEIGHTS)
    elif (directory / PICKLED).exists():
        tensors = read_pickled(directory / PICKLED)
    else:
        raise BundleError(f"{directory}: neither {WEIGHTS} nor {PICKLED}: give a whole MarianMT directory")
    return {name: tensor.float() for name, tensor in tensors.items()}


def read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of torch.save, without running code from it."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of pickles it was not made for, which it then refuses
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        reason = str(error).split("\n")[0]
        raise BundleError(f"{path}: damaged, or holds more than weights: {reason}") from None
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise BundleError(f"{path}: holds more than weights: give a MarianMT directory")
    return tensors


def check_tensors(tensors: Mapping[str, Tensor], theirs: TheirConfig, *, where: Path) -> None:
    """Refuse what is not, tensor by tensor, the model that config.json tells of."""
    expected = their_shapes(theirs, tensors)
    for name, shape in expected.items():
        if name not in tensors:
            raise BundleError(f"{where}: {name} is missing from the weights: download or export the model again")
        if tuple(tensors[name].shape) != shape:
            sizes = f"{tuple(tensors[name].shape)}, by config.json {shape}"
            raise BundleError(f"{where}: {name} is {sizes}: download or export the model again")
    embeddings = ("embed_tokens.weight", "lm_head.weight", SHARED)  # copies of one that is expected
    for name, tensor in tensors.items():
        if name.endswith("embed_positions.weight"):
            check_positions(name, tensor, theirs.d_model, where=where)
        elif name not in expected and not name.endswith(embeddings):
            raise BundleError(f"{where}: MarianMT has no weight {name}: such a model is not known")


def their_shapes(theirs: TheirConfig, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The tensors that are read."""
    d_model, d_ff = theirs.d_model, theirs.encoder_ffn_dim
    shapes: dict[str, tuple[int, ...]] = {}
    for name in embedding_names(theirs, tensors):
        size = theirs.vocab_size if name in (SHARED, ENCODER) else theirs.target_size
        shapes[name] = (size, d_model)
    for part in parts(theirs.encoder_layers, theirs.decoder_layers):
        if part.theirs.endswith("norm"):
            shapes[f"{part.theirs}.weight"] = shapes[f"{part.theirs}.bias"] = (d_model,)
            continue
        rows = d_ff if part.theirs.endswith("fc1") else d_model
        shapes[f"{part.theirs}.weight"] = (rows, d_ff if part.theirs.endswith("fc2") else d_model)
        shapes[f"{part.theirs}.bias"] = (rows,)
    if "final_logits_bias" in tensors:
        shapes["final_logits_bias"] = (1, theirs.target_size)
    return shapes


def embedding_names(theirs: TheirConfig, tensors: Mapping[str, Tensor]) -> tuple[str, str, str]:
    """Where source embedding, target embedding and output projection are."""
    if tying(theirs) == "three-way":
        return SHARED, SHARED, SHARED
    if tying(theirs) == "target":
        return ENCODER, DECODER, DECODER
    source, target = (name if name in tensors else SHARED for name in (ENCODER, DECODER))
    return source, target, "lm_head.weight"


def check_positions(name: str, table: Tensor, d_model: int, *, where: Path) -> None:
    """Old files hold the sinusoids as well."""
    known = table.dim() == 2 and table.size(1) == d_model
    if known:
        ours = sinusoids(0, table.size(0), d_model)
        known = bool((table[:, interleaved(d_model)] - ours).abs().max() < 1e-2)  # half precision is allowed for
    if not known:
        raise BundleError(f"{where}: {name} is not the sinusoids that MarianMT has: such a model is not known")
