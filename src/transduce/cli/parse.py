"""`transduce parse`: a sentence a line in, a tree a line out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.cli.lines import open_output, read_lines, refuse_output, standard_input
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.config import SearchConfig
    from transduce.decode.parser import Parse, Parser
    from transduce.text.trees import Tree

NAMED = 20  # lines without a tree; more are counted
WINDOW = 100  # lines read and parsed together
PICTURES = (".svg", ".pdf", ".png")


def parse(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run on trees, or its bundle.")],
    inputs: Annotated[list[Path] | None, typer.Argument(help="Files, plain, .gz or .xz; else stdin.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; else stdout.")] = None,
    pretty: Annotated[bool, typer.Option("--pretty", help="Indented trees, an empty line after each.")] = False,
    svg: Annotated[Path | None, typer.Option(metavar="DIR", help="A new directory for pictures: DIR/1.svg ...")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy.")] = None,
    alpha: Annotated[float | None, typer.Option(min=0, help="Length penalty ((5 + length) / 6)^alpha.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="search.key=value; see `transduce config`.")] = None,
) -> None:
    """Parse sentences whose words stand between spaces, punctuation too: The dog barks .

    Line i of the output is the tree of line i of the input. Whatever the model thinks, it is a whole tree over the
    line's words, each under a tag; ( and ) in words become -LRB- and -RRB-. Blank lines stay
    empty, with a warning. Train a parser by `transduce train --trees FILE --preset parsing-small`.
    """
    display: Display = context.obj
    if output is not None and output.suffix in PICTURES:
        raise UserError(f"{output}: --output takes the trees as text: name a directory for pictures by --svg")
    refuse_output(output)
    if svg is not None and svg.exists() and not (svg.is_dir() and not any(svg.iterdir())):
        raise UserError(f"{svg}: exists: name a new or empty directory by --svg")
    size = 1 if not inputs and standard_input().isatty() else WINDOW
    from transduce.decode.parser import Parser

    parser = Parser.load(model)
    search = changed(parser.search, beam, alpha, set_ or [])
    from transduce.explain.tree_picture import write_picture

    if svg is not None:
        svg.mkdir(parents=True, exist_ok=True)
    empty = 0
    with open_output(output) as file, display.progress("parsing", None) as progress:
        for number, found in enumerate(parses(parser, search, read_lines(inputs, display), size), 1):
            if found.tree is None:
                empty += 1
                if empty <= NAMED:
                    why = "no words: left empty" if found.error is None else f"not parsed: {found.error}"
                    display.warn(f"line {number}: {why}")
            elif svg is not None:
                write_picture(svg / f"{number}.svg", found.tree)
            file.write(text_of(found.tree, pretty).encode())
            file.flush()
            progress.update(progress.task_ids[0], completed=number)
    if empty > NAMED:
        display.warn(f"{empty - NAMED:,} more lines have no tree")


def parses(parser: Parser, search: SearchConfig, lines: Iterator[str], size: int) -> Iterator[Parse]:
    """What becomes of each line, in order, some lines at a time."""
    while window := list(islice(lines, size)):
        yield from parser.parse(window, search=search)


def text_of(tree: Tree | None, pretty: bool) -> str:
    """The lines that stand for a tree, or for none."""
    from transduce.explain.tree_picture import tree_text
    from transduce.text.trees import write_tree

    if tree is None:
        return "\n"
    return tree_text(tree) + "\n" if pretty else write_tree(tree) + "\n"


def changed(search: SearchConfig, beam: int | None, alpha: float | None, settings: list[str]) -> SearchConfig:
    """The bundle's settings with those of the command."""
    from transduce.settings import make_config, search_settings

    flags = {"beam": beam, "alpha": alpha}
    given = {**search_settings(settings), **{key: value for key, value in flags.items() if value is not None}}
    table = {"search": {**search.model_dump(), **given}}
    return make_config(table, where="the command", given={f"search.{key}" for key in given}).search
