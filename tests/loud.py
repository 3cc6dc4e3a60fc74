"""A translator whose work can be seen, and broken off."""

from __future__ import annotations

import pytest

from transduce.decode.translator import Alternative, Translation, Translator

WINDOW = 4


class Loud:
    """In place of the model, in small windows: upper case, so that a line of output tells which line it answers."""

    def __init__(self) -> None:
        self.windows: list[tuple[int, int]] = []
        """First line and number of lines of each."""
        self.break_at: int | None = None

    def translate(self, lines: list[str], *, first_line: int, n_best: int, **options: object) -> list[Translation]:
        self.windows.append((first_line, len(lines)))
        if first_line == self.break_at:
            raise KeyboardInterrupt
        best = [[Alternative(line.upper(), 0.0, 0.0)] * n_best for line in lines]
        return [Translation(each[0].text, 0.0, 0.0, tuple(each)) for each in best]

    def take_part(self, monkeypatch: pytest.MonkeyPatch) -> Loud:
        monkeypatch.setattr("transduce.cli.translate.WINDOW", WINDOW)
        monkeypatch.setattr(Translator, "translate", lambda translator, lines, **given: self.translate(lines, **given))
        return self
