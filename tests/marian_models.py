"""MarianMT directories with random weights, written by transformers, and what is said of them by it."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from short_phrases import short_phrases
from transduce.bundle import Bundle
from transduce.text.codec import BOS, EOS, PAD, SPECIALS, UNK

SHAPE: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 90,
    "activation_function": "swish",
    "scale_embedding": True,
}

EMBEDDINGS = ("shared.weight", "embed_tokens.weight", "lm_head.weight")


def sentences(count: int, *, side: str = "source") -> list[str]:
    found = [getattr(phrase, side) for phrase in short_phrases("train", 8 * count)]
    assert len(found) >= count
    return found[:count]


def learn_sentencepiece(lines: list[str], size: int) -> bytes:
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=size, hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def write_marian(directory: Path, *, seed: int = 0, start: str = "<pad>", **changes: Any) -> None:
    """As OPUS-MT has it, but for `changes`: one vocabulary of two SentencePiece models, in no order of theirs."""
    from transformers import MarianConfig, MarianMTModel

    directory.mkdir(parents=True)
    pieces: set[str] = {">>de<<"}
    for side in ("source", "target"):
        data = learn_sentencepiece(sentences(300, side=side), 90)
        (directory / f"{side}.spm").write_bytes(data)
        model = SentencePieceProcessor(model_proto=data)
        pieces |= {model.id_to_piece(id) for id in range(model.piece_size())} - set(SPECIALS)
    ordered = sorted(pieces)
    random.Random(seed).shuffle(ordered)
    vocabulary = {piece: id for id, piece in enumerate(["</s>", "<unk>", *ordered, "<pad>"])}
    (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    tokenizer = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    if not changes.get("share_encoder_decoder_embeddings", True):
        (directory / "target_vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
        tokenizer["separate_vocabs"] = True
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    specials = {"pad_token_id": len(vocabulary) - 1, "eos_token_id": 0, "forced_eos_token_id": 0}
    specials["decoder_start_token_id"] = vocabulary[start]
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(vocab_size=len(vocabulary), **{**SHAPE, **specials, **changes})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.normal_(mean=1.0, std=0.4)
            elif "embed_positions" not in name:
                parameter.normal_(std=1.0 if name.endswith(EMBEDDINGS) else 0.1 if parameter.dim() == 1 else 0.4)
        model.final_logits_bias.normal_(std=0.5)
    model.generation_config.bad_words_ids = [[len(vocabulary) - 1]]
    model.save_pretrained(directory)


def ids_of(directory: Path, bundle: Bundle, *, side: str = "target") -> list[int]:
    """Their id of each of ours, told by the pieces alone."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    name = "target_vocab.json" if side == "target" and (directory / "target_vocab.json").exists() else "vocab.json"
    vocabulary = json.loads((directory / name).read_text(encoding="utf-8"))
    codec = bundle.target_codec if side == "target" else bundle.source_codec
    special = {PAD: config["pad_token_id"], EOS: config["eos_token_id"], UNK: vocabulary["<unk>"]}
    special[BOS] = config["decoder_start_token_id"]
    ordinary = [vocabulary[piece] for piece in codec.pieces(range(len(SPECIALS), codec.size))]
    return [special[id] for id in range(len(SPECIALS))] + ordinary


def batch(size: int, lengths: list[int], *, seed: int = 0) -> torch.Tensor:
    """Random sentences in our ids, ended and padded."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, length in enumerate(lengths):
        found[row, :length] = torch.randint(len(SPECIALS), size, (length,), generator=generator)
        found[row, length] = EOS
    return found


def their_logits(directory: Path, bundle: Bundle, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Of transformers' model, with the vocabulary in our order."""
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(directory).eval()
    theirs = {side: torch.tensor(ids_of(directory, bundle, side=side)) for side in ("source", "target")}
    with torch.no_grad():
        logits = model(
            input_ids=theirs["source"][source],
            attention_mask=(source != PAD).long(),
            decoder_input_ids=theirs["target"][target],
        ).logits
    return logits[..., theirs["target"]]


def their_greedy(directory: Path, lines: list[str], *, extra_length: int) -> list[str]:
    """By transformers alone, from text to text; sentences of one length at a time, for each has a limit of its own."""
    from transformers import MarianMTModel, MarianTokenizer

    model, tokenizer = MarianMTModel.from_pretrained(directory).eval(), MarianTokenizer.from_pretrained(directory)
    ids = [tokenizer(line).input_ids for line in lines]
    texts = [""] * len(lines)
    for length in {len(each) for each in ids}:
        places = [place for place, each in enumerate(ids) if len(each) == length]
        source = torch.tensor([ids[place] for place in places])
        limit = 1 + length + extra_length  # the start token, and ours
        found = model.generate(source, attention_mask=torch.ones_like(source), num_beams=1, max_length=limit)
        for place, text in zip(places, tokenizer.batch_decode(found, skip_special_tokens=True), strict=True):
            texts[place] = text
    return texts
