"""A bundle as a MarianMT directory, which Hugging Face's transformers opens.

The logits are ours, in another order. Their decoder usually begins with the padding token, whose embedding is zero;
ours begins with BOS, which has learned one. So BOS stays a token of its own, "<s>", and config.json names it as the
decoder's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save

from transduce.bundle import WEIGHTS, Bundle, load_model
from transduce.config import Config, ModelConfig
from transduce.errors import UserError
from transduce.files import write_file, write_json
from transduce.interop.ctranslate2 import table_rows
from transduce.interop.marian import (
    ACTIVATIONS,
    LAYER_NORM_EPS,
    halves,
    ids_in_their_order,
    layers_to_theirs,
    parts,
)
from transduce.model import Transformer
from transduce.text import Codec, Marian, Subwords
from transduce.text.codec import BOS, DESCRIPTION, EOS, PAD, SPECIALS, UNK, Description

DUMMY_PREFIX = b"\x1a\x02\x18\x01"
"""normalizer_spec { add_dummy_prefix: true }: what is appended to a protocol buffer is merged into it."""

README = """# {title}

A MarianMT model, written by transduce from a bundle. With transformers and sentencepiece installed:

    from transformers import MarianMTModel, MarianTokenizer

    model, tokenizer = MarianMTModel.from_pretrained("DIR"), MarianTokenizer.from_pretrained("DIR")
    batch = tokenizer(["..."], return_tensors="pt", padding=True)
    print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))

