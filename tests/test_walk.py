"""The walk through the equations: its numbers are the model's, and whoever computed wrongly would be told."""

from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from random_bundle import random_bundle
from random_weights import randomized
from transduce import Translator
from transduce.config import ModelConfig
from transduce.decode.hypothesis import Request
from transduce.errors import UserError
from transduce.explain import equations
from transduce.explain.equations import AttentionSteps, compute
from transduce.explain.stage import Grid, Listing, Row, Stage, Vector, Walk
from transduce.explain.walk import walk
from transduce.explain.walk_page import walk_html
from transduce.explain.walk_text import walk_lines
from transduce.model import Transformer
from transduce.text.codec import BOS, EOS

SHAPE = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 16, "d_ff": 24, "num_heads": 4}
VARIANTS: list[dict[str, object]] = [
    {},
    {"norm": "pre"},
    {"positions": "learned", "max_positions": 20},
    {"attention": "unscaled"},
    {"attention": "additive"},
    {"window": 3},
    {"attention_bias": True, "output_bias": True},
    {"d_k": 3, "d_v": 5},
    {"tying": "none", "activation": "gelu"},
]
SOURCE, TARGET = [5, 9, 4, 7, EOS], [BOS, 6, 8, 4]
Kind = TypeVar("Kind")
SENTENCE = "The dog sees a bird."


@pytest.mark.parametrize("changes", VARIANTS, ids=lambda changes: "-".join(changes) or "paper")
def test_the_equations_give_what_the_model_gives(changes: dict[str, object]) -> None:
    model = randomized(Transformer(ModelConfig.model_validate({**SHAPE, **changes}), 12, 12))
    with torch.inference_mode():
        memory, _ = model.encode(torch.tensor([SOURCE]))
        states = model.decode(torch.tensor([TARGET]), memory, None)
        expected = model.logits(states)[0].softmax(dim=-1)
    found = compute(model, SOURCE, TARGET)
    assert torch.allclose(found.memory, memory[0])
    assert torch.allclose(found.states, states[0])
    assert torch.allclose(found.probabilities, expected)


@pytest.mark.parametrize("wrong", ["_scores", "_normed", "_product"])
def test_an_equation_that_is_not_the_models_is_noticed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = randomized(Transformer(ModelConfig.model_validate(SHAPE), 12, 12))
    right = getattr(equations, wrong)
    monkeypatch.setattr(equations, wrong, lambda *arguments: 1.3 * right(*arguments))
    with pytest.raises(AssertionError, match="the equations and the model are"):
        compute(model, SOURCE, TARGET)


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


@pytest.fixture(scope="module")
def walked(translator: Translator) -> Walk:
    return walk(translator, SENTENCE, layer=1, head=2)


def parts(stage: Stage, kind: type[Kind]) -> list[Kind]:
    return [part for step in stage.steps for part in step.parts if isinstance(part, kind)]


def test_the_stages_are_those_of_figure_1(walked: Walk, translator: Translator) -> None:
    assert walked.translation == translator.translate([SENTENCE])[0].text
    titles = [stage.title for stage in walked.stages]
    assert [title for title in titles if "layer" in title] == [
        *(f"Encoder layer {number} of 2" for number in (1, 2)),
        *(f"Decoder layer {number} of 2" for number in (1, 2)),
    ]
    assert [stage.title for stage in walked.stages if not stage.opened] == [
        "Encoder layer 1 of 2",
        "Decoder layer 1 of 2",
    ]


def test_numbers_are_those_of_the_weights(walked: Walk, translator: Translator) -> None:
    model, ids = translator.reference.model, [*translator.source_codec.encode(SENTENCE), EOS]
    embedded, scaled, position, entered = parts(walked.stages[1], Vector)
    place = int(position.name.strip("PE()"))
    row = model.source_embedding.tokens.weight[ids[place]]
    assert embedded.shape == (len(ids), 64)
    assert embedded.values == pytest.approx(row[:5].tolist())
    assert scaled.values == pytest.approx((8 * row[:5]).tolist())  # the square root of 64
    assert position.values[:2] == pytest.approx((math.sin(place), math.cos(place)))
    assert entered.values == pytest.approx([a + b for a, b in zip(scaled.values, position.values, strict=True)])


def test_weights_of_every_shown_row_sum_to_one_and_none_lies_ahead(walked: Walk) -> None:
    grids = [grid for stage in walked.stages for grid in parts(stage, Grid)]
    assert len(grids) == 2 + 2 * 2
    for grid in grids:
        assert [sum(row) for row in grid.weights] == pytest.approx([1] * len(grid.queries), abs=1e-5)
    masked, _ = parts(walked.stages[-3], Grid)
    assert all(weight == 0 for place, row in enumerate(masked.weights) for weight in row[place + 1 :])
    scores = next(row for row in parts(walked.stages[-3], Row) if "−∞" in row.values)
    position = next(each.name for each in parts(walked.stages[-5], Vector) if each.name.startswith("PE"))
    assert scores.values.index("−∞") == int(position.strip("PE()")) + 1


def test_the_head_that_is_asked_for_is_shown(walked: Walk, translator: Translator) -> None:
    ids = [*translator.source_codec.encode(SENTENCE), EOS]
    computed = compute(translator.reference.model, ids, [BOS])
    for place, stage in enumerate(walked.stages[2:4]):
        steps = computed.encoder[place][0].steps
        assert isinstance(steps, AttentionSteps)
        assert torch.allclose(torch.tensor(parts(stage, Grid)[0].weights), steps.weights[2], atol=1e-6)


