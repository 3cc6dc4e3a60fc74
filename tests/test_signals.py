"""A signal stops a run at the next micro-batch or batch of validation, and resuming ends as if it had not come."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from test_training import Recorder, new_loop
from transduce.bundle import read_weights
from transduce.data.store import Store
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.translator import Translator
from transduce.errors import Interrupted
from transduce.model import Transformer
from transduce.settings import load_config
from transduce.text import Symbols
from transduce.train import loop as loop_module
from transduce.train import signals as signals_module
from transduce.train.feed import Update
from transduce.train.loop import Loop
from transduce.train.progress import Validation
from transduce.train.signals import Signals, Stopped
from transduce.train.state import checkpoints, load_checkpoint, read_state

Letters = tuple[Store, Symbols]
RECIPE = ("train.steps=12", "train.validate_every=4", "train.save_every=4", "train.average=best")


def resumed(loop: Loop) -> Loop:
    """The loop as a new process would take it up."""
    loop.state = load_checkpoint(checkpoints(loop.checkpoints)[-1], loop.model, loop.optimizer)
    loop.guard.restore(loop.state.loss_scale)
    return loop


def same_end(one: Loop, other: Loop) -> None:
    ends = [checkpoints(loop.checkpoints) for loop in (one, other)]
    assert [path.name for path in ends[0]] == [path.name for path in ends[1]]
    for mine, theirs in zip(*ends, strict=True):
        assert read_state(mine).equals(read_state(theirs))
        weights = [read_weights(path / "model.safetensors") for path in (mine, theirs)]
        assert all(weights[0][name].equal(weights[1][name]) for name in weights[1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_at_the_next_micro_batch_and_drops_the_update(
    tmp_path: Path, letters: Letters, number: int, code: int
) -> None:
    whole = new_loop(*letters, tmp_path / "whole", *RECIPE)
    whole.run()
    broken = new_loop(*letters, tmp_path / "broken", *RECIPE)
    work = broken.workers._work
    batches = 0

    def signalled(all_batches, step, *others):  # type: ignore[no-untyped-def]
        nonlocal batches
        check = others[-1]

        def check_after_signal() -> None:
            nonlocal batches
            if step == 6:
                batches += 1
                if batches == 2:  # one micro-batch of step 6 is done
                    os.kill(os.getpid(), number)
            check()

        return work(all_batches, step, *others[:-1], check_after_signal)

    broken.workers._work = signalled  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="saved at step 5;") as interruption:
        broken.run()
    assert interruption.value.exit_code == code
    assert checkpoints(tmp_path / "broken")[-1].name == "step-00000005"
    broken.workers._work = work  # type: ignore[method-assign]
    again = new_loop(*letters, tmp_path / "broken", *RECIPE)
    resumed(again).run()
    assert again.state.equals(whole.state)
    for name, weight in whole.model.state_dict().items():
        assert weight.equal(again.model.state_dict()[name])


def test_a_validation_given_up_is_made_first_when_the_run_is_resumed(tmp_path: Path, letters: Letters) -> None:
    scores = {4: 3.0, 8: 2.0, 12: 5.0}

    def validate(step: int) -> Validation:
        return Validation(step, scores[step], 0.0, (), 0.0)

    whole, broken, again = (new_loop(*letters, tmp_path / name, *RECIPE) for name in ("whole", "broken", "broken"))
    whole.validate = again.validate = validate

    def stopped(step: int) -> Validation:
        if step == 8:
            os.kill(os.getpid(), signal.SIGTERM)
            broken.signals.check()
        return validate(step)

    broken.validate = stopped
    whole.run()
    with pytest.raises(Interrupted, match="saved at step 8;"):
        broken.run()
    kept = read_state(checkpoints(tmp_path / "broken")[-1])
    assert kept.validation_due(broken.config.train)
    assert kept.best_perplexity == 3.0
    resumed(again).run()
    same_end(whole, again)


def test_a_signal_in_the_last_update_is_heeded(tmp_path: Path, letters: Letters) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=4", "train.validate_every=4")

    def validate(step: int) -> Validation:
        os.kill(os.getpid(), signal.SIGINT)
        return Validation(step, 1.0, 0.0, (), 0.0)

    loop.validate = validate
    with pytest.raises(Interrupted, match="saved at step 4;"):
        loop.run()


class Unmade:
    """In the stead of the stores of epochs: one that is never made, unless it is given up."""

    def __init__(self) -> None:
        self.given_up = threading.Event()

    def give_up(self) -> None:
        self.given_up.set()


def test_a_signal_does_not_wait_for_an_update_that_is_not_ready(
    tmp_path: Path, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    unmade, original = Unmade(), loop_module.updates

    def slow(*arguments: Any, **options: Any) -> Iterator[Update]:
        yield from islice(original(*arguments, **options | {"resampling": None}), 3)
        while (loop.state.step, loop.signals.waiting_for) != (3, "the next update to be made ready"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        assert unmade.given_up.wait(60)

    monkeypatch.setattr(loop_module, "updates", slow)
    loop = new_loop(*letters, tmp_path / "a", "train.steps=4")
    loop.resampling = unmade  # type: ignore[assignment]
    with pytest.raises(Interrupted, match="saved at step 3;"):
        loop.run()
    assert unmade.given_up.is_set()


def test_a_signal_before_the_first_update_leaves_nothing_to_average(tmp_path: Path, letters: Letters) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=4")
    loop.signals.number = signal.SIGTERM
    with pytest.raises(Interrupted, match="before the first update") as interruption:
        loop.run()
    assert interruption.value.exit_code == 143
    assert list((tmp_path / "a").iterdir()) == []


def test_handlers_are_put_back_after_the_first_signal_so_that_the_second_ends_at_once() -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Signals(Recorder()) as signals:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Stopped):
                signals.check()
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_who_has_to_wait_is_told_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals_module, "PATIENCE", 0.01)
    told = threading.Event()

    class Waiting(Recorder):
        def warn(self, message: str) -> None:
            super().warn(message)
            if "still waiting" in message:
                told.set()

    heard = Waiting()
    with Signals(heard) as signals:
        signals.waiting_for = "checkpoint 7 to be written"
        os.kill(os.getpid(), signal.SIGINT)
        assert told.wait(60)
    assert heard.warnings == [
        "SIGINT: stopping after checkpoint 7 to be written; again to stop at once",
        "SIGINT: still waiting for checkpoint 7 to be written; again to stop at once",
    ]


@pytest.mark.parametrize("work", ["translate", "likelihood"])
def test_a_translator_asks_between_batches_whether_to_go_on(work: str) -> None:
    codec = Symbols(list("abc"))
    config = load_config(preset="tiny", settings=["search.batch_tokens=8", "search.beam=1"])
    asked = 0

    def stop_at_the_third() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise Stopped

    model = Transformer(narrow(config.model), codec.size, codec.size)
    translator = Translator(TorchEngine(model), codec, codec, config.search, between=stop_at_the_third)
    lines = ["a b c a b c"] * 5
    with pytest.raises(Stopped):
        translator.translate(lines) if work == "translate" else translator.likelihood(lines, lines)
    assert asked == 3


def narrow(config):  # type: ignore[no-untyped-def]
    return config.model_copy(update={"d_model": 8, "d_ff": 8, "num_heads": 2, "decoder_layers": 1})
