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
    pronunciations: Annotated[
        Path | None, typer.Option(help="Instead of both: a .tsv of words and their phonemes; for WER and PER.")
    ] = None,
    hypothesis: Annotated[Path | None, typer.Option(help="Instead of a model: translations to score.")] = None,
    lang: Annotated[str | None, typer.Option(help="Target language, for the paper's tokenised BLEU.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Beam size; 1 is greedy.")] = None,
    alpha: Annotated[float | None, typer.Option(min=0, help="Length penalty.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the translations here.")] = None,
    engine: Annotated[Engines, typer.Option(help="CTranslate2 is faster, PyTorch can do everything.")] = Engines.AUTO,
) -> None:
    """Print sacreBLEU, chrF, the paper's BLEU and, for a model, perplexity; each with how it was made.

    With --pronunciations, word and phoneme error rates instead. A word with several pronunciations has a line for
    each; it is pronounced once, and line i of --hypothesis and --output belongs to the i-th word.
    """
    display: Display = context.obj
    if pronunciations is not None:
        if (hypothesis is None) == (model is None) or any(each is not None for each in (source, reference, lang)):
            raise UserError("give MODEL --pronunciations FILE, or --hypothesis FILE --pronunciations FILE")
    elif reference is None or (hypothesis is None) == (model is None) or (model is None) != (source is None):
        raise UserError("give MODEL --source FILE --reference FILE, or --hypothesis FILE --reference FILE")
    if model is None and any(option is not None for option in (beam, alpha, output)):
        raise UserError("--beam, --alpha and --output belong to a MODEL, not to --hypothesis")
    from transduce.cli.lines import open_output, read_lines, refuse_output

    refuse_output(output)
    given = source or hypothesis
    hypotheses = [] if given is None else list(read_lines([given], display))
    if pronunciations is not None:
        pairs = read_pronunciations(pronunciations)
    else:
        assert reference is not None
        references = list(read_lines([reference], display))
        if len(hypotheses) != len(references):
            counts = f"{given}: {len(hypotheses):,} lines, {reference}: {len(references):,}"
            raise UserError(f"{counts}: line i must answer line i")
        pairs = list(zip(hypotheses, references, strict=True))
    scores = []
    if model is not None:
        from transduce.decode.translator import Translator

        translator = Translator.load(model, engine=engine.value, warn=display.warn, say=display.aside)
        lang = lang or (translator.bundle.target_lang if translator.bundle else None)
        asked = [line for line, _ in pairs]
        asked = asked if pronunciations is None else list(dict.fromkeys(asked))
        hypotheses = translate_all(translator, asked, display, beam=beam, alpha=alpha)
        scores.append(likelihood(translator, pairs))
    if output is not None:
        with open_output(output) as out:
            out.write("".join(text + "\n" for text in hypotheses).encode())
    if pronunciations is not None:
        found = [error_rates(hypotheses, pairs)]
    else:
        found = overlaps(hypotheses, [right for _, right in pairs], lang, display)
    typer.echo("\n".join([*found, *scores]))


def read_pronunciations(path: Path) -> list[tuple[str, str]]:
    """A word and one of its pronunciations from each line that is not blank."""
    from transduce.data.corpus import Corpus, read_pairs

    found = []
    for pair in read_pairs(Corpus(pairs=(path,))):
        if pair.problem is not None:
            raise UserError(f"{path}: line {pair.file_line}: {pair.problem}: mend it, or leave the line out")
        if pair.source.strip() and pair.target.strip():
            found.append((pair.source, pair.target))
        elif pair.source.strip() or pair.target.strip():
            raise UserError(f"{path}: line {pair.file_line}: write a word, a tab, and phonemes with spaces between")
    return found


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


def overlaps(hypotheses: list[str], references: list[str], lang: str | None, display: Display) -> list[str]:
    """BLEU and chrF, a line each."""
    from transduce.evaluate.bleu import bleu, chrf, paper_bleu

    found = [bleu(hypotheses, references), chrf(hypotheses, references)]
    if lang is not None:
        found.append(paper_bleu(hypotheses, references, language=lang))
    else:
        display.note("the paper's BLEU needs --lang, the language of the target")
    return [str(score) for score in found]


def error_rates(hypotheses: list[str], pairs: list[tuple[str, str]]) -> str:
    """WER and PER, in two lines."""
    from transduce.evaluate.phonemes import pronunciation_score, pronunciations

    return str(pronunciation_score(hypotheses, list(pronunciations(pairs).values())))


def likelihood(translator: Translator, pairs: list[tuple[str, str]]) -> str:
    """The perplexity of the references, in a line."""
    from transduce.evaluate.perplexity import perplexity

    nll, tokens = translator.likelihood([source for source, _ in pairs], [right for _, right in pairs])
    return f"perplexity {perplexity(nll, tokens):.3f} (per token of {tokens:,}; no label smoothing)"
