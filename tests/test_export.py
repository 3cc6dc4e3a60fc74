"""`transduce export` and `transduce import`: whole directories or none, and mistakes that are told."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from command import transduce
from marian_models import sentences, write_marian
from test_mistakes import refused, tree
from transduce.bundle import load_model, open_bundle
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.translator import Translator
from transduce.text.codec import BOS, PAD


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("marian") / "opus-mt-en-de"
    write_marian(directory)
    return directory


@pytest.fixture
def copied(marian: Path, tmp_path: Path) -> Path:
    """A directory to be spoiled."""
    return Path(shutil.copytree(marian, tmp_path / "copied"))


def edit(path: Path, **changes: Any) -> None:
    table = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**table, **changes}), encoding="utf-8")


def test_an_imported_model_translates_and_goes_out_again(marian: Path, tmp_path: Path) -> None:
    ran = transduce("import", marian, "-o", tmp_path / "bundle")
    assert (ran.code, ran.lines) == (0, [str(tmp_path / "bundle")]), ran.err
    lines = "".join(line + "\n" for line in sentences(5)).encode()
    ran = transduce("translate", tmp_path / "bundle", stdin=lines)
    assert ran.code == 0, ran.err
    assert len([line for line in ran.lines if line]) == 5
    again = transduce("export", tmp_path / "bundle", "--to", "marian", "-o", tmp_path / "again")
    assert (again.code, again.lines) == (0, [str(tmp_path / "again")]), again.err
    assert transduce("import", tmp_path / "again", "-o", tmp_path / "back").code == 0
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("bundle", "back")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_ctranslate2_opens_what_is_exported_for_it(bundle: Path, tmp_path: Path) -> None:
    import ctranslate2

    out = tmp_path / "deep" / "ct2"
    ran = transduce("export", bundle, "--to", "ctranslate2", "-o", out, "--compute-type", "float32")
    assert (ran.code, ran.lines) == (0, [str(out)]), ran.err
    opened = open_bundle(bundle)
    codec, line = opened.source_codec, "A dog sees the cat."
    pieces = codec.pieces(range(codec.size))
    found = ctranslate2.Translator(str(out)).translate_batch(
        [codec.pieces(codec.encode(line))], beam_size=1, suppress_sequences=[[pieces[PAD]], [pieces[BOS]]]
    )
    text = codec.decode([pieces.index(piece) for piece in found[0].hypotheses[0]])
    search = opened.config.search.model_copy(update={"beam": 1})
    (expected,) = Translator(TorchEngine(load_model(opened)), codec, codec, search).translate([line])
    assert text == expected.text


def test_languages_come_from_the_tokenizer_or_the_directorys_name(marian: Path, tmp_path: Path) -> None:
    for name, languages in (("opus-mt-tc-big-fr-nl", ("fr", "nl")), ("my model", (None, None))):
        other = Path(shutil.copytree(marian, tmp_path / name))
        (other / "tokenizer_config.json").unlink()
        assert transduce("import", other, "-o", tmp_path / "bundle").code == 0
        bundle = open_bundle(tmp_path / "bundle")
        assert (bundle.source_lang, bundle.target_lang) == languages
        shutil.rmtree(tmp_path / "bundle")


def test_a_pickle_of_weights_is_the_same_model(marian: Path, copied: Path, tmp_path: Path) -> None:
    weights = load_file(copied / "model.safetensors")
    # as the older files of OPUS-MT: with copies of the embedding and the sinusoids
    copies = {f"model.{side}.embed_tokens.weight": weights["model.shared.weight"] for side in ("encoder", "decoder")}
    torch.save({**weights, **copies, "lm_head.weight": weights["model.shared.weight"]}, copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    for directory, out in ((marian, tmp_path / "a"), (copied, tmp_path / "b")):
        assert transduce("import", directory, "-o", out).code == 0
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


class Harmful:
    """Unpickling it would call something."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("harmed"),))


