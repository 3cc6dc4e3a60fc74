"""Figures 1 and 2: what is drawn is what the model has."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree

import pytest

from random_bundle import random_bundle
from transduce.config import ModelConfig
from transduce.explain.architecture import draw_architecture
from transduce.explain.attention_diagram import draw_attention, function_steps
from transduce.explain.drawing import Box, Label, Sheet, Stroke, text_width, to_matplotlib, to_svg
from transduce.explain.parts import read_parts, short
from transduce.model import Transformer
from transduce.model.transformer import shape_only
from transduce.paper.figure1 import figure1
from transduce.paper.figure2 import figure2
from transduce.paper.result import Picture, Table
from transduce.paper.study import Study

VARIANTS: list[dict[str, object]] = [
    {},
    {"norm": "pre"},
    {"encoder_layers": 4, "decoder_layers": 2},
    {"positions": "learned"},
    {"tying": "none"},
    {"tying": "target"},
    {"attention_bias": True, "output_bias": True},
    {"d_k": 16, "d_v": 48},
    {"attention": "additive"},
    {"attention": "unscaled", "attention_dropout": 0.1},
    {"window": 16, "activation": "gelu", "dropout": 0.0},
    {"num_heads": 1, "d_model": 1024},
]


def model(**changes: object) -> Transformer:
    config = ModelConfig.model_validate(changes)
    return shape_only(config, 37000, 37000 if config.tying == "three-way" else 999)


def words(sheet: Sheet) -> list[str]:
    return [mark.text for mark in sheet.marks if isinstance(mark, Label)]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_weights_of_all_parts_are_those_of_the_model(changes: dict[str, object]) -> None:
    drawn = model(**changes)
    assert read_parts(drawn).weights == drawn.num_parameters()


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("draw", [draw_architecture, draw_attention])
def test_every_mark_lies_on_the_sheet_and_every_line_inside_its_box(draw: object, changes: dict[str, object]) -> None:
    assert callable(draw)
    sheet = draw(model(**changes))
    for mark in sheet.marks:
        match mark:
            case Label(x, y, text, anchor, slant, _, size):
                width = text_width(text, size)
                left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
                if not slant:
                    assert left >= 0
                    assert left + width <= sheet.width, text
                assert 0 <= y <= sheet.height
            case Box(x, y, width, height):
                assert x >= 0
                assert x + width <= sheet.width
                assert y >= 0
                assert y + height <= sheet.height
            case Stroke(points):
                assert all(0 <= x <= sheet.width and 0 <= y <= sheet.height for x, y in points)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("draw", [draw_architecture, draw_attention])
def test_no_two_lines_of_text_overlap(draw: object, changes: dict[str, object]) -> None:
    assert callable(draw)
    places = []
    for mark in draw(model(**changes)).marks:
        if isinstance(mark, Label) and not mark.slant:
            width = 0.85 * text_width(mark.text, mark.size)  # the guess is on the wide side
            left = {"start": mark.x, "middle": mark.x - width / 2, "end": mark.x - width}[mark.anchor]
            places.append((left, left + width, mark.y - 0.4 * mark.size, mark.y + 0.4 * mark.size, mark.text))
    for one, other in itertools.combinations(places, 2):
        beside = one[1] <= other[0] or other[1] <= one[0]
        assert beside or one[3] <= other[2] or other[3] <= one[2], (one[4], other[4])


def test_the_base_model_is_drawn_with_the_papers_numbers() -> None:
    drawn = words(draw_architecture(model()))
    assert drawn.count("6×") == 2
    assert drawn.count("Add & Norm") == 5
    assert drawn.count("h = 8, d_k = 64, d_v = 64") == 3
    assert drawn.count("512 → 2,048 → 512, ReLU") == 2
    assert drawn.count("Positional Encoding") == 2
    assert drawn.count("one matrix") == 2
    assert {"Masked Multi-Head Attention", "Linear", "Softmax", "37,000 × 512, times √512"} <= set(drawn)
    assert any(text.startswith("63.0 M weights") for text in drawn)


def test_other_models_are_drawn_differently() -> None:
    pre = words(draw_architecture(model(norm="pre")))
    assert (pre.count("Norm"), pre.count("Add & Norm")) == (7, 0)
    shallow = words(draw_architecture(model(encoder_layers=4, decoder_layers=2)))
    assert (shallow.count("4×"), shallow.count("2×"), shallow.count("6×")) == (1, 1, 0)
    assert words(draw_architecture(model(positions="learned"))).count("Positional Embedding") == 2
    assert words(draw_architecture(model(tying="none"))).count("one matrix") == 0
    assert words(draw_architecture(model(tying="target"))).count("one matrix") == 1
    assert {"Q, K: 512 × 128", "V, O: 512 × 512"} <= set(words(draw_architecture(model(d_k=16))))
    pictures = [to_svg(draw_architecture(model(**changes))) for changes in VARIANTS]
    assert len(set(pictures)) == len(pictures)


def test_figure_2_has_the_steps_of_the_models_own_function() -> None:
    def titles(**changes: object) -> list[str]:
        return [title for _, title, _ in function_steps(read_parts(model(**changes)).head)]

    assert titles() == ["MatMul", "Scale", "Mask (opt.)", "SoftMax", "MatMul"]
    assert titles(attention="unscaled") == ["MatMul", "Mask (opt.)", "SoftMax", "MatMul"]
    assert titles(attention="additive") == ["Feed Forward", "Mask (opt.)", "SoftMax", "MatMul"]
    assert titles(window=8, attention_dropout=0.2) == ["MatMul", "Scale", "Mask", "SoftMax", "Dropout", "MatMul"]
    drawn = words(draw_attention(model()))
    assert {"h = 8", "8 × 64 = 512", "512 × 64", "512 × 512", "by 1 / √64"} <= set(drawn)
    assert drawn.count("Scaled Dot-Product Attention") == 2


@pytest.mark.parametrize("draw", [draw_architecture, draw_attention])
def test_a_picture_is_well_formed_and_the_same_every_time(draw: object) -> None:
    assert callable(draw)
    first, second = (draw(model(norm="pre")) for _ in range(2))
    assert to_svg(first) == to_svg(second)
    ElementTree.fromstring(to_svg(first))


def test_a_pdf_is_the_same_every_time() -> None:
    first, second = (to_matplotlib(draw_attention(model()), "pdf") for _ in range(2))
    assert first == second


def test_an_arrow_ends_where_it_should() -> None:
    sheet = Sheet(40, 40, [Stroke(((5, 30), (5, 20), (25, 20), (25, 10)), arrow=True)])
    svg = to_svg(sheet)
    assert 'points="25.0,10.0 ' in svg  # the tip
    path = ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}path")
    assert path is not None
    assert path.attrib["d"] == (
        "M 5.0 30.0 L 5.0 25.0 Q 5.0 20.0 11.0 20.0 L 19.0 20.0 Q 25.0 20.0 25.0 15.0 L 25.0 15.0"  # up to the head
    )


def test_counts_are_said_shortly() -> None:
    counts = (7, 999, 1000, 12_345, 525_312, 1_048_576, 63_045_632, 213_000_000, 2_500_000_000)
    assert list(map(short, counts)) == [
        "7",
        "999",
        "1.00 k",
        "12.3 k",
        "525 k",
        "1.05 M",
        "63.0 M",
        "213 M",
        "2.50 G",
    ]


def test_the_studies_draw_the_base_model_and_bundles_as_svg_and_pdf(tmp_path: Path) -> None:
    bundle = random_bundle(tmp_path / "mine", norm="pre", tying="none")
    study = Study(work=tmp_path / "work", bundles=(bundle.path,))
    for name, make in (("figure1", figure1), ("figure2", figure2)):
        result = make(study)
        assert [part.name for part in result.parts if isinstance(part, Picture)] == [name, f"{name}-1"]
        base, own = (part for part in result.parts if isinstance(part, Table))
        facts = {row[0]: list(row[1:]) for row in base.rows}
        assert all(ours == paper for what, (ours, paper) in facts.items() if what != "weights")
        assert facts["weights"] == ["63.0 M", "65 M"]
        assert ["d_model", "32", "512"] in [list(row) for row in own.rows]
        for file in (f"{name}.pdf", f"{name}-1.pdf"):
            assert (study.work / file).read_bytes().startswith(b"%PDF-")
