"""A line of the input: text, or a row of a table of which one column is translated and all others stay as they were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from transduce.data.rows import is_text
from transduce.errors import UserError

INTO = "translation"


class Format(StrEnum):
    """What a line is."""

    TEXT = "text"
    TSV = "tsv"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Row:
    """A line as it was read, what of it is translated, and what stands around the translation in the output."""

    line: str
    source: str | None
    """None: there is nothing to translate, and `before` is the line of the output."""
    before: str = ""
    after: str = ""
    warnings: tuple[str, ...] = ()


class Layout(Protocol):
    """How lines become rows, and translations lines."""

    def row(self, line: str, number: int) -> Row:
        """The row on line `number` of a file, from 1; a ValueError says why a line is none."""
        ...

    def spell(self, translation: str) -> str:
        """The translation as the output has it."""
        ...


class Text:
    """Each line is a sentence, and its translation is the line of the output."""

    def row(self, line: str, number: int) -> Row:
        """The line is the source."""
        return Row(line, line)

    def spell(self, translation: str) -> str:
        """As it is."""
        return translation


class Tsv:
    """Cells between tabs; the translation is a new last one.

    The column is a number, from 1, or a name in the first line of each file, which then gets the new column's name.
    """

    def __init__(self, column: str, into: str) -> None:
        self.column, self.into = column, into
        self.named = not column.isdecimal()
        self.place = 0 if self.named else int(column) - 1

    def row(self, line: str, number: int) -> Row:
        """The source is the cell in the column; with a named column, line 1 is the heading."""
        cells = line.split("\t")
        if self.named and number == 1:
            self.place = self._find(cells)
            return Row(line, None, f"{line}\t{self.into}")
        if len(cells) <= self.place:
            raise ValueError(f"has {len(cells)} of the {self.place + 1} columns needed")
        return Row(line, cells[self.place], line + "\t")

    def spell(self, translation: str) -> str:
        """A tab would begin another column."""
        return translation.replace("\t", " ")

    def _find(self, cells: Sequence[str]) -> int:
        if self.into in cells:
            raise UserError(f"has a column {self.into!r} already: name the new one with --into")
        if self.column not in cells:
            names = ", ".join(map(repr, cells))
            raise UserError(f"no column {self.column!r}, only {names}: give --column one of them, or a number from 1")
        return cells.index(self.column)


class Jsonl:
    """One JSON object a line; the translation is a new key at its end, and the rest keeps its spelling."""

    def __init__(self, column: str, into: str) -> None:
        self.column, self.into = column, into

    def row(self, line: str, number: int) -> Row:
        """The source is the value of the key."""
        try:
            table = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError("is not JSON") from None
        if not isinstance(table, dict):
            raise ValueError("is not a JSON object")
        if self.into in table:
            raise ValueError(f"has a key {self.into!r} already")
        source = table.get(self.column)
        if source is None:
            raise ValueError(f"has no {self.column!r}")
        if not isinstance(source, str) or not is_text(source):
            raise ValueError(f"{self.column!r} is not text")
        open_end = line.rstrip(" \t\r\n")[:-1].rstrip(" \t\r\n")
        return Row(line, source, f"{open_end}, {json.dumps(self.into, ensure_ascii=False)}: ", "}")

    def spell(self, translation: str) -> str:
        """As a JSON string."""
        return json.dumps(translation, ensure_ascii=False)


def format_of(inputs: Sequence[Path]) -> Format:
    """What files hold by their names; they must all be of a kind."""
    found = {path: _format_of(path) for path in inputs}
    if len(set(found.values())) > 1:
        kinds = ", ".join(f"{path} is {kind}" for path, kind in found.items())
        raise UserError(f"{kinds}: translate each kind by itself, or name one with --format")
    return next(iter(found.values()), Format.TEXT)


def layout(kind: Format, column: str | None, into: str | None) -> Layout:
    """How lines of a kind are read, or what is missing or too much for that."""
    if kind is Format.TEXT:
        if column is not None or into is not None:
            raise UserError("text has no columns: --column and --into need --format tsv or jsonl")
        return Text()
    if column is None:
        raise UserError(f"{kind}: say with --column which one to translate, or take whole lines with --format text")
    if kind is Format.JSONL:
        return Jsonl(column, into or INTO)
    table = Tsv(column, into or INTO)
    if table.place < 0:
        raise UserError("--column 0: columns are counted from 1")
    if into is not None and not table.named:
        raise UserError(f"--into {into}: a column is named only where --column is a name in the first line")
    if "\t" in table.into:
        raise UserError(f"--into {into!r}: a name cannot hold a tab")
    return table


def _format_of(path: Path) -> Format:
    """By the last suffix but those of compression."""
    suffixes = [suffix for suffix in path.suffixes if suffix not in (".gz", ".xz")]
    return {".tsv": Format.TSV, ".jsonl": Format.JSONL}.get(suffixes[-1] if suffixes else "", Format.TEXT)
