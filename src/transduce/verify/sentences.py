"""What to try a model on: the validation sentences of its run, or the lines of a file."""

from __future__ import annotations

from pathlib import Path

from transduce.data.lines import read_blocks
from transduce.data.preparation import RECORD, recall
from transduce.errors import RunError


def sentences(run: Path, file: Path | None) -> list[str]:
    """Lines with something in them, each once."""
    if file is not None:
        lines = [text for block in read_blocks(file) for text in block.texts]
    elif (run / RECORD).is_file():
        lines = recall(run).valid_source
    else:
        raise RunError(f"{run}: no {RECORD}, so no validation sentences: give a run, or sentences by --file")
    found = list(dict.fromkeys(line for line in lines if line.strip()))
    if not found:
        raise RunError(f"{file or run}: no sentences: give some by --file")
    return found
