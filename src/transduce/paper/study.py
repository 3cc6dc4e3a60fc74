"""What a study is given: its scale, where it may keep trainings, and whom it tells."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from transduce.train.progress import Listener

Scale = Literal["tiny", "small", "paper"]
"""tiny: minutes to 100 minutes a part on 2 cores; small: a day there; paper: the paper's own sizes, for GPUs."""


@dataclass(frozen=True)
class Study:
    """A study of the paper. What lies in `work` is gone on with, so that an interrupted study resumes."""

    scale: Scale = "tiny"
    work: Path = Path("paper-work")
    listener: Listener = field(default_factory=Listener)
    bundles: tuple[Path, ...] = ()
    """Runs or bundles that the user gives; empty: the study trains its own where it needs one."""
    data: Path = field(default_factory=lambda: shared_data())
    """Where public corpora are looked for."""


def shared_data() -> Path:
    """`$TRANSDUCE_DATA`, else `shared/data` beside the directory that the command is started in."""
    return Path(os.environ.get("TRANSDUCE_DATA", Path("..") / "shared" / "data"))
