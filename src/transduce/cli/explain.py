"""`transduce explain`: one sentence through every equation of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError


def explain(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run or a bundle.")],
    sentence: Annotated[str, typer.Argument(help="In quotes.")],
    layer: Annotated[int, typer.Option(help="The layer that is shown in detail, from 1.")] = 1,
    head: Annotated[int, typer.Option(help="The head that is shown, from 1.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new .html file; else stdout.")] = None,
) -> None:
    """Walk a sentence through the model: every equation with its shapes and numbers.

    On the page every layer can be opened; in the terminal one is. The equations are computed plainly from the model's
    weights and compared with what the model itself says.
    """
    display: Display = context.obj
    if output is not None and output.suffix.lower() != ".html":
        raise UserError(f"{output}: the walk is a page: let the name end in .html, or leave out --output")
    from transduce.cli.lines import refuse_output

    refuse_output(output)
    from transduce.decode.translator import Translator
    from transduce.explain.walk import walk
    from transduce.explain.walk_page import walk_html
    from transduce.explain.walk_text import walk_lines
    from transduce.files import write_file

    translator = Translator.load(model, engine="pytorch", warn=display.warn)
    walked = walk(translator, sentence, layer=layer - 1, head=head - 1)
    if output is None:
        for line in walk_lines(walked):
            typer.echo(line)
    else:
        write_file(output, walk_html(walked).encode())
        typer.echo(str(output))
