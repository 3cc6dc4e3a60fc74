"""Table 4 on a treebank of our own: what it measures, and that it is gone on with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from toy_treebank import SETTINGS, write_treebank
from transduce.data.treebank import read_treebank
from transduce.errors import UserError
from transduce.evaluate.brackets import evalb
from transduce.paper import table4 as study_file
from transduce.paper.craft import CRAFT, Stored, craft_parts
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study
from transduce.paper.table4 import PAPER, RECIPES, table4
from transduce.paper.treebank_run import measure, retag, right_branching, score_trees
from transduce.text.trees import Tree, leaves, read_tree, words, write_tree
from transduce.train.progress import Listener

WAY = {"sentences": 7, "recall": 1, "precision": 2, "f1": 3, "exact_match": 4, "unlabelled_f1": 5, "malformed": 6}
SHORT = {"sentences": 2, "recall": 7, "precision": 8, "f1": 9}
STORED = {
    "date": "2017-06-12",
    "about": "a parser",
    "command": "python -m runs.craft_parser --work DIRECTORY",
    "scores": {part: {"a beam": {**WAY, "by_length": {"1-10": SHORT}}} for part in ("dev", "test")},
}


def tree(line: str) -> Tree:
    return read_tree(line, where="test")


class Kept(Listener):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    directory = tmp_path_factory.mktemp("study")
    write_treebank(directory / "data" / "treebank", train=120, dev=5, test=70)
    return Study(data=directory / "data", work=directory / "work")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two updates; and no stored result beside."""
    changes = (*SETTINGS, "train.steps=2", "search.beam=2", "search.extra_length=30")
    monkeypatch.setitem(RECIPES, "tiny", replace(RECIPES["tiny"], settings=changes))
    monkeypatch.chdir(tmp_path)


def tables(result: Result) -> dict[str, Table]:
    return {part.name: part for part in result.parts if isinstance(part, Table)}


def test_it_has_the_papers_rows_every_way_of_searching_and_every_length(study: Study, quick: None) -> None:
    result = table4(study)
    found = tables(result)
    assert [tuple(row[:3]) for row in found["table4"].rows[:-1]] == list(PAPER)
    assert all(row[3] == "" for row in found["table4"].rows[:-1])
    ways = {row[0]: row[1:] for row in found["table4-search"].rows}
    assert next(iter(ways)) == "right-branching"
    guided = [values for name, values in ways.items() if name.startswith("search that keeps to trees")]
    assert [values[5] for values in guided] == ["0", "0"]  # not trees
    assert found["table4"].rows[-1][3] == guided[-1][2]
    assert sum(int(row[1]) for row in found["table4-lengths"].rows) == 70
    assert "not comparable" in result.scope
    assert [part.name for part in result.parts if isinstance(part, Picture)] == ["table4-tree"]
    assert "No stored result on CRAFT" in result.markdown("today")


def test_what_was_done_is_used_again(study: Study, quick: None) -> None:
    first = table4(study)
    kept = sorted((study.work / "table4-tiny" / "parsed").rglob("*.json"))
    before = {path: path.stat().st_mtime_ns for path in kept}
    kept[0].unlink()  # as if it had been broken off there
    listener = Kept()
    second = table4(replace(study, listener=listener))
    assert any("using the parser" in note for note in listener.notes)
    after = {path: path.stat().st_mtime_ns for path in kept}
    assert [path for path in kept if after[path] != before[path]] == [kept[0]]
    assert tables(first)["table4-lengths"] == tables(second)["table4-lengths"]


def test_a_stored_result_is_shown_with_its_date(study: Study, quick: None) -> None:
    CRAFT.parent.mkdir(parents=True)
    CRAFT.write_text(json.dumps(STORED), encoding="utf-8")
    result = table4(study)
    assert "Stored on 2017-06-12, not measured now" in result.markdown("today")
    values = ["7", "1.0", "2.0", "3.0", "4.0", "5.0", "6"]
    assert tables(result)["table4-craft"].rows == [[f"CRAFT {part}", "a beam", *values] for part in ("dev", "test")]
    assert tables(result)["table4-craft-lengths"].rows == [["1-10 words", "2", "7.0", "8.0", "9.0"]]


