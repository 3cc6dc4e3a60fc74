"""One translator in a process of its own.

`python -m benchmarks.translators NAME DIRECTORY` loads it, reads a JSON line a question from stdin and answers with one
on stdout: {"calls": [["A dog.", "A cat."], ["A cow."]], "beam": 4} makes a call for each list of lines and gives all
"translations" and the "seconds" that the calls took; "length", if it is there, is that of the outputs. {"memory": true}
gives the "peak" in bytes so far, above what the process held after its imports.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.translators import Contender, maker
from benchmarks.worker import memory


def answer(contender: Contender, held: int, question: dict[str, Any]) -> dict[str, Any]:
    """What a question asks for."""
    if "memory" in question:
        return {"peak": memory("VmHWM") - held}
    begin = time.perf_counter()
    found = [contender.translate(lines, question["beam"], question.get("length")) for lines in question["calls"]]
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "translations": [line for lines in found for line in lines]}


def main() -> None:
    replies, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    name, directory = sys.argv[1:]
    make = maker(name)
    held = memory("VmRSS")
    contender = make(Path(directory))
    for line in sys.stdin:
        print(json.dumps(answer(contender, held, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
