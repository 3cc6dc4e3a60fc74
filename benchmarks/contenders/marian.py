"""Hugging Face's MarianMT with random weights in a plain loop. Needs transformers; knows nothing of the package."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from benchmarks.batches import BOS, EOS, PAD
from benchmarks.contenders.loop import PlainLoop
from benchmarks.shapes import Shape


class Marian(nn.Module):
    """MarianMTModel as a map to logits."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        config = MarianConfig(
            vocab_size=shape.vocabulary,
            decoder_vocab_size=shape.vocabulary,
            d_model=shape.d_model,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            encoder_attention_heads=shape.num_heads,
            decoder_attention_heads=shape.num_heads,
            encoder_ffn_dim=shape.d_ff,
            decoder_ffn_dim=shape.d_ff,
            dropout=shape.dropout,
            attention_dropout=shape.dropout,
            activation_dropout=shape.dropout,
            activation_function="relu",
            init_std=shape.d_model**-0.5,
            scale_embedding=True,
            share_encoder_decoder_embeddings=True,
            tie_word_embeddings=True,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            use_cache=False,
        )
        self.model = MarianMTModel(config)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """BS, BT -> BTV."""
        logits: Tensor = self.model(
            input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target
        ).logits
        return logits


def marian(shape: Shape) -> PlainLoop:
    """A loop around MarianMT."""
    torch.manual_seed(1)
    return PlainLoop(Marian(shape))
