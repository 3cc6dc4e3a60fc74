"""Text and tables for a Markdown page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence


def wrapped(text: str) -> str:
    """The same with lines that are filled and fit; what a bullet says stays indented."""
    paragraphs = re.sub(r"(?<=\S)\n *(?=[^\s#-])", " ", text)
    lines = [
        textwrap.fill(line, 120, subsequent_indent="  " * line.startswith("-"), break_on_hyphens=False)
        for line in paragraphs.split("\n")
    ]
    return "\n".join(lines)


def table(heading: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int]) -> str:
    """A Markdown table; the columns in `numbers` stand on the right."""
    rule = "|".join("---:" if column in numbers else "---" for column in range(len(heading)))
    return f"| {' | '.join(heading)} |\n|{rule}|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def spread(values: Sequence[float], form: str) -> str:
    """The range of some numbers, or the one that they all are."""
    ends = [form.format(min(values)), form.format(max(values))]
    return " - ".join(dict.fromkeys(ends))