def test_a_stored_score_below_what_was_expected_is_said() -> None:
    stored = Stored.model_validate(STORED)
    assert "Its F1 on the test trees is 3.0, below the 70" in str(craft_parts(stored, CRAFT))
    stored.scores["test"]["a beam"].f1 = 70.0
    assert "below" not in str(craft_parts(stored, CRAFT))


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({**STORED, "scores": {"dev": {"a beam": {"f1": 1}}}})])
def test_a_damaged_stored_result_is_named_before_anything_is_trained(
    study: Study, quick: None, tmp_path: Path, content: str
) -> None:
    CRAFT.parent.mkdir(parents=True)
    CRAFT.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"craft_parser\.json: damaged.*make it again by `python -m runs\.craft_parser"):
        table4(replace(study, work=tmp_path / "work"))
    assert not (tmp_path / "work").exists()


def test_the_users_own_parser_is_scored(study: Study, quick: None) -> None:
    given = replace(study, bundles=(study.work / "table4-tiny" / "run",), work=study.work / "other")
    table4(study)
    assert tables(table4(given))["table4-lengths"] == tables(table4(study))["table4-lengths"]
    assert not (study.work / "other" / "table4-tiny" / "run").exists()


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
def test_without_the_treebank_it_says_which_and_where(scale: str, tmp_path: Path) -> None:
    wanted = Study(scale=scale, data=tmp_path, work=tmp_path / "work")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=rf"scale {scale} is about .*{RECIPES[wanted.scale].treebank}: no train.trees"):
        table4(wanted)
    assert not (tmp_path / "work").exists()


def test_the_paper_scale_is_the_papers_parser() -> None:
    assert RECIPES["paper"].preset == "parsing"
    assert RECIPES["paper"].settings == ()
    assert study_file.SAME != study_file.OTHER


def test_right_branching_opens_a_constituent_at_every_word() -> None:
    find = right_branching([tree("(S (NP (DT a) (NN b)) (NP (NP (NN c))))"), tree("(FRAG (NN c))"), tree("(S (NN c))")])
    assert [write_tree(found) for found in find(["a b c d", "a b", "a"]) if found] == [
        "(S (XX a) (NP (XX b) (NP (XX c) (XX d))))",
        "(S (XX a) (XX b))",
        "(S (XX a))",
    ]


def test_right_branching_needs_training_trees_but_no_inner_brackets() -> None:
    with pytest.raises(UserError, match="no training trees"):
        right_branching([])
    (found,) = right_branching([tree("(S (NN c))")])(["a b c"])
    assert found is not None
    assert write_tree(found) == "(S (XX a) (S (XX b) (XX c)))"


def test_leaves_get_the_gold_tags_and_brackets_stay() -> None:
    gold = tree("(S (NP (DT The) (NN rain)) (VP (VBZ falls)) (. .))")
    found = tree("(S (XX The) (VP (XX rain) (NP (XX falls)) (. .)))")
    assert write_tree(retag(found, gold)) == "(S (DT The) (VP (NN rain) (NP (VBZ falls)) (. .)))"
    assert leaves(retag(found, gold)) == leaves(gold)


def test_what_is_not_a_tree_has_found_nothing() -> None:
    gold = [tree("(S (NP (NN rain)) (VP (VBZ falls)))"), tree("(S (NP (NN snow)) (VP (VBZ falls)))")]
    scored = score_trees("some", gold, [gold[0], None], 0.0)
    assert (scored.malformed, scored.score.skipped, scored.score.errors) == (1, 0, 0)
    assert scored.score.recall == 50.0
    assert (scored.score.matched, scored.score.test) == (3, 4)
    assert scored.unlabelled.matched == 4  # the flat tree is right about the whole


def test_gold_trees_score_all_and_the_baseline_less(study: Study, tmp_path: Path) -> None:
    gold = list(read_treebank(study.data / "treebank" / "test.trees"))
    by_words = {" ".join(words(each)): each for each in gold}
    perfect = measure("gold", lambda lines: [by_words[line] for line in lines], gold, tmp_path / "a", Listener())
    assert (perfect.score.f1, perfect.unlabelled.f1) == (100.0, 100.0)
    baseline = measure("right", right_branching(gold), gold, tmp_path / "b", Listener())
    lines = [write_tree(each) for each in gold]
    assert 0 < baseline.score.f1 < baseline.unlabelled.f1 < 100.0 == evalb(lines, lines).f1
