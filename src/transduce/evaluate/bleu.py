"""BLEU and chrF of detokenised text. Each tells which one it is, how it was made and from how many lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal

from transduce.errors import UserError

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

Tokenizer = Literal["13a", "intl", "char", "zh", "none"]

SUBWORD_SHARE = 0.1
"""With subword marks in more of the lines than this, text is taken for subwords."""

_SUBWORD_MARK = re.compile(r"▁|@@(?: |$)")
_COMPOUND = re.compile(r"(\S)-(\S)")


@dataclass(frozen=True)
class Ngrams:
    """What a BLEU is made of."""

    precisions: tuple[float, ...]
    """Of 1-grams to 4-grams, in per cent."""
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


@dataclass(frozen=True)
class Score:
    """A number with the signature that makes it comparable."""

    value: float
    name: str
    signature: str
    sentences: int
    ngrams: Ngrams | None = None
    """Of a BLEU; chrF has none."""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.sentences} sentences; {self.signature})"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: Tokenizer = "13a",
    lowercase: bool = False,
) -> Score:
    """sacreBLEU: takes text as people read it and tokenises both sides itself."""
    from sacrebleu.metrics.bleu import BLEU

    _check(hypotheses, references)
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return _score(metric, hypotheses, references, name="BLEU", tokenizer=tokenize)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2, of character n-grams: the one to trust for rich morphology and small test sets."""
    from sacrebleu.metrics.chrf import CHRF

    _check(hypotheses, references)
    metric = CHRF()
    value = metric.corpus_score(list(hypotheses), [list(references)]).score
    return Score(value, name="chrF2", signature=str(metric.get_signature()), sentences=len(hypotheses))


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> Score:
    """The paper's BLEU: Moses tokens, compounds split at the hyphen, then multi-bleu; higher than sacreBLEU.

    `language` is the one of the text, for Moses' list of abbreviations.
    """
    from sacremoses import MosesTokenizer

    _check(hypotheses, references)
    tokenizer = MosesTokenizer(lang=language)

    def tokenized(line: str) -> str:
        tokens: str = tokenizer.tokenize(line, return_str=True)
        return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)

    return _multi_bleu(
        [tokenized(line) for line in hypotheses],
        [tokenized(line) for line in references],
        name="paper BLEU",
        tokenizer=f"moses-{language}+compounds",
        lowercase=False,
    )


def lowercased_moses_bleu(hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> Score:
    """The BLEU of most Multi30k papers: lowercased, punctuation normalised, Moses tokens, then multi-bleu."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    _check(hypotheses, references)
    tokenizer = MosesTokenizer(lang=language)
    punctuation = MosesPunctNormalizer(lang=language)

    def tokenized(line: str) -> str:
        tokens: str = tokenizer.tokenize(punctuation.normalize(line.lower()), escape=True, return_str=True)
        return tokens

    return _multi_bleu(
        [tokenized(line) for line in hypotheses],
        [tokenized(line) for line in references],
        name="lowercased Moses BLEU",
        tokenizer=f"punctuation+moses-{language}",
        lowercase=True,
    )


def _multi_bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, name: str, tokenizer: str, lowercase: bool
) -> Score:
    """multi-bleu.perl on tokens: no smoothing, so an n-gram order without a match makes it 0."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    score = _score(metric, hypotheses, references, name=name, tokenizer=tokenizer)
    return replace(score, signature=f"{score.signature}|sacremoses:{version('sacremoses')}")


def _score(metric: BLEU, hypotheses: Sequence[str], references: Sequence[str], *, name: str, tokenizer: str) -> Score:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    ngrams = Ngrams(tuple(result.precisions), result.bp, result.sys_len, result.ref_len)
    signature = re.sub(r"\btok:[^|]*", f"tok:{tokenizer}", str(metric.get_signature()))
    return Score(result.score, name=name, signature=signature, sentences=len(hypotheses), ngrams=ngrams)


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses, but {len(references)} references:"
            " line i must answer line i, empty lines too"
        )
    if not hypotheses:
        raise UserError("no lines to score: both files are empty")
    for what, lines in (("hypotheses", hypotheses), ("references", references)):
        marked = sum(bool(_SUBWORD_MARK.search(line)) for line in lines)
        if marked > SUBWORD_SHARE * len(lines):
            raise UserError(
                f"{marked} of {len(lines)} {what} hold subword marks (▁ or @@): detokenise first;"
                " a score of subwords compares with nothing"
            )
