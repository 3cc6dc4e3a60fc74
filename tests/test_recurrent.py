"""The recurrent model: its equations, its search and its training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from transduce.bundle import read_weights
from transduce.config import ModelConfig, SearchConfig
from transduce.decode.hypothesis import Request
from transduce.decode.torch_engine import TorchEngine
from transduce.files import write_json
from transduce.model import Noise
from transduce.paper import corpora
from transduce.paper.race import Curve, Point, Race, Texts, marked, read_curve
from transduce.paper.race_page import race_parts, verdict
from transduce.paper.recurrent import Recurrent
from transduce.paper.recurrent_training import RecurrentTrainer, recipe
from transduce.paper.result import Picture, Table
from transduce.text.codec import BOS, EOS, PAD
from transduce.train.progress import Listener
from transduce.train.state import checkpoints
from trials import SMALL

VOCABULARY = 30
SOURCE = torch.tensor([[5, 6, 7, 8, EOS], [9, 10, EOS, PAD, PAD]])
TARGET = torch.tensor([[BOS, 11, 12, 13], [BOS, 14, 15, 16]])


@pytest.fixture
def model() -> Recurrent:
    torch.manual_seed(0)
    model = Recurrent(ModelConfig(d_model=8, dropout=0.2), VOCABULARY).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def gru(x: Tensor, h: Tensor, weights: dict[str, Tensor], suffix: str = "") -> Tensor:
    """A step of a GRU, written out."""
    w, u, b, c = (weights[f"{kind}{suffix}"] for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    (wr, wz, wn), (ur, uz, un), (br, bz, bn), (cr, cz, cn) = (part.chunk(3) for part in (w, u, b, c))
    r = torch.sigmoid(wr @ x + br + ur @ h + cr)
    z = torch.sigmoid(wz @ x + bz + uz @ h + cz)
    n = torch.tanh(wn @ x + bn + r * (un @ h + cn))
    return (1 - z) * n + z * h


def written_out(model: Recurrent, source: list[int], target: list[int]) -> Tensor:
    """The states of one sentence by the equations, a word at a time."""
    embed, encoder, cell = (
        model.tokens.weight,
        dict(model.encoder.named_parameters()),
        dict(model.cell.named_parameters()),
    )
    h = torch.zeros(16, dtype=torch.float64)
    forward, backward = [], []
    for token in source:
        forward.append(h := gru(embed[token], h, encoder, "_l0"))
    h = torch.zeros_like(h)
    for token in reversed(source):
        backward.insert(0, h := gru(embed[token], h, encoder, "_l0_reverse"))
    memory = [torch.cat(both) for both in zip(forward, backward, strict=True)]
    attention = model.attention
    s = torch.tanh(model.first.weight @ backward[0] + model.first.bias)
    found = []
    for token in target:
        query = attention.query.weight @ s + attention.query.bias
        scores = [attention.hidden.weight[0] @ torch.tanh(query + attention.key.weight @ m) for m in memory]
        weights = torch.stack(scores).softmax(dim=0)
        context = sum(weight * m for weight, m in zip(weights, memory, strict=True))
        assert isinstance(context, Tensor)
        s = gru(torch.cat([embed[token], context]), s, cell)
        found.append(torch.tanh(model.output.weight @ torch.cat([s, embed[token], context]) + model.output.bias))
    return torch.stack(found)


def test_it_is_what_the_equations_say_whatever_the_padding(model: Recurrent) -> None:
    hidden = model(SOURCE, TARGET)
    for row, length in enumerate((5, 3)):
        expected = written_out(model, SOURCE[row, :length].tolist(), TARGET[row].tolist())
        torch.testing.assert_close(hidden[row], expected)


def test_a_step_at_a_time_is_the_same_as_at_once(model: Recurrent) -> None:
    memory, may_attend = model.encode(SOURCE)
    cache = model.start(memory)
    steps = [model.decode(TARGET[:, [at]], None, may_attend, cache=cache) for at in range(TARGET.size(1))]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(SOURCE, TARGET))


def test_beams_are_queries_and_rows_change_places(model: Recurrent) -> None:
    memory, may_attend = model.encode(SOURCE)
    cache = model.start(memory)
    rows = TARGET.repeat_interleave(2, dim=0)
    rows[1, 1] = 20  # the second beam of the first sentence goes another way
    first = model.decode(rows[:, :2], None, may_attend, cache=cache)
    torch.testing.assert_close(first[[0, 2]], model(SOURCE, TARGET[:, :2]))
    cache.reorder(torch.tensor([1, 1, 2, 3]))
    second = model.decode(rows[[1, 1, 2, 3], 2:3], None, may_attend, cache=cache)
    expected = model(SOURCE[:1], rows[1:2, :3])[:, 2:]
    torch.testing.assert_close(second[:2], expected.expand(2, -1, -1))


def test_search_finds_the_same_for_a_sentence_alone_and_among_others(model: Recurrent) -> None:
    engine = TorchEngine(model.as_transformer())
    requests = [Request((5, 6, 7, 8)), Request((9, 10)), Request((11,))]
    for beam in (1, 4):
        search = SearchConfig(beam=beam, extra_length=6)
        together = engine.search(requests, search)
        alone = [engine.search([request], search)[0] for request in requests]
        assert [[h.ids for h in each] for each in together] == [[h.ids for h in each] for each in alone]


def test_the_loss_reaches_every_weight_and_dropout_follows_from_the_noise(model: Recurrent) -> None:
    noise = Noise(1, 7)
    model.logits(model(SOURCE, TARGET, noise=noise)).logsumexp(dim=-1).sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []
    once, again, other = (model(SOURCE, TARGET, noise=n) for n in (noise, noise, Noise(1, 8)))
    assert once.equal(again)
    assert not once.equal(other)


def test_it_has_about_as_many_parameters_as_the_transformer_beside_it() -> None:
    from transduce.model.transformer import shape_only
    from transduce.settings import load_config

    for preset in ("tiny", "small"):
        config = load_config(preset=preset)
        ours = shape_only(config.model, config.text.vocabulary, config.text.vocabulary).num_parameters()
        with torch.device("meta"):
            theirs = Recurrent(config.model, config.text.vocabulary).num_parameters()
        assert theirs == pytest.approx(ours, rel=0.2)


def files(corpus: Path) -> list[str]:
    return [f"data.source=['{corpus / 'train.en'}']", f"data.target=['{corpus / 'train.de'}']"]


def test_a_resumed_training_is_the_unbroken_one(tmp_path: Path, small_corpus: Path) -> None:
    settings = [*files(small_corpus), *SMALL, *recipe(16)]
    whole = RecurrentTrainer(tmp_path / "whole", preset="tiny", settings=[*settings, "train.steps=6"]).run()
    RecurrentTrainer(tmp_path / "broken", preset="tiny", settings=[*settings, "train.steps=3"]).run()
    broken = RecurrentTrainer.resume(tmp_path / "broken", more=3).run()
    assert whole.name == broken.name == "step-00000006"
    weights = [read_weights(path / "model.safetensors") for path in (whole, broken)]
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[1])


def test_its_learning_rate_has_its_peak_where_the_warm_up_ends() -> None:
    from transduce.paper.recurrent_training import PEAK, WARMUP
    from transduce.settings import load_config
    from transduce.train.schedule import learning_rate

    train = load_config(preset="small", settings=recipe(256)).train
    rates = [
        learning_rate(step, d_model=256, warmup_steps=train.warmup_steps, factor=train.learning_rate)
        for step in range(1, 3 * WARMUP)
    ]
    assert max(rates) == rates[WARMUP - 1] == pytest.approx(PEAK)


def test_marks_take_the_nearest_checkpoint(tmp_path: Path) -> None:
    for step, seconds in ((10, 50.0), (20, 115.0), (30, 180.0), (40, 250.0)):
        (tmp_path / f"step-{step:08d}").mkdir()
        write_json(tmp_path / f"step-{step:08d}" / "state.json", {"step": step, "seconds": seconds, "validations": []})
    assert [path.name[-2:] for path in marked(tmp_path, [1, 2, 3, 4])] == ["10", "20", "30", "40"]
    assert [path.name[-2:] for path in marked(tmp_path, [1.9, 2.0, 9.0])] == ["20", "20", "40"]


def race(tmp_path: Path, corpus: Path) -> tuple[Race, Texts]:
    sides = corpus / "train.en", corpus / "train.de"
    texts = Texts(corpora.Texts("some phrases", sides, sides), corpora.read(sides)[:12])
    return Race("tiny", minutes=60, marks=2, settings=(*SMALL, "train.steps=4")), texts


class Forgetful(Listener):
    """Raises as soon as the second of the two is to be measured."""

    def note(self, message: str) -> None:
        if message.startswith("GRU: measuring"):
            raise KeyboardInterrupt


def test_a_race_goes_on_where_it_was_and_is_then_read_again(
    tmp_path: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest, texts = race(tmp_path, small_corpus)
    with pytest.raises(KeyboardInterrupt):
        contest.run(texts, tmp_path / "work", Forgetful())
    (kept,) = (tmp_path / "work").rglob("transformer.json")
    before = kept.stat().st_mtime_ns
    curves = contest.run(texts, tmp_path / "work", Listener())
    assert kept.stat().st_mtime_ns == before
    assert [curve.name for curve in curves] == ["Transformer", "GRU"]
    assert all([point.step for point in curve.points] == [4, 4] for curve in curves)  # long before the first mark
    assert [curve.averaged_bleu is None for curve in curves] == [False, True]
    assert curves[1] == read_curve(kept.with_name("gru.json"))
    for run in ("transformer", "gru"):
        assert (kept.parent / run / "log.jsonl").is_file()
        assert checkpoints(kept.parent / run / "checkpoints")
    monkeypatch.setattr("transduce.paper.race.Trainer", None)
    monkeypatch.setattr("transduce.paper.race.RecurrentTrainer", None)
    assert contest.run(texts, tmp_path / "work", Listener()) == curves


def curve(name: str, *scores: float, test: float) -> Curve:
    points = tuple(Point(2.0 * at, 100 * at, 50 / at, score) for at, score in enumerate(scores, 1))
    return Curve(name, 2_000_000, 2, points, test, test + 1, "signature", None if name == "GRU" else test + 0.5)


def test_the_page_says_who_was_ahead(tmp_path: Path, small_corpus: Path) -> None:
    contest, texts = race(tmp_path, small_corpus)
    curves = curve("Transformer", 1.0, 5.0, 9.0, test=9.25), curve("GRU", 2.0, 4.0, 8.0, test=8.0)
    assert (
        verdict(*curves)
        == "The Transformer is ahead at 2 of 3 marks; on the test set the Transformer is, by 1.25 BLEU."
    )
    parts = race_parts(contest, texts, curves)
    tables = {part.name: part for part in parts if isinstance(part, Table)}
    assert list(tables["table2-race"].rows[1]) == ["4.0", "4.0", "5.00", "4.00", "25.00", "25.00"]
    assert list(tables["table2-test"].rows[1]) == ["GRU", "2.00", "300", "8.00", "9.00", ""]
    (picture,) = (part for part in parts if isinstance(part, Picture))
    assert "minutes of training" in picture.svg
