"""`transduce score`: what a model thinks of given translations, a row a pair."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.decode.score import PairScore
    from transduce.text.codec import Codec

WINDOW = 2000  # pairs read, scored and written together


def score(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run or a bundle.")],
    source: Annotated[Path, typer.Option(help="Text, a sentence a line; plain, .gz or .xz.")],
    target: Annotated[Path, typer.Option(help="Its translation: line i answers line i.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="JSONL: each token with its log-probability.")] = False,
    alignments: Annotated[bool, typer.Option("--alignments", help="Which words translate which: 0-0 1-2.")] = False,
    alpha: Annotated[float | None, typer.Option(min=0, help="Length penalty ((5 + length) / 6)^alpha.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A new file; else stdout.")] = None,
) -> None:
    """Score given pairs: log-probability, score, tokens and perplexity, separated by tabs.

    The score is the log-probability over the length penalty, by which search ranks. Row i belongs to pair i, blank
    lines too. Of a line too long for the model only the beginning counts; a warning names it.
    """
    display: Display = context.obj
    if alignments and (tokens or alpha is not None):
        raise UserError("--alignments has no scores: leave out --tokens and --alpha, or --alignments")
    from transduce.cli.lines import open_output, read_file, read_lines, refuse_output

    refuse_output(output)
    total, answers = (sum(1 for _ in read_file(path)) for path in (source, target))
    if total != answers:
        raise UserError(f"{source}: {total:,} lines, {target}: {answers:,}: line i must answer line i")
    from transduce.decode.alignment import align_lines
    from transduce.decode.score import score_lines
    from transduce.decode.translator import Translator
    from transduce.evaluate.perplexity import Likelihood

    translator = Translator.load(model, warn=display.warn)
    lines = zip(read_lines([source], display), read_lines([target], display), strict=True)
    done, likelihood = 0, Likelihood()
    with open_output(output) as out, display.progress("scoring", total) as progress:
        while window := list(islice(lines, WINDOW)):
            sides = [pair[0] for pair in window], [pair[1] for pair in window]
            if alignments:
                rows = [found.pharaoh() for found in align_lines(translator, *sides, first_line=done + 1)]
            else:
                scores = score_lines(translator, *sides, alpha=alpha, first_line=done + 1)
                rows = [describe_tokens(s, translator.target_codec) if tokens else describe(s) for s in scores]
                likelihood = sum((Likelihood(-s.log_probability, s.tokens) for s in scores), start=likelihood)
            out.write("".join(row + "\n" for row in rows).encode())
            out.flush()
            done += len(window)
            progress.update(progress.task_ids[0], completed=done)
    if likelihood.tokens:
        count = f"per token of {likelihood.tokens:,}; no label smoothing"
        display.note(f"perplexity {likelihood.perplexity:.3f} ({count})")


def describe(score: PairScore) -> str:
    """A row of tab-separated values."""
    return f"{score.log_probability:.4f}\t{score.score:.4f}\t{score.tokens}\t{score.perplexity:.4f}"


def describe_tokens(score: PairScore, codec: Codec) -> str:
    """A row of JSON: the sums, and each token as a person would read it."""
    from transduce.text.codec import EOS

    pieces = codec.pieces([*score.ids, EOS])
    table = {
        "log_probability": round(score.log_probability, 6),
        "score": round(score.score, 6),
        "tokens": [
            {"piece": piece, "log_probability": round(found, 6)}
            for piece, found in zip(pieces, score.token_log_probabilities, strict=True)
        ],
    }
    return json.dumps(table, ensure_ascii=False)
