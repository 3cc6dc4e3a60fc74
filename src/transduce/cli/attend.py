"""`transduce attend`: pictures of what each head attends to."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.explain.record import Attention

PICTURES = (".svg", ".pdf", ".png")
PAGE = ".html"
MARKS = ".,;:?!"


class Which(StrEnum):
    """Which attention."""

    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


class Style(StrEnum):
    """How it is drawn."""

    LINES = "lines"
    HEAT = "heat"


def attend(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run or a bundle.")],
    sentence: Annotated[str, typer.Argument(help="In quotes.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new file: .svg, .pdf, .png; or .html.")],
    kind: Annotated[
        Which | None, typer.Option(help="cross: from the translation to the sentence; unset: encoder.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="From 1; unset: the last.")] = None,
    head: Annotated[list[int] | None, typer.Option(help="From 1, several times if you like; unset: all.")] = None,
    word: Annotated[str | None, typer.Option(help="Only what this word attends to, or the n-th; unset: all.")] = None,
    style: Annotated[Style | None, typer.Option(help="heat: of one head, or of the mean of all; unset: lines.")] = None,
) -> None:
    """Draw the attention of a sentence as the paper's Figures 3 to 5 do, or as a heat map; .html: a page to explore.

    The page is one file that needs no network: every layer and head, the beam, and the translation without each head.
    """
    display: Display = context.obj
    refuse(output, heads=head, word=word, style=style)
    if output.suffix.lower() == PAGE:
        refuse_choices(output, {"--kind": kind, "--layer": layer, "--head": head, "--word": word, "--style": style})
    from transduce.decode.translator import Translator
    from transduce.explain.attend import attend as attend_to
    from transduce.explain.reading import readable, sentence_ids

    translator = Translator.load(model, engine="pytorch", warn=display.warn)
    sentence = readable(sentence)
    sentence_ids(translator, sentence)  # refuses what cannot be looked at
    if output.suffix.lower() == PAGE:
        from transduce.explain.offline_page import offline_page
        from transduce.files import write_file

        write_file(output, offline_page(translator, sentence).encode())
        typer.echo(str(output))
        return
    attended = attend_to(translator, sentence)
    display.note(f"“{sentence}” → “{attended.translation}”")
    attention: Attention = getattr(attended, (kind or Which.ENCODER).value)
    draw(output, attention, layer=layer, heads=head, word=word, style=style)
    typer.echo(str(output))


def refuse_choices(output: Path, choices: Mapping[str, object]) -> None:
    """Of a page, which has them all."""
    given = [flag for flag, value in choices.items() if value is not None]
    if given:
        raise UserError(f"{output}: a page shows every kind, layer, head, word and style: leave out {', '.join(given)}")


def refuse(output: Path, *, heads: list[int] | None, word: str | None, style: Style | None) -> None:
    """Say what cannot be done before a model is loaded."""
    from transduce.cli.lines import refuse_output

    if output.suffix.lower() not in (*PICTURES, PAGE):
        names = " or ".join((*PICTURES, PAGE))
        raise UserError(f"{output}: no picture can be written so: let the name end in {names}")
    refuse_output(output)
    if style is Style.HEAT and (word is not None or len(heads or ()) > 1):
        raise UserError(
            "--style heat shows all words in one head or in the mean of all: leave out --word, name one --head"
        )


def draw(
    output: Path,
    attention: Attention,
    *,
    layer: int | None,
    heads: list[int] | None,
    word: str | None,
    style: Style | None,
) -> None:
    """Write the picture; numbers count from 1."""
    from transduce.explain.figures import write_heatmap, write_lines

    index = attention.num_layers - 1 if layer is None else layer - 1
    chosen = None if not heads else [head - 1 for head in heads]
    if style is Style.HEAT:
        write_heatmap(output, attention, layer=index, head=None if chosen is None else chosen[0])
    else:
        query = None if word is None else place_of(word, attention.queries)
        write_lines(output, attention, layer=index, heads=chosen, query=query)


def place_of(word: str, words: list[str]) -> int:
    """The index of a word, by its number from 1 or as it is written; a mark behind it and its case do not matter."""
    if word in words or not word.isdecimal():
        places = [at for at, each in enumerate(words) if word in (each, each.strip(MARKS))]
        places = places or [at for at, each in enumerate(words) if each.strip(MARKS).lower() == word.lower()]
        if len(places) > 1:
            numbers = " and ".join(str(at + 1) for at in places)
            raise UserError(
                f"word {word!r}: it is there {len(places)} times, as words {numbers}: give one of the numbers"
            )
        if not places:
            raise UserError(f"word {word!r}: not one of {' '.join(words)!r}: give one of them, or a number from 1")
        return places[0]
    return int(word) - 1
