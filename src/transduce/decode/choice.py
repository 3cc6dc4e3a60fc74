"""Which engine runs a bundle: CTranslate2 where it can, else PyTorch, and why."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

from transduce.bundle import Bundle, load_model
from transduce.decode.conversion import COMPUTE_TYPE, ready
from transduce.decode.ctranslate2_engine import Ctranslate2Engine
from transduce.decode.engine import Engine
from transduce.errors import UserError
from transduce.interop.ctranslate2 import refusal

Wanted = Literal["auto", "pytorch", "ctranslate2"]


def open_engine(
    bundle: Bundle,
    wanted: Wanted,
    say: Callable[[str], None],
    warn: Callable[[str], None] | None = None,
    *,
    shortlist: bool = False,
) -> Engine:
    """The engine that is wanted; `auto`: CTranslate2, or PyTorch where it is missing or has no such model.

    `say` hears which it is, in a line; `warn`, if it is another, of a conversion that was damaged. Only CTranslate2
    has shortlists: with one, `auto` does not choose PyTorch.
    """
    if shortlist and wanted == "pytorch":
        raise UserError("--shortlist: the PyTorch engine has none: leave it out, or --engine pytorch")
    if shortlist:
        wanted = "ctranslate2"
    if wanted == "pytorch":
        return _pytorch(bundle, "asked for", say)
    if wanted == "ctranslate2":
        if reason := refusal(bundle.config.model):
            raise UserError(f"{bundle.path}: CTranslate2 has no {reason}: --engine pytorch has")
        return _ctranslate2(bundle, say, warn or say, shortlist=shortlist)
    if reason := refusal(bundle.config.model):
        return _pytorch(bundle, f"CTranslate2 has no {reason}", say)
    if find_spec("ctranslate2") is None:
        return _pytorch(bundle, "CTranslate2, which is faster, is not installed: pip install '.[fast]'", say)
    try:
        return _ctranslate2(bundle, say, warn or say, shortlist=False)
    except UserError as error:  # no place for its files
        return _pytorch(bundle, str(error), say)


def _ctranslate2(bundle: Bundle, say: Callable[[str], None], warn: Callable[[str], None], *, shortlist: bool) -> Engine:
    engine = Ctranslate2Engine(ready(bundle, say, warn, shortlist=shortlist), bundle.config)
    say(f"engine: CTranslate2, {COMPUTE_TYPE}, {engine.workers} threads{', with a shortlist' * shortlist}")
    return engine


def _pytorch(bundle: Bundle, reason: str, say: Callable[[str], None]) -> Engine:
    from transduce.decode.torch_engine import TorchEngine

    engine = TorchEngine(load_model(bundle))
    say(f"engine: PyTorch ({reason})")
    return engine
