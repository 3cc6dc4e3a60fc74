"""Scores that others published for these outputs come out here, to the printed digit."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest

from shared_data import shared_lines
from transduce.errors import UserError
from transduce.evaluate.bleu import bleu, chrf, lowercased_moses_bleu, paper_bleu

CAT = ["The cat sat on the mat , and purred."]
slow = partial(pytest.param, marks=pytest.mark.slow)


# The table of newstest2014's README: 13a, lowercase, intl, none; precisions, brevity penalty, lengths.
@pytest.mark.parametrize(
    ("language", "system", "scores", "verbose"),
    [
        slow("de", "bergamot-base-memory", "29.82 30.28 30.70 26.04", "60.2/35.6/23.3/15.8, 1.000, 59924/57579"),
        ("de", "bergamot-tiny", "29.90 30.33 30.76 26.13", "60.2/35.7/23.5/15.9, 1.000, 59760/57579"),
        slow("fr", "bergamot-base-memory", "41.06 41.87 43.88 36.70", "68.2/47.2/34.6/25.6, 0.999, 77237/77306"),
        ("fr", "bergamot-tiny", "39.65 40.55 42.69 35.71", "67.1/45.8/33.1/24.3, 1.000, 77606/77306"),
    ],
)
def test_newstest2014(language: str, system: str, scores: str, verbose: str) -> None:
    hypotheses = shared_lines("newstest2014", f"en-{language}.hyp.{system}.{language}.gz")
    references = shared_lines("newstest2014", f"en-{language}.ref.{language}.gz")
    default = bleu(hypotheses, references)
    variants = (
        default,
        bleu(hypotheses, references, lowercase=True),
        bleu(hypotheses, references, tokenize="intl"),
        bleu(hypotheses, references, tokenize="none"),
    )
    assert " ".join(f"{variant.value:.2f}" for variant in variants) == scores
    ngrams = default.ngrams
    assert ngrams
    precisions = "/".join(f"{precision:.1f}" for precision in ngrams.precisions)
    lengths = f"{ngrams.hypothesis_length}/{ngrams.reference_length}"
    assert f"{precisions}, {ngrams.brevity_penalty:.3f}, {lengths}" == verbose


def test_newstest2013() -> None:
    hypotheses = shared_lines("newstest2013", "en-de.hyp.bergamot-base-memory.de.gz")
    score = bleu(hypotheses, shared_lines("newstest2013", "en-de.ref.de.gz"))
    assert f"{score.value:.2f}" == "28.09"
    assert score.sentences == 3000


@pytest.mark.parametrize(
    ("system", "published"),
    [
        ("uedin-nmt", "28.30"),
        ("LIUM-NMT", "26.60"),
        ("C-3MA", "22.67"),
        ("TALP-UPC", "21.24"),
        ("PROMT-Rule-based", "16.61"),
        ("online-F", "15.45"),
    ],
)
def test_newstest2017(system: str, published: str) -> None:
    hypotheses = shared_lines("newstest2017", f"en-de.hyp.{system}.de.gz")
    assert f"{bleu(hypotheses, shared_lines('newstest2017', 'en-de.ref.de.gz')).value:.2f}" == published


def test_the_papers_bleu_is_about_0_7_to_1_0_more_than_sacrebleu_in_german() -> None:
    references = shared_lines("newstest2014", "en-de.ref.de.gz")
    hypotheses = shared_lines("newstest2014", "en-de.hyp.bergamot-base-memory.de.gz")
    paper = paper_bleu(hypotheses, references, language="de")
    assert 0.65 < paper.value - bleu(hypotheses, references).value < 1.05


def test_a_score_says_which_it_is_and_of_how_much() -> None:
    score = bleu(CAT, CAT)
    assert str(score).startswith("BLEU 100.00 (1 sentences; nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert "tok:moses-de+compounds|smooth:none" in str(paper_bleu(CAT, CAT, language="de"))
    assert str(paper_bleu(CAT, CAT, language="de")).startswith("paper BLEU 100.00 (1 sentences; ")
    assert "case:lc" in lowercased_moses_bleu(CAT, CAT, language="en").signature
    assert str(chrf(CAT, CAT)).startswith("chrF2 100.00 (1 sentences; nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")


def test_compounds_are_split_as_by_the_usual_script() -> None:
    # In a-b-c the first match uses up the b, so that the second hyphen has nothing before it, as in Perl.
    for line, tokens in (("ein E-Mail", 4), ("a-b-c", 3), ("A - B", 3), ("10-20-30", 5)):
        ngrams = paper_bleu([line], [line], language="de").ngrams
        assert ngrams
        assert (ngrams.hypothesis_length, ngrams.reference_length) == (tokens, tokens)


def test_without_smoothing_one_missing_order_is_nothing() -> None:
    hypothesis, reference = ["the cat sat"], ["the cat sat down"]
    assert paper_bleu(hypothesis, reference, language="en").value == 0.0
    assert bleu(["the cat sat up here"], ["the cat sat down there"]).value > 0.0


def test_only_the_lowercased_score_overlooks_case_and_quotes() -> None:
    hypothesis, reference = ["EIN „Hund“ im Gras ."], ['ein "hund" im gras .']
    assert lowercased_moses_bleu(hypothesis, reference, language="de").value == pytest.approx(100)
    assert paper_bleu(hypothesis, reference, language="de").value < 50


@pytest.mark.parametrize("line", ["▁The ▁cat ▁s at", "The c@@ at sat", "sat@@"])
def test_subwords_are_not_scored(line: str) -> None:
    sentences = ["The cat sat."] * 8
    for hypotheses, references in (
        ([line] * 2 + sentences, [*sentences, "a", "b"]),
        ([line], ["a"]),
        (["a"], [line]),
    ):
        for score in (bleu, chrf):
            with pytest.raises(UserError, match="detokenise first"):
                score(hypotheses, references)
        with pytest.raises(UserError, match="detokenise first"):
            paper_bleu(hypotheses, references, language="de")


def test_a_mark_in_few_lines_is_text() -> None:
    lines = ["The cat sat on the mat."] * 19 + ["The mark is ▁."]
    assert bleu(lines, lines).value == pytest.approx(100)


def test_counts_that_differ_are_both_named() -> None:
    with pytest.raises(UserError, match="2 hypotheses, but 1 references"):
        bleu(["a", "b"], ["a"])


def test_nothing_is_not_scored() -> None:
    with pytest.raises(UserError, match="no lines"):
        chrf([], [])


def test_importing_scores_and_codecs_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'sacrebleu', 'sacremoses', 'matplotlib'}"
    code = f"import transduce.evaluate.bleu, transduce.text, sys; print({heavy} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"
