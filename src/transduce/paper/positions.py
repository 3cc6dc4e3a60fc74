"""Section 3.5: what the sinusoids are, measured from their numbers, and learned positions beside them.

A table of positions has a row for each position and d_model columns: a sine and a cosine of each frequency in turn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from transduce.config import ModelConfig
from transduce.explain.plot import plot_svg
from transduce.model.positions import sinusoids
from transduce.paper.learned_positions import learned_parts
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]
LENGTH = 1000
"""Positions over which maps and wavelengths are fitted."""
STARTS = (0, 5000, 50000)
"""Where those positions begin, to see whether a map depends on that."""
SHIFTS = (1, 2, 5, 10, 50, 100, 1000)
SMALL = 32
"""d_model of the map that is drawn: few enough frequencies that least squares finds one map only."""


def positions(study: Study) -> Result:
    """Wavelengths, dot products and the linear map of the base model's sinusoids; learned ones of bundles given."""
    d_model = ModelConfig().d_model
    study.listener.note("positions: wavelengths, dot products, linear maps")
    table = encoding(0, LENGTH, d_model)
    learned = learned_parts(study.bundles)
    return Result(
        name="positions",
        title="Section 3.5: positional encodings",
        scope=SCOPE,
        parts=[
            Picture("positions-encoding", "The sinusoids of the first 100 positions", _heat(table[:100])),
            _wavelength_text(table),
            wavelength_table(table),
            DOT_PRODUCTS,
            dot_table(d_model),
            Picture("positions-dot", "Dot product of two encodings over their distance", _dot_plot(d_model)),
            MAPS,
            map_table(d_model),
            Picture("positions-map", f"The map to a position 3 further on, d_model = {SMALL}", _map_plot(SMALL, 3)),
            *learned,
        ],
    )


SCOPE = """\
What section 3.5 says of the sinusoids is about numbers, and all of it is checked here at the paper's d_model. That
learned positions translate as well (Table 3 E: 25.7 BLEU beside 25.8) takes trainings, and is in Table 3. That
sinusoids reach lengths not seen in training is the paper's hope; that takes trainings too."""
DOT_PRODUCTS = f"""\
Of the dot product of two encodings the paper says nothing; the formula makes it the sum of cos(k / 10000^(2i/d_model)),
which depends on the distance k alone. Measured at {LENGTH:,} places; the last column is the largest difference between
two of them."""
MAPS = f"""\
The paper: "for any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)". Maps by least
squares over {LENGTH:,} positions: one of all d_model columns (first residual), and one that keeps each sine with its
cosine, 2 × 2 numbers for each frequency (second). Then how far the second is from rotations by k / 10000^(2i/d_model),
and how far from the same fitted to positions that begin at {" and ".join(f"{start:,}" for start in STARTS[1:])}.
Each value is the largest of all columns and positions; by the paper all are 0."""


def encoding(start: int, length: int, d_model: int) -> Array:
    """The model's sinusoids, in float64."""
    table: Array = sinusoids(start, start + length, d_model, torch.float64).numpy()
    return table


def wavelengths(table: Array) -> Array:
    """Of each pair of columns: 2 pi over how far its angle turns from one position to the next."""
    angles = np.unwrap(np.arctan2(table[:, 0::2], table[:, 1::2]), axis=0)
    slopes, _ = np.polyfit(np.arange(len(table)), angles, 1)
    lengths: Array = 2 * math.pi / slopes
    return lengths


def _wavelength_text(table: Array) -> str:
    found = wavelengths(table)
    ratios = found[1:] / found[:-1]
    return (
        'The paper: "The wavelengths form a geometric progression from 2π to 10000 · 2π". Measured: from '
        f"{found[0]:.4f} (2π = {2 * math.pi:.4f}) to {found[-1]:,.1f} (10000 · 2π = {20000 * math.pi:,.1f}, which "
        f"2i = d_model would have, one more than there is); each {ratios.min():.6f} to {ratios.max():.6f} times the "
        f"one before (10000^(2/d_model) = {10000 ** (2 / table.shape[1]):.6f})."
    )


