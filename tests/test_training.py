"""Training: its recipe, its budgets, and that nothing depends on when it was interrupted."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from transduce import Trainer, Translator
from transduce.bundle import read_weights, weights_digest
from transduce.config import Config, SearchConfig
from transduce.data.batching import Batching, collate
from transduce.data.preparation import recall
from transduce.data.store import Store
from transduce.decode.translation import Translation
from transduce.errors import Interrupted, RunError
from transduce.model import Transformer
from transduce.settings import load_config
from transduce.text import Symbols
from transduce.train.announcement import too_long
from transduce.train.calibration import Budget, budget, resolve
from transduce.train.choice import choose_preset
from transduce.train.feed import Update, load
from transduce.train.loop import Loop, make_optimizer
from transduce.train.progress import Listener, Report, Validation
from transduce.train.schedule import learning_rate
from transduce.train.state import (
    State,
    checkpoints,
    load_checkpoint,
    prune,
    save_checkpoint,
    set_damaged_aside,
    step_of,
    to_average,
)
from transduce.train.workers import Workers
from transduce.validation import validate
from trials import SMALL

OFTEN = ["train.validate_every=6", "train.save_every=5"]


def bundle_digest(run: Path) -> str:
    return weights_digest(read_weights(run / "model" / "model.safetensors"))


def trainer(run: Path, corpus: Path, *settings: str, listener: Listener | None = None) -> Trainer:
    files = [f"data.{side}=['{corpus / name}']" for side, name in (("source", "train.en"), ("target", "train.de"))]
    return Trainer(run, preset="tiny", settings=[*files, *SMALL, *OFTEN, *settings], listener=listener)


class Interrupter(Listener):
    """Sends a signal when a step is validated or saved, so that it is heard during the next."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number = step, number

    def saved(self, path: Path, step: int) -> None:
        if step == self.step:
            self.step = -1
            os.kill(os.getpid(), self.number)

    def validated(self, validation: Validation) -> None:
        self.saved(Path(), validation.step)


class Recorder(Listener):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.validations: list[Validation] = []
        self.reports: list[Report] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def validated(self, validation: Validation) -> None:
        self.validations.append(validation)

    def report(self, report: Report) -> None:
        self.reports.append(report)


@pytest.mark.parametrize(
    ("number", "code", "settings"),
    [(signal.SIGINT, 130, ["train.steps=24"]), (signal.SIGTERM, 143, ["train.steps=24", "train.cooldown=0.8"])],
)
def test_an_interrupted_and_resumed_run_ends_as_an_unbroken_one(
    tmp_path: Path, small_corpus: Path, number: int, code: int, settings: list[str]
) -> None:
    trainer(tmp_path / "unbroken", small_corpus, *settings).run()
    with pytest.raises(Interrupted) as interruption:
        trainer(tmp_path / "broken", small_corpus, *settings, listener=Interrupter(12, number)).run()
    assert interruption.value.exit_code == code
    resumed = Recorder()
    Trainer.resume(tmp_path / "broken", listener=resumed).run()
    assert "resuming at step 12" in " ".join(resumed.notes)
    assert bundle_digest(tmp_path / "broken") == bundle_digest(tmp_path / "unbroken")


@pytest.mark.parametrize("budget", ["train.steps=8", "train.minutes=8"])
def test_a_cool_down_lowers_the_rate_over_the_last_updates(
    tmp_path: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch, budget: str
) -> None:
    monkeypatch.setattr(Loop, "seconds", property(lambda loop: 60.0 * loop.state.step))  # an update takes a minute
    rates = {}
    for cooldown in (0.0, 0.5):
        heard = Recorder()
        settings = (budget, "train.validate_every=2", f"train.cooldown={cooldown}")
        trainer(tmp_path / str(cooldown), small_corpus, *settings, listener=heard).run()
        rates[cooldown] = {report.step: report.learning_rate for report in heard.reports}
        assert ("cool-down over the last 50%" in " ".join(heard.notes)) == bool(cooldown)
    lowered = {step: rates[0.5][step] / rates[0.0][step] for step in (2, 4, 6, 8)}
    assert lowered == pytest.approx({2: 1, 4: 1, 6: 0.75, 8: 0.25})  # as of what was spent before the update


