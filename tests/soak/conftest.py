"""How often each fault is tried, and the table of what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from reliability import Row, table, with_rows

ROWS = pytest.StashKey[list[Row]]()


@pytest.fixture(scope="session")
def times() -> Callable[[int], int]:
    """So often, or that part of it which TRANSDUCE_SOAK names."""
    share = float(os.environ.get("TRANSDUCE_SOAK", "1"))
    return lambda number: max(1, round(number * share))


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[int, str, str, str], None]:
    """Keep what was done for the table: number, fault, tried, found; to be called when all of it held."""

    def keep(number: int, fault: str, tried: str, found: str) -> None:
        today = datetime.now(UTC).date().isoformat()
        request.config.stash.setdefault(ROWS, []).append(Row(number, fault, tried, found, today))

    return keep


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and write it into the page that TRANSDUCE_SOAK_PAGE names."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("what was tried and found")
    terminalreporter.write(table(rows))
    if name := os.environ.get("TRANSDUCE_SOAK_PAGE"):
        page = Path(name)
        page.write_text(with_rows(page.read_text(encoding="utf-8"), rows), encoding="utf-8", newline="\n")
