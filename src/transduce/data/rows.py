"""A line of a table as a pair: TSV, JSONL or a tree, by the file's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from transduce.data import treebank
from transduce.errors import CorpusError


def splitter(path: Path) -> Callable[[str, tuple[str, str]], tuple[str, str]]:
    """What cuts a line of this file into source and target; it raises a ValueError where that cannot be done."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    formats = {".tsv": _split_tsv, ".jsonl": _split_json, treebank.SUFFIX: treebank.split_tree}
    if not suffixes or suffixes[-1] not in formats:
        known = " nor ".join(formats)
        raise CorpusError(f"{path}: neither {known} (nor those with .gz or .xz): rename it to what it holds")
    return formats[suffixes[-1]]


def is_text(value: str) -> bool:
    r"""Whether UTF-8 can hold it: JSON can spell half a surrogate pair, "\ud800"."""
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _split_tsv(text: str, columns: tuple[str, str]) -> tuple[str, str]:
    """The first two columns; more are common (Tatoeba's attributions) and left alone."""
    source, tab, rest = text.partition("\t")
    if not tab:
        raise ValueError("has 1 column: write source, a tab, target")
    return source, rest.partition("\t")[0]


def _split_json(text: str, columns: tuple[str, str]) -> tuple[str, str]:
    try:
        row = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("is not JSON: write one object a line") from None
    if not isinstance(row, dict):
        raise ValueError(f"is a JSON {type(row).__name__}: write one object a line")
    for key in columns:
        if key not in row:
            raise ValueError(f"has no key {key!r}, only {', '.join(map(repr, row))}: set data.columns")
        if not isinstance(row[key], str):
            raise ValueError(f"{key!r} is a {type(row[key]).__name__}: it must be a string")
    return row[columns[0]], row[columns[1]]
