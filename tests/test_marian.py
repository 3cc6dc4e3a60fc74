"""MarianMT in both directions, against transformers' own model and tokenizer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from marian_models import batch, ids_of, learn_sentencepiece, sentences, their_greedy, their_logits, write_marian
from random_weights import randomized
from short_phrases import short_phrases
from transduce import Translator
from transduce.bundle import Bundle, load_model, open_bundle, unique_weights, write_bundle
from transduce.config import Config
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import CodecError, UserError
from transduce.interop.marian_export import check_marian, export_marian
from transduce.interop.marian_import import import_marian
from transduce.model import Transformer
from transduce.text import Marian, Subwords, Symbols, load_codec, save_codecs
from transduce.text.codec import BOS, EOS, SPECIALS, UNK

THEIRS: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "relu, not scaled": {"activation_function": "relu", "scale_embedding": False},
    "gelu, two embeddings": {"activation_function": "gelu", "share_encoder_decoder_embeddings": False},
    "three matrices": {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    "three matrices, not scaled": {
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "scale_embedding": False,
        "activation_function": "silu",
    },
    "starts with the end token": {"start": "</s>"},
}

# what a model of ours may be, beside the paper's
OURS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "silu, biases": {"activation": "silu", "attention_bias": True, "output_bias": True},
    "two vocabularies": {"tying": "target", "activation": "gelu"},
    "three matrices": {"tying": "none", "output_bias": True},
}


def random_bundle(path: Path, **changes: Any) -> Bundle:
    """A bundle whose every weight is random; without three-way tying its vocabularies differ in size."""
    shape = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 16, "d_ff": 24, "num_heads": 2, **changes}
    joint = changes.get("tying", "three-way") == "three-way"
    config = Config.model_validate({"model": shape, "text": {"joint": joint}})
    source, target = (
        Subwords.learn(sentences(200, side=side), vocabulary=size, seed=1, sample_lines=1000).codec
        for side, size in (("source", 300), ("target", 320))
    )
    codecs = (target, target) if joint else (source, target)
    model = randomized(Transformer(config.model, *(codec.size for codec in codecs))).float()
    write_bundle(
        path,
        config=config,
        source_codec=codecs[0],
        target_codec=codecs[1],
        languages=("en", "de"),
        weights=unique_weights(model),
        card="",
    )
    return open_bundle(path)


def exported(bundle: Bundle, directory: Path) -> Path:
    directory.mkdir()
    export_marian(bundle, directory)
    return directory


def reference(path: Path, *, extra_length: int) -> Translator:
    """In float32, as the model is."""
    bundle = open_bundle(path)
    search = bundle.config.search.model_copy(update={"beam": 1, "extra_length": extra_length})
    return Translator(TorchEngine(load_model(bundle)), bundle.source_codec, bundle.target_codec, search)


def our_logits(bundle: Bundle, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    model = load_model(bundle)
    return model.logits(model(source, target))


def random_pair(bundle: Bundle) -> tuple[torch.Tensor, torch.Tensor]:
    source = batch(bundle.source_codec.size, [3, 7, 1, 12])
    target = batch(bundle.target_codec.size, [5, 2, 9, 4], seed=1)
    return source, torch.cat([torch.full((4, 1), BOS), target], dim=1)


@pytest.mark.parametrize("changes", THEIRS.values(), ids=THEIRS.keys())
def test_an_imported_model_has_the_probabilities_of_transformers_model(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_marian(tmp_path / "theirs", **changes)
    import_marian(tmp_path / "theirs", tmp_path / "ours")
    bundle = open_bundle(tmp_path / "ours")
    source, target = random_pair(bundle)
    expected = their_logits(tmp_path / "theirs", bundle, source, target)
    expected[..., BOS] = float("-inf")  # theirs has no such token
    found = our_logits(bundle, source, target)
    others = [id for id in range(bundle.target_codec.size) if id != BOS]
    assert float((found - expected)[..., others].abs().max()) < 1e-4
    assert float((found.log_softmax(-1) - expected.log_softmax(-1))[..., others].abs().max()) < 1e-4
    assert float(found.softmax(-1)[..., BOS].max()) == 0


@pytest.mark.parametrize("changes", [THEIRS["as OPUS-MT"], THEIRS["gelu, two embeddings"]], ids=["one", "two"])
def test_an_imported_model_says_what_transformers_generates(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_marian(tmp_path / "theirs", **changes)
    import_marian(tmp_path / "theirs", tmp_path / "ours")
    lines = [*sentences(98), ">>de<< A dog barks.", "\u5b57 and \t▁x"]
    expected = their_greedy(tmp_path / "theirs", lines, extra_length=8)
    found = reference(tmp_path / "ours", extra_length=8).translate(lines)
    assert [each.text for each in found] == expected
    assert len(set(expected)) > 50


def test_an_imported_codec_cuts_as_marian_tokenizer_does(tmp_path: Path) -> None:
    from transformers import MarianTokenizer

    write_marian(tmp_path / "theirs")
    import_marian(tmp_path / "theirs", tmp_path / "ours")
    bundle, tokenizer = open_bundle(tmp_path / "ours"), MarianTokenizer.from_pretrained(tmp_path / "theirs")
    theirs = ids_of(tmp_path / "theirs", bundle)
    lines = ["", "  two  spaces ", ">>de<< Ein Hund.", ">>xx<<A", ">>", "ﬁ € 字", *sentences(50)]
    for line in lines:
        assert [theirs[id] for id in bundle.source_codec.encode(line)] == tokenizer(line).input_ids[:-1]
        given_target = tokenizer(text_target=line).input_ids[:-1]
        assert [theirs[id] for id in bundle.target_codec.encode(line)] == given_target
        assert bundle.target_codec.decode(bundle.target_codec.encode(line)) == tokenizer.decode(
            given_target, skip_special_tokens=True
        )


def test_an_imported_codec_comes_back_from_its_files_and_refuses_damage(tmp_path: Path) -> None:
    codec = Marian(learn_sentencepiece(sentences(200), 80), ["▁A", "▁dog", "<s>", "\\<s>", ">>de<<"])
    assert codec.pieces(range(codec.size)) == [*SPECIALS, "▁A", "▁dog", "\\<s>", "\\\\<s>", ">>de<<"]
    assert {id for id in codec.encode(">>de<< <s> </s> <pad> A dog") if id < len(SPECIALS)} == {UNK}
    save_codecs(tmp_path / "codec", codec, codec)
    assert load_codec(tmp_path / "codec" / "joint").fingerprint() == codec.fingerprint()
    with pytest.raises(CodecError, match="surrogate"):
        codec.encode("\ud800")
    for data in (
        b"{}",
        b"[",
        b'{"vocabulary": [], "sentencepiece": "?"}',
        b'{"vocabulary": ["a", "a"], "sentencepiece": ""}',
    ):
        with pytest.raises(CodecError):
            Marian.load(data, ())


@pytest.mark.parametrize("changes", OURS.values(), ids=OURS.keys())
def test_an_exported_model_has_our_logits_and_comes_back_with_them(tmp_path: Path, changes: dict[str, Any]) -> None:
    bundle = random_bundle(tmp_path / "bundle", **changes)
    directory = exported(bundle, tmp_path / "marian")
    source, target = random_pair(bundle)
    expected = our_logits(bundle, source, target)
    # every column, BOS and PAD too: the same distribution, in another order
    assert float((their_logits(directory, bundle, source, target) - expected).abs().max()) < 1e-4
    import_marian(directory, tmp_path / "back")
    back = open_bundle(tmp_path / "back")
    assert float((our_logits(back, source, target) - expected).abs().max()) < 1e-4
    line = "A dog sees the old house."
    assert back.source_codec.encode(line) == bundle.source_codec.encode(line)
    assert (back.source_lang, back.target_lang) == ("en", "de")


@pytest.mark.parametrize("changes", [OURS["the paper's"], OURS["two vocabularies"]], ids=["one", "two"])
def test_padding_is_the_last_id_of_the_smaller_vocabulary(tmp_path: Path, changes: dict[str, Any]) -> None:
    directory = exported(random_bundle(tmp_path / "bundle", **changes), tmp_path / "marian")
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert config["pad_token_id"] == min(config["vocab_size"], config["decoder_vocab_size"]) - 1
    assert config["eos_token_id"] == 0


def test_transformers_translates_as_we_do(bundle: Path, tmp_path: Path) -> None:
    directory = exported(open_bundle(bundle), tmp_path / "marian")
    import_marian(directory, tmp_path / "back")
    lines = [phrase.source for phrase in short_phrases("test", 400)][:100]
    expected = [each.text for each in reference(bundle, extra_length=50).translate(lines)]
    assert their_greedy(directory, lines, extra_length=50) == expected
    assert [each.text for each in reference(tmp_path / "back", extra_length=50).translate(lines)] == expected


def test_marian_tokenizer_gives_our_ids(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from transformers import MarianTokenizer

    opened = open_bundle(bundle)
    directory = exported(opened, tmp_path_factory.mktemp("tokenizer") / "marian")
    tokenizer, theirs = MarianTokenizer.from_pretrained(directory), ids_of(directory, opened)
    codec = opened.source_codec

    @settings(max_examples=200)
    @given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=30))
    def same(text: str) -> None:
        if not text.startswith(">>"):
            assert tokenizer(text).input_ids == [theirs[id] for id in (*codec.encode(text), EOS)]

    same()
    for line in (" two  spaces ", "</s><pad><s><unk>", "<0x41>", "ﬁ 字 🙂"):
        assert tokenizer(line).input_ids == [theirs[id] for id in (*codec.encode(line), EOS)]
        assert tokenizer.decode(tokenizer(line).input_ids, skip_special_tokens=True) == line.strip()
    assert tokenizer("▁").input_ids != [theirs[id] for id in (*codec.encode("▁"), EOS)]  # as docs/interop.md says


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"norm": "pre"}, "pre-norm"),
        ({"positions": "learned"}, "learned positions"),
        ({"window": 8}, "a window of 8"),
        ({"attention": "additive"}, "additive attention"),
        ({"attention": "unscaled"}, "unscaled attention"),
        ({"d_k": 4}, "d_k 4"),
        ({"d_v": 4}, "d_v 4"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps 1e-06"),
    ],
)
def test_what_marian_cannot_hold_is_named(small_run: Path, changes: dict[str, Any], named: str) -> None:
    bundle = open_bundle(small_run)
    model = bundle.config.model.model_copy(update=changes)
    other = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"model": model}))
    with pytest.raises(UserError, match=named):
        check_marian(other)


def test_a_text_that_marian_tokenizer_cannot_follow_is_named(small_run: Path) -> None:
    bundle = open_bundle(small_run)
    symbols = Symbols(["a", "b"])
    with pytest.raises(UserError, match="not symbols"):
        check_marian(dataclasses.replace(bundle, target_codec=symbols))
    lower = Subwords.load(bundle.source_codec.files()[Subwords.FILE], ["nfc", "lower"])
    with pytest.raises(UserError, match="nfc, lower"):
        check_marian(dataclasses.replace(bundle, source_codec=lower))
