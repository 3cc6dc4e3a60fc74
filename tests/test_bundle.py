"""A bundle is what it was when it was written, tells nothing of where that was, and runs nothing when it is opened."""

from __future__ import annotations

import getpass
import hashlib
import io
import json
import pickle
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.bundle import (
    WEIGHTS,
    Bundle,
    load_model,
    locate,
    open_bundle,
    read_manifest,
    unique_weights,
    write_bundle,
    write_manifest,
)
from transduce.config import Config, CorpusConfig
from transduce.errors import BundleError, UserError

FILES = ("README.md", "codec/joint/codec.json", "codec/joint/subwords.model", "config.toml", WEIGHTS)
LANGUAGES = {"languages": {"source": "en", "target": "de"}}


@pytest.fixture
def copy(bundle: Path, tmp_path: Path) -> Path:
    """A bundle that a test may damage."""
    return shutil.copytree(bundle, tmp_path / "copy")


def content(directory: Path) -> dict[str, bytes]:
    found = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


def manifest(directory: Path) -> dict[str, object]:
    table = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    assert isinstance(table, dict)
    return table


def seal(directory: Path, **facts: object) -> None:
    """Make a manifest that fits what is there now, as one who means harm would."""
    (directory / "manifest.json").unlink()
    write_manifest(directory, LANGUAGES | facts)


def rewrite(path: Path, opened: Bundle, *, config: Config | None = None, card: str = "card") -> None:
    write_bundle(
        path,
        config=config or opened.config,
        source_codec=opened.source_codec,
        target_codec=opened.target_codec,
        languages=(opened.source_lang, opened.target_lang),
        weights=unique_weights(load_model(opened)),
        card=card,
    )


def own(bundle: Path) -> dict[str, bytes]:
    """The files of a bundle without what was made of them for CTranslate2."""
    return {name: data for name, data in content(bundle).items() if not name.startswith("ctranslate2/")}


def test_the_manifest_names_the_format_the_languages_and_the_hash_of_every_file(bundle: Path) -> None:
    table = manifest(bundle)
    assert table["format"] == 1
    assert table["languages"] == {"source": "en", "target": "de"}
    files = {name: data for name, data in own(bundle).items() if name != "manifest.json"}
    assert sorted(files) == sorted(FILES)
    assert table["files"] == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def test_no_file_tells_where_or_by_whom_it_was_made(bundle: Path, run: Path, session_directory: Path) -> None:
    config = (run / "config.toml").read_text(encoding="utf-8")
    assert str(session_directory) in config  # the run needs the paths; the bundle must not have them
    secrets = [str(session_directory), str(Path.home()), getpass.getuser(), socket.gethostname()]
    said = content(bundle)
    said.pop("ctranslate2/int8/model.bin", None)  # numbers: any bytes
    said[WEIGHTS] = said[WEIGHTS][: 8 + struct.unpack("<Q", said[WEIGHTS][:8])[0]]  # after it, numbers: any bytes
    for secret in secrets:
        word = re.compile(rb"(?<![A-Za-z0-9])" + re.escape(secret.encode()) + rb"(?![A-Za-z0-9])")
        assert [name for name, data in said.items() if word.search(data)] == [], secret


@pytest.mark.parametrize("path", ["/home/someone/secret/a.en", "../secret/a.en", r"C:\secret\a.en"])
def test_training_files_are_kept_by_name_only(bundle: Path, tmp_path: Path, path: str) -> None:
    opened = open_bundle(bundle)
    files = {"source": (path,), "target": (path,), "valid_source": (path,), "valid_target": (path,)}
    corpora = (CorpusConfig(source=(path,), target=(path,)), CorpusConfig(pairs=(path,)))
    data = opened.config.data.model_copy(update={**files, "corpora": corpora, "store": "/home/someone/secret"})
    train = opened.config.train.model_copy(update={"start": "/home/someone/secret/run"})
    rewrite(tmp_path / "new", opened, config=opened.config.model_copy(update={"data": data, "train": train}))
    assert all(b"secret" not in data for data in content(tmp_path / "new").values())
    assert open_bundle(tmp_path / "new").config.data.source == ("a.en",)


def test_what_was_written_is_what_is_read(bundle: Path, tmp_path: Path) -> None:
    opened = open_bundle(bundle)
    rewrite(tmp_path / "new", opened, card=(bundle / "README.md").read_text(encoding="utf-8"))
    assert content(tmp_path / "new") == own(bundle)


