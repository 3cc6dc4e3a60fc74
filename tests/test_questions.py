"""The questions' page: lesions do what they say, and what is measured on models is measured right."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from transduce.config import ModelConfig
from transduce.data.phrasebook import phrases
from transduce.data.preparation import recall
from transduce.decode.translator import Translator
from transduce.model import Transformer
from transduce.paper import lesion_curves
from transduce.paper import questions as study_of_questions
from transduce.paper.depth import gradient_norms, some_batches
from transduce.paper.lesions import LESIONS, without_feed_forward, without_norms, without_positions, without_residuals
from transduce.paper.neighbours import dictionary, neighbours
from transduce.paper.position_wise import parameters, position_wise
from transduce.paper.questions import Size, questions
from transduce.paper.reach import distance, entropy, reach
from transduce.paper.result import Picture, Table
from transduce.paper.study import Study
from transduce.paper.training import Training
from transduce.settings import make_config, read_toml
from transduce.train.progress import Listener
from transduce.train.workers import batch_loss
from transduce.trainer import new_model
from trials import SMALL

CONFIG = ModelConfig(encoder_layers=2, decoder_layers=2, d_model=16, d_ff=32, num_heads=2)
VOCABULARY = 20


def build(lesion: Callable[[Transformer], None] | None = None) -> Transformer:
    torch.manual_seed(1)
    model = Transformer(CONFIG, VOCABULARY, VOCABULARY)
    if lesion is not None:
        lesion(model)
    return model


def sentences(count: int = 3, length: int = 7) -> Tensor:
    return torch.randint(4, VOCABULARY, (count, length), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", LESIONS)
def test_every_lesioned_model_decodes_step_by_step_as_at_once_and_learns_with_every_weight(name: str) -> None:
    model = build(LESIONS[name])
    source, target = sentences(), sentences(3, 5)
    memory, may_attend = model.encode(source)
    at_once = model.decode(target, memory, may_attend)
    cache = model.start(memory)
    steps = [model.decode(target[:, t : t + 1], None, may_attend, cache=cache) for t in range(5)]
    torch.testing.assert_close(torch.cat(steps, dim=1), at_once, rtol=1e-4, atol=1e-4)
    gradients = torch.autograd.grad(model.logits(at_once).logsumexp(-1).sum(), list(model.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_without_feed_forward_is_as_if_those_networks_gave_nothing() -> None:
    silent = build()
    for layer in (*silent.encoder.layers, *silent.decoder.layers):
        torch.nn.init.zeros_(layer.feed_forward.outer.weight)  # type: ignore[union-attr, arg-type]
    lesioned = build(without_feed_forward)
    source, target = sentences(), sentences(3, 5)
    # an untrained norm of what is normalised already changes nothing
    torch.testing.assert_close(lesioned(source, target), silent(source, target), rtol=1e-3, atol=1e-3)
    networks = 4 * (16 * 32 + 32 + 32 * 16 + 16)
    assert silent.num_parameters() - lesioned.num_parameters() == networks + 4 * 2 * 16


@pytest.mark.parametrize("lesion", [without_residuals, without_norms])
def test_a_layer_without_residuals_or_norms_is_the_equation_without_them(lesion: Callable[[Transformer], None]) -> None:
    whole, lesioned = build(), build(lesion)
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(3))
    layer = whole.encoder.layers[0]

    def residual(x: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(y, (16,)) if lesion is without_residuals else x + y

    expected = residual(x, layer.self_attention(x, None))  # type: ignore[operator]
    expected = residual(expected, layer.feed_forward(expected, None))  # type: ignore[operator]
    found = lesioned.encoder.layers[0](x, None, noise=None, record=None)
    torch.testing.assert_close(found, expected)


def test_without_positions_the_encoder_sees_a_bag_of_words() -> None:
    source, order = sentences(), torch.tensor([3, 1, 0, 6, 5, 2, 4])
    for model, same in ((build(without_positions), True), (build(), False)):
        moved, here = model.encode(source[:, order])[0], model.encode(source)[0][:, order]
        assert torch.allclose(moved, here, atol=1e-4) is same


def test_a_lesioned_training_writes_no_bundle_and_opens_with_what_it_learned(
    tmp_path: Path, small_corpus: Path
) -> None:
    training = Training((*files(small_corpus), *SMALL, "train.steps=2"), preset="tiny", lesion="without feed-forward")
    translator = training.run(tmp_path / "run", Listener())
    assert not (tmp_path / "run" / "model").exists()
    names = {name for name, _ in translator.reference.model.named_parameters()}
    assert not any("feed_forward" in name for name in names)
    again = training.run(tmp_path / "run", Listener())
    for one, other in zip(translator.reference.model.parameters(), again.reference.model.parameters(), strict=True):
        assert one.equal(other)
    first = new_model(make_config(read_toml(tmp_path / "run" / "config.toml"), where="run"), recall(tmp_path / "run"))
    assert not dict(first.named_parameters())["encoder.layers.0.self_attention.qkv.weight"].equal(
        dict(translator.reference.model.named_parameters())["encoder.layers.0.self_attention.qkv.weight"]
    )


def files(corpus: Path) -> list[str]:
    return [f'data.{side}=["{corpus / name}"]' for side, name in (("source", "train.en"), ("target", "train.de"))]


def test_gradient_norms_are_those_of_backpropagation(small_run: Path) -> None:
    config, prepared = make_config(read_toml(small_run / "config.toml"), where="run"), recall(small_run)
    model, batches = new_model(config, prepared), some_batches(config, prepared)
    norms = gradient_norms(model, batches)
    tokens = sum(batch.tokens for batch in batches)
    for batch in batches:
        (batch_loss(model, batch, None, 0.0).smoothed / tokens).backward()  # type: ignore[no-untyped-call]
    for stack in ("encoder", "decoder"):
        for layer, norm in zip(getattr(model, stack).layers, norms[stack], strict=True):
            squares = [float(weight.grad.double().pow(2).sum()) for weight in layer.parameters()]
            assert norm == pytest.approx(math.sqrt(sum(squares)), rel=1e-4)
    nll = sum(float(batch_loss(model, batch, None, 0.3).nll) for batch in batches)
    assert norms["loss"] == pytest.approx(nll / tokens, rel=1e-4)


def test_distance_and_entropy_of_attention_that_is_known() -> None:
    previous = torch.zeros(4, 4)
    previous[0, 0] = previous[1, 0] = previous[2, 1] = previous[3, 2] = 1.0
    assert distance(previous).tolist() == [0, 1, 1, 1]
    assert entropy(previous).tolist() == [0, 0, 0, 0]
    even = torch.full((3, 8), 1 / 8)
    assert entropy(even).tolist() == pytest.approx([3, 3, 3])
    assert distance(even)[0].item() == pytest.approx(3.5)


def test_reach_has_a_number_for_every_head_that_lies_between_one_key_and_all(small_run: Path) -> None:
    translator = Translator.load(small_run)
    found = reach(translator, [("The dog sleeps.", "Der Hund schläft."), ("We sleep.", "Wir schlafen.")])
    model = translator.reference.model.config
    for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers), ("cross", 1)):
        numbers = found[stack]
        assert [len(heads) for heads in numbers["entropy"]] == [model.num_heads] * layers
        assert all(0 <= value <= numbers["even"][1] + 1e-5 for heads in numbers["entropy"] for value in heads)
        assert all(value >= 0 for heads in numbers["distance"] for value in heads)


def test_words_with_equal_embeddings_are_nearest_neighbours(small_run: Path) -> None:
    translator = Translator.load(small_run)
    some = phrases("train", 300)
    pairs = dictionary(some)
    assert pairs["the"] in {"der", "die", "das", "den", "dem"}
    weights = translator.reference.model.target_embedding.tokens.weight
    source, target = translator.source_codec, translator.target_codec
    single = {e: g for e, g in pairs.items() if len(source.encode(e)) == len(target.encode(g)) == 1}
    assert len(single) >= 3
    alone = [e for e, g in single.items() if sum(other == g for other in single.values()) == 1]
    for english in alone:
        weights.data[target.encode(single[english])[0]] = 2 * weights.data[source.encode(english)[0]]
    found = neighbours(translator, some)
    assert found["words"] == len(single)
    assert found["first"] >= len(alone) / len(single)
    for english, german, _, across in found["examples"]:
        if english in alone:
            assert across.startswith(f"{german} 1.00")


def test_the_feed_forward_network_is_the_same_at_every_position() -> None:
    model = build()
    found = position_wise(model)
    assert found["moved"] < 1e-5 < found["size"]
    assert found["networks"] == 4
    assert parameters(model) == {"shared": 4 * (2 * 16 * 32 + 32 + 16), "all": model.num_parameters()}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of two updates."""
    shape = (
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "model.d_model=16",
        "model.d_ff=32",
        "text.vocabulary=400",
        "train.batch_tokens=300",
        "train.micro_batch_tokens=300",
        "train.warmup_steps=4",
        "train.threads=1",
        "search.beam=1",
        "search.extra_length=1",
    )
    sizes = {"tiny": Size(pairs=60, updates=2, depths=(1, 2), depth_updates=1, shape=shape)}
    monkeypatch.setattr(study_of_questions, "SIZES", sizes)
    monkeypatch.setattr(study_of_questions, "VALID_PAIRS", 4)
    monkeypatch.setattr(study_of_questions, "DEEP_SHAPE", ())
    monkeypatch.setattr(study_of_questions, "cores", lambda: 1)
    monkeypatch.setattr(lesion_curves, "ALIGNED", 200)


@pytest.mark.usefixtures("few")
def test_the_page_answers_every_question_and_is_made_once(tmp_path: Path) -> None:
    study = Study(work=tmp_path / "work", data=tmp_path)
    result = questions(study)
    tables = {part.name: part for part in result.parts if isinstance(part, Table)}
    assert [row[0] for row in tables["lesions"].rows] == [*LESIONS, "with one head"]
    assert not [cell for table in tables.values() for row in table.rows for cell in row if "failed" in cell]
    assert [row[:2] for row in tables["depth"].rows] == [
        [depth, kind] for depth in ("1", "2") for kind in ("with residuals", "without residuals")
    ]
    assert set(tables) == {"lesions", "depth", "reach", "neighbours", "position-wise"}
    pictures = [part.name for part in result.parts if isinstance(part, Picture)]
    assert pictures == ["lesions", "depth", "reach"]
    done = sorted((tmp_path / "work" / "questions" / "tiny").glob("*.json"))
    times = [path.stat().st_mtime_ns for path in done]
    assert len(done) == 6 + 4
    assert questions(study).markdown("") == result.markdown("")
    assert [path.stat().st_mtime_ns for path in done] == times
