"""What a study of the paper found: text, tables and pictures in order, written as Markdown, CSV and SVG."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.files import write_file


@dataclass(frozen=True)
class Table:
    """A table; its name is that of its CSV file. The paper's value stands in a column beside the measured one."""

    name: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.heading), f"{self.name}: {len(row)} cells below {len(self.heading)} headings"

    def markdown(self) -> str:
        """Columns in which every filled cell begins as a number does stand on the right."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.heading)
        rule = "|".join("---:" if _numbers(column) else "---" for column in columns)
        lines = [self.heading, *self.rows]
        head, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
        return "\n".join([head, f"|{rule}|", *body])

    def csv(self) -> str:
        """The same for programs."""
        out = io.StringIO(newline="")
        csv.writer(out, lineterminator="\n").writerows([self.heading, *self.rows])
        return out.getvalue()


@dataclass(frozen=True)
class Picture:
    """An SVG document; `alt` says what it shows to those who cannot see it."""

    name: str
    alt: str
    svg: str

    def markdown(self) -> str:
        """The picture beside the page."""
        return f"![{self.alt}]({self.name}.svg)"


@dataclass(frozen=True)
class Result:
    """A study's result. `scope` is a line on what this scale can and cannot show."""

    name: str
    title: str
    scope: str
    parts: Sequence[str | Table | Picture]

    def markdown(self, origin: str) -> str:
        """The whole page; `origin` says by which command it was made, and when."""
        parts = [part if isinstance(part, str) else part.markdown() for part in self.parts]
        return "\n\n".join([f"# {self.title}", self.scope, *parts, origin]) + "\n"

    def write(self, directory: Path, origin: str) -> Path:
        """The page, a CSV file for each table and an SVG file for each picture; returns the page's path."""
        directory.mkdir(parents=True, exist_ok=True)
        for part in self.parts:
            match part:
                case Table():
                    write_file(directory / f"{part.name}.csv", part.csv().encode())
                case Picture():
                    write_file(directory / f"{part.name}.svg", part.svg.encode())
        page = directory / f"{self.name}.md"
        write_file(page, self.markdown(origin).encode())
        return page


def _numbers(column: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in column if cell.strip()]
    return bool(filled) and all(cell.lstrip("+-−≥≤<>~")[:1].isdigit() for cell in filled)
