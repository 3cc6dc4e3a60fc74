"""The rows of Table 3: what each changes of the base model, and what the paper printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

NARROWER, SHALLOWER = 4, 2  # than the paper's: what two cores can train many times
WIDTHS = ("d_model", "d_ff", "d_k", "d_v")
LAYERS = ("encoder_layers", "decoder_layers")
NAMES = {"num_heads": "h", "encoder_layers": "N", "dropout": "P_drop", "label_smoothing": "eps_ls"}
Changes = Mapping[str, object]


@dataclass(frozen=True)
class Row:
    """A row: what differs from base in the model and in the recipe, and the paper's numbers.

    Perplexity is per word piece, BLEU of newstest2013; parameters are in millions, where the paper prints them.
    """

    name: str
    changes: Changes
    perplexity: float
    bleu: float
    printed: int | None = None
    recipe: Changes = field(default_factory=dict)
    longer: int = 1
    """Times as many updates as base."""


ROWS = [
    Row("base", {}, 4.92, 25.8, 65),
    Row("A h=1", {"num_heads": 1, "d_k": 512, "d_v": 512}, 5.29, 24.9),
    Row("A h=4", {"num_heads": 4, "d_k": 128, "d_v": 128}, 5.00, 25.5),
    Row("A h=16", {"num_heads": 16, "d_k": 32, "d_v": 32}, 4.91, 25.8),
    Row("A h=32", {"num_heads": 32, "d_k": 16, "d_v": 16}, 5.01, 25.4),
    Row("B d_k=16", {"d_k": 16}, 5.16, 25.1, 58),
    Row("B d_k=32", {"d_k": 32}, 5.01, 25.4, 60),
    Row("C N=2", {"encoder_layers": 2, "decoder_layers": 2}, 6.11, 23.7, 36),
    Row("C N=4", {"encoder_layers": 4, "decoder_layers": 4}, 5.19, 25.3, 50),
    Row("C N=8", {"encoder_layers": 8, "decoder_layers": 8}, 4.88, 25.5, 80),
    Row("C d_model=256", {"d_model": 256, "d_k": 32, "d_v": 32}, 5.75, 24.5, 28),
    Row("C d_model=1024", {"d_model": 1024, "d_k": 128, "d_v": 128}, 4.66, 26.0, 168),
    Row("C d_ff=1024", {"d_ff": 1024}, 5.12, 25.4, 53),
    Row("C d_ff=4096", {"d_ff": 4096}, 4.75, 26.2, 90),
    Row("D P_drop=0.0", {"dropout": 0.0}, 5.77, 24.6),
    Row("D P_drop=0.2", {"dropout": 0.2}, 4.95, 25.5),
    Row("D eps_ls=0.0", {}, 4.67, 25.3, recipe={"label_smoothing": 0.0}),
    Row("D eps_ls=0.2", {}, 5.47, 25.7, recipe={"label_smoothing": 0.2}),
    Row("E learned positions", {"positions": "learned"}, 4.92, 25.7),
    Row("big", {"d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3}, 4.33, 26.4, 213, longer=3),
]
BASE: Changes = {"encoder_layers": 6, "decoder_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8}


def small(changes: Changes) -> Changes:
    """The same change of a base that is a quarter as wide and half as deep: every ratio to base stays the paper's."""

    def scaled(name: str, value: object) -> object:
        divisor = NARROWER if name in WIDTHS else SHALLOWER if name in LAYERS else 1
        if divisor == 1:
            return value
        assert isinstance(value, int)
        assert value % divisor == 0, f"{name} {value} is not a multiple of {divisor}"
        return value // divisor

    return {name: scaled(name, value) for name, value in changes.items()}


def settings(section: str, changes: Changes) -> tuple[str, ...]:
    """The changes as `section.key=value`."""
    return tuple(f"{section}.{name}={json.dumps(value)}" for name, value in changes.items())


def described(changes: Changes) -> str:
    """The changes in the paper's letters, such as `h=1, d_k=d_v=512`."""
    parts = {NAMES.get(name, name): value for name, value in changes.items() if name != "decoder_layers"}
    if "d_k" in parts and parts.get("d_k") == parts.get("d_v"):
        parts = {"d_k=d_v" if name == "d_k" else name: value for name, value in parts.items() if name != "d_v"}
    return ", ".join(
        f"{value} positions" if name == "positions" else f"{name}={value}" for name, value in parts.items()
    )
