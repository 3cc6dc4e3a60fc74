"""Which of the models that the user gives a part can look into."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from transduce.bundle import Bundle
from transduce.decode.well_formed import Grammar
from transduce.errors import UserError
from transduce.paper.found_heads import check_subject

TRANSLATORS = ("table2", "figure3", "figure4", "figure5")
PARSERS = ("table4",)


def fitting(part: str, models: Mapping[Path, Bundle]) -> tuple[Path, ...]:
    """The models that fit a part, in order. If there are some and none fits, a UserError says why the first does not.

    Figures 1 and 2 draw any model, and the other parts take none: they leave alone what they are given.
    """
    reasons = [_reason(part, bundle) for bundle in models.values()]
    fit = tuple(path for path, reason in zip(models, reasons, strict=True) if reason is None)
    if models and not fit:
        raise UserError(f"{part}: {reasons[0]}, or leave --model out: it has a default of its own")
    return fit


def is_parser(bundle: Bundle) -> bool:
    """Whether its outputs are the brackets of trees."""
    try:
        Grammar(bundle.target_codec)
    except ValueError:
        return False
    return True


def _reason(part: str, bundle: Bundle) -> str | None:
    """Why a part cannot use a model, with what to give instead; None: it can."""
    if part in PARSERS and not is_parser(bundle):
        return f"{bundle.path}: not a parser: give a model trained on trees"
    if part in TRANSLATORS and is_parser(bundle):
        return f"{bundle.path}: a parser: give a model that translates"
    if part in ("figure3", "figure4", "figure5"):
        try:
            check_subject(bundle)
        except UserError as error:
            return str(error)
    return None
