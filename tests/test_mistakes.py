"""Every mistake is one line on stderr with the place and the way out, exit code 2, and nothing on disk has changed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from command import Ran, transduce
from transduce.cli.lines import read_file

Arguments = list[str | Path]
SMALL = ("--preset", "tiny", "--vocabulary", "300", "--steps", "2", "--threads", "1")
SHAPE = ("model.d_model=16", "model.d_ff=16", "model.encoder_layers=1", "model.decoder_layers=1")
SETS = tuple(part for setting in SHAPE for part in ("--set", setting))


@pytest.fixture
def place(tmp_path: Path, phrasebook: Path) -> Path:
    """A directory with two files of 40 lines, a.en and a.de."""
    for side in ("en", "de"):
        lines = (phrasebook / f"valid.{side}").read_text(encoding="utf-8").split("\n")[:40]
        (tmp_path / f"a.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def tree(directory: Path) -> dict[str, str]:
    """Everything in a directory: what it is, and of files the hash."""
    found = {}
    for path in directory.rglob("*"):
        mode = path.lstat().st_mode
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
        found[path.relative_to(directory).as_posix()] = f"{stat.filemode(mode)} {content}"
    return found


def refused(place: Path, *arguments: str | Path, stdin: bytes = b"") -> str:
    """The one line that a mistake is answered by."""
    before = tree(place)
    ran: Ran = transduce(*arguments, stdin=stdin)
    assert (ran.code, ran.out) == (2, ""), ran.err
    lines = [line for line in ran.err.split("\n") if not line.startswith("warning: ")]
    assert len(lines) == 2, ran.err
    assert lines[0].startswith("transduce: ")
    assert tree(place) == before
    return lines[0].removeprefix("transduce: ")


def train(place: Path, *more: str | Path) -> Arguments:
    files = ("--source", place / "a.en", "--target", place / "a.de", "--out", place / "run")
    return ["--quiet", "train", *files, *SMALL, *more]


def test_what_the_mistakes_begin_from_is_none(place: Path) -> None:
    ran = transduce(*train(place, *SETS))
    assert (ran.code, ran.lines) == (0, [str(place / "run" / "model")]), ran.err


def truncated_gzip() -> bytes:
    whole = gzip.compress(b"".join(os.urandom(30).hex().encode() + b"\n" for _ in range(500)))
    return whole[: len(whole) // 2]


# what the source file is instead of a text, and what is said of it
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "a.en: cannot read: No such file or directory"),
    "empty": (lambda path: path.write_bytes(b""), "a.en: is empty"),
    "blank": (lambda path: path.write_bytes(b"\n" * 40), "a.de: 40 of 40 pairs are unusable: empty source 40"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "a.en: is a directory"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "a.en: a pipe or device can be read only once"),
    "short": (lambda path: path.write_bytes(b"one line\n"), "a.en: 1 lines, "),
    "UTF-16": (lambda path: path.write_bytes("a\n".encode("utf-16")), "a.en: line 1 looks like UTF-16"),
    "half a gzip file": (lambda path: path.write_bytes(truncated_gzip()), "a.en: the compressed data ends too early"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_training_file_that_is_none(place: Path, damage: str) -> None:
    spoil, message = DAMAGE[damage]
    spoil(place / "a.en")
    assert message in refused(place, *train(place))
    if damage not in ("blank", "short"):  # those the doctor reports
        assert message in refused(place, "doctor", "--source", place / "a.en", "--target", place / "a.de")


@pytest.mark.parametrize("damage", ["missing", "empty", "a directory", "a pipe", "UTF-16", "half a gzip file"])
def test_an_input_that_is_none_stops_the_work_before_its_first_line(
    place: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr("transduce.cli.translate.WINDOW", 1)
    spoil, message = DAMAGE[damage]
    spoil(place / "a.en")
    assert message in refused(place, "translate", bundle, place / "a.de", place / "a.en")
    assert message in refused(place, "translate", bundle, place / "a.de", place / "a.en", "-o", place / "out")
    assert message in refused(place, "evaluate", bundle, "--source", place / "a.en", "--reference", place / "a.de")
    assert message in refused(place, "evaluate", "--hypothesis", place / "a.en", "--reference", place / "a.de")


def test_a_file_that_may_not_be_read(place: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Path.open

    def refuse(self: Path, *arguments: object, **options: object) -> object:
        if self.name == "a.en":
            raise PermissionError(13, "Permission denied", str(self))
        return opening(self, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    for arguments in (train(place), ["translate", bundle, place / "a.en"]):
        ran = transduce(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert "a.en: cannot read: Permission denied" in ran.err
    assert not (place / "run").exists()


def test_a_line_of_over_a_mebibyte_is_cut_and_keeps_its_line(place: Path) -> None:
    (place / "a.en").write_bytes(b"a\n" + b"b" * (1 << 20) + b"c\nd\n")
    first, second, third = read_file(place / "a.en")
    assert (first, third) == (("a", None), ("d", None))
    assert second == ("b" * (1 << 20), "over 1 MiB: the rest is cut off")


# flags of `train` after --source and --target, and what is said of them
TRAINING: dict[str, tuple[list[str], str]] = {
    "unknown preset": (["--preset", "tinny"], "unknown preset 'tinny': did you mean 'tiny'?"),
    "unknown key": (["--set", "train.stesp=3"], "did you mean 'train.steps'?"),
    "no value": (["--set", "train.steps"], "write section.key=value"),
    "wrong type": (["--set", "train.steps=few"], "train.steps = 'few': should be a valid integer"),
    "out of range": (["--steps", "0"], "train.steps = 0: should be greater than 0"),
    "unknown device": (["--device", "tpu"], "train.device = 'tpu': should be 'auto', 'cpu', 'cuda' or 'mps'"),
    "too many subwords": (["--vocabulary", "30000"], "30000"),
    "too few subwords": (["--vocabulary", "8"], "vocabulary"),
    "no such validation": (["--valid-source", "v.en", "--valid-target", "v.de"], "v.en: cannot read"),
    "half a validation": (["--valid-source", "v.en"], "1 source files, 0 target files"),
    "pairs as well": (["--pairs", "p.tsv"], "p.tsv: give either pairs or source and target files"),
    "heads do not divide": (["--set", "model.num_heads=3"], "d_model 128 is not a multiple of num_heads 3"),
    "nothing is short enough": (["--set", "data.max_length=1"], "no pair has at most data.max_length = 1 tokens"),
}


@pytest.mark.parametrize("mistake", TRAINING)
def test_a_setting_that_is_none(place: Path, mistake: str) -> None:
    flags, message = TRAINING[mistake]
    assert message in refused(place, *train(place, *flags))


def test_training_without_files_or_with_one_side(place: Path) -> None:
    assert "no training data" in refused(place, "train", "--out", place / "run")
    assert "1 source files, 0 target" in refused(place, "train", "--source", place / "a.en", "--out", place / "run")
    assert "0 source files, 1 target" in refused(place, "train", "--target", place / "a.de", "--out", place / "run")


def test_training_without_a_directory_or_with_two(place: Path) -> None:
    assert "--out is missing" in refused(place, "train", "--source", place / "a.en", "--target", place / "a.de")
    assert "--resume takes its settings from the run" in refused(place, *train(place, "--resume", place / "run"))


def spoil_lines(path: Path, *numbers: int) -> None:
    lines = path.read_bytes().split(b"\n")
    for number in numbers:
        lines[number - 1] = b"\xff"
    path.write_bytes(b"\n".join(lines))


def test_too_many_unusable_pairs(place: Path) -> None:
    spoil_lines(place / "a.en", 3, 5, 7)
    said = refused(place, *train(place))
    assert "3 of 40 pairs are unusable: bad UTF-8 3 (lines 3, 5, 7): that is more than 5%" in said


@pytest.mark.parametrize("preset", [(), ("--preset", "tiny")])
def test_nothing_to_learn_from_within_minutes(place: Path, preset: Arguments) -> None:
    spoil_lines(place / "a.en", *range(1, 41))
    files = ("--source", place / "a.en", "--target", place / "a.de", "--out", place / "run")
    said = refused(place, "--quiet", "train", *files, *preset, "--minutes", "10")
    assert "40 of 40 pairs are unusable" in said


def test_one_unusable_pair_where_none_is_allowed(place: Path) -> None:
    spoil_lines(place / "a.de", 9)
    said = refused(place, *train(place, "--strict"))
    assert "1 of 40 pairs are unusable: bad UTF-8 1 (line 9): mend or remove them" in said


@pytest.mark.parametrize("text", [b"[model\n", b'x = "\xff"\n', b"[model]\nd_modle = 8\n", b"[model]\nd_model = 7\n"])
def test_a_config_file_that_is_none(place: Path, text: bytes) -> None:
    (place / "c.toml").write_bytes(text)
    assert "c.toml: " in refused(place, *train(place, "--config", place / "c.toml"))
    assert "c.toml: " in refused(place, "config", "--config", place / "c.toml")
    assert "d.toml: cannot read: No such file" in refused(place, "config", "--config", place / "d.toml")


def test_a_directory_that_holds_another_run(place: Path, run: Path) -> None:
    shutil.copytree(run, place / "run")
    assert f"holds another run: `--resume {place}/run` goes on with it" in refused(place, *train(place))


def test_a_directory_that_holds_something_else(place: Path) -> None:
    (place / "run").mkdir()
    (place / "run" / "thesis.tex").write_bytes(b"mine")
    assert "run: exists and is not a run" in refused(place, *train(place))
    shutil.rmtree(place / "run")
    (place / "run").write_bytes(b"a file")
    assert "run: exists and is not a run" in refused(place, *train(place))


def test_resuming_what_is_no_run(place: Path, bundle: Path) -> None:
    (place / "empty").mkdir()
    for name in ("empty", "missing", "a.en"):
        assert f"{name}: no config.toml: not a run" in refused(place, "train", "--resume", place / name)
    (place / "empty" / "config.toml").write_bytes(b"[train]\nstesp = 3\n")
    assert "did you mean 'train.steps'?" in refused(place, "train", "--resume", place / "empty")


def test_resuming_a_bundle(place: Path, bundle: Path) -> None:
    shutil.copytree(bundle, place / "bundle")
    assert "bundle: " in refused(place, "train", "--resume", place / "bundle")


def test_an_empty_directory_stays_when_training_fails(place: Path) -> None:
    (place / "run").mkdir()
    refused(place, *train(place, "--vocabulary", "30000"))
    assert list((place / "run").iterdir()) == []


def test_a_gpu_where_there_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "train.device = cuda: torch sees no CUDA device here" in refused(place, *train(place, "--device", "cuda"))


def test_an_output_that_exists(place: Path, bundle: Path) -> None:
    (place / "link").symlink_to("nowhere")
    for name in ("a.de", "link", "."):
        flags: Arguments = ["--output", place / name]
        assert "exists: choose another --output" in refused(place, "translate", bundle, place / "a.en", *flags)
        scoring: Arguments = ["evaluate", bundle, "--source", place / "a.en", "--reference", place / "a.de", *flags]
        assert "exists: choose another --output" in refused(place, *scoring)


def test_an_output_that_has_nowhere_to_go(place: Path, bundle: Path) -> None:
    said = refused(place, "translate", bundle, "--output", place / "missing" / "out", stdin=b"a\n")
    assert "missing/out: cannot write: No such file or directory" in said


def test_a_model_that_is_none(place: Path, bundle: Path, run: Path) -> None:
    assert "no such directory" in refused(place, "translate", place / "missing")
    assert "no such directory" in refused(place, "translate", place / "a.en")
    assert "neither a bundle" in refused(place, "translate", place)
    assert "a checkpoint" in refused(place, "translate", next((run / "checkpoints").glob("step-*")))
    copy = shutil.copytree(bundle, place / "copy")
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    assert "model.safetensors: damaged: its SHA-256" in refused(place, "translate", copy)
    (copy / "manifest.json").write_text(json.dumps({"format": 9}))
    assert "format 9, and this version reads up to 1: upgrade" in refused(place, "translate", copy)


def test_scores_that_would_compare_with_nothing(place: Path, bundle: Path) -> None:
    (place / "short").write_bytes(b"a\nb\n")
    (place / "marked").write_text("▁The ▁dog\n" * 40, encoding="utf-8")
    reference: Arguments = ["--reference", place / "a.de"]
    said = refused(place, "evaluate", "--hypothesis", place / "short", *reference)
    assert f"short: 2 lines, {place}/a.de: 40: line i must answer line i" in said
    assert "short: 2 lines" in refused(place, "evaluate", bundle, "--source", place / "short", *reference)
    said = refused(place, "evaluate", "--hypothesis", place / "marked", *reference)
    assert "40 of 40 hypotheses hold subword marks" in said


def test_scoring_without_a_reference_or_with_two_hypotheses(place: Path, bundle: Path) -> None:
    text, model = place / "a.de", str(bundle)
    combinations: list[Arguments] = [
        [],
        [model],
        [model, "--source", text],
        [model, "--reference", text],
        ["--hypothesis", text],
        ["--source", text, "--reference", text],
        [model, "--source", text, "--reference", text, "--hypothesis", text],
        ["--source", text, "--reference", text, "--hypothesis", text],
    ]
    for arguments in combinations:
        assert "give MODEL --source FILE --reference FILE" in refused(place, "evaluate", *arguments)
    for option in (["--beam", "2"], ["--alpha", "0.5"], ["--output", "out"]):
        said = refused(place, "evaluate", "--hypothesis", text, "--reference", text, *option)
        assert "belong to a MODEL" in said


def test_a_refusal_of_the_machine_is_no_bug_of_ours(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("transduce.bundle.locate", refuse)
    assert refused(place, "translate", place) == f"{place}: Permission denied"