def test_the_search_ends_with_the_probability_that_search_tells(walked: Walk, translator: Translator) -> None:
    path, ranked = parts(walked.stages[-1], Listing)
    ids = tuple(translator.source_codec.encode(SENTENCE))
    best = translator.reference.search([Request(ids)], translator.search)[0]
    assert [row[0] for row in ranked.rows] == [translator.target_codec.decode(each.ids) for each in best]
    assert [row[1] for row in path.rows] == translator.target_codec.pieces([*best[0].ids, EOS])
    total = math.fsum(math.log(float(row[2])) for row in path.rows)
    assert total == pytest.approx(best[0].log_probability, abs=0.01)


def test_the_terminal_shows_one_layer_and_names_sections_and_equations(walked: Walk) -> None:
    text = "\n".join(walk_lines(walked))
    assert text.count("FFN(x) = max(0, x W1 + b1) W2 + b2 (2)") == 2
    assert "softmax(Q Kᵀ / √d_k) V (1)" in text
    sections = set(re.findall(r"\[section ([0-9.]+)", text))
    assert sections >= {"3.1", "3.2.1", "3.2.2", "3.3", "3.4", "3.5", "5.1", "6.1"}


def printed(tmp_path: Path, **changes: object) -> str:
    """What the terminal shows of a walk through an untrained model, its second layer in detail."""
    random_bundle(tmp_path / "model", **changes)
    return "\n".join(walk_lines(walk(Translator.load(tmp_path / "model", engine="pytorch"), "a b c", layer=1)))


def test_a_pre_norm_model_shows_every_norm_it_has(tmp_path: Path) -> None:
    text = printed(tmp_path, norm="pre")
    assert text.count("Layer normalisation before the sub-layer [section 3.1]") == 2 + 3
    assert text.count("x + Sublayer(LayerNorm(x))\n") == 2 + 3
    for stack in ("encoder", "decoder"):
        assert f"{stack.title()} output: the final layer normalisation (" in text
        assert f"Layer normalisation behind the last {stack} layer" in text
    assert "LayerNorm(x + Sublayer(x))" not in text


def test_the_norms_shown_are_those_that_the_model_computes(tmp_path: Path) -> None:
    random_bundle(tmp_path / "model", norm="pre")
    translator = Translator.load(tmp_path / "model", engine="pytorch")
    stages = {stage.title: stage for stage in walk(translator, "a b c").stages}
    (shown,) = parts(stages["Encoder output: the final layer normalisation"], Vector)
    with torch.inference_mode():
        memory, _ = translator.reference.model.encode(torch.tensor([[*translator.source_codec.encode("a b c"), EOS]]))
    rows = [pytest.approx(row, abs=1e-4) for row in memory[0, :, :5].tolist()]
    assert list(shown.values) in rows


def test_a_post_norm_model_has_no_norm_beside_its_residual_connections(tmp_path: Path) -> None:
    text = printed(tmp_path)
    assert "before the sub-layer" not in text
    assert "the final layer normalisation" not in text
    assert " + b^" not in text
    assert "P(next token) = softmax(x Eᵀ)\n" in text


def test_biases_stand_in_the_equations(tmp_path: Path) -> None:
    text = printed(tmp_path, attention_bias=True, output_bias=True)
    assert text.count("Q = X W^Q + b^Q, K = X W^K + b^K, V = X W^V + b^V") == 2
    assert text.count("Q = X W^Q + b^Q, K = memory W^K + b^K, V = memory W^V + b^V") == 1
    assert text.count("MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O + b^O") == 3
    assert "P(next token) = softmax(x Eᵀ + b)" in text


class Balanced(HTMLParser):
    """Collects tags, and fails where one is closed that is not the last opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= dict(attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing(translator: Translator) -> None:
    page = walk_html(walk(translator, "The <b>dog</b> & the \x07 cat.", layer=0, head=0))
    parser = Balanced()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert parser.tags.count("details") == 2 * 2 + 2 + 2 + 2
    assert not {"b", "script", "link", "img", "iframe"} & set(parser.tags)
    assert not {"src", "href", "onclick"} & set(parser.attributes)
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "&lt;b&gt;dog&lt;/b&gt; &amp; the \ufffd cat." in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 2}, "layer 3: there are 2: choose from 1 to 2"),
        ({"layer": -1}, "layer 0: there are 2"),
        ({"head": 4}, "head 5: there are 4: choose from 1 to 4"),
    ],
)
def test_what_the_model_lacks_is_refused(translator: Translator, arguments: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        walk(translator, SENTENCE, **arguments)


def test_sentences_that_cannot_be_walked_are_refused(translator: Translator) -> None:
    with pytest.raises(UserError, match="no words to look at"):
        walk(translator, " ")
    with pytest.raises(UserError, match=r"a sentence of \d+ tokens: at most 1000"):
        walk(translator, "dog " * 1100)


def test_bytes_that_are_not_utf8_are_walked_as_what_they_become(translator: Translator) -> None:
    assert walk(translator, "The dog\udcff.").sentence == "The dog\ufffd."
