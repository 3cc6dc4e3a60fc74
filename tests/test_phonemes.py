"""Word and phoneme error rates: by hand, against brute force, and on the dictionary's own test words."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import transduce
from shared_data import shared_lines
from transduce.errors import UserError
from transduce.evaluate.phonemes import edit_distance, pronunciation_score, pronunciations

ALPHABET = "AB"

symbols = st.lists(st.sampled_from(ALPHABET), max_size=3)
long_symbols = st.lists(st.sampled_from("ABCDE"), max_size=12)


def fewest_edits(one: str, other: str) -> int:
    """By trying out all edits: breadth-first over every string that one edit, two edits and so on lead to."""
    seen, coming = {one}, deque([(one, 0)])
    while coming:
        text, edits = coming.popleft()
        if text == other:
            return edits
        near = {text[:place] + text[place + 1 :] for place in range(len(text))}
        near |= {text[:place] + new + text[place + 1 :] for place in range(len(text)) for new in ALPHABET}
        if len(text) < max(len(one), len(other)):
            near |= {text[:place] + new + text[place:] for place in range(len(text) + 1) for new in ALPHABET}
        coming += [(each, edits + 1) for each in near - seen]
        seen |= near
    raise AssertionError


@given(symbols, symbols)
def test_the_edit_distance_is_the_fewest_edits_that_lead_there(one: list[str], other: list[str]) -> None:
    assert edit_distance(one, other) == fewest_edits("".join(one), "".join(other))


@given(long_symbols, long_symbols, long_symbols)
def test_the_edit_distance_is_a_distance(one: list[str], other: list[str], third: list[str]) -> None:
    distance = edit_distance(one, other)
    assert (distance == 0) == (one == other)
    assert distance == edit_distance(other, one)
    assert abs(len(one) - len(other)) <= distance <= max(len(one), len(other))
    assert edit_distance(one, third) <= distance + edit_distance(other, third)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("K AE T", "K AE T", 0),
        ("K AE T", "K AA T S", 2),
        ("", "K AE T", 3),
        ("K AE T", "", 3),
        ("K IH T AH N", "S IH T IH NG", 3),
    ],
)
def test_edit_distances_by_hand(one: str, other: str, distance: int) -> None:
    assert edit_distance(one.split(), other.split()) == distance


def test_a_word_is_right_when_it_equals_one_of_its_references() -> None:
    score = pronunciation_score(["T AH M EY T OW", "K AE T"], [["T AH M AA T OW", "T AH M EY T OW"], ["K AA T"]])
    assert (score.words, score.several, score.wrong, score.edits, score.phonemes) == (2, 1, 1, 1, 9)
    assert score.wer == 50
    assert score.per == pytest.approx(100 / 9)


def test_the_nearest_reference_counts_and_not_the_shortest_or_the_first() -> None:
    score = pronunciation_score(["A B C D"], [["X", "A B C D E", "A B"]])
    assert (score.edits, score.phonemes) == (1, 5)


def test_of_references_equally_near_the_first_counts() -> None:
    assert pronunciation_score(["A B"], [["A B C", "A"]]).phonemes == 3
    assert pronunciation_score(["A B"], [["A", "A B C"]]).phonemes == 1


def test_rates_are_of_sums_and_not_means_of_rates() -> None:
    score = pronunciation_score(["A", "A B C D E F G H"], [["B"], ["A B C D E F G H"]])
    assert score.per == pytest.approx(100 / 9)


def test_an_output_that_goes_on_and_on_costs_more_than_all_phonemes() -> None:
    assert pronunciation_score(["A " * 30], [["A B"]]).per == 100 * 29 / 2


@given(st.lists(st.tuples(symbols, st.lists(symbols.filter(bool), min_size=1, max_size=3)), min_size=1, max_size=5))
def test_what_the_score_says_follows_from_each_word(words: list[tuple[list[str], list[list[str]]]]) -> None:
    outputs = [" ".join(output) for output, _ in words]
    references = [[" ".join(each) for each in known] for _, known in words]
    score = pronunciation_score(outputs, references)
    assert score.wrong == sum(output not in known for output, known in zip(outputs, references, strict=True))
    assert score.edits == sum(min(edit_distance(output, each) for each in known) for output, known in words)
    with_itself = pronunciation_score([known[-1] for known in references], references)
    assert (with_itself.wrong, with_itself.edits) == (0, 0)


def test_spaces_between_phonemes_are_not_counted() -> None:
    assert pronunciation_score(["  K  AE T "], [["K AE\tT"]]).edits == 0


def test_pronunciations_of_a_word_come_together_wherever_they_stand() -> None:
    pairs = [("A", "AH"), ("THE", "DH AH"), ("A", "EY"), ("THE", "DH IY")]
    assert pronunciations(pairs) == {"A": ["AH", "EY"], "THE": ["DH AH", "DH IY"]}
    assert list(pronunciations(pairs)) == ["A", "THE"]


@pytest.mark.parametrize(
    ("outputs", "references", "message"),
    [
        (["A"], [["A"], ["B"]], "1 outputs, but 2 words"),
        ([], [], "no words"),
        (["A", "B"], [["A"], [" "]], "word 2 has no phonemes"),
        (["A"], [[]], "word 1 has no phonemes"),
    ],
)
def test_what_cannot_be_scored_is_refused(outputs: list[str], references: list[list[str]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        pronunciation_score(outputs, references)


def test_the_command_scores_lines_that_answer_each_word_once(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("A\tAH\nCAT\tK AE T\nA\tEY\n\n", encoding="utf-8")
    (tmp_path / "out").write_text("EY\nK AA T S\n", encoding="utf-8")
    ran = transduce("evaluate", "--hypothesis", tmp_path / "out", "--pronunciations", tmp_path / "test.tsv")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split(" (")[0] for line in ran.lines] == ["WER 50.00", "PER 50.00"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pronunciations", "test.tsv"], "give MODEL --pronunciations FILE"),
        (["--hypothesis", "out", "--pronunciations", "test.tsv", "--reference", "out"], "give MODEL --pronunciations"),
        (["--hypothesis", "out", "--pronunciations", "test.tsv", "--lang", "en"], "give MODEL --pronunciations"),
        (["--hypothesis", "out", "--pronunciations", "test.tsv", "--beam", "2"], "belong to a MODEL"),
        (["--hypothesis", "out", "--pronunciations", "test.tsv"], "3 outputs, but 2 words"),
        (["--hypothesis", "out", "--pronunciations", "out"], "rename it to what it holds"),
        (
            ["--hypothesis", "out", "--pronunciations", "half.tsv"],
            "line 2: write a word, a tab, and phonemes",
        ),
        (["--hypothesis", "out", "--pronunciations", "bad.tsv"], "bad.tsv: line 1: bad UTF-8"),
        (["--hypothesis", "out", "--pronunciations", "one.tsv"], "one.tsv: line 1: has 1 column"),
        (["--hypothesis", "out", "--pronunciations", "none.tsv"], "none.tsv"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("test.tsv").write_text("A\tAH\nA\tEY\nCAT\tK AE T\n", encoding="utf-8")
    Path("half.tsv").write_text("A\tAH\nCAT\t \n", encoding="utf-8")
    Path("one.tsv").write_text("CAT K AE T\n", encoding="utf-8")
    Path("bad.tsv").write_bytes(b"CAF\xc9\tK AE F EY\n")
    Path("out").write_text("AH\nEY\nK AE T\n", encoding="utf-8")
    ran = transduce("evaluate", *arguments)
    assert ran.code == 2
    assert message in ran.err


def test_the_test_words_of_cmudict_are_what_the_literature_scores() -> None:
    pairs = [tuple(line.split("\t")) for line in shared_lines("cmudict", "test.tsv.gz")]
    known = pronunciations((word, phonemes) for word, phonemes in pairs)
    first = pronunciation_score([each[0] for each in known.values()], list(known.values()))
    assert (first.words, first.several, first.wrong) == (12_000, 673, 0)
    nothing = pronunciation_score([""] * len(known), list(known.values()))
    assert (nothing.wer, nothing.per) == (100, 100)
