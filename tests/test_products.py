"""Products of float32 matrices are exact and faster where oneDNN makes them, and attention is the same there."""

from __future__ import annotations

import os

import pytest
import torch

from transduce.config import ModelConfig
from transduce.model import Noise, products
from transduce.model.attention import SHORT, Compatibility
from transduce.model.products import REMEMBERED, fast_products, onednn_is_better, onednn_multiplies


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "onednn_is_better", lambda: True)


def vendor(monkeypatch: pytest.MonkeyPatch, name: str, *, capability: str = "AVX512", exact: bool = True) -> bool:
    monkeypatch.setattr(products, "_vendor", lambda: name)
    monkeypatch.setattr(products, "_exact", lambda: exact)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    return onednn_is_better.__wrapped__()


def test_it_is_for_amd_with_avx_512_where_nothing_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vendor(monkeypatch, "AuthenticAMD")
    assert not vendor(monkeypatch, "GenuineIntel")
    assert not vendor(monkeypatch, "AuthenticAMD", capability="AVX2")
    assert not vendor(monkeypatch, "AuthenticAMD", exact=False)


def test_products_keep_what_bfloat16_would_lose() -> None:
    x = torch.randn(300, 128, generator=torch.Generator().manual_seed(1))
    y = torch.randn(128, 200, generator=torch.Generator().manual_seed(2))
    with fast_products():
        found = x @ y
    assert (found.double() - x.double() @ y.double()).abs().max() < 1e-4  # bfloat16: 0.1


@pytest.mark.parametrize("given", [None, "7"])
def test_few_shapes_are_remembered_unless_it_is_set_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    for name in REMEMBERED:
        monkeypatch.setenv(name, given or "")
        if given is None:
            monkeypatch.delenv(name)
    products._remember_few.cache_clear()
    with fast_products():
        assert {name: os.environ[name] for name in REMEMBERED} == {
            name: given or str(shapes) for name, shapes in REMEMBERED.items()
        }


@pytest.mark.usefixtures("onednn")
def test_afterwards_all_is_as_before() -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision
    with fast_products():
        assert onednn_multiplies()
    with pytest.raises(ZeroDivisionError), fast_products():
        raise ZeroDivisionError
    assert torch.backends.mkldnn.matmul.fp32_precision == before
    assert not onednn_multiplies()


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize(("length", "way"), [(4, "_Attention"), (SHORT, "ScaledDotProduct")])
def test_attention_is_written_out_for_sequences_that_are_short(length: int, way: str) -> None:
    compatibility = Compatibility(ModelConfig(d_model=8, num_heads=2))
    q, k, v = (torch.randn(1, 2, size, 4, requires_grad=True) for size in (2, length, length))
    plain = compatibility(q, k, v, None, noise=Noise(1, 2))
    with fast_products():
        fast = compatibility(q, k, v, None, noise=Noise(1, 2))
        searching = compatibility(q, k, v, None)
    assert way in fast.grad_fn.name()
    assert "ScaledDotProduct" in searching.grad_fn.name()
    assert torch.allclose(fast, plain, atol=0.05)  # a processor that rounds may be made to here


def test_attention_in_half_precision_is_written_out() -> None:
    compatibility = Compatibility(ModelConfig(d_model=8, num_heads=2))
    q, k, v = (torch.randn(1, 2, 4, 4, requires_grad=True) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        fast = compatibility(*(t.bfloat16() for t in (q, k, v)), None, noise=Noise(1, 2))
    assert "_Attention" in fast.grad_fn.name()
    assert torch.allclose(fast.float(), compatibility(q, k, v, None), atol=0.05)
