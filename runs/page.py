"""The tables of docs/results.md from the published results: `python -m runs.page`.

What stands above the mark is written by hand and stays. A result that was never published has no section.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runs import cmudict, craft_parser, multi30k, options, student, tatoeba
from runs.command import RESULTS
from runs.record import Record, read_record
from transduce.files import write_file

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
MARK = "<!-- Below: made by `python -m runs.page` from runs/results; do not edit. -->"
SECTIONS: dict[str, Callable[[Record], str]] = {
    multi30k.NAME: multi30k.show,
    options.NAME: options.show,
    student.NAME: student.show,
    tatoeba.NAME: tatoeba.show,
    cmudict.NAME: cmudict.show,
    craft_parser.NAME: craft_parser.show,
}


def page(by_hand: str, results: Path) -> str:
    """The page with every published result below the mark."""
    records = {name: read_record(results, name) for name in SECTIONS}
    made = [SECTIONS[name](record) for name, record in records.items() if record is not None]
    return "\n\n".join([by_hand.partition(MARK)[0].rstrip(), MARK, *made]) + "\n"


def main() -> None:
    """Write the page again."""
    write_file(PAGE, page(PAGE.read_text(encoding="utf-8"), RESULTS).encode())


if __name__ == "__main__":
    main()
