"""One attention head of a model, by its place."""

from __future__ import annotations

from dataclasses import dataclass

from transduce.config import ModelConfig
from transduce.errors import UserError
from transduce.explain.record import Kind

KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
NAMES = {"encoder": "encoder", "decoder": "decoder", "cross": "encoder-decoder"}


@dataclass(frozen=True, order=True)
class Head:
    """Layer and head are indices from 0; what a person reads counts from 1."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{NAMES[self.kind]} layer {self.layer + 1} head {self.head + 1}"


def all_heads(config: ModelConfig) -> list[Head]:
    """Every head of a model: the encoder's, the decoder's own, and those from the decoder to the encoder."""
    return [
        Head(kind, layer, head)
        for kind in KINDS
        for layer in range(layers(config, kind))
        for head in range(config.num_heads)
    ]


def layers(config: ModelConfig, kind: Kind) -> int:
    """How many layers have attention of this kind."""
    return config.encoder_layers if kind == "encoder" else config.decoder_layers


def check_head(head: Head, config: ModelConfig) -> None:
    """Refuse a head that the model has not."""
    what = f"{NAMES[head.kind]} layer"
    for name, index, count in ((what, head.layer, layers(config, head.kind)), ("head", head.head, config.num_heads)):
        if not 0 <= index < count:
            raise UserError(f"{name} {index + 1}: there are {count}: choose from 1 to {count}")
