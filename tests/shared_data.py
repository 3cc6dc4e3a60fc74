"""Where the public test sets lie that some tests score; they are not part of the project."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest


def shared_data(name: str) -> Path:
    """The directory of a data set in $TRANSDUCE_DATA, else in ../shared/data; without it, skip the test."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    root = Path(os.environ.get("TRANSDUCE_DATA", beside))
    if not (root / name).is_dir():
        pytest.skip(f"no {name} in {root}: point TRANSDUCE_DATA at the directory that holds it")
    return root / name


def shared_lines(name: str, file: str) -> list[str]:
    """The lines of one gzipped file of a data set."""
    with gzip.open(shared_data(name) / file, "rt", encoding="utf-8", newline="\n") as lines:
        return lines.read().removesuffix("\n").split("\n")
