"""`transduce verify` tells what holds from what does not."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command import transduce
from transduce.bundle import WEIGHTS, weights_digest
from transduce.decode.translator import Translation, Translator
from transduce.train.state import checkpoints
from transduce.verify import lines as verify_lines
from transduce.verify import resume as verify_resume
from transduce.verify.lines import Probe, compare


@pytest.fixture
def copy(small_run: Path, tmp_path: Path) -> Path:
    """A run that a test may damage."""
    return shutil.copytree(small_run, tmp_path / "run")


def test_a_whole_run_is_told_with_the_digest_of_each_model(small_run: Path) -> None:
    ran = transduce("verify", small_run)
    assert (ran.code, ran.err) == (0, "")
    directories = [*checkpoints(small_run / "checkpoints"), small_run / "model"]
    for line, directory in zip(ran.lines, directories, strict=True):
        total = hashlib.sha256()
        for name, weight in sorted(load_file(directory / WEIGHTS).items()):
            total.update(json.dumps([name, "float32", list(weight.shape)]).encode() + weight.numpy().tobytes())
        assert line.startswith(f"{directory}: ")
        assert line.endswith(f"weights {total.hexdigest()}")


def test_a_bundle_by_itself_has_the_digest_that_its_run_tells(small_run: Path) -> None:
    assert transduce("verify", small_run / "model").lines == transduce("verify", small_run).lines[-1:]


def test_every_damaged_file_is_named(copy: Path) -> None:
    newest = checkpoints(copy / "checkpoints")[-1]
    (copy / "model" / "README.md").write_text("another card", encoding="utf-8")
    (copy / "model" / WEIGHTS).unlink()
    (newest / "state.json").write_bytes(b"")
    (checkpoints(copy / "checkpoints")[0] / "manifest.json").write_bytes(b"{}")
    ran = transduce("verify", copy)
    assert ran.code == 1
    for name in ("model/README.md: damaged", f"model/{WEIGHTS}: missing", f"{newest.name}/state.json: damaged"):
        assert any(name in line for line in ran.lines), name
    assert any("manifest.json: damaged" in line for line in ran.lines)
    assert not any(line.startswith(f"{copy}/model: ") for line in ran.lines)


def test_a_digest_is_of_names_types_shapes_and_numbers_and_not_of_their_order() -> None:
    weights = {"a": torch.arange(6.0), "b": torch.ones(2)}
    digest = weights_digest(weights)
    assert weights_digest(dict(reversed(weights.items()))) == digest
    others = [
        {"a": torch.arange(6.0), "c": torch.ones(2)},
        {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)},
        {"a": torch.arange(6.0), "b": torch.ones(2).view(torch.int32)},
        {"a": torch.arange(6.0), "b": torch.tensor([1.0, 1.0 + 2**-23])},
        {"a": torch.arange(6.0)},
    ]
    assert len({digest, *map(weights_digest, others)}) == 6
    half = {"x": torch.tensor(1.0, dtype=torch.bfloat16)}
    assert weights_digest(half) != weights_digest({"x": torch.tensor(2.0, dtype=torch.bfloat16)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no such directory: give a run or a bundle"),
        (["batch", "nowhere"], "nowhere: no data.json"),
        (["resume", "nowhere"], "nowhere: no config.toml and data.json"),
        (["bach", "run"], "give a run or a bundle, or resume, batch or lines"),
        (["nowhere", "--steps", "9"], "--steps: belongs to `transduce verify resume`"),
        (["lines", "nowhere", "--kills", "9"], "--kills: belongs to `transduce verify resume`"),
        (["resume", "nowhere", "--file", "x"], "--file: belongs to `transduce verify batch or lines`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    ran = transduce("verify", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_what_has_no_manifest_is_refused(tmp_path: Path) -> None:
    assert "neither a bundle" in transduce("verify", tmp_path).err


def test_sentences_are_the_same_in_any_batch(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(
        "The dog sees the cat.\n\nA house is old.\nThe dog sees the cat.\n", encoding="utf-8"
    )
    ran = transduce("verify", "batch", small_run, "--file", tmp_path / "text")
    assert (ran.code, ran.lines) == (0, ["2 of 2 sentences (100.00%) are the same in any batch"])


def test_a_translation_that_depends_on_its_batch_is_found(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def translate(self: Translator, lines: list[str]) -> list[Translation]:
        return [Translation(f"one of {len(lines)}", 0.0, 0.0) for _ in lines]

    monkeypatch.setattr(Translator, "translate", translate)
    ran = transduce("verify", "batch", run)
    assert ran.code == 1
    assert ran.lines[0].startswith("0 of ")
    assert "    alone:    one of 1" in ran.lines
    assert "    together: one of 7" in ran.lines


def test_nasty_lines_come_out_in_their_places(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_lines, "TOKENS", 1100)
    ran = transduce("verify", "lines", run)
    assert (ran.code, ran.lines) == (0, ["28 lines in, 28 lines out, in order; 14 of them nasty"])


PROBES = [Probe(b"one", "eins"), Probe(b"", ""), Probe(b"a\0", None), Probe(b"two", "zwei")]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("eins\n\nx\nzwei\n", None),
        ("eins\n\nx\nzwei", "not ended"),
        ("eins\n\nzwei\n", "4 lines in, 3 lines out"),
        ("eins\n\nx\nzwei\n\n", "4 lines in, 5 lines out"),
        ("zwei\n\nx\neins\n", "line 1: b'one' gave 'zwei', not 'eins'"),
        ("eins\nx\n\nzwei\n", "line 2: b'' gave 'x', not ''"),
    ],
)
def test_a_line_lost_added_or_out_of_place_is_found(output: str, problem: str | None) -> None:
    found = compare(PROBES, output.encode())
    assert found == [] if problem is None else problem in found[0]


def test_a_killed_run_that_ends_otherwise_is_found(small_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tamper(run: Path, generator: object, *, interval: float) -> bool:
        path = run / "config.toml"
        path.write_text(path.read_text(encoding="utf-8").replace("\nseed = 1\n", "\nseed = 2\n"), encoding="utf-8")
        return True

    monkeypatch.setattr(verify_resume, "kill_once", tamper)
    ran = transduce("--quiet", "verify", "resume", small_run, "--steps", "4", "--kills", "1")
    assert ran.code == 1
    assert "4 steps, killed 1 times (0 of them inside a save) and resumed: ended DIFFERENTLY" in ran.out


def test_a_run_that_cannot_be_resumed_says_why(small_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(small_run, tmp_path / "run")
    shutil.rmtree(copy / "data")
    ran = transduce("--quiet", "verify", "resume", copy, "--steps", "4")
    assert ran.code == 2
    assert "transduce: unbroken run: exit code 2: transduce: " in ran.err
    assert str(copy / "data") in ran.err
