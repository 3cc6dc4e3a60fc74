"""A conversion is made once, is whole, and stands where it can; the choice of an engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.bundle import Bundle, open_bundle, read_manifest
from transduce.decode import conversion
from transduce.decode.choice import open_engine
from transduce.decode.conversion import ready
from transduce.errors import MissingExtra, UserError

CONVERT = """
import sys
from pathlib import Path
from transduce.bundle import open_bundle
from transduce.decode.conversion import ready
print("ready", flush=True)
sys.stdin.readline()
print(ready(open_bundle(Path(sys.argv[1])), print))
"""

TRANSLATE = """
import sys
from pathlib import Path
from transduce.bundle import open_bundle
from transduce.decode.choice import open_engine
from transduce.decode.translator import Translator
bundle = open_bundle(Path(sys.argv[1]))
engine = open_engine(bundle, "auto", lambda message: None)
translator = Translator(engine, bundle.source_codec, bundle.target_codec, bundle.config.search)
print(len(translator.translate(["A dog barks.", "The cat sleeps."])), engine.name, "torch" in sys.modules)
"""


@pytest.fixture
def copied(small_run: Path, tmp_path: Path) -> Bundle:
    shutil.copytree(small_run / "model", tmp_path / "bundle", ignore=shutil.ignore_patterns("ctranslate2"))
    return open_bundle(tmp_path / "bundle")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "transduce" / "ctranslate2"


@pytest.fixture
def sealed(copied: Bundle, cache: Path) -> Bundle:
    """Nothing can be made in it, not even by root, whom no permission stops."""
    (copied.path / "ctranslate2").write_text("in the way", encoding="utf-8")
    return copied


def test_a_conversion_is_made_once_and_stands_in_the_bundle(copied: Bundle, cache: Path) -> None:
    heard: list[str] = []
    place = ready(copied, heard.append)
    assert place == copied.path / "ctranslate2" / "int8"
    assert "model.bin" in read_manifest(place).files
    made = (place / "model.bin").stat().st_mtime_ns
    assert ready(copied, heard.append) == place
    assert (place / "model.bin").stat().st_mtime_ns == made
    assert len(heard) == 1
    assert "once" in heard[0]
    assert not cache.exists()
    open_bundle(copied.path)  # is still what its manifest says


def test_compute_types_stand_side_by_side(copied: Bundle) -> None:
    sizes = [(ready(copied, print, compute_type=kind) / "model.bin").stat().st_size for kind in ("int8", "float32")]
    assert sizes[0] < sizes[1]
    assert {place.name for place in (copied.path / "ctranslate2").iterdir()} == {"int8", "float32", "lock"}


def test_beside_a_bundle_that_cannot_be_written_to_it_stands_in_the_cache(sealed: Bundle, cache: Path) -> None:
    heard: list[str] = []
    place = ready(sealed, heard.append)
    assert place.parent == cache
    assert ready(sealed, heard.append) == place
    assert len(heard) == 1


def test_with_no_place_at_all_the_error_names_both(sealed: Bundle, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("in the way", encoding="utf-8")
    with pytest.raises(UserError, match="set XDG_CACHE_HOME") as error:
        ready(sealed, print)
    assert str(sealed.path) in str(error.value)
    assert str(cache) in str(error.value)


@pytest.mark.parametrize("name", ["model.bin", "config.json", "origin.json", "manifest.json"])
def test_a_damaged_conversion_is_made_again_with_a_word_about_it(copied: Bundle, name: str) -> None:
    place = ready(copied, print)
    whole = (place / name).read_bytes()
    (place / name).write_bytes(whole[:-9] + b"X" + whole[-8:])
    heard: list[str] = []
    assert ready(copied, heard.append) == place
    assert (place / name).read_bytes() == whole
    assert len(heard) == 2
    assert heard[0].startswith(f"{place}: damaged")


@pytest.mark.parametrize("fact", ["bundle", "ctranslate2", "compute_type"])
def test_a_conversion_of_another_origin_is_made_again(copied: Bundle, fact: str) -> None:
    place = ready(copied, print)
    origin = json.loads((place / "origin.json").read_text(encoding="utf-8"))
    conversion.write_json(place / "origin.json", {**origin, fact: "another"})
    (place / "manifest.json").unlink()
    conversion.write_manifest(place, {})
    heard: list[str] = []
    assert ready(copied, heard.append) == place
    assert json.loads((place / "origin.json").read_text(encoding="utf-8")) == origin
    assert len(heard) == 1


def test_the_cache_keeps_those_used_last(sealed: Bundle, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "KEPT", 3)
    for age in range(5):
        (cache / f"old{age}").mkdir(parents=True)
        (cache / f"old{age}" / "model.bin").touch()
        os.utime(cache / f"old{age}", (1000 - age, 1000 - age))
    place = ready(sealed, print)
    assert {each.name for each in cache.iterdir()} == {place.name, "old0", "old1", "lock"}


def test_two_processes_at_once_make_one_conversion(copied: Bundle) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CONVERT, str(copied.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    with start() as one, start() as other:
        for process in (one, other):
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in (one, other):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate()[0].splitlines() for process in (one, other)]
    assert [output[-1] for output in outputs] == [str(copied.path / "ctranslate2" / "int8")] * 2
    assert sum(len(output) - 1 for output in outputs) == 1  # one of them said that it converts


def test_a_converted_bundle_translates_without_torch(copied: Bundle) -> None:
    ready(copied, print)
    done = subprocess.run(
        [sys.executable, "-c", TRANSLATE, str(copied.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "2 ctranslate2 False\n"


def windowed(bundle: Bundle) -> Bundle:
    """A variant that CTranslate2 has not."""
    model = bundle.config.model.model_copy(update={"window": 4})
    return replace(bundle, config=bundle.config.model_copy(update={"model": model}))


def test_ctranslate2_is_chosen_where_it_can_run_the_model(copied: Bundle) -> None:
    heard: list[str] = []
    assert open_engine(copied, "auto", heard.append).name == "ctranslate2"
    assert open_engine(copied, "ctranslate2", heard.append).name == "ctranslate2"
    assert [message.split(",")[0] for message in heard[1:]] == ["engine: CTranslate2"] * 2


def test_pytorch_is_chosen_where_it_is_asked_for_or_needed(copied: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    assert open_engine(copied, "pytorch", heard.append).name == "pytorch"
    assert open_engine(windowed(copied), "auto", heard.append).name == "pytorch"
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as if it were not installed
    assert open_engine(copied, "auto", heard.append).name == "pytorch"
    for message, reason in zip(heard, ["asked for", "window 4", "not installed"], strict=True):
        assert message.startswith("engine: PyTorch (")
        assert reason in message


def test_pytorch_is_chosen_where_a_conversion_has_no_place(sealed: Bundle, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("in the way", encoding="utf-8")
    heard: list[str] = []
    assert open_engine(sealed, "auto", heard.append).name == "pytorch"
    assert len(heard) == 1
    assert "cannot write" in heard[0]


def test_ctranslate2_that_is_asked_for_and_cannot_be_is_an_error(
    copied: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="CTranslate2 has no restricted self-attention"):
        open_engine(windowed(copied), "ctranslate2", print)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingExtra, match="fast"):
        open_engine(copied, "ctranslate2", print)