def test_two_runs_with_one_seed_are_equal_and_another_seed_differs(tmp_path: Path, small_corpus: Path) -> None:
    digests = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trainer(tmp_path / name, small_corpus, "train.steps=5", f"train.seed={seed}").run()
        digests.append(bundle_digest(tmp_path / name))
    assert digests[0] == digests[1] != digests[2]


def test_resuming_needs_no_text_files(tmp_path: Path, small_corpus: Path) -> None:
    with pytest.raises(Interrupted):
        trainer(tmp_path / "run", small_corpus, "train.steps=8", listener=Interrupter(5, signal.SIGINT)).run()
    for name in ("train.en", "train.de"):
        (small_corpus / name).unlink()
    assert (Trainer.resume(tmp_path / "run").run() / "model.safetensors").is_file()


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, small_corpus: Path) -> None:
    trainer(tmp_path / "whole", small_corpus, "train.steps=14").run()
    with pytest.raises(Interrupted):
        trainer(tmp_path / "run", small_corpus, "train.steps=14", listener=Interrupter(10, signal.SIGINT)).run()
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    weights = newest / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-3] ^= 1
    weights.write_bytes(damaged)
    heard = Recorder()
    Trainer.resume(tmp_path / "run", listener=heard).run()
    assert any(newest.name in warning and "SHA-256" in warning for warning in heard.warnings)
    assert bundle_digest(tmp_path / "run") == bundle_digest(tmp_path / "whole")


def test_what_is_no_checkpoint_is_set_aside_and_named(tmp_path: Path) -> None:
    (tmp_path / "step-00000005").mkdir()
    (tmp_path / ".step-00000006.123.tmp").mkdir()
    (damage,) = set_damaged_aside(tmp_path)
    assert "step-00000005: no manifest.json" in damage
    assert [path.name for path in tmp_path.iterdir()] == ["damaged-step-00000005"]


def test_every_event_is_in_the_log(run: Path) -> None:
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    kinds = {event["event"] for event in events}
    assert {"note", "report", "validation", "checkpoint"} <= kinds
    validations = [event for event in events if event["event"] == "validation"]
    assert validations[-1]["perplexity"] < validations[0]["perplexity"]
    assert all(len(event["samples"]) == 3 for event in validations)


def test_the_first_lines_say_what_is_trained_on_what_and_until_when(tmp_path: Path, small_corpus: Path) -> None:
    heard = Recorder()
    trainer(tmp_path / "run", small_corpus, "train.steps=3", "model.norm='pre'", listener=heard).run()
    text = "\n".join(heard.notes)
    assert "pre-norm Transformer (tiny), scaled dot-product attention, 1+1 layers" in text
    assert "held out of training, by a hash" in text
    assert "en-de" in text
    assert "until about" in text
    assert "3 updates" in text


def test_a_second_start_finds_the_token_ids(tmp_path: Path, small_corpus: Path) -> None:
    store = f"data.store='{tmp_path / 'store'}'"
    first, second = Recorder(), Recorder()
    trainer(tmp_path / "a", small_corpus, "train.steps=2", store, listener=first).run()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    trainer(tmp_path / "b", small_corpus, "train.steps=2", store, listener=second).run()
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*")}
    assert any("vocabulary: 400" in note for note in first.notes)
    assert not any("vocabulary: 400" in note for note in second.notes)
    assert bundle_digest(tmp_path / "a") == bundle_digest(tmp_path / "b")


def test_patience_ends_a_run_without_a_budget(tmp_path: Path, small_corpus: Path) -> None:
    heard = Recorder()
    run = tmp_path / "run"
    trainer(
        run, small_corpus, "train.validate_every=1", "train.patience=2", "train.learning_rate=30", listener=heard
    ).run()
    scores = [validation.perplexity for validation in heard.validations]
    best = scores.index(min(scores))
    assert len(scores) == best + 3