def wavelength_table(table: Array) -> Table:
    """Measured beside the formula, for some frequencies."""
    found, pairs = wavelengths(table), table.shape[1] // 2
    chosen = sorted({0, 1, pairs // 4, pairs // 2, 3 * pairs // 4, pairs - 1})
    rows = [[f"{2 * i}, {2 * i + 1}", f"{found[i]:,.4f}", f"{2 * math.pi * 10000 ** (i / pairs):,.4f}"] for i in chosen]
    return Table("positions-wavelengths", ["columns", "wavelength", "paper: 2π · 10000^(2i/d_model)"], rows)


def dot_products(distance: int, d_model: int) -> Array:
    """Of encodings so far apart, at many places."""
    near, far = encoding(0, LENGTH, d_model), encoding(distance, LENGTH, d_model)
    return np.asarray(np.einsum("nd,nd->n", near, far))


def dot_table(d_model: int) -> Table:
    """Mean and spread over places."""
    rows = []
    for distance in (0, *SHIFTS):
        found = dot_products(distance, d_model)
        formula = np.cos(distance / 10000 ** (np.arange(0, d_model, 2) / d_model)).sum()
        rows.append([str(distance), f"{found.mean():.3f}", f"{formula:.3f}", f"{np.ptp(found):.1g}"])
    return Table("positions-dot-products", ["distance k", "dot product", "formula", "differs by at most"], rows)


def block_map(table: Array, moved: Array) -> Array:
    """The 2 x 2 map of each pair of columns that takes `table` to `moved` by least squares: (d_model/2, 2, 2)."""
    pairs = [slice(column, column + 2) for column in range(0, table.shape[1], 2)]
    return np.stack([np.linalg.lstsq(table[:, pair], moved[:, pair], rcond=None)[0].T for pair in pairs])


def rotations(shift: int, d_model: int) -> Array:
    """The rotations that the formula gives, for (sine, cosine)."""
    angles = shift / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.cos(angles), np.sin(angles), -np.sin(angles), np.cos(angles)], axis=-1).reshape(-1, 2, 2)


def map_table(d_model: int) -> Table:
    """Residuals of the maps, and how far they are from rotations and from each other."""
    table = encoding(0, LENGTH, d_model)
    moved = {shift: encoding(shift, LENGTH, d_model) for shift in SHIFTS}
    whole, *_ = np.linalg.lstsq(table, np.hstack(list(moved.values())), rcond=None)
    rows = []
    for shift, matrix in zip(SHIFTS, np.hsplit(whole, len(SHIFTS)), strict=True):
        maps = [block_map(encoding(s, LENGTH, d_model), encoding(s + shift, LENGTH, d_model)) for s in STARTS]
        blocks = np.einsum("pij,npj->npi", maps[0], table.reshape(LENGTH, -1, 2)).reshape(LENGTH, -1)
        apart = max(np.abs(other - maps[0]).max() for other in maps[1:])
        errors = [
            np.abs(table @ matrix - moved[shift]).max(),
            np.abs(blocks - moved[shift]).max(),
            np.abs(maps[0] - rotations(shift, d_model)).max(),
            apart,
        ]
        rows.append([str(shift), *(f"{error:.1e}" for error in errors)])
    heading = ["k", "residual, any map", "residual, by pairs", "from rotations", "from maps fitted elsewhere"]
    return Table("positions-maps", heading, rows)


def _heat(table: Array) -> str:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(8, 3.6)
        axes = figure.add_subplot(xlabel="column of PE", ylabel="position", title="sinusoidal positional encoding")
        image = axes.imshow(table, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        figure.colorbar(image)

    return plot_svg(fill)


def _dot_plot(d_model: int) -> str:
    reach = 100
    table = encoding(0, 1000, d_model)

    def fill(figure: Figure) -> None:
        figure.set_size_inches(8, 3.6)
        axes = figure.add_subplot(xlabel="distance k", title="PE(pos) · PE(pos + k)")
        distances = np.arange(-reach, reach + 1)
        for pos, width in zip((100, 300, 600), (5.0, 2.5, 1.0), strict=True):
            axes.plot(distances, table[pos + distances] @ table[pos], linewidth=width, label=f"pos = {pos}")
        axes.grid(visible=True)
        axes.legend(frameon=False)

    return plot_svg(fill)


def _map_plot(d_model: int, shift: int) -> str:
    length = 50_000  # more than the longest wavelength of so few columns needs
    matrix, *_ = np.linalg.lstsq(encoding(0, length, d_model), encoding(shift, length, d_model), rcond=None)

    def fill(figure: Figure) -> None:
        figure.set_size_inches(5, 4)
        title = f"PE(pos + {shift}) = M PE(pos), d_model = {d_model}"
        axes = figure.add_subplot(xlabel="column of PE(pos)", ylabel=f"column of PE(pos + {shift})", title=title)
        image = axes.imshow(matrix.T, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        figure.colorbar(image)

    return plot_svg(fill)
