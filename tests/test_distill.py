"""A student learns what its teacher says: line by line, whatever is killed, by the vocabulary that was asked for."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from command import Ran, transduce
from test_mistakes import refused
from transduce.bundle import WEIGHTS, open_bundle, read_weights, weights_digest
from transduce.cli.display import Display
from transduce.cli.distill import teacher_file
from transduce.cli.order import order_of
from transduce.cli.synthesis import NOTE_EVERY, Synthesis
from transduce.data.preparation import recall
from transduce.decode.columns import Row, Text
from transduce.decode.translator import Alternative, Translation, Translator
from transduce.settings import read_toml

SHAPE = ("model.d_model=16", "model.d_ff=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1")
STUDENT = (
    *("--preset", "tiny", "--steps", "2", "--threads", "1"),
    *(part for setting in (*SHAPE, "train.batch_tokens=300") for part in ("--set", setting)),
)
LEARNED = ("--vocabulary", "300")
WINDOW = 8


class Teacher:
    """In place of the model, in small windows: upper case, so that a line of output tells which line it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.windows: list[int] = []
        """The first line of each."""
        self.break_at: int | None = None
        monkeypatch.setattr("transduce.cli.translate.WINDOW", WINDOW)
        original = Translator.translate

        def translate(translator: Translator, lines: list[str], **given: object) -> list[Translation]:
            if "first_line" not in given:  # a validation of the student
                return original(translator, lines)
            first_line = given["first_line"]
            assert isinstance(first_line, int)
            if first_line == self.break_at:
                raise KeyboardInterrupt
            self.windows.append(first_line)
            texts = [line.upper() for line in lines]
            return [Translation(text, 0.0, 0.0, (Alternative(text, 0.0, 0.0),)) for text in texts]

        monkeypatch.setattr(Translator, "translate", translate)


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch) -> Teacher:
    return Teacher(monkeypatch)


