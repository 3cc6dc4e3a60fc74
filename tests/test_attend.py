"""The attention of a sentence, by the words that a reader sees."""

from pathlib import Path

import numpy as np
import torch
from sentencepiece import SentencePieceProcessor

from marian_models import learn_sentencepiece, sentences
from transduce import Translator
from transduce.config import ModelConfig
from transduce.decode.torch_engine import TorchEngine
from transduce.explain.attend import attend
from transduce.model import Transformer
from transduce.text import Codec, Marian, Symbols
from transduce.text.codec import SPECIALS


def test_rows_and_columns_are_the_words_of_both_sentences(bundle: Path) -> None:
    translator = Translator.load(bundle)
    text = "The dog sleeps."
    found = attend(translator, text)
    assert found.translation == translator.translate([text])[0].text
    source, target = [*text.split(), "</s>"], [*found.translation.split(), "</s>"]
    assert (found.encoder.queries, found.encoder.keys) == (source, source)
    assert (found.cross.queries, found.cross.keys) == (target, source)
    assert (found.decoder.queries, found.decoder.keys) == (target, ["<s>", *target[:-1]])
    for attention in (found.encoder, found.decoder, found.cross):
        assert (attention.num_layers, attention.num_heads) == (2, 4)
        assert np.allclose(attention.weights.sum(axis=-1), 1, atol=1e-5)


def test_the_decoder_looks_only_back(bundle: Path) -> None:
    weights = attend(Translator.load(bundle), "The dog sees a bird.").decoder.weights
    above = np.triu(np.ones(weights.shape[2:], dtype=bool), k=2)  # a word's later pieces may look at its first
    assert np.all(weights[:, :, above] == 0)


def untrained(codec: Codec) -> Translator:
    torch.manual_seed(0)
    shape = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, num_heads=2)
    return Translator(TorchEngine(Transformer(shape, codec.size, codec.size).requires_grad_(False)), codec, codec)


def test_symbols_stand_for_themselves() -> None:
    assert attend(untrained(Symbols(["B", "AH", "T"])), "B AH T").encoder.keys == ["B", "AH", "T", "</s>"]


def test_pieces_of_an_imported_model_are_joined_into_words() -> None:
    lines = sentences(300)
    data = learn_sentencepiece(lines, 60)
    model = SentencePieceProcessor(model_proto=data)
    listed = [model.id_to_piece(place) for place in range(model.piece_size())]
    codec = Marian(data, [piece for piece in listed if piece not in SPECIALS])
    assert len(codec.encode(lines[0])) > len(lines[0].split())
    assert attend(untrained(codec), lines[0]).encoder.keys == [*lines[0].split(), "</s>"]
