"""Bracketed lines, trees and linearised trees are one another's inverse, and each damage is named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from random_trees import any_trees, plain_trees
from shared_data import shared_lines
from transduce.errors import CorpusError
from transduce.text.trees import (
    Leaf,
    Tree,
    bare,
    leaves,
    linearise,
    read_tree,
    restore,
    walk,
    well_formed,
    words,
    write_tree,
)

RAW_AND_BARE = {
    "((S (NP-SBJ (PRP We)) (VP (VBP rest)) (. .)))": "(S (NP (PRP We)) (VP (VBP rest)) (. .))",
    "((S (NP-SBJ-1 (NN Tea)) (VP (VBZ is) (VP (VBN served) (NP (-NONE- *-1))))))": (
        "(S (NP (NN Tea)) (VP (VBZ is) (VP (VBN served))))"
    ),
    "(TOP (S (NP=2 (NNS Cats)) (VP (VBP sleep) (ADVP|PRT (RP in)))))": (
        "(S (NP (NNS Cats)) (VP (VBP sleep) (ADVP (RP in))))"
    ),
    "(ROOT (S1 (FRAG (NP (NP (DT No) (NN sugar))))))": "(FRAG (NP (NP (DT No) (NN sugar))))",
    "((NP-HLN (-LRB- -LRB-) (-LRB-= (CD 1)) (-RRB- -RRB-)))": "(NP (-LRB- -LRB-) (-LRB-= (CD 1)) (-RRB- -RRB-))",
    "((S (NP (PRP I))) (S (NP (PRP you))))": "((S (NP (PRP I))) (S (NP (PRP you))))",
    "(TOP (UH Oh))": "(TOP (UH Oh))",
    "((NP (NN Gene A) (CD 2)))": "(NP (NN GeneA) (CD 2))",
}
FAULTS = {
    "": "line 7: no tree: the line is empty",
    " \t": "line 7: no tree",
    "(S (NP (PRP We))": r"line 7, column 1: '\(S' is not closed: 1 '\)' missing",
    "(S (NP (PRP We": "line 7, column 13: 'We' has no bracket",
    "(S (NP": r"line 7, column 4: '\(NP' is not closed: 2 '\)' missing",
    "(S (NP (PRP We))))": r"line 7, column 18: '\)' closes nothing",
    ")": r"line 7, column 1: '\)' closes nothing",
    "We rest": "line 7, column 1: 'We' stands outside of a constituent",
    "(S (PRP We)) rest": "line 7, column 14: 'rest' follows the tree",
    "(S (PRP We)) (S (PRP We))": r"line 7, column 14: '\(S' follows the tree",
    "(S (NP) (PRP We))": r"line 7, column 4: '\(NP\)' holds no word",
    "(S () (PRP We))": r"line 7, column 4: '\(\)' holds no word",
    "(S (PRP We) rest)": "line 7, column 13: 'rest' has no bracket",
    "(S (PRP We  all))": "line 7, column 9: 'We' has no bracket",
    "(S (NP We (VBP rest)))": "line 7, column 8: 'We' has no bracket",
    "(S (NP We (VBP rest) now))": "line 7, column 8: 'We' has no bracket",
    "(PRP We)": r"line 7, column 1: '\(PRP We\)' stands outside of a constituent",
    "(S (PRP We)) (VBP rest)": r"line 7, column 14: '\(VBP rest\)' follows the tree",
}


# Lines


@pytest.mark.parametrize(("raw", "expected"), RAW_AND_BARE.items())
def test_a_line_read_and_written_is_the_same_line(raw: str, expected: str) -> None:
    assert write_tree(read_tree(raw, where="")) == raw
    assert write_tree(read_tree(expected, where="")) == expected


@given(any_trees)
def test_a_tree_written_and_read_is_the_same_tree(tree: Tree) -> None:
    assert read_tree(write_tree(tree), where="") == tree


def test_white_space_between_brackets_means_nothing() -> None:
    tree = read_tree("( (S\t(NP (PRP We))\n  ( VP (VBP rest ) ) ) )\r", where="")
    assert write_tree(tree) == "((S (NP (PRP We)) (VP (VBP rest))))"


def test_only_ascii_white_space_separates() -> None:
    assert words(read_tree("(NP (CD 10\u00a0000) (NN a\u2028b))", where="")) == ["10\u00a0000", "a\u2028b"]


@pytest.mark.parametrize(("line", "message"), FAULTS.items())
def test_what_is_no_tree_is_refused_with_its_column(line: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        read_tree(line, where="a.trees, line 7")


@given(any_trees, st.data())
def test_a_line_without_one_of_its_brackets_is_refused(tree: Tree, data: st.DataObject) -> None:
    line = write_tree(tree)
    place = data.draw(st.sampled_from([i for i, letter in enumerate(line) if letter in "()"]))
    with pytest.raises(CorpusError, match="here"):
        read_tree(line[:place] + " " + line[place + 1 :], where="here")


UNREADABLE = [" ", "(", ")", "(a)", " a", "a ", "a  b", "a\n"]


@pytest.mark.parametrize(
    "tree",
    [
        *(Tree("NP", (Leaf("NN", text),)) for text in ("", *UNREADABLE)),
        *(Tree("NP", (Leaf(text, "a"),)) for text in ("", "a b", *UNREADABLE)),
        *(Tree(text, (Leaf("NN", "a"),)) for text in ("a b", *UNREADABLE)),
    ],
    ids=str,
)
def test_what_could_not_be_read_again_is_not_written(tree: Tree) -> None:
    with pytest.raises(ValueError, match="hold"):
        write_tree(tree)


def test_depth_has_no_limit() -> None:
    line = "(NP-SBJ " * 20_000 + "(NN top)" + ")" * 20_000
    tree = read_tree(line, where="")
    assert write_tree(tree) == line
    stripped = bare(tree)
    assert stripped is not None
    assert write_tree(stripped) == line.replace("-SBJ", "")
    assert write_tree(restore(linearise(stripped), ["top"])) == line.replace("-SBJ", "")


# Bare trees


@pytest.mark.parametrize(("raw", "expected"), RAW_AND_BARE.items())
def test_a_bare_tree_has_no_traces_functions_or_outer_bracket(raw: str, expected: str) -> None:
    tree = bare(read_tree(raw, where=""))
    assert tree is not None
    assert write_tree(tree) == expected
    assert bare(tree) == tree


def test_nothing_is_left_of_a_tree_of_traces() -> None:
    assert bare(read_tree("((S (NP-SBJ (-NONE- *)) (VP (-NONE- *?*))))", where="")) is None


@given(any_trees)
def test_a_bare_tree_keeps_the_words_and_holds_nothing_empty(tree: Tree) -> None:
    stripped = bare(tree)
    kept = [(leaf.tag, leaf.word.replace(" ", "")) for leaf in leaves(tree) if leaf.tag != "-NONE-"]
    assert [(leaf.tag, leaf.word) for leaf in leaves(stripped or Tree("", ()))] == kept
    if stripped is not None:
        assert all(node.children for node, _ in walk(stripped) if isinstance(node, Tree))


# Tokens


def test_leaves_are_tags() -> None:
    tree = read_tree("(S (`` ``) (NP (PRP$ Our) (NN cat)) (VP (VBZ sleeps)) (, ,) (CC or) (: --) (. ?))", where="")
    assert " ".join(linearise(tree)) == "(S `` (NP PRP$ NN )NP (VP VBZ )VP , CC : . )S"


@given(plain_trees)
def test_restoring_is_the_inverse(tree: Tree) -> None:
    tokens = linearise(tree)
    assert well_formed(tokens, len(words(tree))) is None
    assert restore(tokens, words(tree)) == tree


@pytest.mark.parametrize(
    ("tokens", "count", "message"),
    [
        ("", 0, "no tokens"),
        ("XX", 1, "token 1, XX, stands outside of brackets"),
        (")S", 0, "token 1, )S, stands outside of brackets"),
        ("(S XX )NP", 1, "token 3, )NP, does not close (S"),
        ("(S (NP )NP XX )S", 1, "token 3, )NP, closes a constituent without a leaf"),
        ("(S XX )S XX", 2, "token 4, XX, follows the tree"),
        ("(S XX )S (S XX )S", 2, "token 4, (S, follows the tree"),
        ("(S (NP XX", 1, "(NP is not closed, and 1 around it"),
        ("(S XX , )S", 1, "2 leaves for 1 words"),
        ("(S XX , )S", 3, "2 leaves for 3 words"),
    ],
)
def test_what_is_not_well_formed_is_said_and_not_restored(tokens: str, count: int, message: str) -> None:
    assert well_formed(tokens.split(), count) == message
    with pytest.raises(ValueError, match=re.escape(message)):
        restore(tokens.split(), ["word"] * count)


@given(st.lists(st.sampled_from(["(S", ")S", "(NP", ")NP", "XX", ","]), max_size=8), st.integers(0, 4))
def test_well_formed_sequences_are_those_that_read_as_one_tree(tokens: list[str], count: int) -> None:
    line = " ".join(f"({token} w)" if token in ("XX", ",") else token for token in tokens)
    matching = _closes_what_is_open(tokens)
    try:
        tree = read_tree(re.sub(r"\)(S|NP)", ")", line), where="")
    except CorpusError:
        assert well_formed(tokens, count) is not None
    else:
        assert (well_formed(tokens, count) is None) == (matching and len(words(tree)) == count)


def _closes_what_is_open(tokens: list[str]) -> bool:
    """By taking out innermost brackets that match until none is left."""
    text = " ".join(token for token in tokens if token[0] in "()")
    for _ in tokens:
        text = re.sub(r"\((\w+) \)\1( |$)", "", text)
    return not text.strip()


# All of two treebanks


@pytest.mark.parametrize("part", ["train", "dev", "test"])
@pytest.mark.parametrize("bank", ["treebank", "craft-treebank"])
def test_every_tree_of_a_treebank_goes_there_and_back(bank: str, part: str) -> None:
    for number, line in enumerate(shared_lines(bank, f"{part}.trees.gz"), start=1):
        tree = read_tree(line, where=f"{bank}/{part}, line {number}")
        assert write_tree(tree) == line
        stripped = bare(tree)
        assert stripped is not None
        assert stripped.label
        tokens, sentence = linearise(stripped), words(stripped)
        assert restore(tokens, sentence) == stripped
