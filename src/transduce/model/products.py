"""Who multiplies float32 matrices on a CPU.

torch leaves them to MKL, which uses half the width of AMD's AVX-512. oneDNN, which torch has for other precisions, uses
all of it, but is asked for float32 only where it may round the factors to bfloat16; where it has no instructions to
gain from that, it does not round. That is tried before it is relied on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch

HALVES = (torch.bfloat16, torch.float16)
REMEMBERED = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": 32 * (os.cpu_count() or 1), "LRU_CACHE_CAPACITY": 16}
"""What oneDNN made ready is kept for the last 1,024 shapes of products, and once more by what torch calls it through,
some hundred kilobytes each, which lie scattered between the freed tensors and keep these apart. A layer uses a
few of them in each thread, and a later update hardly any of the same: the rest is memory for nothing."""
ALLOWED = "bf16"  # what float32 factors may be rounded to


@contextmanager
def fast_products() -> Iterator[None]:
    """Within, float32 products on a CPU are oneDNN's where that is faster and exact; for the whole process."""
    _remember_few()
    with _by_onednn() if onednn_is_better() else nullcontext():
        yield


@cache
def _remember_few() -> None:
    """Before oneDNN's first product, which is when it looks; what a user has set stays."""
    for name, shapes in REMEMBERED.items():
        os.environ.setdefault(name, str(shapes))


def onednn_multiplies() -> bool:
    """Whether it does now."""
    return bool(_settings().fp32_precision == ALLOWED)


@cache
def onednn_is_better() -> bool:
    """On AMD's processors with AVX-512, if products stay exact; the same answer in every run on a machine."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _vendor() == "AuthenticAMD" and _exact()


@contextmanager
def _by_onednn() -> Iterator[None]:
    settings = _settings()
    before, settings.fp32_precision = settings.fp32_precision, ALLOWED
    try:
        yield
    finally:
        settings.fp32_precision = before


def _vendor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    lines = (line.partition(":") for line in text.split("\n"))
    return next((value.strip() for name, _, value in lines if name.strip() == "vendor_id"), "")


def _exact() -> bool:
    """Whether oneDNN keeps what bfloat16 would lose."""
    x = torch.full((64, 64), 1 + 2**-12)
    with _by_onednn():
        return torch.equal(x @ torch.eye(64), x)


def _settings() -> Any:
    return torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