The decoder starts with "<s>" (`decoder_start_token_id`), not with padding as OPUS-MT's do.
"""


def refusal(config: ModelConfig) -> str | None:
    """What of such a model MarianMT has no place for; None: it can hold it."""
    if config.norm == "pre":
        return "pre-norm"
    if config.positions == "learned":
        return "learned positions"
    if config.window is not None:
        return f"a window of {config.window}"
    if config.attention != "scaled":
        return f"{config.attention} attention"
    if not config.num_heads * config.key_width == config.num_heads * config.value_width == config.d_model:
        return f"d_k {config.key_width}, d_v {config.value_width} with {config.num_heads} heads of {config.d_model}"
    if config.layer_norm_eps != LAYER_NORM_EPS:
        return f"layer_norm_eps {config.layer_norm_eps} ({LAYER_NORM_EPS} is built in)"
    return None


def check_marian(bundle: Bundle) -> None:
    """Refuse a bundle that a MarianMT directory cannot hold."""
    if reason := refusal(bundle.config.model):
        raise UserError(f"{bundle.path}: MarianMT has no {reason}: export --to onnx, or train without it")
    sentencepiece_model(bundle.source_codec)
    sentencepiece_model(bundle.target_codec)


def sentencepiece_model(codec: Codec) -> bytes:
    """The SentencePiece model with which MarianTokenizer cuts a line as the codec does."""
    files = codec.files()
    description = Description.model_validate_json(files[DESCRIPTION])
    if description.normalize:
        steps = ", ".join(description.normalize)
        raise UserError(f"MarianTokenizer cannot do text.normalize = {steps}: export --to onnx, or train without it")
    if isinstance(codec, Marian):
        return codec.sentencepiece
    if isinstance(codec, Subwords):
        return files[Subwords.FILE] + DUMMY_PREFIX  # the codec itself puts a space before a line
    raise UserError(f"MarianTokenizer knows SentencePiece only, not {description.kind}: export --to onnx")


def export_marian(bundle: Bundle, directory: Path) -> None:
    """Write the files of a MarianMT model into a directory."""
    check_marian(bundle)
    model = load_model(bundle)
    codecs = (bundle.source_codec, bundle.target_codec)
    shared = bundle.config.model.tying == "three-way"
    pad = min(codec.size for codec in codecs) - 1
    source_ids, target_ids = (ids_in_their_order(codec.size, pad) for codec in codecs)
    write_file(directory / WEIGHTS, save(to_theirs(model, source_ids, target_ids), metadata={"format": "pt"}))
    write_json(directory / "config.json", their_config(bundle.config, source_ids, target_ids))
    write_json(directory / "generation_config.json", generation_config(bundle.config, target_ids))
    write_json(directory / "tokenizer_config.json", tokenizer_config(bundle, shared=shared))
    for side, codec, name, ids in zip(
        ("source", "target"), codecs, ("vocab.json", "target_vocab.json"), (source_ids, target_ids), strict=True
    ):
        write_file(directory / f"{side}.spm", sentencepiece_model(codec))
        if side == "source" or not shared:
            write_json(directory / name, {piece: id for id, piece in enumerate(codec.pieces(ids))})
    title = f"{bundle.source_lang or 'unnamed'}-{bundle.target_lang or 'unnamed'}"
    write_file(directory / "README.md", README.format(title=title).encode())


def to_theirs(model: Transformer, source_ids: Sequence[int], target_ids: Sequence[int]) -> dict[str, torch.Tensor]:
    """All tensors under their names; tied ones once."""
    config, weights = model.config, model.state_dict()
    tensors = layers_to_theirs(weights, parts(config.encoder_layers, config.decoder_layers), config.d_model)
    columns = halves(config.d_model)
    source = weights["source_embedding.tokens.weight"][source_ids][:, columns]
    target = weights["target_embedding.tokens.weight"][target_ids][:, columns]
    if config.tying == "three-way":
        tensors["model.shared.weight"] = source
    else:
        tensors["model.encoder.embed_tokens.weight"] = source
        tensors["model.decoder.embed_tokens.weight"] = target
    if config.tying == "none":
        tensors["lm_head.weight"] = weights["projection.weight"][target_ids][:, columns]
    bias = weights.get("projection.bias")
    tensors["final_logits_bias"] = torch.zeros(1, len(target_ids)) if bias is None else bias[target_ids][None]
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def their_config(config: Config, source_ids: Sequence[int], target_ids: Sequence[int]) -> dict[str, object]:
    """config.json."""
    model = config.model
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": model.d_model,
        "encoder_layers": model.encoder_layers,
        "decoder_layers": model.decoder_layers,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "encoder_ffn_dim": model.d_ff,
        "decoder_ffn_dim": model.d_ff,
        "activation_function": ACTIVATIONS[model.activation],
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.relu_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "max_position_embeddings": table_rows(config),
        "vocab_size": len(source_ids),
        "decoder_vocab_size": len(target_ids),
        "share_encoder_decoder_embeddings": model.tying == "three-way",
        "tie_word_embeddings": model.tying != "none",
        **special_ids(target_ids),
        "dtype": "float32",
    }


def special_ids(target_ids: Sequence[int]) -> dict[str, int]:
    """What both configurations say of the special tokens."""
    return {
        "pad_token_id": target_ids.index(PAD),
        "bos_token_id": target_ids.index(BOS),
        "eos_token_id": target_ids.index(EOS),
        "decoder_start_token_id": target_ids.index(BOS),
        "forced_eos_token_id": target_ids.index(EOS),
    }


def generation_config(config: Config, target_ids: Sequence[int]) -> dict[str, object]:
    """generation_config.json. Their length penalty is length^alpha, which ranks nearly as the paper's does."""
    search, ids = config.search, special_ids(target_ids)
    return {
        **ids,
        "bad_words_ids": [[ids["pad_token_id"]], [ids["bos_token_id"]]],
        "max_length": table_rows(config),
        "num_beams": search.beam,
        "length_penalty": search.alpha,
        "early_stopping": True,  # when `beam` hypotheses are finished, as here; else it goes on for long
    }


def tokenizer_config(bundle: Bundle, *, shared: bool) -> dict[str, object]:
    """tokenizer_config.json; a special token that is spelled out in a text is text."""
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": bundle.source_lang,
        "target_lang": bundle.target_lang,
        "separate_vocabs": not shared,
        "unk_token": SPECIALS[UNK],
        "eos_token": SPECIALS[EOS],
        "pad_token": SPECIALS[PAD],
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": bundle.config.search.max_input + 1,
    }
