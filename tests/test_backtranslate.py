"""Sources for text of which only the target is there: each beside its own line, in the right language, resumable."""

from __future__ import annotations

import gzip
import tomllib
from pathlib import Path

import pytest

from command import Ran, transduce
from test_distill import WINDOW, Teacher, lines_of
from test_mistakes import refused
from transduce.bundle import MANIFEST
from transduce.cli.backtranslate import TAG, BackTranslation
from transduce.config import DataConfig
from transduce.data.corpus import languages, training_corpus
from transduce.data.selection import usable_pairs
from transduce.decode.translator import Translation, Translator
from transduce.settings import load_config

LONG = "very " * 400 + "long"


@pytest.fixture
def upper(monkeypatch: pytest.MonkeyPatch) -> Teacher:
    return Teacher(monkeypatch)


@pytest.fixture
def place(tmp_path: Path, phrasebook: Path) -> Path:
    """A directory with a.en and a.de, 40 lines."""
    for side in ("en", "de"):
        lines = (phrasebook / f"train.{side}").read_text(encoding="utf-8").split("\n")[:40]
        (tmp_path / f"a.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def back(model: Path, place: Path, *more: str | Path, name: str = "a.en", out: str = "made.tsv") -> Ran:
    return transduce("backtranslate", model, place / name, "-o", place / out, *more)


def test_each_line_stands_behind_what_the_model_makes_of_it(bundle: Path, place: Path) -> None:
    """The shared model goes from English to German: it makes German sources for English text."""
    ran = back(bundle, place, "--beam", "1")
    assert ran.code == 0, ran.err
    said = transduce("translate", bundle, place / "a.en", "--beam", "1").lines
    kept = lines_of(place / "a.en")
    assert lines_of(place / "made.tsv") == [f"{TAG} {a}\t{b}" for a, b in zip(said, kept, strict=True)]
    assert "made.tsv: 40 pairs of 40 lines" in ran.err
    untagged = back(bundle, place, "--beam", "1", "--no-tag", out="plain.tsv")
    assert untagged.code == 0
    assert lines_of(place / "plain.tsv") == [line.removeprefix(f"{TAG} ") for line in lines_of(place / "made.tsv")]


def test_what_is_printed_is_a_corpus_beside_the_real_one(bundle: Path, place: Path) -> None:
    ran = back(bundle, place, "--beam", "1", out="made.de-en.tsv")
    (place / "mix.toml").write_text(ran.out, encoding="utf-8")
    table = {"pairs": [str(place / "made.de-en.tsv")], "weight": 1.0}
    assert tomllib.loads(ran.out) == {"data": {"corpora": [table]}}
    assert ran.out.startswith("# transduce train --source real.de --target real.en --config ")
    real = [f"data.source=['{place / 'a.de'}']", f"data.target=['{place / 'a.en'}']"]
    data = load_config(path=place / "mix.toml", settings=real).data
    corpus = training_corpus(data)
    assert languages(corpus, data) == ("de", "en")
    pairs = list(usable_pairs(corpus, data))
    assert [pair.target for pair in pairs] == 2 * lines_of(place / "a.en")
    assert [pair.source.startswith(TAG) for pair in pairs] == [False] * 40 + [True] * 40


@pytest.mark.usefixtures("upper")
def test_lines_that_cannot_be_used_are_left_out_and_counted(small_run: Path, place: Path) -> None:
    lines = ["", "one", " ", LONG, "two\tcells", "nul \0", "x" * 5001, "three"]
    (place / "odd.en").write_bytes(b"bad \xff\n" + "".join(f"{line}\n" for line in lines).encode())
    ran = back(small_run, place, name="odd.en")
    assert ran.code == 0, ran.err
    rows = [line.split("\t") for line in lines_of(place / "made.tsv")]
    assert rows == [[f"{TAG} {text.upper()}", text] for text in ("one", "two cells", "three")]
    assert "3 pairs of 9 lines; left out: 2 empty, 1 bad UTF-8, 1 too long for the model" in ran.err


def test_a_source_that_does_not_fit_its_line_is_left_out(
    small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def translate(self: Translator, lines: list[str], **given: object) -> list[Translation]:
        texts = {"nothing": "", "much": "so " * 50}
        return [Translation(texts.get(line, line.upper()), 0.0, 0.0) for line in lines]

    monkeypatch.setattr(Translator, "translate", translate)
    (place / "odd.en").write_text("one\nnothing\nmuch\ntwo\n", encoding="utf-8")
    ran = back(small_run, place, "--no-tag", name="odd.en")
    assert lines_of(place / "made.tsv") == ["ONE\tone", "TWO\ttwo"]
    assert "2 pairs of 4 lines; left out: 2 without a source that fits" in ran.err


@pytest.mark.parametrize(("tag", "pairs"), [((), 1), (("--no-tag",), 2)])
def test_a_source_is_judged_as_training_will_see_it(
    small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch, tag: tuple[str, ...], pairs: int
) -> None:
    def translate(self: Translator, lines: list[str], **given: object) -> list[Translation]:
        return [Translation("of 17 characters.", 0.0, 0.0) for _ in lines]

    monkeypatch.setattr(Translator, "translate", translate)
    (place / "short.en").write_text("Ok\nthree\n", encoding="utf-8")
    assert back(small_run, place, *tag, name="short.en").code == 0
    assert len(lines_of(place / "made.tsv")) == pairs
    made = DataConfig(pairs=(str(place / "made.tsv"),))
    assert len(list(usable_pairs(training_corpus(made), made))) == pairs


@pytest.mark.parametrize("name", ["made.tsv", "made.tsv.gz"])
def test_broken_off_the_same_command_goes_on_to_the_same_bytes(
    small_run: Path, place: Path, upper: Teacher, name: str
) -> None:
    with (place / "a.en").open("a", encoding="utf-8") as file:
        file.write("\n\nThe end.\n")
    unbroken = back(small_run, place, out=f"whole-{name}")
    upper.break_at, upper.windows = 1 + 2 * WINDOW, []
    assert back(small_run, place, out=name).code == 130
    assert not (place / name).exists()
    told = refused(place, "--quiet", "backtranslate", small_run, place / "a.en", "-o", place / name, "--no-tag")
    assert "tag was True and now is False" in told
    upper.break_at = None
    ran = back(small_run, place, out=name)
    assert ran.code == 0, ran.err
    assert upper.windows == list(range(1, 44, WINDOW)), "each once"
    assert (place / name).read_bytes() == (place / f"whole-{name}").read_bytes()
    assert f"{name}: 41 pairs of 43 lines; left out: 2 empty" in ran.err
    assert ran.out == unbroken.out.replace("whole-", "")
    assert "exists: choose another --output" in refused(
        place, "--quiet", "backtranslate", small_run, place / "a.en", "-o", place / name
    )


def test_text_in_another_language_is_refused_unless_its_language_is_said(
    small_run: Path, place: Path, upper: Teacher
) -> None:
    given = ("--quiet", "backtranslate", small_run, place / "a.de", "-o", place / "made.tsv")
    told = refused(place, *given)
    assert f"a.de: is in de, and {small_run / 'model'} translates from en: give text in en" in told
    assert "say so by --lang en" in told
    both = ("--quiet", "backtranslate", small_run, place / "a.en", place / "a.de", "-o", place / "made.tsv")
    assert "a.de: is in de" in refused(place, *both)
    assert "is in fr" in refused(place, *given, "--lang", "fr")
    assert transduce(*given, "--lang", "EN_gb").code == 0


@pytest.mark.usefixtures("upper")
def test_a_few_words_tell_no_language(small_run: Path, place: Path) -> None:
    (place / "few.txt").write_text("Guten Morgen\n", encoding="utf-8")
    assert back(small_run, place, name="few.txt").code == 0


@pytest.mark.usefixtures("upper")
def test_without_the_detector_the_language_is_not_looked_at(
    small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> frozenset[str]:
        raise ModuleNotFoundError

    monkeypatch.setattr("transduce.serve.detection.labels", missing)
    ran = transduce("backtranslate", small_run, place / "a.de", "-o", place / "made.tsv")
    assert ran.code == 0
    assert "brings py3langid" in ran.err


@pytest.mark.usefixtures("upper")
def test_the_output_is_named_after_the_languages(small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert transduce("backtranslate", small_run, "a.en", "a.en").code == 0
    assert len(lines_of(place / "synthetic.de-en.tsv")) == 80


def test_mistakes_are_told_before_the_work(small_run: Path, place: Path) -> None:
    (place / "empty.en").touch()
    (place / "blank.en").write_text("\n \n", encoding="utf-8")
    for arguments, said in (
        ((small_run, place / "a.en", "-o", place / "made.txt"), "made.txt: the pairs are a .tsv or a .tsv.gz"),
        ((small_run, place / "none.en", "-o", place / "made.tsv"), "none.en: cannot read"),
        ((small_run, place / "empty.en", "-o", place / "made.tsv"), "empty.en: is empty"),
        ((small_run, place / "blank.en", "-o", place / "made.tsv"), "blank.en: none of 2 lines can be used (2 empty)"),
        ((place, place / "a.en", "-o", place / "made.tsv"), f"neither a bundle (no {MANIFEST}) nor a run"),
        ((small_run, place / "a.en", "--set", "train.steps=1"), "only search.* can be set here"),
    ):
        assert said in refused(place, "--quiet", "backtranslate", *arguments)


def test_no_pair_at_all_is_an_error(small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackTranslation, "make", lambda task, window, first_line: b"")
    ran = back(small_run, place)
    assert (ran.code, ran.out) == (2, "")
    assert "0 pairs of 40 lines; left out: 40 without a source that fits: nothing to train on" in ran.err


@pytest.mark.usefixtures("upper")
def test_compressed_text_is_read(small_run: Path, place: Path) -> None:
    (place / "a.en.gz").write_bytes(gzip.compress((place / "a.en").read_bytes()))
    assert back(small_run, place, name="a.en.gz").code == 0
    assert back(small_run, place, out="same.tsv").code == 0
    assert (place / "made.tsv").read_bytes() == (place / "same.tsv").read_bytes()
