"""Faults in text that a run must survive: lines of any length, garbage, files that do not fit or cannot be read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from command import transduce
from garbage import read_garbage, write_garbage
from transduce import Trainer, Translator
from trials import SMALL, Recorder, finite


def test_empty_short_and_very_long_lines_are_counted_and_harm_nothing(small_run: Path, tmp_path: Path) -> None:
    pairs = [("The dog sees.", "Der Hund sieht.")] * 300 + [("", "x"), ("a", "b"), ("word " * 900, "Wort " * 900)]
    pairs += [("x " * 10_000, "y " * 10_000)]
    for name, side in (("a.en", 0), ("a.de", 1)):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8", newline="\n")
    files = [f"data.source=['{tmp_path / 'a.en'}']", f"data.target=['{tmp_path / 'a.de'}']"]
    heard = Recorder()
    settings = [*files, *SMALL, "text.vocabulary=280", "train.steps=6"]
    Trainer(tmp_path / "run", preset="tiny", settings=settings, listener=heard).run()
    said = "\n".join(heard.said)
    assert "empty source 1 (line 301)" in said
    assert "over-long 1 (line 304)" in said
    assert "1 pairs with more than data.max_length = 256 tokens are left out" in said
    assert finite(tmp_path / "run")
    warned: list[str] = []
    translator = Translator.load(tmp_path / "run", warn=warned.append)
    found = translator.translate(["", "a", "x " * 5_000], beam=1)
    assert (len(found), found[0].text) == (3, "")
    assert len(warned) == 1
    assert "line 3: " in warned[0]


def test_garbage_is_counted_by_reason_with_its_lines_and_shifts_no_pair(tmp_path: Path) -> None:
    wrong = write_garbage(tmp_path, 20_000)
    found = read_garbage(tmp_path)
    assert found["misaligned"] == 0
    assert found["dropped"] == {kind: len(lines) for kind, lines in wrong.items()}
    assert found["usable"] == 20_000 - sum(map(len, wrong.values()))
    assert (found["boms"], found["crs"]) == (1, 40)
    first = {kind: [f"{tmp_path / 'train.en'}:{line}" for line in lines[:5]] for kind, lines in wrong.items()}
    assert {kind: told["first"] for kind, told in found["report"]["unusable"].items()} == first


def corpus(folder: Path, source: bytes, target: bytes, suffix: str = "") -> list[str | Path]:
    paths = folder / f"a.en{suffix}", folder / f"a.de{suffix}"
    for path, data in zip(paths, (source, target), strict=True):
        path.write_bytes(data)
    return ["--source", paths[0], "--target", paths[1]]


def refused(folder: Path, *files: str | Path) -> str:
    """What train says of files that it cannot use; it leaves no run behind."""
    ran = transduce("train", *files, "--out", folder / "run")
    assert (ran.code, ran.out) == (2, "")
    assert not (folder / "run").exists()
    return ran.err.split("\n")[-2]


def test_line_counts_that_differ_are_refused_with_both_and_the_place(tmp_path: Path, phrasebook: Path) -> None:
    sides = [(phrasebook / f"train.{lang}").read_bytes().split(b"\n")[:3000] for lang in ("en", "de")]
    del sides[0][1500]
    said = refused(tmp_path, *corpus(tmp_path, *(b"\n".join(side) + b"\n" for side in sides)))
    assert "a.en: 2,999 lines" in said
    assert "a.de: 3,000" in said
    del sides[1][2500]  # as many again, but those between do not belong together
    files = corpus(tmp_path, *(b"\n".join(side) + b"\n" for side in sides))
    ran = transduce("doctor", *files, "--json")
    (shift, *_) = json.loads(ran.out)["train"]["shifts"]
    assert abs(shift["line"] - 1500) < 100


@pytest.mark.parametrize("kind", ["truncated", "bomb", "fifo", "directory", "missing"])
def test_files_that_cannot_be_used_are_refused_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    packed = gzip.compress(os.urandom(20_000).hex().encode() + b"\n")
    files = corpus(tmp_path, packed, packed, ".gz")
    path = tmp_path / "a.de.gz"
    if kind == "truncated":
        path.write_bytes(packed[: len(packed) // 2])
    elif kind == "bomb":
        path.write_bytes(gzip.compress(b"\0" * (64 << 20)))
    else:
        path.unlink()
        {"fifo": os.mkfifo, "directory": os.mkdir, "missing": str}[kind](path)
    said = refused(tmp_path, *files)
    assert "a.de.gz" in said
    wanted = {"truncated": "ends too early", "bomb": "unusable", "fifo": "a pipe", "directory": "is a directory"}
    assert wanted.get(kind, "No such file") in said
