"""Parallel text of which a part is garbage, and how it is read."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

GARBAGE: dict[str, Callable[[bytes, bytes], tuple[bytes, bytes]]] = {
    "bad UTF-8": lambda s, t: (s + b"\xff", t),
    "NUL character": lambda s, t: (s, t + b"\0"),
    "U+2028 or other break": lambda s, t: (s + "\u2028x".encode(), t),
    "CR inside": lambda s, t: (s, b"x\r" + t),
    "over-long": lambda s, t: (s + b"x" * (1 << 20), t),
    "empty source": lambda s, t: (b"", t),
    "empty target": lambda s, t: (s, b"  "),
    "length ratio": lambda s, t: (s, t + b" word" * 10 * len(s)),
}


def write_garbage(directory: Path, lines: int, *, share: float = 0.01, seed: int = 0) -> dict[str, list[int]]:
    """train.en and train.de, whose lines begin with their numbers; returns the lines of each kind of garbage.

    Besides there is a byte order mark, and a CR before each thousandth newline.
    """
    generator, kinds = random.Random(seed), list(GARBAGE)
    found: dict[str, list[int]] = {kind: [] for kind in kinds}
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "train.en").open("wb") as source, (directory / "train.de").open("wb") as target:
        source.write(b"\xef\xbb\xbf")
        for line in range(1, lines + 1):
            pair = f"{line} the dog sees cat {line % 97}".encode(), f"{line} der Hund sieht Katze {line % 97}".encode()
            if generator.random() < share:
                # megabytes are rare, or the files would be nothing else
                kind = generator.choice(kinds if generator.random() < 0.05 else [k for k in kinds if k != "over-long"])
                pair = GARBAGE[kind](*pair)
                found[kind].append(line)
            end = b"\n" if line % 1000 else b"\r\n"
            source.write(pair[0] + end)
            target.write(pair[1] + end)
    return {kind: places for kind, places in found.items() if places}


READ = """
import json, resource, sys
from pathlib import Path
from transduce.config import DataConfig
from transduce.data.corpus import Corpus
from transduce.data.doctor import examine
from transduce.data.selection import usable_pairs
from transduce.data.problems import Tally

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

directory = Path(sys.argv[1])
corpus = Corpus((directory / "train.en",), (directory / "train.de",))
before = peak()
report = examine(corpus, data=DataConfig()).to_json()["train"]
tally, misaligned = Tally(), 0
for pair in usable_pairs(corpus, DataConfig(), tally):
    misaligned += not int(pair.source.split()[0]) == int(pair.target.split()[0]) == pair.line
dropped = {str(kind): found.count for kind, found in tally.dropped.items()}
print(json.dumps({"kilobytes": peak() - before, "misaligned": misaligned, "usable": tally.usable,
                  "dropped": dropped, "crs": tally.crs, "boms": tally.boms, "report": report}))
"""


def read_garbage(directory: Path) -> dict[str, Any]:
    """Doctor and reading of pairs in a process of their own: what was found, and the memory above that of importing."""
    done = subprocess.run([sys.executable, "-c", READ, str(directory)], capture_output=True, check=True)
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found