def test_the_budget_in_minutes_ends_a_run(tmp_path: Path, small_corpus: Path) -> None:
    heard = Recorder()
    start = time.monotonic()
    trainer(tmp_path / "run", small_corpus, "train.minutes=0.02", listener=heard).run()
    assert time.monotonic() - start > 1.2
    assert (tmp_path / "run" / "model" / "manifest.json").is_file()


def test_the_budget_in_epochs_passes_over_every_pair(tmp_path: Path, small_corpus: Path) -> None:
    trainer(
        tmp_path / "run", small_corpus, "train.epochs=2", "train.validate_every=1000", "train.save_every=1000"
    ).run()
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    state = json.loads((newest / "state.json").read_text(encoding="utf-8"))
    assert (state["epoch"], state["update"]) == (2, 0)


def test_a_budget_is_the_smallest_of_its_limits() -> None:
    train = load_config(settings=["train.steps=1000", "train.epochs=3", "train.minutes=1"]).train
    assert budget(train, seconds_per_update=0.1, updates_per_epoch=100).updates == 300
    assert budget(train, seconds_per_update=1.0, updates_per_epoch=100).updates == 60
    assert budget(train, seconds_per_update=0.01, updates_per_epoch=9999).updates == 1000


def test_a_short_budget_shortens_the_warm_up_but_not_raises_the_peak() -> None:
    train = load_config(preset="tiny", settings=["train.steps=400"]).train
    short, told = resolve(train, Budget(0.1, 100, 400))
    assert short.warmup_steps == 100
    assert any("warmup_steps" in line for line in told)

    def peak(warmup: int, factor: float) -> float:
        return learning_rate(warmup, d_model=128, warmup_steps=warmup, factor=factor)

    before = peak(train.warmup_steps, train.learning_rate)
    assert peak(short.warmup_steps, short.learning_rate) == pytest.approx(before)
    assert resolve(train, Budget(0.1, 100, 100_000)) == (train, [])


def test_a_short_budget_leaves_alone_what_was_asked_for() -> None:
    train = load_config(preset="tiny", settings=["train.warmup_steps=300", "train.save_every=90"]).train
    resolved, _ = resolve(train, Budget(0.1, 100, 400), given={"train.warmup_steps", "train.save_every"})
    assert (resolved.warmup_steps, resolved.save_every, resolved.learning_rate) == (300, 90, train.learning_rate)
    assert resolved.validate_every == 100


def test_without_a_budget_patience_ends_the_run_and_the_best_are_averaged() -> None:
    train, _ = resolve(load_config(preset="tiny").train, Budget(0.1, 100, None))
    assert train.patience is not None
    assert train.average == "best"


def test_validation_compares_with_the_target_as_the_model_is_given_it(tmp_path: Path, small_corpus: Path) -> None:
    work = trainer(tmp_path / "run", small_corpus, "train.steps=1", 'text.normalize=["lower"]')
    prepared = recall(work.run().parent)
    lower = replace(prepared, valid_target=[line.lower() for line in prepared.valid_target])
    assert lower.valid_target != prepared.valid_target
    model = work.new_model(prepared)
    found, plain = (validate(model, each, work.config, step=1) for each in (prepared, lower))
    assert (found.bleu, found.perplexity) == (plain.bleu, plain.perplexity)
    right = [Translation(line, 0.0, 0.0, ()) for line in lower.valid_target]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "translate", lambda *given, **options: right)
        assert validate(model, prepared, work.config, step=1).bleu == pytest.approx(100)


@pytest.mark.parametrize("search", [{"sampling": True, "temperature": 2.0}, {"beam": 4, "groups": 2}])
def test_validation_is_greedy_whatever_the_search_is(
    tmp_path: Path, small_corpus: Path, small_run: Path, search: dict[str, object]
) -> None:
    work = trainer(tmp_path / "run", small_corpus, "train.steps=1")
    prepared = recall(small_run)
    model = work.new_model(prepared)
    other = work.config.model_copy(update={"search": SearchConfig.model_validate(search)})
    assert validate(model, prepared, other, step=1).samples == validate(model, prepared, work.config, step=1).samples


