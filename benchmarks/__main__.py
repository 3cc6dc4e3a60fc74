"""`make bench`: measures, keeps the numbers in a JSON file, and writes docs/performance.md and its pictures from it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from benchmarks.environments import cache
from benchmarks.page import DOCS, write_page
from benchmarks.plan import FULL_ROUNDS, ROUNDS, Task, plan
from benchmarks.results import Results, read_results, write_results


def measure(tasks: Sequence[Task], path: Path) -> Results:
    """Do the tasks one after the other; the numbers are kept after each, beside what the file held before."""
    results = read_results(path) if path.is_file() else Results()
    begin, guessed = time.monotonic(), 0.0
    for number, task in enumerate(tasks, 1):
        pace = (time.monotonic() - begin) / guessed if guessed else 1.0
        left = timedelta(seconds=round(pace * sum(each.seconds for each in tasks[number - 1 :])))
        print(f"[{number}/{len(tasks)}] {task.title}; about {left} to go", file=sys.stderr, flush=True)
        task.run(results)
        guessed += task.seconds
        write_results(path, results)
    return results


def main() -> None:
    full = bool(os.environ.get("FULL"))
    rounds = FULL_ROUNDS if full else ROUNDS
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(ROUNDS)}; else all")
    parser.add_argument("--rounds", type=int, metavar="N", help="for all parts: 1 is a quick trial")
    parser.add_argument("--json", type=Path, default=cache() / "results.json", help="where numbers are kept and merged")
    parser.add_argument("--page", type=Path, metavar="JSON", help="only write the page, from this file")
    parser.add_argument("--docs", type=Path, default=DOCS, help="directory of the page; for a trial, another one")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(ROUNDS):
        parser.error(f"no part {', '.join(sorted(unknown))}: choose from {', '.join(ROUNDS)}")
    if arguments.page is not None:
        results = read_results(arguments.page)
    else:
        chosen = dict.fromkeys(rounds, arguments.rounds) if arguments.rounds else rounds
        results = measure(plan(arguments.parts or list(ROUNDS), chosen, full=full), arguments.json)
    write_page(results, arguments.docs)


if __name__ == "__main__":
    main()
