"""Bundles with random weights and a vocabulary of single letters, of every variant."""

import string
from pathlib import Path

import torch

from transduce.bundle import Bundle, open_bundle, unique_weights, write_bundle
from transduce.config import Config, DataConfig, ModelConfig, SearchConfig, TextConfig
from transduce.model import Transformer
from transduce.text import Symbols
from transduce.text.codec import BOS, EOS, PAD

SHAPE = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 32, "d_ff": 48, "num_heads": 4}


def random_bundle(
    path: Path,
    *,
    seed: int = 1,
    unlikely: bool = False,
    end: float = 0.0,
    search: SearchConfig | None = None,
    outputs: str = string.ascii_uppercase + string.digits,
    **changes: object,
) -> Bundle:
    """A bundle whose choices are far from uniform.

    `unlikely`: PAD and BOS have next to no probability; `end` is added to the logit of EOS; both need an output bias.
    `outputs` are the target's symbols, where the sides have vocabularies of their own.
    """
    shape = ModelConfig.model_validate({**SHAPE, **changes})
    joint = shape.tying == "three-way"
    source = Symbols(list(string.ascii_lowercase))
    target = source if joint else Symbols(outputs.split() if " " in outputs else list(outputs))
    text = TextConfig(source_codec="symbols", target_codec="symbols", joint=joint)
    config = Config(model=shape, text=text, data=DataConfig(max_length=30), search=search or SearchConfig())
    write_bundle(
        path,
        config=config,
        source_codec=source,
        target_codec=target,
        languages=(None, None),
        weights=unique_weights(_model(shape, source.size, target.size, seed, unlikely, end)),
        card="random",
    )
    return open_bundle(path)


def _model(
    shape: ModelConfig, source_size: int, target_size: int, seed: int, unlikely: bool, end: float
) -> Transformer:
    torch.manual_seed(seed)
    model = Transformer(shape, source_size, target_size)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
        model.projection.weight.mul_(2)
        if unlikely:
            model.projection.bias[[PAD, BOS]] = -1e4
        if end:
            model.projection.bias[EOS] += end
    return model
