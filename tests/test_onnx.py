"""The ONNX graphs against the model, and the program that uses them without this package."""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from marian_models import batch, learn_sentencepiece, sentences
from random_weights import randomized
from transduce import Translator
from transduce.bundle import Bundle, load_model, open_bundle, unique_weights, write_bundle
from transduce.config import Config
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import MissingExtra, UserError
from transduce.interop import onnx_translate
from transduce.interop.ctranslate2 import table_rows
from transduce.interop.onnx import (
    ENCODER,
    STEP,
    EncoderGraph,
    StepGraph,
    check_onnx,
    describe,
    export_onnx,
    write_graph,
)
from transduce.model import Transformer
from transduce.text import Codec, Marian, Subwords, Symbols, Words, save_codecs
from transduce.text.codec import BOS

LENGTHS = [[1], [4, 9, 2], [30, 7]]


SHAPE = {"encoder_layers": 2, "decoder_layers": 1, "d_model": 16, "d_ff": 24, "num_heads": 2}
SEARCH = {"max_input": 80, "extra_length": 5}


def write_random(path: Path, config: Config, source: Codec, target: Codec) -> Bundle:
    weights = unique_weights(randomized(Transformer(config.model, source.size, target.size)).float())
    write_bundle(
        path, config=config, source_codec=source, target_codec=target, languages=(None, None), weights=weights, card=""
    )
    return open_bundle(path)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The paper's model, but small and with random weights."""
    config = Config.model_validate({"model": SHAPE, "search": SEARCH})
    codec = Subwords.learn(sentences(200), vocabulary=300, seed=1, sample_lines=1000).codec
    return write_random(tmp_path_factory.mktemp("bundle") / "model", config, codec, codec)


