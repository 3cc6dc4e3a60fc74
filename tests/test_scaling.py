"""Section 3.2.1: variances, gradients of the softmax, and what additive attention costs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from transduce.paper import additive
from transduce.paper.additive import FUNCTIONS, Cell
from transduce.paper.cost import operations, saved_bytes
from transduce.paper.result import Picture, Table
from transduce.paper.scaling import Sizes, draw, jacobian_norm, study_scaling
from transduce.train.progress import Listener

SIZES = Sizes((1, 16, 256), 16, 2048, (4, 8, 16), 1)


@pytest.mark.parametrize("d_k", [1, 16, 256])
def test_scaling_divides_the_variance_by_d_k(d_k: int) -> None:
    plain, scaled = draw(d_k, "unscaled", SIZES), draw(d_k, "scaled", SIZES)
    assert plain.variance == pytest.approx(d_k, rel=0.1)
    assert scaled.variance == pytest.approx(plain.variance / d_k, rel=1e-4)
    assert abs(plain.mean) < 0.05 * d_k**0.5


def test_unscaled_products_saturate_the_softmax_as_d_k_grows_and_scaled_ones_do_not() -> None:
    plain = [draw(d_k, "unscaled", SIZES) for d_k in SIZES.widths]
    scaled = [draw(d_k, "scaled", SIZES) for d_k in SIZES.widths]
    assert plain[0].entropy > plain[1].entropy > plain[2].entropy
    assert plain[0].saturated <= plain[1].saturated < plain[2].saturated
    assert plain[2].gradient < 0.1 * scaled[2].gradient
    assert scaled[2].gradient == pytest.approx(scaled[1].gradient, rel=0.3)


def test_the_norm_is_that_of_the_jacobian() -> None:
    for spread in (0.0, 1.0, 5.0):
        scores = spread * torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(dim=0), scores)
        assert float(jacobian_norm(scores.softmax(dim=0))) == pytest.approx(float(jacobian.norm()), rel=1e-9)
    assert float(jacobian_norm(torch.tensor([0.0, 1.0, 0.0]))) == 0.0


def test_additive_attention_keeps_a_vector_for_every_query_and_key() -> None:
    bytes_of = {name: [Cell(make, n).of(saved_bytes) for n in (16, 32)] for name, make in FUNCTIONS.items()}
    assert bytes_of["additive"][1] > 8 * 32 * 32 * 64 * 4
    assert bytes_of["additive"][1] > 5 * bytes_of["dot-product, written out"][1]
    assert bytes_of["dot-product"][1] == pytest.approx(2 * bytes_of["dot-product"][0], rel=0.05)


def test_dot_products_are_counted_the_same_fused_and_written_out() -> None:
    counts = {name: Cell(make, 16).of(operations) for name, make in FUNCTIONS.items()}
    assert counts["dot-product"] == counts["dot-product, written out"] == 4 * 8 * 16 * 16 * 64


def test_a_study_has_the_papers_values_beside_its_own(tmp_path: Path) -> None:
    result = study_scaling(SIZES, tmp_path / "times.json", Listener())
    tables = {part.name: part for part in result.parts if isinstance(part, Table)}
    assert [[row[0], row[2], row[4], row[6]] for row in tables["scaling-variance"].rows] == [
        [str(d_k), "0", str(d_k), "1"] for d_k in SIZES.widths
    ]
    assert len(tables["scaling-additive"].rows) == 3 * len(FUNCTIONS)
    assert len([part for part in result.parts if isinstance(part, Picture)]) == 3
    assert (tmp_path / "times.json").is_file()


def test_a_steep_growth_is_explained_where_tensors_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(additive.sys, "platform", "linux")
    lengths = (64, 128, 256)  # at 128, 8 x 128 x 128 x 64 numbers have 32 MiB
    steep, plain = ({("additive", n): n**power for n in lengths} for power in (2.7, 2.0))
    (said,) = additive._fresh_pages(lengths, steep)
    assert "32 MiB or more from n = 128 on" in said
    assert additive._fresh_pages(lengths, plain) == []
    assert additive._fresh_pages((16, 32, 64), {("additive", n): n**2.7 for n in (16, 32, 64)}) == []
