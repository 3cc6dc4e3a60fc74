"""`transduce evaluate`: scores with their signatures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.cli.translate import Engines
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.decode.translator import Translator


def evaluate(
    context: typer.Context,
    model: Annotated[Path | None, typer.Argument(help="A run or a bundle, to translate --source with.")] = None,
    source: Annotated[Path | None, typer.Option(help="What the model shall translate.")] = None,
    reference: Annotated[Path | None, typer.Option(help="How a person translated it.")] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="Instead of a model: translations to score.")] = None,
    lang: Annotated[str | None, typer.Option(help="Target language, for the paper's tokenised BLEU.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy.")] = None,
    alpha: Annotated[float | None, typer.Option(min=0, help="Length penalty.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the translations here.")] = None,
    engine: Annotated[Engines, typer.Option(help="CTranslate2 is faster, PyTorch can do everything.")] = Engines.AUTO,
) -> None:
    """Print sacreBLEU, chrF, the paper's BLEU and, for a model, perplexity; each with how it was made."""
    display: Display = context.obj
    if reference is None or (hypothesis is None) == (model is None) or (model is None) != (source is None):
        raise UserError("give MODEL --source FILE --reference FILE, or --hypothesis FILE --reference FILE")
    if model is None and any(option is not None for option in (beam, alpha, output)):
        raise UserError("--beam, --alpha and --output belong to a MODEL, not to --hypothesis")
    from transduce.cli.lines import open_output, read_lines, refuse_output
    from transduce.evaluate.bleu import bleu, chrf, paper_bleu

    refuse_output(output)
    given = source or hypothesis
    assert given is not None
    lines, references = (list(read_lines([path], display)) for path in (given, reference))
    if len(lines) != len(references):
        raise UserError(f"{given}: {len(lines):,} lines, {reference}: {len(references):,}: line i must answer line i")
    hypotheses, scores = lines, []
    if model is not None:
        from transduce.decode.translator import Translator

        translator = Translator.load(model, engine=engine.value, warn=display.warn, say=display.aside)
        lang = lang or (translator.bundle.target_lang if translator.bundle else None)
        hypotheses = translate_all(translator, lines, display, beam=beam, alpha=alpha)
        scores.append(likelihood(translator, lines, references))
    if output is not None:
        with open_output(output) as out:
            out.write("".join(text + "\n" for text in hypotheses).encode())
    found = [bleu(hypotheses, references), chrf(hypotheses, references)]
    if lang is not None:
        found.append(paper_bleu(hypotheses, references, language=lang))
    else:
        display.note("the paper's BLEU needs --lang, the language of the target")
    typer.echo("\n".join([*map(str, found), *scores]))


def translate_all(
    translator: Translator, sources: list[str], display: Display, *, beam: int | None, alpha: float | None
) -> list[str]:
    """All translations, with a progress bar."""
    texts: list[str] = []
    with display.progress("translating", len(sources)) as progress:
        for start in range(0, len(sources), 500):
            window = sources[start : start + 500]
            found = translator.translate(window, beam=beam, alpha=alpha, first_line=start + 1)
            texts += [translation.text for translation in found]
            progress.update(progress.task_ids[0], completed=len(texts))
    return texts


def likelihood(translator: Translator, sources: list[str], references: list[str]) -> str:
    """The perplexity of the references, in a line."""
    from transduce.evaluate.perplexity import perplexity

    nll, tokens = translator.likelihood(sources, references)
    return f"perplexity {perplexity(nll, tokens):.3f} (per token of {tokens:,}; no label smoothing)"