def test_the_card_says_what_the_model_is(bundle: Path, phrasebook: Path) -> None:
    opened, card = open_bundle(bundle), (bundle / "README.md").read_text(encoding="utf-8")
    parameters = load_model(opened).num_parameters()
    lines = (phrasebook / "train.en").read_bytes().count(b"\n")
    assert card.startswith("# en-de tiny\n")
    for fact in ("| en to de |", f"| {parameters:,} |", f"train.en, train.de: {lines:,} pairs", "perplexity"):
        assert fact in card


def test_opening_imports_no_torch(bundle: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from transduce.bundle import open_bundle;"
        f"print(open_bundle(Path({str(bundle)!r})).target_lang, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8")
    assert done.stdout.split() == ["de", "False"]


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found_wherever_it_is(copy: Path, name: str) -> None:
    whole = (copy / name).read_bytes()
    for place in {0, len(whole) // 3, len(whole) // 2, len(whole) - 1}:
        for bit in (0, 7):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            (copy / name).write_bytes(damaged)
            with pytest.raises(BundleError, match=f"{name}: damaged: its SHA-256"):
                open_bundle(copy)
    (copy / name).write_bytes(whole)
    open_bundle(copy)


def test_a_flipped_bit_in_the_manifest_is_found_or_changes_nothing(copy: Path) -> None:
    path = copy / "manifest.json"
    whole = path.read_bytes()
    said = read_manifest(copy)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        path.write_bytes(damaged)
        try:
            assert read_manifest(copy) == said  # white space between its parts may differ
            assert chr(whole[place]).isspace()
        except BundleError:
            pass


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
def test_a_file_cut_short_is_found(copy: Path, name: str) -> None:
    whole = (copy / name).read_bytes()
    for length in (0, 1, len(whole) // 2, len(whole) - 2):
        (copy / name).write_bytes(whole[:length])
        with pytest.raises(BundleError, match="damaged"):
            open_bundle(copy)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(BundleError, match=f"{name}: missing"):
        open_bundle(copy)


def test_a_file_that_cannot_be_read_is_named(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("transduce.bundle.sha256", refuse)
    with pytest.raises(BundleError, match=r"README\.md: cannot read: Permission denied"):
        open_bundle(copy)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "null",
        '"format"',
        "{}",
        '{"format": 1}',
        '{"format": "1", "files": {}}',
        '{"format": 1, "files": []}',
        '{"format": 1, "files": [[1, 2]]}',
        '{"format": 1, "files": {"config.toml": 3}}',
        '{"format": true, "files": {}}',
        '{"format": 0, "files": {}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        " " * 2_000_000,
        "\udcff",
    ],
    ids=lambda text: text[:30].strip() or str(len(text)),
)
def test_what_is_no_manifest_is_refused(copy: Path, text: str) -> None:
    (copy / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BundleError, match=r"manifest\.json: damaged"):
        open_bundle(copy)


@pytest.mark.parametrize("files", [["model.safetensors"], {"a": "b"}])
def test_a_newer_format_asks_for_an_upgrade_whatever_else_it_says(copy: Path, files: object) -> None:
    (copy / "manifest.json").write_text(json.dumps({"format": 2, "files": files}))
    with pytest.raises(BundleError, match="format 2, and this version reads up to 1: upgrade"):
        open_bundle(copy)


@pytest.mark.parametrize("name", FILES[1:])
def test_what_the_manifest_does_not_name_is_not_read(copy: Path, name: str) -> None:
    files = {each: "0" * 64 for each in FILES if each != name}
    digest = hashlib.sha256(json.dumps({"files": files, "format": 1}, sort_keys=True).encode()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps({"format": 1, "files": files, "sha256": digest}))
    with pytest.raises(BundleError, match=f"does not name {name}"):
        open_bundle(copy)


@pytest.mark.parametrize(
    "name",
    ["../outside", "/etc/passwd", "codec/../../outside", "..", ".", "", "a//b", "a/", "~/x", "a\\..\\b", "C:x", "a\nb"],
)
def test_a_name_that_leads_out_of_the_bundle_is_refused(copy: Path, name: str) -> None:
    (copy.parent / "outside").write_bytes(b"mine")
    facts = manifest(copy)
    del facts["sha256"]
    facts["files"] = {name: hashlib.sha256(b"mine").hexdigest(), **facts["files"]}  # type: ignore[dict-item]
    facts["sha256"] = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    (copy / "manifest.json").write_text(json.dumps(facts))
    with pytest.raises(BundleError, match="refuses the file name"):
        open_bundle(copy)
    assert (copy.parent / "outside").read_bytes() == b"mine"


@pytest.mark.parametrize("name", [*FILES, "codec", "codec/joint"])
def test_a_link_is_refused_at_any_depth_even_if_it_leads_to_the_same_bytes(copy: Path, name: str) -> None:
    outside = copy.parent / "outside"
    (copy / name).rename(outside)
    (copy / name).symlink_to(outside)
    with pytest.raises(BundleError, match=r"refuses the file name|does not name codec/joint"):
        open_bundle(copy)


def test_a_link_that_the_manifest_leaves_out_is_refused_too(copy: Path) -> None:
    outside = copy.parent / "outside"
    (copy / "codec" / "joint").rename(outside)
    (copy / "codec" / "x").mkdir()  # a directory without files, so that the new manifest names none of codec/
    seal(copy)
    (copy / "codec" / "joint").symlink_to(outside)
    with pytest.raises(BundleError, match="does not name codec/joint"):
        open_bundle(copy)


def header(size: int, text: bytes) -> bytes:
    return struct.pack("<Q", size) + text


TENSOR = b'{"a": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}'


@pytest.mark.parametrize(
    "weights",
    [
        b"",
        b"1234",
        header(2**63, b"{}"),
        header(10**9, b"{}"),
        header(2, b"{}"),
        header(4, b"nope"),
        header(len(TENSOR), TENSOR),
        header(200_000, b'{"a":' * 40_000),
    ],
    ids=["empty", "4 bytes", "header of 2^63", "header of 1e9", "no tensors", "no JSON", "tensor of 4 TB", "nesting"],
)
def test_weights_that_are_no_weights_are_refused(copy: Path, weights: bytes) -> None:
    (copy / WEIGHTS).write_bytes(weights)
    seal(copy)
    opened = open_bundle(copy)
    with pytest.raises(BundleError):
        load_model(opened)


class Harm:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_a_pickle_is_never_loaded(copy: Path) -> None:
    import torch

    harmed = copy.parent / "harmed"
    saved = io.BytesIO()
    torch.save({"a": Harm(harmed)}, saved)
    for data in (pickle.dumps(Harm(harmed)), saved.getvalue()):
        for name in FILES[1:]:
            before = (copy / name).read_bytes()
            (copy / name).write_bytes(data)
            seal(copy)
            with pytest.raises(UserError):
                load_model(open_bundle(copy))
            (copy / name).write_bytes(before)
    assert not harmed.exists()
    pickle.loads(pickle.dumps(Harm(harmed)))
    assert harmed.exists()  # it would have done harm


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"d_model": 65536}, "is .* in model.safetensors, .* by config.toml"),
        ({"d_ff": 65536}, "is .* in model.safetensors, .* by config.toml"),
        ({"d_k": 65536, "d_v": 65536, "num_heads": 65536}, "is .* in model.safetensors, .* by config.toml"),
        ({"encoder_layers": 1024, "decoder_layers": 1024}, "more layers than model.safetensors"),
        ({"output_bias": True}, "disagree about 'projection.bias'"),
        ({"positions": "learned", "max_positions": 1 << 20}, "disagree about '.*position"),
    ],
    ids=str,
)
def test_a_config_that_the_weights_do_not_fit_is_refused_before_it_takes_memory(
    copy: Path, setting: dict[str, object], message: str
) -> None:
    config = open_bundle(copy).config
    model = config.model.model_copy(update=setting)
    (copy / "config.toml").write_text(config.model_copy(update={"model": model}).to_toml(), encoding="utf-8")
    seal(copy)
    opened = open_bundle(copy)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BundleError, match=message):
        load_model(opened)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB; the model would take more


