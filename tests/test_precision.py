"""Training in bfloat16 and through torch.compile: as in float32, or nearly."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transduce import Trainer
from transduce.bundle import read_weights
from transduce.data.batching import Batch
from transduce.model import Noise, Transformer
from transduce.settings import load_config
from transduce.text.codec import PAD
from transduce.train import loop
from transduce.train.feed import load
from transduce.train.workers import batch_loss
from trials import SMALL

LARGER = [
    "model.d_model=32",
    "model.d_ff=64",
    "train.batch_tokens=1000",
    "train.micro_batch_tokens=500",
    "train.warmup_steps=10",
    "train.learning_rate=0.7",
    "train.steps=20",
    "train.validate_every=20",
    "train.save_every=20",
]
Run = Callable[..., Path]


@pytest.fixture
def train(tmp_path: Path, phrasebook: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(loop, "REPORT_SECONDS", float("inf"))  # the one report is of all updates before validation
    files = []
    for side, name in (("source", "train.en"), ("target", "train.de")):
        lines = (phrasebook / name).read_text(encoding="utf-8").split("\n")[:600]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        files.append(f"data.{side}=['{tmp_path / name}']")

    def run(name: str, *settings: str) -> Path:
        Trainer(tmp_path / name, preset="tiny", settings=[*files, *SMALL, *LARGER, *settings]).run()
        return tmp_path / name

    return run


def losses(run: Path) -> tuple[float, float]:
    """Training loss and validation perplexity at the end."""
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    reports = [event for event in events if event["event"] == "report"]
    validations = [event for event in events if event["event"] == "validation"]
    return reports[-1]["loss"], validations[-1]["perplexity"]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return read_weights(run / "model" / "model.safetensors")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_bfloat16_learns_as_float32_does_and_leaves_the_weights_in_float32(train: Run, norm: str) -> None:
    exact = train("exact", f"model.norm={norm}")
    rough = train("rough", f"model.norm={norm}", "train.precision=bfloat16")
    assert losses(rough) == pytest.approx(losses(exact), rel=0.02)
    assert {weight.dtype for weight in weights(rough).values()} == {torch.float32}
    assert any(not torch.equal(weight, weights(exact)[name]) for name, weight in weights(rough).items())


def test_compiling_is_asked_of_torch_once_and_for_all_shapes(train: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def compile_nothing(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        asked.append(options)
        return function

    monkeypatch.setattr(torch, "compile", compile_nothing)
    plain = train("plain", "train.steps=2")
    assert asked == []
    compiled = train("compiled", "train.steps=2", "train.compile=true")
    assert asked == [{"dynamic": True}]
    assert all(torch.equal(weight, weights(compiled)[name]) for name, weight in weights(plain).items())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch.compile warns of itself
def test_a_compiled_model_has_the_same_loss_and_gradients() -> None:
    config = load_config(preset="tiny", settings=[*SMALL, *LARGER]).model
    plain = Transformer(config, 40, 40)
    compiled = deepcopy(plain)
    compiled.compile(dynamic=True, backend="eager")  # this backend needs no C++ compiler
    for update, (sentences, length) in enumerate(((3, 7), (5, 4))):
        ids = np.random.default_rng(update).integers(4, 40, (3, sentences, length))
        ids[:, 0, -2:] = PAD
        batch = Batch(*ids, tokens=sentences * length - 2, source_tokens=sentences * length - 2)
        losses = [
            batch_loss(model, load(batch, torch.device("cpu")), Noise(1, update), 0.1).smoothed
            for model in (plain, compiled)
        ]
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
    for ours, theirs in zip(plain.parameters(), compiled.parameters(), strict=True):
        assert torch.allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)
