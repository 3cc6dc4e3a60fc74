"""Learned positions of a bundle (Table 3 E) beside sinusoids: which positions are alike."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from transduce.bundle import Bundle, load_model, open_bundle
from transduce.explain.plot import plot_svg
from transduce.model.positions import Learned, sinusoids
from transduce.paper.result import Picture, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
SHOWN = 64
"""Positions; few sentences are longer, and rows that no training sentence reached are as they were drawn."""
DISTANCES = (1, 2, 4, 8, 16, 32)
NONE_GIVEN = """\
No model with learned positions was given: a run with `--set model.positions=learned` would be compared here."""


def learned_parts(paths: Sequence[Path]) -> list[str | Table | Picture]:
    """For each bundle with learned positions, how alike they are by distance, and a picture."""
    bundles = [bundle for bundle in map(open_bundle, paths) if bundle.config.model.positions == "learned"]
    parts: list[str | Table | Picture] = []
    for number, bundle in enumerate(bundles, 1):
        parts += _parts(bundle, "positions-learned" if number == 1 else f"positions-learned-{number}")
    return parts or [NONE_GIVEN]


def _parts(bundle: Bundle, name: str) -> list[str | Table | Picture]:
    tables = _tables(bundle)
    similar = {kind: similarity(table) for kind, table in tables.items()}
    shown = len(tables["sinusoids"])
    text = (
        f"Learned positions of {bundle.path.parent.name}/{bundle.path.name}: "
        f"{bundle.config.model.max_positions:,} rows, of which training can have reached "
        f"{bundle.config.data.max_length + 1:,}; shown are {shown}. Cosines of "
        "positions so far apart, their mean over places. Sinusoids are alike when they are near; learned positions "
        "start at random, with a cosine of about 0, and show what training made of that."
    )
    picture = Picture(name, "Cosine of every two positions, sinusoids and learned", _plot(similar))
    return [text, _by_distance(name, similar), picture]


def _tables(bundle: Bundle) -> dict[str, Array]:
    """Sinusoids and the learned tables of source and target, as many rows of each."""
    config, model = bundle.config, load_model(bundle)
    rows = min(SHOWN, config.model.max_positions, config.data.max_length + 1)
    tables = {"sinusoids": sinusoids(0, rows, config.model.d_model, torch.float64).numpy()}
    for side, embedding in (("source", model.source_embedding), ("target", model.target_embedding)):
        assert isinstance(embedding.positions, Learned)
        tables[f"learned, {side}"] = embedding.positions.weight[:rows].double().numpy()
    return tables


def similarity(table: Array) -> Array:
    """The cosine of every two rows."""
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines: Array = unit @ unit.T
    return cosines


def _by_distance(name: str, similar: dict[str, Array]) -> Table:
    rows = len(similar["sinusoids"])
    distances = [distance for distance in DISTANCES if distance < rows]
    cells = [[kind, *(f"{cosines.diagonal(k).mean():+.3f}" for k in distances)] for kind, cosines in similar.items()]
    return Table(name, ["mean cosine at distance", *map(str, distances)], cells)


def _plot(similar: dict[str, Array]) -> str:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(4 * len(similar), 3.6)
        panels = figure.subplots(1, len(similar))
        for axes, (kind, cosines) in zip(panels, similar.items(), strict=True):
            axes.set(title=kind, xlabel="position")
            image = axes.imshow(cosines, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        figure.colorbar(image, ax=panels)

    return plot_svg(fill)
