"""Whether a text is in the language that a model translates from, told by the text itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from transduce.cli.display import Display
from transduce.cli.synthesis import Originals
from transduce.errors import UserError

LOOKED_AT, FEWEST = 500, 200
"""A file's language is told by its first so many lines, if they have so many characters at least."""


def refuse_language(originals: Originals, said: str | None, display: Display) -> None:
    """Files in another language than their model translates from; each is looked at, unless the language is said."""
    from transduce.serve.detection import base

    bundle = originals.translator.bundle
    assert bundle is not None
    wanted = bundle.source_lang
    if wanted is None or (said is None and not known(wanted, display)):
        return
    for path in originals.files:
        found = said or told_by(replace(originals, files=(path,)))
        if found is not None and base(found.lower()) != base(wanted.lower()):
            way_out = f"give text in {wanted}, or a model that translates from {found}"
            doubt = "" if said else f"; if it is {wanted}, say so by --lang {wanted}"
            raise UserError(f"{path}: is in {found}, and {bundle.path} translates from {wanted}: {way_out}{doubt}")


def known(language: str, display: Display) -> bool:
    """Whether text in this language can be told from other text."""
    from transduce.serve.detection import base, labels

    try:
        return base(language) in labels()
    except ModuleNotFoundError:
        display.warn("the text's language is not looked at: pip install '.[serve]' brings py3langid, which can")
        return False


def told_by(originals: Originals) -> str | None:
    """The language of a text, of all that are known; None: it is too short to tell."""
    from transduce.serve.detection import identifier

    text = " ".join(row.source for row in islice(originals.rows(), LOOKED_AT) if row.source)
    return None if len(text) < FEWEST else str(identifier(()).rank(text)[0][0])