def harmful_pickle(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(pickle.dumps({"model.shared.weight": Harmful()}))


def change_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def spoil(directory: Path) -> None:
        weights = load_file(directory / "model.safetensors")
        change(weights)
        save_file(weights, directory / "model.safetensors")

    return spoil


def change_config(**changes: Any) -> Callable[[Path], None]:
    return lambda directory: edit(directory / "config.json", **changes)


# what is done to a MarianMT directory, and what is said of it
MISTAKES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda d: (d / "config.json").unlink(), "config.json: missing"),
    "no weights": (lambda d: (d / "model.safetensors").unlink(), "neither model.safetensors nor pytorch_model.bin"),
    "no vocabulary": (lambda d: (d / "vocab.json").unlink(), "vocab.json: missing"),
    "no source.spm": (lambda d: (d / "source.spm").unlink(), "source.spm: cannot read"),
    "a damaged target.spm": (lambda d: (d / "target.spm").write_bytes(b"spam"), "target.spm: not a SentencePiece"),
    "damaged weights": (lambda d: (d / "model.safetensors").write_bytes(b"{}"), "model.safetensors: damaged"),
    "not JSON": (lambda d: (d / "config.json").write_text("{"), "config.json: not JSON"),
    "not UTF-8": (lambda d: (d / "config.json").write_bytes(b"\xff"), "config.json: not JSON"),
    "deep JSON": (lambda d: (d / "vocab.json").write_text("[" * 100_000), "vocab.json: not JSON"),
    "a list": (lambda d: (d / "vocab.json").write_text("[]"), "vocab.json: not a JSON object"),
    "another model": (change_config(model_type="bart"), "model_type 'bart': only MarianMT"),
    "a decoder alone": (change_config(is_decoder=True, is_encoder_decoder=False), "is_encoder_decoder: False"),
    "text for a number": (change_config(d_model="16"), "d_model: '16'"),
    "another activation": (change_config(activation_function="gelu_new"), "activation_function: 'gelu_new'"),
    "pre-norm": (change_config(normalize_before=True), "normalize_before: True"),
    "unequal stacks": (change_config(encoder_attention_heads=4), "attention_heads 4 and 2"),
    "other heads": (change_config(encoder_attention_heads=3, decoder_attention_heads=3), "d_model 16"),
    "a list of ends": (change_config(eos_token_id=[0, 1]), "eos_token_id: [0, 1]"),
    "an end outside": (change_config(eos_token_id=10**6), "eos_token_id 1000000 is not in vocab.json"),
    "one token for two": (change_config(eos_token_id=1), "must be three tokens"),
    "other sizes": (change_config(encoder_ffn_dim=32, decoder_ffn_dim=32), "fc1.weight is (24, 16)"),
    "more layers": (change_config(encoder_layers=3), "model.encoder.layers.2"),
    "a vast model": (change_config(encoder_layers=1024), "model.encoder.layers.2"),
    "a short vocabulary": (change_config(vocab_size=5, decoder_vocab_size=5), "does not name 5 ids"),
    "an id twice": (lambda d: edit(d / "vocab.json", **{"<unk>": 2}), "ids, as config.json has it, once each"),
    "ids of text": (lambda d: edit(d / "vocab.json", **{"<unk>": "one"}), "ids, as config.json has it, once each"),
    "two vocabularies": (lambda d: edit(d / "tokenizer_config.json", separate_vocabs=True), "two vocabularies for one"),
    "a missing weight": (change_weights(lambda w: w.pop("model.encoder.layers.0.fc1.bias")), "fc1.bias is missing"),
    "an unknown weight": (change_weights(lambda w: w.update(extra=torch.zeros(1))), "no weight extra"),
    "other positions": (
        change_weights(lambda w: w.update({"model.encoder.embed_positions.weight": torch.zeros(90, 16)})),
        "not the sinusoids",
    ),
    "a pickle that does something": (harmful_pickle, "pytorch_model.bin: damaged, or holds more than weights"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_marian_model_is_refused(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    monkeypatch.chdir(tmp_path)
    spoil, message = MISTAKES[mistake]
    spoil(copied)
    assert message in refused(tmp_path, "import", copied, "-o", tmp_path / "bundle")


def test_no_directory_at_all(tmp_path: Path) -> None:
    assert "no such directory" in refused(tmp_path, "import", tmp_path / "none", "-o", tmp_path / "bundle")


@pytest.mark.parametrize("to", ["ctranslate2", "onnx", "marian"])
def test_an_output_that_exists_stays_as_it_is(small_run: Path, tmp_path: Path, to: str) -> None:
    (tmp_path / "out").mkdir()
    assert "out: exists" in refused(tmp_path, "export", small_run, "--to", to, "-o", tmp_path / "out")
    assert "out: exists" in refused(tmp_path, "import", tmp_path, "-o", tmp_path / "out")


@pytest.mark.parametrize("to", ["ctranslate2", "onnx", "marian"])
def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    import dataclasses

    bundle = open_bundle(small_run)
    model = bundle.config.model.model_copy(update={"window": 8})
    other = dataclasses.replace(bundle, config=bundle.config.model_copy(update={"model": model}))
    monkeypatch.setattr("transduce.bundle.open_bundle", lambda path: other)
    assert "window" in refused(tmp_path, "export", small_run, "--to", to, "-o", tmp_path / "out")


def test_a_failure_leaves_nothing(small_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transduce.interop.marian_export.tokenizer_config", fail)
    before = tree(tmp_path)
    ran = transduce("export", small_run, "--to", "marian", "-o", tmp_path / "out")
    assert (ran.code, ran.out) == (2, "")
    assert "No space left on device" in ran.err
    assert tree(tmp_path) == before


def test_a_compute_type_belongs_to_ctranslate2(small_run: Path, tmp_path: Path) -> None:
    arguments = ("export", small_run, "--to", "onnx", "--compute-type", "int8", "-o", tmp_path / "out")
    assert "--compute-type belongs to --to ctranslate2" in refused(tmp_path, *arguments)
