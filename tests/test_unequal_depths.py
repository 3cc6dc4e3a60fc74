"""A deep encoder with a shallow decoder: every command takes such a model as any other.

Of the exports, test_onnx.py, test_marian.py and test_ctranslate2.py have such models of their own.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from command import transduce
from random_bundle import random_bundle
from transduce.settings import load_config

DEEP, SHALLOW = 4, 1
SENTENCE = "a b c d e"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unequal") / "model"
    random_bundle(path, encoder_layers=DEEP, decoder_layers=SHALLOW)
    return path


@pytest.mark.parametrize(("kind", "layers"), [("encoder", DEEP), ("decoder", SHALLOW), ("cross", SHALLOW)])
def test_attention_is_drawn_of_each_layer_there_is(model: Path, tmp_path: Path, kind: str, layers: int) -> None:
    picture = tmp_path / "a.svg"
    ran = transduce("attend", model, SENTENCE, "-o", picture, "--kind", kind, "--layer", str(layers))
    assert ran.code == 0, ran.err
    ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    last = transduce("attend", model, SENTENCE, "-o", tmp_path / "b.svg", "--kind", kind)
    assert last.code == 0, last.err
    assert (tmp_path / "b.svg").read_bytes() == picture.read_bytes(), "without a number it is the last"
    beyond = transduce("attend", model, SENTENCE, "-o", tmp_path / "c.svg", "--kind", kind, "--layer", str(layers + 1))
    assert beyond.code == 2
    assert f"layer {layers + 1}: there are {layers}" in beyond.err


def test_the_page_and_the_walk_show_both_stacks(model: Path, tmp_path: Path) -> None:
    ran = transduce("attend", model, SENTENCE, "-o", tmp_path / "page.html")
    assert ran.code == 0, ran.err
    for layer in (SHALLOW, DEEP):
        walked = transduce("explain", model, SENTENCE, "--layer", str(layer))
        assert walked.code == 0, walked.err
        for title in ("Encoder layer 4 of 4", "Decoder layer 1 of 1"):
            assert title in walked.out
    beyond = transduce("explain", model, SENTENCE, "--layer", str(DEEP + 1))
    assert beyond.code == 2
    assert "layer 5: there are 4" in beyond.err


def test_it_translates_scores_and_goes_out_to_ctranslate2(model: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"{SENTENCE}\nf g\n", encoding="utf-8")
    for engine in ("ctranslate2", "pytorch"):
        ran = transduce("translate", model, "--engine", engine, stdin=lines.read_bytes())
        assert (ran.code, len(ran.lines)) == (0, 2), ran.err
    scored = transduce("score", model, "--source", lines, "--target", lines)
    assert (scored.code, len(scored.lines)) == (0, 2), scored.err
    ran = transduce("export", model, "--to", "ctranslate2", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err


def test_the_students_decoder_is_shallow_and_its_layers_are_no_fewer() -> None:
    tiny, student = (load_config(preset=name) for name in ("tiny", "tiny-student"))
    assert student.model.decoder_layers == 1
    assert student.model.encoder_layers + 1 >= tiny.model.encoder_layers + tiny.model.decoder_layers
    assert student.text.vocabulary < tiny.text.vocabulary
    assert (student.model.d_model, student.train.batch_tokens) == (tiny.model.d_model, tiny.train.batch_tokens)
