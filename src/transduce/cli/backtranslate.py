"""`transduce backtranslate`: sources for text of which only the target is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli import translate
from transduce.cli.display import Display
from transduce.cli.language import refuse_language
from transduce.cli.lines import refuse_output
from transduce.cli.synthesis import Looked, Originals, Synthesis, reasons
from transduce.cli.translate import Engines
from transduce.decode.columns import Row, Text
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.bundle import Bundle

TAG = "<BT>"
"""In front of a source that a model made (Caswell et al. 2019)."""


def backtranslate(
    context: typer.Context,
    reverse: Annotated[Path, typer.Argument(help="A run or a bundle that translates from the target language.")],
    inputs: Annotated[list[Path], typer.Argument(help="Target text, a sentence a line; plain, .gz or .xz.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new .tsv or .tsv.gz; else synthetic.XX-YY.tsv.")
    ] = None,
    no_tag: Annotated[bool, typer.Option("--no-tag", help=f"Do not put {TAG} in front of the sources.")] = False,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="search.key=value; see `transduce config`.")] = None,
    engine: Annotated[Engines, typer.Option(help="CTranslate2 is faster, PyTorch can do everything.")] = Engines.AUTO,
    lang: Annotated[str | None, typer.Option(help="The text's language; else it is told by the text.")] = None,
) -> None:
    """Translate monolingual target text back, and write pairs to train on: source, a tab, the line itself.

    Lines that training could not use, and those too long for the model, are left out and counted. The same command goes
    on where it was broken off. What is printed names the pairs for `transduce train --config`.

    Drawn instead of searched for: transduce backtranslate de-en/ news.de.gz --set search.sampling=true
    """
    display: Display = context.obj
    from transduce.settings import search_settings

    chosen = search_settings(set_ or [])
    model = translate.load(reverse, engine, [], display)
    assert model.bundle is not None
    output = output or Path(default_name(model.bundle))
    refuse(output)
    originals = Originals(tuple(inputs), model)
    refuse_language(originals, lang, display)
    looked = originals.look_through(display)
    if looked.left_out.total() == looked.lines:
        names = ", ".join(map(str, inputs))
        why = reasons(looked.left_out)
        raise UserError(f"{names}: none of {looked.lines:,} lines can be used ({why}): give other text")
    settings: dict[str, str | bool | int | None] = {
        "tag": not no_tag,
        "beam": beam,
        "set": " ".join(sorted(set_ or [])),
    }
    work = looked.work(model, [reverse], settings)
    options: dict[str, Any] = {"beam": beam, "n_best": 1, "settings": chosen}
    rows = originals.rows()
    task = BackTranslation(
        model, Text(), options, rows, translate.WINDOW, display, lines=looked.lines, tag="" if no_tag else f"{TAG} "
    )
    translate.to_file(task, output, range(looked.lines), work)
    display.note(account(output, looked))
    typer.echo(table(output, model.bundle), nl=False)


@dataclass(frozen=True)
class BackTranslation(Synthesis):
    """Windows of target lines, each kept beside the source that was made for it."""

    tag: str = ""

    def make(self, window: list[Row], first_line: int) -> bytes:
        """Pairs of the lines that have a source, as rows of a TSV; a tab in a text becomes a space."""
        from transduce.data.corpus import Batch
        from transduce.data.selection import judge

        assert self.translator.bundle is not None
        kept = [row.source for row in window if row.source is not None]
        made = self.translator.translate(kept, first_line=first_line, **self.options)
        sources, targets = ([text.replace("\t", " ") for text in side] for side in ([m.text for m in made], kept))
        tagged, data = [self.tag + source for source in sources], self.translator.bundle.config.data
        unusable = {place for side in (sources, tagged) for place in judge(Batch(0, 1, 1, side, targets), data)}
        pairs = [pair for place, pair in enumerate(zip(tagged, targets, strict=True)) if place not in unusable]
        return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def refuse(output: Path) -> None:
    """An output that training could not read, or that is there."""
    from transduce.decode.job import record_of

    if not output.name.removesuffix(".gz").endswith(".tsv"):
        raise UserError(f"{output}: the pairs are a .tsv or a .tsv.gz: choose another --output")
    if not record_of(output).exists():  # else the work may go on
        refuse_output(output)


def default_name(bundle: Bundle) -> str:
    """Named after the languages that training will go from and to."""
    codes = bundle.target_lang, bundle.source_lang
    return "synthetic.tsv" if None in codes else f"synthetic.{codes[0]}-{codes[1]}.tsv"


def account(output: Path, looked: Looked) -> str:
    """How many pairs there are, and what became of the other lines."""
    from transduce.data.lines import read_blocks

    pairs = sum(len(block.texts) for block in read_blocks(output)) if output.stat().st_size else 0
    left_out = Counter(looked.left_out)
    if rest := looked.lines - pairs - left_out.total():
        left_out["without a source that fits"] = rest
    told = f"{output}: {pairs:,} pairs of {looked.lines:,} lines"
    told += f"; left out: {reasons(left_out)}" if left_out else ""
    if not pairs:
        raise UserError(f"{told}: nothing to train on: remove the file, and take a better model or other text")
    return told


def table(output: Path, bundle: Bundle) -> str:
    """The corpus as settings of a training that has real pairs as well."""
    import tomli_w

    source, target = bundle.target_lang or "source", bundle.source_lang or "target"
    command = f"transduce train --source real.{source} --target real.{target} --config THIS.toml --out run/"
    corpus = tomli_w.dumps({"pairs": [str(output)], "weight": 1.0})
    return f"# {command}\n[[data.corpora]]\n{corpus}"
