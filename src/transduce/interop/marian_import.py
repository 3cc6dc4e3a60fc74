"""A MarianMT directory (OPUS-MT's, as Hugging Face has it) as a bundle.

V vocabulary, D d_model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from transduce.bundle import write_bundle
from transduce.config import Config, ModelConfig, SearchConfig, TextConfig
from transduce.errors import BundleError, CodecError
from transduce.interop.marian import ACTIVATIONS, interleaved, layers_to_ours, parts
from transduce.interop.marian_directory import (
    TheirConfig,
    check_tensors,
    embedding_names,
    read_config,
    read_json,
    read_pieces,
    read_tensors,
    tying,
)
from transduce.text import Marian
from transduce.text.codec import BOS, SPECIALS, UNK
from transduce.version import __version__

IMPOSSIBLE = -1e4
"""A bias with which a token has no probability at all, to float32."""

CARD = """# {title}

A MarianMT model, imported by transduce {version}.

| | |
|---|---|
| languages | {source} to {target} |
| shape | post-norm, {encoder_layers}+{decoder_layers} layers, d_model {d_model}, d_ff {d_ff}, {num_heads} heads |
| parameters | {parameters:,} |
| vocabulary | {source_size:,} source, {target_size:,} target |

Use it: `transduce translate BUNDLE < input > output`. Who made the model says what it was trained on and under which
licence it may be used.
"""


@dataclass(frozen=True)
class Vocabulary:
    """One side: its codec, and their id of each of ours; BOS may be the copy of another."""

    codec: Marian
    ids: list[int]
    start_is_copied: bool


def import_marian(directory: Path, path: Path) -> None:
    """Write the model of a MarianMT directory as a bundle, whole or not at all."""
    theirs = read_config(directory)
    config = our_config(theirs, where=directory / "config.json")
    tokenizer = read_json(directory / "tokenizer_config.json") if (directory / "tokenizer_config.json").exists() else {}
    source, target = read_vocabularies(directory, theirs, separate=tokenizer.get("separate_vocabs") is True)
    tensors = read_tensors(directory)
    check_tensors(tensors, theirs, where=directory)
    weights = to_ours(tensors, theirs, source, target)
    languages = find_languages(directory, tokenizer)
    write_bundle(
        path,
        config=config,
        source_codec=source.codec,
        target_codec=target.codec,
        languages=languages,
        weights=weights,
        card=card(config.model, (source, target), languages, sum(weight.numel() for weight in weights.values())),
    )


def our_config(theirs: TheirConfig, *, where: Path) -> Config:
    """The same model as our configuration tells it."""
    for ours, name in (("num_heads", "attention_heads"), ("d_ff", "ffn_dim")):
        sizes = [getattr(theirs, f"{side}_{name}") for side in ("encoder", "decoder")]
        if sizes[0] != sizes[1]:
            raise BundleError(f"{where}: {name} {sizes[0]} and {sizes[1]}: there is one {ours} for both stacks here")
    activations = {name: ours for ours, name in ACTIVATIONS.items()} | {"silu": "silu"}
    try:
        model = ModelConfig.model_validate(
            {
                "encoder_layers": theirs.encoder_layers,
                "decoder_layers": theirs.decoder_layers,
                "d_model": theirs.d_model,
                "d_ff": theirs.encoder_ffn_dim,
                "num_heads": theirs.encoder_attention_heads,
                "dropout": theirs.dropout,
                "attention_dropout": theirs.attention_dropout,
                "relu_dropout": theirs.activation_dropout,
                "activation": activations[theirs.activation_function],
                "attention_bias": True,
                "output_bias": True,
                "tying": tying(theirs),
            }
        )
    except ValidationError as error:
        raise BundleError(f"{where}: {error.errors()[0]['msg']}: such a model is not known") from None
    if model.d_model % model.num_heads:
        raise BundleError(f"{where}: d_model {model.d_model} is not a multiple of {model.num_heads} heads")
    search = SearchConfig()
    longest = min(search.max_input, max(1, theirs.max_position_embeddings - 1))
    return Config(
        preset="marian",
        model=model,
        text=TextConfig(joint=model.tying == "three-way", vocabulary=max(8, theirs.target_size)),
        search=search.model_copy(update={"max_input": longest}),
    )


def read_vocabularies(directory: Path, theirs: TheirConfig, *, separate: bool) -> tuple[Vocabulary, Vocabulary]:
    """The codecs of both sides, and how their ids become ours."""
    names = ("vocab.json", "target_vocab.json" if separate else "vocab.json")
    if separate and tying(theirs) == "three-way":
        raise BundleError(f"{directory}: two vocabularies for one embedding: download or export the model again")
    tables = [
        read_pieces(directory / name, size)
        for name, size in zip(names, (theirs.vocab_size, theirs.target_size), strict=True)
    ]
    pad, end, start = theirs.pad_token_id, theirs.eos_token_id, theirs.decoder_start_token_id
    by_id = {id: piece for piece, id in tables[1].items()}
    for key, id in (("pad_token_id", pad), ("eos_token_id", end), ("decoder_start_token_id", start)):
        if id not in by_id:
            raise BundleError(f"{directory / 'config.json'}: {key} {id} is not in {names[1]}: download it again")
    source, target = (
        renumber(directory, name, table, side=side, specials=(by_id[pad], by_id[end], by_id[start]))
        for side, name, table in zip(("source", "target"), names, tables, strict=True)
    )
    return source, target


def renumber(
    directory: Path, name: str, table: Mapping[str, int], *, side: str, specials: tuple[str, str, str]
) -> Vocabulary:
    """PAD, UNK, BOS and EOS first, then all others in their order. A start token with a second task is copied."""
    pad, end, start = specials
    for piece in (pad, SPECIALS[UNK], end):
        if piece not in table:
            raise BundleError(f"{directory / name}: has no {piece!r}: download or export the model again")
    if len({pad, SPECIALS[UNK], end}) < 3:
        raise BundleError(f"{directory / 'config.json'}: padding, unknown and end must be three tokens")
    tasks = [table[pad], table[SPECIALS[UNK]], table.get(start, table[pad]), table[end]]
    others = {id: piece for piece, id in table.items() if id not in tasks}
    model = directory / f"{side}.spm"
    try:
        codec = Marian(model.read_bytes(), [others[id] for id in sorted(others)])
    except OSError as error:
        raise BundleError(f"{model}: cannot read: {error.strerror}: give a whole MarianMT directory") from None
    except CodecError as error:
        raise BundleError(f"{model}: {error}: download or export the model again") from None
    return Vocabulary(codec, [*tasks, *sorted(others)], start_is_copied=len(set(tasks)) < len(tasks))


def to_ours(
    tensors: Mapping[str, Tensor], theirs: TheirConfig, source: Vocabulary, target: Vocabulary
) -> dict[str, Tensor]:
    """All weights under our names."""
    d_model = theirs.d_model
    weights = layers_to_ours(tensors, parts(theirs.encoder_layers, theirs.decoder_layers), d_model)
    names = embedding_names(theirs, tensors)
    columns = interleaved(d_model)
    embeddings = [
        tensors[name][side.ids][:, columns] for name, side in zip(names, (source, target, target), strict=True)
    ]
    if not theirs.scale_embedding:
        # ours are always scaled; where the projection is the same matrix, the norm before it makes up for it
        embeddings[:2] = [embedding / math.sqrt(d_model) for embedding in embeddings[:2]]
        if theirs.tie_word_embeddings:
            for kind in ("weight", "bias"):
                name = f"decoder.layers.{theirs.decoder_layers - 1}.feed_forward_residual.norm.{kind}"
                weights[name] = weights[name] * math.sqrt(d_model)
    weights["source_embedding.tokens.weight"] = embeddings[0]
    if tying(theirs) != "three-way":
        weights["target_embedding.tokens.weight"] = embeddings[1]
    if tying(theirs) == "none":
        weights["projection.weight"] = embeddings[2]
    weights["projection.bias"] = output_bias(tensors.get("final_logits_bias"), target)
    return weights


def output_bias(bias: Tensor | None, target: Vocabulary) -> Tensor:
    """Theirs; a start token that only copies another takes no probability from the rest."""
    found = torch.zeros(len(target.ids)) if bias is None else bias[0][target.ids]
    if target.start_is_copied:
        found[BOS] = IMPOSSIBLE
    return found


def find_languages(directory: Path, tokenizer: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """From tokenizer_config.json, else from a directory's name such as opus-mt-en-de."""
    code = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,19}")
    source, target = (tokenizer.get(f"{side}_lang") for side in ("source", "target"))
    if all(isinstance(each, str) and code.fullmatch(each) for each in (source, target)):
        return source, target
    named = re.search(r"(?:^|-)([a-z]{2,3})-([a-z]{2,3})$", directory.resolve().name)
    return (named[1], named[2]) if named else (None, None)


def card(
    model: ModelConfig, sides: Sequence[Vocabulary], languages: tuple[str | None, str | None], parameters: int
) -> str:
    """The card of an imported model, in Markdown."""
    source, target = (language or "unnamed" for language in languages)
    return CARD.format(
        title=f"{source}-{target}",
        version=__version__,
        source=source,
        target=target,
        parameters=parameters,
        source_size=sides[0].codec.size,
        target_size=sides[1].codec.size,
        **model.model_dump(include={"encoder_layers", "decoder_layers", "d_model", "d_ff", "num_heads"}),
    )
