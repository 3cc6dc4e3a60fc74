"""docs/reliability.md from what the soak did; what is written there by hand stays."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reliability.md"
HEADING = "| row | fault | tried | found | date |\n|---:|---|---|---|---|\n"
ROW = re.compile(r"^\| *(\d+) \|.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One fault of the table: its number in it, how often it was tried, what came of it, and when."""

    number: int
    fault: str
    tried: str
    found: str
    date: str

    def __str__(self) -> str:
        cells = (f"{self.number}", self.fault, self.tried, self.found, self.date)
        return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n"


def table(rows: Iterable[Row]) -> str:
    """Rows in the order of their numbers."""
    return HEADING + "".join(str(row) for row in sorted(rows, key=lambda row: row.number))


def with_rows(page: str, rows: Iterable[Row]) -> str:
    """The page with these rows in its table; rows of other numbers stay as they are."""
    before, heading, rest = page.partition(HEADING)
    assert heading, f"{PAGE.name} has lost the heading of its table"
    kept: dict[int, str] = {}
    while match := ROW.match(rest):
        kept[int(match[1])] = match[0]
        rest = rest[match.end() :]
    kept |= {row.number: str(row) for row in rows}
    return before + heading + "".join(kept[number] for number in sorted(kept)) + rest
