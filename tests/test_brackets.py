"""EVALB again: its own sample to the letter, an independent count, and what it does with bad lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_trees import plain_trees
from shared_data import shared_data, shared_lines
from transduce.errors import ConfigError, CorpusError, UserError
from transduce.evaluate.bracket_score import BracketScore, Status
from transduce.evaluate.brackets import evalb
from transduce.evaluate.evalb_parameters import COLLINS, Parameters, parse_parameters, read_parameters
from transduce.evaluate.evalb_report import report
from transduce.text.trees import Leaf, Tree, bare, leaves, read_tree, with_leaves, write_tree

GOLD = "(S (NP (DT The) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT the) (NN mat)))) (. .))"
PLAIN = Parameters(name="plain")


def score(gold: str, test: str, parameters: Parameters = COLLINS) -> BracketScore:
    return evalb([gold], [test], parameters)


def status(gold: str, test: str, parameters: Parameters = COLLINS) -> Status:
    return score(gold, test, parameters).sentences[0].status


def counts(found: BracketScore) -> tuple[int, int, int]:
    return found.matched, found.gold, found.test


# EVALB's own sample


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def test_the_sample_is_reproduced_letter_by_letter() -> None:
    sample = shared_data("evalb-sample")
    found = evalb(lines(sample / "sample.gld"), lines(sample / "sample.tst"), read_parameters(sample / "sample.prm"))
    assert report(found) == (sample / "sample.rsl").read_text(encoding="utf-8")


# By hand


def test_brackets_by_hand() -> None:
    flat = "(S (NP (DT The) (NN cat)) (VP (VBZ sits) (IN on) (NP (DT the) (VB mat))) (. .))"
    found = score(GOLD, flat)
    assert counts(found) == (4, 5, 4)
    assert found.recall == pytest.approx(80)
    assert found.precision == pytest.approx(100)
    assert found.f1 == pytest.approx(2 * 80 * 100 / 180)
    assert found.tagging_accuracy == pytest.approx(100 * 5 / 6)
    assert found.exact_match == 0
    assert found.sentences[0].length == 7  # the full stop is a word of the sentence, but does not count
    assert found.words == 6


def test_a_bracket_that_crosses_counts_once() -> None:
    crossing = "(S (X (DT The) (NN cat) (VBZ sits)) (Y (IN on) (DT the)) (NN mat) (. .))"
    found = score(GOLD, crossing)
    assert found.sentences[0].crossing == 2
    assert (found.average_crossing, found.no_crossing) == (2, 0)
    assert found.at_most_crossing(2) == 100


def test_punctuation_may_stand_anywhere() -> None:
    moved = "(S (NP (DT The) (NN cat)) (VP (VBZ sits) (PP (IN on) (NP (DT the) (NN mat) (. .)))))"
    assert score(GOLD, moved).exact_match == 100
    assert score(GOLD, moved, PLAIN).exact_match == 0


def test_functions_traces_and_the_outer_bracket_do_not_count() -> None:
    raw = "(TOP (S (NP-SBJ-1 (DT The) (NN cat)) (VP=2 (VBZ sits) (NP (-NONE- *)) (PP (IN on) (NP (DT the) (NN mat))))))"
    assert score(raw, GOLD).exact_match == 100
    assert score(GOLD, raw).exact_match == 100
    assert score(raw, GOLD).sentences[0].length == 6


def test_equal_labels_are_equal_both_ways_and_not_handed_on() -> None:
    adverb, particle = "(VP (VB go) (ADVP (RP on)))", "(VP (VB go) (PRT (RP on)))"
    assert counts(score(adverb, particle)) == counts(score(particle, adverb)) == (2, 2, 2)
    assert counts(score(adverb, particle, PLAIN)) == (1, 2, 2)
    chain = replace(PLAIN, equal_labels=frozenset({("A", "B"), ("B", "C")}))
    assert counts(score("(A (X x))", "(C (X x))", chain)) == (0, 1, 1)


def test_a_label_equal_to_a_deleted_one_is_deleted() -> None:
    parameters = replace(COLLINS, equal_labels=frozenset({("ROOT", "TOP")}))
    assert counts(score("(S (X x))", "(ROOT (S (X x)))", parameters)) == (1, 1, 1)


def test_without_labels_only_places_count() -> None:
    other = GOLD.replace("NP", "X").replace("PP", "Y")
    assert score(GOLD, other).f1 < 100
    assert score(GOLD, other, replace(COLLINS, labeled=False)).exact_match == 100


def test_a_line_may_hold_several_trees_or_empty_brackets() -> None:
    assert counts(score("(S (X x) (Y y))", "(X x) (Y y)")) == (0, 1, 0)
    assert counts(score("(S (X x) (Y y))", "(S (NP) (X x)) (Y y)")) == (0, 1, 1)


def test_a_misread_quotation_mark_is_put_back_on_either_side() -> None:
    quote = "(S (NP (NNS Cats) ('' ')) (VP (VBP sleep)))"
    possessive = "(S (NP (NNS Cats) (POS ')) (VP (VBP sleep)))"
    forgiving = replace(COLLINS, quote_labels=frozenset({"''", "POS"}))
    for gold, test in ((quote, possessive), (possessive, quote)):
        assert status(gold, test) == Status.ERROR
        found = score(gold, test, forgiving)
        assert counts(found) == (3, 3, 3)
        assert (found.words, found.tags) == (3, 2)


# An independent count


def shape(tree: Tree, spans: list[tuple[str, frozenset[int]]], words: list[Leaf]) -> frozenset[int]:
    """Each constituent with the set of its words, by recursion."""
    covered: set[int] = set()
    for child in tree.children:
        if isinstance(child, Tree):
            covered |= shape(child, spans, words)
        elif child.tag not in COLLINS.delete_labels:
            covered.add(len(words))
            words.append(child)
    spans.append((tree.label, frozenset(covered)))
    return frozenset(covered)


@given(plain_trees, plain_trees)
def test_counts_are_those_of_sets_of_words(one: Tree, other: Tree) -> None:
    short = min(one, other, key=lambda tree: len(leaves(tree)))
    long = other if short is one else one
    padded = Tree("S", (short, *leaves(long)[len(leaves(short)) :]))  # both now have as many words
    gold = long
    test = with_leaves(padded, leaves(long))
    parameters = replace(COLLINS, equal_labels=frozenset())
    found = score(write_tree(gold), write_tree(test), parameters).sentences[0]

    ours: list[tuple[str, frozenset[int]]] = []
    theirs: list[tuple[str, frozenset[int]]] = []
    words: list[Leaf] = []
    shape(gold, ours, words)
    shape(test, theirs, [])
    if not words:
        assert found.status == Status.SKIP
        return
    gold_counts = Counter(span for span in ours if span[1])
    test_counts = Counter(span for span in theirs if span[1])
    crossing = sum(any(a & b and a - b and b - a for _, a in ours) for _, b in theirs)
    assert found.matched == (gold_counts & test_counts).total()
    assert (found.gold, found.test) == (gold_counts.total(), test_counts.total())
    assert found.crossing == crossing
    assert found.words == found.tags == len(words)
    assert found.exact == (gold_counts == test_counts)


@given(st.lists(plain_trees, min_size=1, max_size=5))
def test_a_tree_is_right_beside_itself(trees: list[Tree]) -> None:
    written = [write_tree(tree) for tree in trees]
    found = evalb(written, written)
    some = found.valid != ()
    assert found.errors == 0
    assert found.f1 == found.recall == found.precision == found.exact_match == (100 if some else 0)
    assert found.average_crossing == 0


@pytest.mark.parametrize("part", ["dev", "test"])
@pytest.mark.parametrize("bank", ["treebank", "craft-treebank"])
def test_bare_trees_lose_nothing_that_counts_but_the_outer_bracket(bank: str, part: str) -> None:
    raw = shared_lines(bank, f"{part}.trees.gz")[:1000]
    stripped = [bare(read_tree(line, where=part)) for line in raw]
    found = evalb(raw, [write_tree(tree) if tree else "" for tree in stripped])
    assert found.errors == found.skipped == 0
    assert found.matched == found.test == found.gold - len(raw)
    assert found.tagging_accuracy == 100


# By length


def test_buckets_share_the_sentences_out_by_length() -> None:
    sizes = (1, 10, 11, 20, 21, 40, 41, 90)
    gold = [f"(S {' '.join(['(X x)'] * size)})" for size in sizes]
    found = evalb(gold, gold)
    buckets = found.by_length()
    lengths = {name: [sentence.length for sentence in part.sentences] for name, part in buckets.items()}
    assert lengths == {"1-10": [1, 10], "11-20": [11, 20], "21-40": [21, 40], "41-": [41, 90]}
    assert sum(part.matched for part in buckets.values()) == found.matched
    assert [sentence.length for sentence in found.up_to(11).sentences] == [1, 10, 11]


def test_a_score_says_how_it_was_made() -> None:
    assert str(evalb([GOLD, GOLD], [GOLD, ""])) == (
        "F1 100.00 (recall 100.00, precision 100.00, exact match 100.00;"
        " 2 sentences, 0 errors, 1 skipped; EVALB, COLLINS)"
    )


def test_a_report_tells_each_sentence_and_both_summaries() -> None:
    text = report(evalb([GOLD, GOLD], [GOLD, ""], replace(COLLINS, cutoff_length=3)))
    rows = [line.split() for line in text.split("\n")]
    assert ["1", "7", "0", "100.00", "100.00", "5", "5", "5", "0", "6", "6", "100.00"] in rows
    assert ["2", "7", "2", "0.00", "0.00", "0", "0", "0", "0", "6", "0", "0.00"] in rows
    everything, short = text.split("-- len<=3 --")
    assert "Number of sentence        =      2\n" in everything
    assert "Number of sentence        =      0\n" in short


# Faults


def test_other_words_are_an_error_and_no_words_are_skipped() -> None:
    assert status(GOLD, GOLD.replace("cat", "dog")) == Status.ERROR
    assert status(GOLD, "(S (NN cat))") == Status.ERROR
    assert status(GOLD, "") == status(GOLD, " ") == status(GOLD, "(S (. .))") == Status.SKIP
    assert status(GOLD, GOLD.replace("cat", "dog"), replace(COLLINS, equal_words=frozenset({("dog", "cat")}))) == 0


@pytest.mark.parametrize("damaged", [GOLD[:-1], GOLD + ")", "The cat sits", GOLD + " x", "(S (NN a b))"])
def test_a_line_that_cannot_be_read_is_an_error_in_test_and_refused_in_gold(damaged: str) -> None:
    found = evalb([GOLD, GOLD], [GOLD, damaged])
    assert (found.errors, found.sentences[1].line, found.f1) == (1, 2, 100)
    assert found.sentences[1].problem
    with pytest.raises(CorpusError, match="gold trees, line 2: "):
        evalb([GOLD, damaged], [GOLD, GOLD])


def test_errors_and_skipped_sentences_are_not_summed() -> None:
    found = evalb([GOLD] * 3, [GOLD, "", "(S (NN cat))"])
    assert (len(found.sentences), len(found.valid), found.errors, found.skipped) == (3, 1, 1, 1)
    assert found.gold == 5


def test_too_many_errors_end_it_as_in_evalb_one_later_than_named() -> None:
    wrong = GOLD.replace("cat", "dog")
    assert evalb([GOLD] * 20, [wrong] * 11 + [GOLD] * 9).errors == 11
    with pytest.raises(UserError, match=r"12 test lines .* the first in line 2: the word 'dog', but 'cat'"):
        evalb([GOLD] * 20, [GOLD] + [wrong] * 19)
    assert evalb([GOLD] * 20, [wrong] * 20, replace(COLLINS, max_error=20)).errors == 20


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match="2 gold trees, but 1 test trees"):
        evalb([GOLD, GOLD], [GOLD])
    with pytest.raises(UserError, match="both files are empty"):
        evalb([], [])
    with pytest.raises(CorpusError, match="gold trees, line 2: no word"):
        evalb([GOLD, ""], [GOLD, GOLD])


# Parameter files


def test_collins_is_what_its_file_would_say() -> None:
    text = "".join(
        [
            "## a comment\nDEBUG 0\nMAX_ERROR 10\nCUTOFF_LEN 40\nLABELED 1   \n\n",
            *(f"DELETE_LABEL {label}\n" for label in ("TOP", "-NONE-", ",", ":", "``", "''", ".")),
            "DELETE_LABEL_FOR_LENGTH -NONE-\nEQ_LABEL ADVP PRT\n",
        ]
    )
    assert parse_parameters(text, name="COLLINS") == COLLINS


def test_every_keyword_is_read() -> None:
    text = "MAX_ERROR 3\nCUTOFF_LEN 70\nLABELED 0\nDISC_ONLY 0\nDEBUG 2\nQUOTE_LABEL POS\nEQ_WORD a b\n"
    assert parse_parameters(text, name="x.prm") == Parameters(
        name="x.prm",
        max_error=3,
        cutoff_length=70,
        labeled=False,
        quote_labels=frozenset({"POS"}),
        equal_words=frozenset({("a", "b")}),
    )
    assert parse_parameters("", name="x.prm") == Parameters(name="x.prm")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELETE_LABELS TOP", "x.prm, line 2: EVALB has no DELETE_LABELS"),
        ("MAX_ERROR ten", "x.prm, line 2: MAX_ERROR ten: give a whole number"),
        ("EQ_LABEL ADVP", "x.prm, line 2: EQ_LABEL takes 2, not 1: ADVP"),
        ("DELETE_LABEL", "x.prm, line 2: DELETE_LABEL takes 1, not 0: nothing"),
        ("DISC_ONLY 1", "x.prm: DISC_ONLY: bracketed lines have no discontinuous"),
    ],
)
def test_a_damaged_parameter_file_is_refused_with_its_line(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_parameters(f"DEBUG 0\n{line}\n", name="x.prm")


def test_a_parameter_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.prm: cannot read"):
        read_parameters(tmp_path / "none.prm")
    (tmp_path / "latin.prm").write_bytes(b"EQ_WORD \xe9 e\n")
    with pytest.raises(ConfigError, match=r"latin\.prm: cannot read"):
        read_parameters(tmp_path / "latin.prm")
