"""What a distillation was asked for, as a file beside the student's run: whoever goes on needs nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from transduce.cli.synthesis import TOO_LONG, Looked
from transduce.decode.job import Work
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.config import Config


class Order(BaseModel):
    """OUT.distill.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    teachers: list[Path]
    sources: list[Path]
    also: list[Path]
    """The real translations of the sources, if the student learns from them too."""
    beam: int | None
    keep_vocabulary: bool
    lang: str | None = None
    """Of the sources, if it was said."""
    preset: str | None
    config: Path | None
    settings: list[str]
    """Of the training."""
    works: list[Work] = []
    """What the teacher translates, a work for each source; none: nothing was begun."""

    @property
    def vocabulary_of(self) -> Path | None:
        """The model whose vocabulary the student has; None: it learns one."""
        return self.teachers[0] if self.keep_vocabulary else None

    def student(self) -> Config:
        """The settings of the training, its pairs aside."""
        from transduce.settings import load_config

        return load_config(preset=self.preset, path=self.config, settings=self.settings)

    def unusable(self, looked: list[Looked]) -> tuple[int, int]:
        """How many of the student's pairs are sure to be unusable, and of how many; with the real ones, both sides."""
        left_out = sum((found.left_out for found in looked), Counter[str]())
        pairs = sum(found.lines for found in looked)
        if not self.also:
            return left_out.total(), pairs
        return 2 * left_out.total() - left_out[TOO_LONG], 2 * pairs  # the teacher's limit is not the student's


def order_of(out: Path) -> Path:
    """Where it stands what was asked for."""
    return out.with_name(f"{out.name}.distill.json")


def read_order(out: Path) -> Order:
    """What was asked for."""
    if not out.name:
        raise UserError(f"{out}: not a run: name the directory of the student")
    path = order_of(out)
    try:
        return Order.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(
            f"{out}: no {path.name} beside it: start with `transduce distill TEACHER --out {out}`"
        ) from None
    except (OSError, ValidationError):
        way_out = f"remove it and {out.name}.teacher*, and give the whole command again"
        raise UserError(f"{path}: damaged, or of another version: {way_out}") from None
