"""Terms: how they are read, where they match, and that they come out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from short_phrases import short_phrases
from transduce import Translator
from transduce.decode.glossary import Glossary, Term, parse_terms, phrase
from transduce.errors import UserError
from transduce.text import Subwords, Symbols

SOURCES = [each.source for each in short_phrases("test", 160)]


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


def glossary(*lines: str) -> Glossary:
    return Glossary(parse_terms(lines, where="g.tsv"), where="g.tsv")


def test_a_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "g.tsv"
    path.write_bytes("\ufeffdog\tHund\r\n\nNew York\n cat \tKater\n".encode())
    assert [(t.source, t.target, t.line) for t in Glossary.read(path).matches("New York, dog, cat")] == [
        ("New York", "New York", 3),
        ("dog", "Hund", 1),
        ("cat", "Kater", 4),
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["dog\tHund", "cat", "dog\tKöter"], "g.tsv: 'dog' is 'Hund' in line 1 and 'Köter' in line 3: keep one"),
        (["dog\tHund", "dog"], "g.tsv: 'dog' is 'Hund' in line 1 and 'dog' in line 2"),
        (["old dog\tx", "dog\ty"], r"g.tsv: 'dog' \(line 2\) stands inside 'old dog' \(line 1\)"),
        (["dog\tHund\tn."], "g.tsv: line 1: write source<TAB>target"),
        (["cat", "dog\t"], "g.tsv: line 2: write source<TAB>target"),
        (["\tHund"], "g.tsv: line 1: write source<TAB>target"),
    ],
    ids=str,
)
def test_contradictions_are_named_with_their_lines(lines: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        glossary(*lines)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.tsv: cannot read: No such file"):
        Glossary.read(tmp_path / "none.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"dog\tK\xf6ter\n")
    with pytest.raises(UserError, match=r"latin\.tsv: not UTF-8"):
        Glossary.read(tmp_path / "latin.tsv")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("The dog barks.", ["dog"]),
        ("(dog)", ["dog"]),
        ("dog", ["dog"]),
        ("dogs, Dog, hotdog, dog_1, dog1", []),
        ("the dog and the dog", ["dog"]),
        ("New  York's dog", ["New York", "dog"]),
        ("new York", []),
        ("C++ or C+", ["C++"]),
        ("", []),
    ],
)
def test_a_term_is_matched_by_whole_words_as_it_is_written(line: str, found: list[str]) -> None:
    terms = glossary("dog\tHund", "New York", "C++\tC++", "dog\tHund")
    assert [term.source for term in terms.matches(line)] == found


def test_terms_that_share_words_of_a_line_are_an_error_of_that_line() -> None:
    terms = glossary("machine learning\tx", "learning rate\ty")
    assert len(terms.matches("machine learning, learning rate")) == 2
    with pytest.raises(UserError, match="'machine learning' and 'learning rate' share words of this line"):
        terms.matches("machine learning rate")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\t"), min_size=1, max_size=12))
def test_every_spelling_is_that_of_the_text(translator: Translator, text: str) -> None:
    codec = translator.target_codec
    found = phrase(codec, text.strip() or "x")
    for ids in found.spellings:
        assert codec.decode(ids) == (text.strip() or "x")
        around = [*codec.encode("ja (ab"), *ids, *codec.encode("!")]
        assert (text.strip() or "x") in codec.decode(around)


def test_a_term_has_other_pieces_after_a_space_than_inside_a_word(translator: Translator) -> None:
    found = phrase(translator.target_codec, "Hund")
    first = {translator.target_codec.pieces(ids)[0] for ids in found.spellings}
    assert {piece.startswith("▁") for piece in first} == {True, False}


def test_what_the_vocabulary_cannot_write_is_refused() -> None:
    with pytest.raises(UserError, match="the target vocabulary cannot write 'c d', only 'c'"):
        phrase(Symbols(["a", "b", "c"]), "c d")
    assert phrase(Symbols(["a", "b", "c"]), "b a").spellings == ((5, 4),)
    lower = Subwords.learn(
        [f"abc {n} xyz" for n in range(99)], vocabulary=280, seed=0, sample_lines=99, steps=["lower"]
    )
    with pytest.raises(UserError, match="cannot write 'XYZ', only 'xyz'"):
        phrase(lower.codec, "XYZ")


def test_terms_come_out_and_other_lines_stay_as_they_were(translator: Translator) -> None:
    words = {word.strip(".,?!") for source in SOURCES for word in source.split()}
    nouns = sorted(word for word in words if len(word) > 4 and word.islower())[:20]
    terms = glossary(*(f"{word}\tXy-{len(word)}" for word in nouns))
    free = translator.translate(SOURCES)
    bound = translator.translate(SOURCES, glossary=terms)
    matched = 0
    for source, without, with_terms in zip(SOURCES, free, bound, strict=True):
        wanted = terms.matches(source)
        matched += bool(wanted)
        assert with_terms.error is None
        assert all(term.target in with_terms.text for term in wanted)
        assert wanted or with_terms == without
    assert matched > 10


def test_terms_that_come_out_by_themselves_change_little(translator: Translator) -> None:
    free = translator.translate(SOURCES)
    same = 0
    for source, translation in zip(SOURCES, free, strict=True):
        word = max(source.strip(".?!").replace(",", "").split(), key=len)
        said = max(translation.text.strip(".?!").replace(",", "").split(), key=len)
        (bound,) = translator.translate([source], glossary=Glossary([Term(word, said, 1)]))
        assert said in bound.text
        same += bound.text == translation.text
    assert same >= 0.85 * len(SOURCES)


def test_a_line_whose_term_cannot_be_met_says_so_and_keeps_its_place(translator: Translator) -> None:
    word = SOURCES[0].split()[1]
    terms = glossary(f"{word}\t{'Unwort ' * 20}")
    lines = [SOURCES[1], SOURCES[0], ""]
    found = translator.translate(lines, glossary=terms, settings={"max_length": 20})
    assert [t.text != "" for t in found] == [True, False, False]
    assert [t.error is None for t in found] == [True, False, True]
    assert (found[1].error or "").startswith("no output with 'Unwort Unwort")
    assert len(found[1].alternatives) == 1


def test_a_term_that_is_cut_with_its_line_is_an_error_of_that_line(bundle: Path) -> None:
    translator = Translator.load(bundle, engine="pytorch")
    translator.search = translator.search.model_copy(update={"max_input": 8})
    words = " ".join(["dog"] * 30)
    (found,) = translator.translate([words], glossary=glossary(words))
    assert "is cut in two" in (found.error or "")