@pytest.fixture(scope="module")
def exported(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("onnx")
    export_onnx(bundle, directory)
    return directory


def largest_difference(directory: Path, bundle: Bundle, lengths: list[int], *, steps: int = 6) -> float:
    """Between the scores of the graphs and the model's, while both decode the same tokens step by step.

    Without an encoder in the directory its module is taken.
    """
    model = load_model(bundle)
    source = batch(bundle.source_codec.size, lengths)
    target = batch(bundle.target_codec.size, [steps - 2] * len(lengths), seed=1)
    target = torch.cat([torch.full((len(lengths), 1), BOS), target], dim=1)
    with torch.inference_mode():
        expected = model.logits(model(source, target)).numpy()  # without a cache
        keys, values = (part.numpy() for part in EncoderGraph(model, table_rows(bundle.config))(source))
    if (directory / ENCODER).exists():
        keys, values = onnxruntime.InferenceSession(directory / ENCODER).run(None, {"source": source.numpy()})
    step = onnxruntime.InferenceSession(directory / STEP)
    memory = {"source": source.numpy(), "memory_keys": keys, "memory_values": values}
    past_keys, past_values = keys[:, :, :, :0], values[:, :, :, :0]
    differences = []
    for place in range(target.size(1)):
        past = {"tokens": target[:, place].numpy(), "past_keys": past_keys, "past_values": past_values}
        logits, past_keys, past_values = step.run(None, {**memory, **past})
        differences.append(np.abs(logits - expected[:, place]).max())
    return float(max(differences))


def greedy(bundle: Bundle) -> Translator:
    """In float32, as the model is."""
    search = bundle.config.search.model_copy(update={"beam": 1})
    return Translator(TorchEngine(load_model(bundle)), bundle.source_codec, bundle.target_codec, search)


def run_program(directory: Path, lines: list[str]) -> list[str]:
    """translate.py, which may know nothing of this package."""
    code = (
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__');"
        " assert not {'transduce', 'torch'} & sys.modules.keys()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, directory / "translate.py"],
        input="".join(line + "\n" for line in lines).encode(),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split("\n")[:-1]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_the_graphs_score_as_the_model_does(exported: Path, bundle: Bundle, lengths: list[int]) -> None:
    assert largest_difference(exported, bundle, lengths) < 1e-4


def test_the_program_beside_them_translates_as_greedy_search_does(exported: Path, bundle: Bundle) -> None:
    lines = ["", *sentences(40), "  "]
    expected = [each.text for each in greedy(bundle).translate(lines)]
    assert len(set(expected)) > 10
    assert run_program(exported, lines) == expected


def test_model_json_tells_the_shapes_of_the_graphs(exported: Path) -> None:
    facts = json.loads((exported / "model.json").read_text(encoding="utf-8"))
    for name in ("encoder", "decoder_step"):
        session = onnxruntime.InferenceSession(exported / facts[name]["file"])
        for kind, nodes in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
            assert [node.name for node in nodes] == list(facts[name][kind])
            for node in nodes:
                told = facts[name][kind][node.name]
                assert [size for size in node.shape if isinstance(size, int)] == [s for s in told if isinstance(s, int)]
                assert len(node.shape) == len(told)


@pytest.mark.slow
def test_a_model_that_is_not_the_papers(tmp_path: Path) -> None:
    model = {
        **SHAPE,
        "decoder_layers": 2,
        "norm": "pre",
        "positions": "learned",
        "max_positions": 60,
        "d_k": 6,
        "d_v": 10,
        "tying": "none",
        "activation": "gelu",
        "output_bias": True,
    }
    text = {"joint": False, "source_codec": "symbols", "target_codec": "symbols"}
    config = Config.model_validate({"model": model, "text": text, "search": SEARCH, "data": {"max_length": 20}})
    bundle = write_random(tmp_path / "bundle", config, Symbols(list("abcdefg")), Symbols(list("uvwxyz")))
    step, rows = StepGraph(load_model(bundle), 60), table_rows(config)
    source = batch(bundle.source_codec.size, [4, 4])
    memory = EncoderGraph(step.model, rows)(source)
    past = [part[:, :, :, :3] for part in memory]
    description = describe(config, bundle.source_codec.size, bundle.target_codec.size)["decoder_step"]
    write_graph(step, (source[:, 0], source, *memory, *past), tmp_path / STEP, description, rows)
    for lengths in LENGTHS:
        assert largest_difference(tmp_path, bundle, lengths) < 1e-4


@pytest.mark.parametrize("kind", ["subwords", "symbols", "marian"])
def test_the_program_reads_every_vocabulary(tmp_path: Path, kind: str) -> None:
    program = runpy.run_path(str(Path(onnx_translate.__file__)))
    lines, steps = [*sentences(30), "two  spaces", ">>de<< B", ""], ("nfkc", "lower")
    codecs: dict[str, Codec] = {
        "subwords": Subwords.learn(lines, vocabulary=300, seed=1, sample_lines=1000, steps=steps).codec,
        "symbols": Symbols.learn(lines, steps=steps).codec,
        "marian": Marian(learn_sentencepiece(lines, 80), [">>de<<", "▁a", "▁the", "e", "s", "."], steps),
    }
    codec = codecs[kind]
    save_codecs(tmp_path, codec, codec)
    vocabulary = program["Vocabulary"](tmp_path / "joint")
    for line in (*lines, "Ｗｉｄｅ unknown ß 字"):
        ids = codec.encode(line)
        assert vocabulary.encode(line) == ids or not line  # it is not asked for empty ones
        assert vocabulary.decode(ids) == codec.decode(ids)


def test_a_window_is_refused(bundle: Bundle) -> None:
    model = bundle.config.model.model_copy(update={"window": 8})
    with pytest.raises(UserError, match="a window of 8"):
        check_onnx(dataclasses.replace(bundle, config=bundle.config.model_copy(update={"model": model})))


def test_words_by_their_shapes_are_refused(bundle: Bundle) -> None:
    with pytest.raises(UserError, match=r"words.*cannot be exported"):
        check_onnx(dataclasses.replace(bundle, source_codec=Words(["the", "?"])))


@pytest.mark.parametrize("module", ["onnx", "onnxscript", "onnxruntime"])
def test_the_extra_is_named(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"{module} is not installed: pip install '.*\[export\]'"):
        check_onnx(bundle)