def test_a_second_run_of_one_trainer_goes_on_with_the_first(tmp_path: Path, small_corpus: Path) -> None:
    work = trainer(tmp_path / "run", small_corpus, "train.steps=2")
    work.run()
    before = bundle_digest(tmp_path / "run")
    work.run()
    assert bundle_digest(tmp_path / "run") == before


def test_two_trainers_cannot_share_a_directory(tmp_path: Path, small_corpus: Path) -> None:
    first, second = (trainer(tmp_path / "run", small_corpus, "train.steps=2") for _ in range(2))
    first.run()
    with pytest.raises(RunError, match="holds another run"):
        second.run()
    assert Translator.load(tmp_path / "run")


def test_a_model_with_a_nan_is_never_saved(tmp_path: Path, letters: tuple[Store, Symbols]) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=3")
    loop.model.decoder.memory.weight.data[0, 0] = float("nan")
    with pytest.raises(RunError, match=r"step 3: .* is not finite: lower train.learning_rate"):
        loop.run()
    assert checkpoints(tmp_path / "a") == []


def test_a_place_behind_the_end_of_an_epoch_is_the_start_of_the_next(
    tmp_path: Path, letters: tuple[Store, Symbols]
) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=1")
    loop.state = State(epoch=3, update=10**6)
    assert (loop.run().epoch, loop.state.update) == (4, 1)


@pytest.mark.parametrize("failing", ["validate", "batching"])
def test_the_thread_that_makes_batches_ends_with_the_loop(
    tmp_path: Path, letters: tuple[Store, Symbols], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> Validation:
        raise RuntimeError(failing)

    def feeding() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("feed")]

    loop = new_loop(*letters, tmp_path / "a", "train.steps=3", "train.validate_every=2")
    loop.run()
    assert feeding() == []
    loop = new_loop(*letters, tmp_path / "b", "train.epochs=3", "train.validate_every=2")
    if failing == "validate":
        loop.validate = fail
    else:
        monkeypatch.setattr(Batching, "epoch", lambda batching, number: fail(number))
    with pytest.raises(RuntimeError, match=failing):
        loop.run()
    assert feeding() == []


def test_the_best_checkpoints_are_averaged_and_the_last_when_none_was_validated(
    tmp_path: Path, letters: tuple[Store, Symbols]
) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=1")
    loop.run()
    train = load_config(settings=["train.average=best", "train.average_count=2", "train.save_every=1"]).train
    for step in range(1, 6):
        save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, State(step=step))
    assert [step_of(path) for path in to_average(tmp_path / "b", train)] == [4, 5]
    for step, perplexity in ((6, 3.0), (7, 9.0), (8, 2.0), (9, 5.0)):
        state = State(step=step, validations=((step, perplexity, 0.0),))
        save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, state)
    assert [step_of(path) for path in to_average(tmp_path / "b", train)] == [6, 8]


@pytest.mark.parametrize(
    ("pairs", "name"), [(10, "tiny"), (199_999, "tiny"), (200_000, "small"), (1_999_999, "small"), (2_000_000, "base")]
)
def test_the_preset_follows_the_size_of_the_corpus(pairs: int, name: str) -> None:
    chosen, why = choose_preset(pairs)
    assert chosen == name
    assert f"{pairs:,}" in why


def test_a_run_of_days_names_the_preset_that_fits_an_hour() -> None:
    assert "--preset tiny" in too_long(load_config(preset="base"), Budget(10, 100, 10_000), 37_000)


