"""Section 3.5: what is measured from position tables."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from random_bundle import random_bundle
from transduce.paper.learned_positions import learned_parts, similarity
from transduce.paper.positions import (
    block_map,
    dot_table,
    encoding,
    map_table,
    positions,
    rotations,
    wavelength_table,
    wavelengths,
)
from transduce.paper.result import Picture, Table
from transduce.paper.study import Study


def test_wavelengths_are_read_from_any_sines_and_cosines() -> None:
    lengths = np.array([3.0, 50.0, 7000.0])
    angles = 2 * math.pi * np.arange(300)[:, None] / lengths + 0.3
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(300, 6)
    assert wavelengths(table) == pytest.approx(lengths)


def test_wavelengths_of_the_encoding_are_the_papers() -> None:
    found = wavelengths(encoding(0, 500, 64))
    assert found == pytest.approx(2 * math.pi * 10000.0 ** (np.arange(32) / 32))
    for _, measured, paper in wavelength_table(encoding(0, 500, 64)).rows:
        assert measured == paper


def test_a_map_by_pairs_is_found_for_any_rotations_and_not_where_there_is_none() -> None:
    table = encoding(3, 200, 16)
    turned = np.einsum("pij,npj->npi", rotations(7, 16), table.reshape(200, 8, 2)).reshape(200, 16)
    assert block_map(table, turned) == pytest.approx(rotations(7, 16), abs=1e-9)
    assert turned == pytest.approx(encoding(10, 200, 16), abs=1e-9)
    noise = np.random.default_rng(1).normal(size=(200, 16))
    found = np.einsum("pij,npj->npi", block_map(table, noise), table.reshape(200, 8, 2)).reshape(200, 16)
    assert np.abs(found - noise).max() > 1


def test_all_residuals_are_rounding() -> None:
    for row in map_table(64).rows:
        assert all(float(cell) < 1e-8 for cell in row[1:]), row


def test_dot_products_depend_on_the_distance_alone() -> None:
    for _, found, formula, spread in dot_table(64).rows:
        assert found == formula
        assert float(spread) < 1e-9


def test_cosines_are_those_of_rows() -> None:
    table = np.array([[1.0, 0.0], [2.0, 2.0], [0.0, -3.0]])
    assert similarity(table) == pytest.approx(
        np.array([[1, 0.5**0.5, 0], [0.5**0.5, 1, -(0.5**0.5)], [0, -(0.5**0.5), 1]])
    )


def test_learned_positions_of_a_bundle_are_compared_and_sinusoids_are_not(tmp_path: Path) -> None:
    sinusoidal = random_bundle(tmp_path / "a")
    learned = random_bundle(tmp_path / "b", positions="learned", max_positions=40)
    (text,) = learned_parts([sinusoidal.path])
    assert "model.positions=learned" in str(text)
    text, table, picture = learned_parts([sinusoidal.path, learned.path])
    assert "40 rows, of which training can have reached 31" in str(text)
    assert isinstance(table, Table)
    assert isinstance(picture, Picture)
    kinds = {row[0]: [float(cell) for cell in row[1:]] for row in table.rows}
    assert set(kinds) == {"sinusoids", "learned, source", "learned, target"}
    assert kinds["sinusoids"][0] > 0.8
    assert abs(kinds["learned, source"][0]) < 0.2  # random rows


def test_a_study_needs_no_bundle(tmp_path: Path) -> None:
    result = positions(Study(work=tmp_path))
    names = [part.name for part in result.parts if isinstance(part, Picture)]
    assert names == ["positions-encoding", "positions-dot", "positions-map"]