def test_two_vocabularies_where_one_is_tied_are_refused(copy: Path) -> None:
    from transduce.text import Symbols

    (copy / "codec" / "joint").rename(copy / "codec" / "source")
    (copy / "codec" / "target").mkdir()
    for name, data in Symbols.learn(["a b c"], steps=()).codec.files().items():
        (copy / "codec" / "target" / name).write_bytes(data)
    seal(copy)
    with pytest.raises(BundleError, match="one vocabulary"):
        open_bundle(copy)


def test_a_run_stands_for_its_bundle(run: Path, bundle: Path) -> None:
    assert locate(run) == locate(bundle) == bundle


def test_what_is_no_bundle_is_told_apart(run: Path, tmp_path: Path) -> None:
    def why(path: Path) -> str:
        with pytest.raises(BundleError) as raised:
            open_bundle(path)
        return str(raised.value)

    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "unfinished" / "checkpoints").mkdir(parents=True)
    assert "no such directory" in why(tmp_path / "missing")
    assert "no such directory" in why(tmp_path / "file")
    assert "neither a bundle" in why(tmp_path)
    assert f"train --resume {tmp_path}/unfinished" in why(tmp_path / "unfinished")
    assert "a checkpoint" in why(next((run / "checkpoints").glob("step-*")))