def new_loop(store: Store, codec: Symbols, directory: Path, *settings: str) -> Loop:
    config = load_config(preset="tiny", settings=[*SMALL, *OFTEN, *settings])
    torch.manual_seed(0)
    model = Transformer(config.model, codec.size, codec.size).double()
    directory.mkdir(exist_ok=True)
    return Loop(
        model,
        make_optimizer(model, config.train),
        store,
        Batching.of(store, batch_tokens=300, micro_batch_tokens=150, seed=1),
        Workers(model, config.train),
        config,
        state=State(),
        checkpoints=directory,
        validate=lambda step: Validation(step, 1.0, 0.0, (), 0.0),
        listener=Listener(),
    )


def test_accumulated_micro_batches_are_one_large_batch(tmp_path: Path, letters: tuple[Store, Symbols]) -> None:
    store, codec = letters
    whole = new_loop(store, codec, tmp_path / "a", "model.dropout=0.0")
    parts = new_loop(store, codec, tmp_path / "b", "model.dropout=0.0")
    everything = np.arange(len(store))

    def update(*cuts: np.ndarray) -> Update:
        return Update([load(collate(store, cut), torch.device("cpu")) for cut in cuts], next_epoch=0, next_update=1)

    whole.update(update(everything))
    parts.update(update(everything[:7], everything[7:30], everything[30:]))
    for name, weight in whole.model.state_dict().items():
        assert torch.allclose(weight, parts.model.state_dict()[name], atol=1e-9, rtol=0), name


def test_the_learning_rate_steps_once_an_update(tmp_path: Path, letters: tuple[Store, Symbols]) -> None:
    store, codec = letters
    loop = new_loop(store, codec, tmp_path / "a", "train.steps=3")
    seen = []
    original = loop.optimizer.step

    def step() -> None:
        seen.append(loop.optimizer.param_groups[0]["lr"])
        original()

    loop.optimizer.step = step  # type: ignore[method-assign, assignment]
    loop.run()
    assert seen == [learning_rate(s, d_model=16, warmup_steps=4, factor=0.1) for s in (1, 2, 3)]


def test_a_checkpoint_gives_back_every_number(tmp_path: Path, letters: tuple[Store, Symbols]) -> None:
    store, codec = letters
    loop = new_loop(store, codec, tmp_path / "a", "train.steps=3")
    state = loop.run()
    state = replace(state, validations=((2, 3.5, 1.25),), best_perplexity=3.5, without_improvement=1)
    path = save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, state)
    other = new_loop(store, codec, tmp_path / "c")
    other.model.float()
    assert load_checkpoint(path, other.model.double(), other.optimizer) == state
    for name, weight in loop.model.state_dict().items():
        assert torch.equal(weight, other.model.state_dict()[name])
    mine, theirs = ([x.optimizer.state[p] for p in x.model.parameters()] for x in (loop, other))
    for a, b in zip(mine, theirs, strict=True):
        assert all(torch.equal(a[key], b[key]) for key in ("step", "exp_avg", "exp_avg_sq"))


def test_the_newest_and_the_best_checkpoints_are_kept(tmp_path: Path, letters: tuple[Store, Symbols]) -> None:
    store, codec = letters
    loop = new_loop(store, codec, tmp_path / "a", "train.steps=1")
    loop.run()
    config: Config = load_config(settings=["train.keep=2", "train.average_count=1"])
    for step, perplexity in enumerate([9.0, 2.0, 5.0, 4.0, 6.0], start=1):
        state = State(step=step, validations=((step, perplexity, 0.0),))
        save_checkpoint(tmp_path / "b", loop.model, loop.optimizer, state)
        prune(tmp_path / "b", config.train)
    assert [path.name for path in checkpoints(tmp_path / "b")] == ["step-00000002", "step-00000004", "step-00000005"]


def test_training_off_the_main_thread_works(tmp_path: Path, small_corpus: Path) -> None:
    found: list[Path] = []
    work = trainer(tmp_path / "run", small_corpus, "train.steps=2")
    thread = threading.Thread(target=lambda: found.append(work.run()))
    thread.start()
    thread.join()
    assert Translator.load(found[0]).translate(["x"])[0].text is not None
