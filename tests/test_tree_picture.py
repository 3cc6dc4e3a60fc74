"""Pictures of trees: every word in one row, nothing on top of anything else; and indented text."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given

from random_trees import any_trees, plain_trees
from transduce.errors import UserError
from transduce.explain.drawing import Label, Sheet, Stroke, text_width
from transduce.explain.tree_picture import BOLD, COLUMNS, tree_sheet, tree_svg, tree_text, write_picture
from transduce.text.trees import ORDINARY, Leaf, Tree, leaves, read_tree, walk, with_leaves, words

SENTENCE = read_tree(
    "(S (NP (NP (DT The) (JJ old) (NN keeper)) (SBAR (WHNP (WP who)) (S (VP (VBD lived) (ADVP (RB alone))))))"
    " (VP (VBD wrote) (NP (DT a) (NN letter)) (PP (TO to) (NP (PRP$ his) (NN sister)))) (. .))",
    where="",
)


def labels(sheet: Sheet) -> list[Label]:
    return [mark for mark in sheet.marks if isinstance(mark, Label)]


def branches(sheet: Sheet) -> list[Stroke]:
    return [mark for mark in sheet.marks if isinstance(mark, Stroke)]


def edges(label: Label) -> tuple[float, float]:
    half = text_width(label.text, label.size) * (BOLD if label.bold else 1) / 2
    return label.x - half, label.x + half


def constituents(tree: Tree) -> int:
    return sum(opens and isinstance(node, Tree) for node, opens in walk(tree))


def test_words_stand_in_order_in_the_lowest_row() -> None:
    found = labels(tree_sheet(SENTENCE))
    bottom = max(label.y for label in found)
    row = sorted((label for label in found if label.y == bottom), key=lambda label: label.x)
    assert [label.text for label in row] == words(SENTENCE)


def test_tags_stand_above_their_words_and_those_that_say_nothing_are_left_out() -> None:
    found = labels(tree_sheet(SENTENCE))
    tags = [label for label in found if label.size < found[0].size]
    assert [label.text for label in sorted(tags, key=lambda label: label.x)] == [
        leaf.tag for leaf in leaves(SENTENCE) if leaf.word != "."
    ]
    parsed = with_leaves(SENTENCE, (Leaf(ORDINARY, word) for word in words(SENTENCE)))
    shown = [label.text for label in labels(tree_sheet(parsed))]
    assert ORDINARY not in shown
    assert len(shown) == len(words(SENTENCE)) + constituents(SENTENCE)


@given(plain_trees)
def test_labels_do_not_overlap_and_lie_on_the_sheet(tree: Tree) -> None:
    sheet = tree_sheet(tree)
    rows = sorted(labels(sheet), key=lambda label: (label.y, label.x))
    for _, row in itertools.groupby(rows, key=lambda label: label.y):
        for left, right in itertools.pairwise(row):
            assert edges(left)[1] <= edges(right)[0] + 1e-6
    for label in rows:
        assert edges(label)[0] >= 0
        assert edges(label)[1] <= sheet.width
        assert 0 < label.y < sheet.height


@given(plain_trees)
def test_branches_lead_down_from_each_constituent_and_cross_no_label(tree: Tree) -> None:
    sheet = tree_sheet(tree)
    assert len(branches(sheet)) == constituents(tree) - 1 + len(leaves(tree))
    for branch in branches(sheet):
        ys = [y for _, y in branch.points]
        assert ys == sorted(ys)
        for label in labels(sheet):
            left, right = edges(label)
            for (x1, y1), (x2, y2) in itertools.pairwise(branch.points):
                beside = max(x1, x2) <= left or min(x1, x2) >= right
                assert beside or max(y1, y2) < label.y or min(y1, y2) > label.y


def test_a_picture_is_xml_with_every_word() -> None:
    tree = Tree("NP", (Leaf("NN", "a<b&c"), Leaf("SYM", '"'), Leaf("NN", "漢字")))
    document = ElementTree.fromstring(tree_svg(tree))
    shown = [element.text for element in document.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a<b&c", '"', "漢字", "NP"} <= set(shown)


def test_the_name_says_the_format(tmp_path: Path) -> None:
    for suffix, magic in ((".svg", b"<svg"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")):
        path = tmp_path / f"tree{suffix}"
        write_picture(path, SENTENCE)
        assert path.read_bytes().startswith(magic)
    with pytest.raises(UserError, match=r"tree\.gif: no picture can be written so"):
        write_picture(tmp_path / "tree.gif", SENTENCE)


def test_a_sentence_too_wide_for_a_png_is_told_the_way_out(tmp_path: Path) -> None:
    tree = Tree("S", tuple(Leaf("NN", "incomprehensibilities") for _ in range(200)))
    with pytest.raises(UserError, match=r"too wide for a PNG: let the name end in \.svg or \.pdf"):
        write_picture(tmp_path / "tree.png", tree)
    write_picture(tmp_path / "tree.svg", tree)


@given(any_trees)
def test_indented_text_is_read_as_the_same_tree(tree: Tree) -> None:
    assert read_tree(tree_text(tree), where="") == tree


def test_indented_text_breaks_only_what_does_not_fit() -> None:
    text = tree_text(SENTENCE)
    rows = text.removesuffix("\n").split("\n")
    assert max(map(len, rows)) <= COLUMNS
    assert rows[0] == "(S"
    assert "    (NP (DT The) (JJ old) (NN keeper))" in rows
    assert tree_text(read_tree("(NP (DT a) (NN letter))", where="")) == "(NP (DT a) (NN letter))\n"


def test_a_deep_tree_has_a_picture() -> None:
    tree = read_tree("(NP " * 3000 + "(NN top)" + ")" * 3000, where="")
    assert len(branches(tree_sheet(tree))) == 3000