@pytest.fixture
def place(tmp_path: Path, phrasebook: Path) -> Path:
    """A directory with a.en and a.de, 60 lines."""
    for side in ("en", "de"):
        lines = (phrasebook / f"train.{side}").read_text(encoding="utf-8").split("\n")[:60]
        (tmp_path / f"a.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return tmp_path


def distil(teachers: Path | list[Path], place: Path, *more: str | Path) -> Ran:
    named = teachers if isinstance(teachers, list) else [teachers]
    return transduce("distill", *named, "--source", place / "a.en", "--out", place / "student", *STUDENT, *more)


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def digest(run: Path) -> str:
    return weights_digest(read_weights(run / "model" / WEIGHTS))


def test_the_student_is_trained_on_the_teachers_own_lines(bundle: Path, place: Path) -> None:
    ran = distil(bundle, place, *LEARNED, "--beam", "1")
    assert (ran.code, ran.out) == (0, f"{place / 'student' / 'model'}\n"), ran.err
    assert "the student learns a vocabulary of its own" in ran.err
    assert "measured by what the teacher says" in ran.err
    said = transduce("translate", bundle, place / "a.en", "--beam", "1")
    assert lines_of(place / "student.teacher.de") == said.lines
    student = open_bundle(place / "student")
    assert (student.source_lang, student.target_lang, student.source_codec.size) == ("en", "de", 300)
    assert student.config.data.target == ("student.teacher.de",)


def test_a_line_that_cannot_be_used_is_empty_and_no_pair(small_run: Path, place: Path, teacher: Teacher) -> None:
    lines = lines_of(place / "a.en")
    lines[3], lines[20] = "", "nul \0"
    with gzip.open(place / "a.en.gz", "wb") as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    valid = ("--valid-source", place / "a.en", "--valid-target", place / "a.de")
    files = ("--source", place / "a.en.gz", *valid)
    ran = transduce("distill", small_run, *files, "--out", place / "student", *STUDENT, *LEARNED)
    assert ran.code == 0, ran.err
    assert "60 lines, translated to" in ran.err
    assert "left empty: 1 empty, 1 NUL character" in ran.err
    assert "measured by" not in ran.err
    expected = ["" if number in (3, 20) else line.upper() for number, line in enumerate(lines)]
    assert lines_of(place / "student.teacher.de") == expected
    prepared = recall(place / "student")
    assert sorted(prepared.train.lines) == [number + 1 for number in range(60) if number not in (3, 20)]
    assert prepared.valid_target == lines_of(place / "a.de"), "real pairs"


def test_broken_off_anywhere_it_goes_on_to_the_same_end(small_run: Path, place: Path, teacher: Teacher) -> None:
    student, windows = place / "student", list(range(1, 61, WINDOW))
    teacher.break_at = windows[3]
    assert distil(small_run, place, *LEARNED).code == 130
    teacher.break_at = windows[5]
    ran = transduce("distill", "--resume", student)
    assert (ran.code, student.exists()) == (130, False)
    assert "going on after 24 of 60 lines" in ran.err
    # other training options are taken as long as training has not begun: this vocabulary cannot be learned
    teacher.break_at = None
    ran = distil(small_run, place, "--vocabulary", "5000")
    assert (ran.code, student.exists()) == (2, False)
    assert "hold only" in ran.err
    assert teacher.windows == windows, "each once"
    assert lines_of(place / "student.teacher.de") == [line.upper() for line in lines_of(place / "a.en")]
    assert distil(small_run, place, *LEARNED).code == 0
    told = refused(place, "--quiet", "distill", small_run, "--source", place / "a.en", "--out", student)
    assert "holds another run" in told
    first = digest(student)
    shutil.rmtree(student)
    for _ in range(2):  # between the two stages, and after both
        assert transduce("distill", "--resume", student).code == 0
        assert digest(student) == first
    assert teacher.windows == windows


def test_other_text_or_another_teacher_is_not_mixed_with_what_is_done(
    small_run: Path, bundle: Path, place: Path, teacher: Teacher
) -> None:
    teacher.break_at = 1 + 3 * WINDOW
    assert distil(small_run, place, *LEARNED).code == 130
    teacher.break_at = None
    given = ("--source", place / "a.en", "--out", place / "student", *STUDENT, *LEARNED)
    told = refused(place, "--quiet", "distill", bundle, *given)
    assert "student.teacher.de: begun otherwise: the model is another: give the former again" in told
    told = refused(place, "--quiet", "distill", small_run, *given, "--beam", "2")
    assert "beam was unset and now is 2" in told
    told = refused(place, "--quiet", "distill", small_run, *given, "--source", place / "a.en")
    assert "1 sources were given and now are 2" in told
    with (place / "a.en").open("a", encoding="utf-8") as file:
        file.write("One more.\n")
    told = refused(place, "--quiet", "distill", "--resume", place / "student")
    assert "the input had 60 lines and now has 61" in told
    order_of(place / "student").unlink()
    told = refused(place, "--quiet", "distill", small_run, *given)
    assert "no student.distill.json tells of it: choose another --out" in told


@pytest.mark.usefixtures("teacher")
def test_the_vocabulary_of_several_teachers_is_kept_and_the_real_pairs_are_learned_too(
    small_run: Path, place: Path
) -> None:
    ran = distil([small_run, small_run], place, "--keep-vocabulary", "--also", place / "a.de")
    assert ran.code == 0, ran.err
    assert "the student keeps the teacher's vocabulary" in ran.err
    before, after = open_bundle(small_run), open_bundle(place / "student")
    assert after.source_codec.fingerprint() == before.source_codec.fingerprint()
    prepared = recall(place / "student")
    pairs, held_out = len(prepared.train), len(prepared.valid_source)
    assert pairs + held_out == 2 * 60
    targets = [prepared.target_codec.decode(prepared.train.target[number]) for number in range(pairs)]
    real = set(lines_of(place / "a.de"))
    assert pairs // 2 == sum(target in real for target in targets) == sum(target.isupper() for target in targets)
    (work,) = json.loads(order_of(place / "student").read_text(encoding="utf-8"))["works"]
    assert work["settings"]["engine"] == "pytorch", "an ensemble's"
    assert work["settings"]["others"] == work["model"]


def test_teachers_with_two_vocabularies_are_refused(small_run: Path, bundle: Path, place: Path) -> None:
    given = ("--source", place / "a.en", "--out", place / "student", *STUDENT, *LEARNED)
    told = refused(place, "--quiet", "distill", small_run, bundle, *given)
    assert "its source vocabulary is not that of" in told


def test_mistakes_are_told_before_the_work(small_run: Path, place: Path) -> None:
    given = ("--source", place / "a.en", "--out", place / "student")
    for arguments, said in (
        ((small_run, "--out", place / "student"), "--source is missing"),
        ((small_run, "--source", place / "a.en"), "--out is missing"),
        (given, "no teacher"),
        ((small_run, *given, "--set", "train.stepz=1"), "unknown key 'train.stepz'"),
        ((small_run, *given, "--also", place / "a.de", "--also", place / "a.de"), "1 --source, 2 --also"),
        ((small_run, *given, "--keep-vocabulary", "--vocabulary", "500"), "not with --keep-vocabulary"),
        ((place / "none", *given), "none: no such directory"),
        ((small_run, "--resume", place / "student"), "--resume takes its settings from the run"),
        (("--resume", place / "student"), "no student.distill.json beside it"),
    ):
        assert said in refused(place, "--quiet", "distill", *arguments)


@pytest.mark.usefixtures("teacher")
def test_a_source_in_another_language_is_refused_unless_its_language_is_said(small_run: Path, place: Path) -> None:
    given = ("distill", small_run, "--source", place / "a.de", "--out", place / "student", *STUDENT, *LEARNED)
    told = refused(place, "--quiet", *given)
    assert f"a.de: is in de, and {small_run / 'model'} translates from en: give text in en" in told
    assert "say so by --lang en" in told
    assert transduce(*given, "--lang", "en").code == 0
    shutil.rmtree(place / "student")
    assert transduce("distill", "--resume", place / "student").code == 0, "what was said is remembered"


def test_what_training_would_refuse_is_told_before_the_translation(small_run: Path, place: Path) -> None:
    lines = lines_of(place / "a.en")
    (place / "gaps.en").write_text("".join(f"{line}\n" for line in [*lines[:-4], *[""] * 4]), encoding="utf-8")
    (place / "gap.en").write_text("".join(f"{line}\n" for line in [*lines[:-1], ""]), encoding="utf-8")
    (place / "short.de").write_text("Ja.\n", encoding="utf-8")
    source = ("--source", place / "a.en")
    for arguments, said in (
        (("--source", place / "gaps.en"), "gaps.en: 4 of 60 lines cannot be used (4 empty): that is more than 5%"),
        ((*source, "--also", place / "short.de"), "60 lines, "),
        ((*source, "--also", place / "none.de"), "none.de: cannot read"),
        ((*source, "--valid-source", place / "none.en", "--valid-target", place / "a.de"), "none.en: cannot read"),
        ((*source, "--valid-source", place / "a.en"), "1 source files, 0 target files"),
        ((*source, "--set", f'data.valid_pairs=["{place}/none.tsv"]'), "none.tsv: cannot read"),
        (
            (*source, "--keep-vocabulary", "--set", "text.vocabulary=500"),
            "text.vocabulary is 400 there, and 500 was set",
        ),
        ((*source, "--keep-vocabulary", "--set", f'train.start="{small_run}"'), "name no other"),
        ((*source, "--set", f'train.start="{place}/none"'), "none: no such directory"),
        ((*source, "--device", "tpu"), "train.device = 'tpu'"),
        (
            ("--source", place / "gap.en", "--set", "data.strict=true"),
            "gap.en: 1 of 60 lines cannot be used (1 empty): training refuses any",
        ),
        (("--source", place / "gaps.en", "--also", place / "a.de"), "4 of 60 lines cannot be used (4 empty): that is"),
    ):
        assert said in refused(place, "--quiet", "distill", small_run, *arguments, "--out", place / "student")
    assert not list(place.glob("student*"))


@pytest.mark.usefixtures("teacher")
def test_a_training_that_is_refused_leaves_the_translation_for_another(small_run: Path, place: Path) -> None:
    student = place / "student"
    ran = distil(small_run, place, *LEARNED, "--minutes", "1e-6")
    assert (ran.code, student.exists()) == (2, False)
    assert "an update takes about" in ran.err
    done = teacher_file(student, 1, "de").stat().st_mtime_ns
    assert distil(small_run, place, *LEARNED).code == 0
    assert teacher_file(student, 1, "de").stat().st_mtime_ns == done


def test_whoever_goes_on_may_stand_anywhere(
    small_run: Path, place: Path, teacher: Teacher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_run.parent)
    files = [os.path.relpath(place / f"a.{side}") for side in ("en", "de")]
    given = ("--source", files[0], "--valid-source", files[0], "--valid-target", files[1], "--out", place / "student")
    teacher.break_at = 1 + 3 * WINDOW
    assert transduce("distill", small_run.name, *given, *STUDENT, *LEARNED).code == 130
    teacher.break_at = None
    monkeypatch.chdir(place)
    assert transduce("distill", "--resume", "student").code == 0
    monkeypatch.chdir(place / "student")
    assert transduce("distill", "--resume", ".").code == 0
    assert "not a run" in refused(place, "--quiet", "distill", "--resume", "/")
    order_of(place / "student").write_text("{", encoding="utf-8")
    told = refused(place, "--quiet", "distill", "--resume", place / "student")
    assert "student.distill.json: damaged, or of another version: remove it and student.teacher*" in told


@pytest.mark.usefixtures("teacher")
def test_the_run_finds_its_text_from_everywhere(small_run: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    valid = ("--valid-source", "a.en", "--valid-target", "a.de")
    given = ("distill", small_run, "--source", "a.en", *valid, "--out", "student", *STUDENT, *LEARNED)
    assert transduce(*given).code == 0
    named = read_toml(place / "student" / "config.toml")["data"]
    assert named["target"] == [str(place / "student.teacher.de")]
    assert named["source"] == [str(place / "a.en")]


def test_files_are_named_after_the_run() -> None:
    assert teacher_file(Path("runs/student"), 1, "de") == Path("runs/student.teacher.de")
    assert teacher_file(Path("runs/student"), 2, None) == Path("runs/student.teacher-2.txt")


def test_a_log_hears_how_far_it_is_and_how_long_it_will_take(translator: Translator) -> None:
    heard, now = io.StringIO(), [0.0]
    display = Display(Console(file=heard, width=200))
    task = Synthesis(translator, Text(), {"n_best": 1}, iter(()), 10, display, lines=100, clock=lambda: now[0])
    task.told.append((0.0, 40))  # lines that were done before
    for done in range(50, 101, 10):
        now[0] += NOTE_EVERY
        task.tell(done)
    assert task.answer([Row("", None)], 100) == b"\n"
    told = heard.getvalue().split("\n")
    assert told[0] == "translating: 50 of 100 lines, about 0:01:15 left"
    assert told[4:] == ["translating: 90 of 100 lines, about 0:00:15 left", ""]
