"""Going on with a run: how far, from where in its log, and what it says when something is not as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import transduce
from test_training import Recorder, bundle_digest, new_loop, trainer
from transduce import Trainer
from transduce.config import TrainConfig
from transduce.data.preparation import Prepared
from transduce.data.store import Store
from transduce.errors import RunError
from transduce.settings import make_config, read_toml
from transduce.text import Symbols
from transduce.train.resume import cut_back, differences, extended, stepped
from transduce.train.state import State
from transduce.train.workers import Workers
from trials import SMALL

Letters = tuple[Store, Symbols]


def test_a_finished_run_with_more_updates_is_the_longer_run(tmp_path: Path, small_corpus: Path) -> None:
    trainer(tmp_path / "long", small_corpus, "train.steps=9").run()
    run = tmp_path / "run"
    trainer(run, small_corpus, "train.steps=5").run()
    Trainer.resume(run, more=4).run()
    assert bundle_digest(run) == bundle_digest(tmp_path / "long")
    assert read_toml(run / "config.toml")["train"]["steps"] == 9
    heard = Recorder()
    Trainer.resume(run, listener=heard).run()
    assert any("already at its end, step 9: --more N goes on" in note for note in heard.notes)
    with pytest.raises(RunError, match="9 updates are done, 8 were asked for: --more N"):
        Trainer.resume(run, steps=8).run()
    events = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    steps = [event["step"] for event in events if event["event"] == "checkpoint"]
    assert steps == [5, 9]


def test_more_updates_move_the_end_of_a_cool_down(tmp_path: Path, small_corpus: Path) -> None:
    heard, settings = Recorder(), ("train.validate_every=1", "train.warmup_steps=1", "train.cooldown=1.0")
    trainer(tmp_path / "run", small_corpus, "train.steps=4", *settings, listener=heard).run()
    Trainer.resume(tmp_path / "run", more=4, listener=heard).run()
    lowered = [report.learning_rate * report.step**0.5 / heard.reports[0].learning_rate for report in heard.reports]
    assert lowered == pytest.approx([1, 3 / 4, 2 / 4, 1 / 4, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


@pytest.mark.parametrize(
    ("budget", "state", "steps"),
    [
        ({"steps": 100}, State(step=100), 110),
        ({"steps": 100}, State(step=40), 110),
        ({"epochs": 3}, State(step=60, epoch=3), 70),
        ({"epochs": 3}, State(step=25, epoch=1), 70),
        ({"epochs": 3}, State(step=57, epoch=3), 67),
        ({"minutes": 2.0}, State(step=33), 43),
        ({"steps": 100, "minutes": 2.0}, State(step=33), 43),
        ({"patience": 6}, State(step=50), 60),
        ({"steps": 100, "patience": 2}, State(step=50, without_improvement=2), 60),
    ],
)
def test_more_updates_go_beyond_the_end_of_any_budget(budget: dict[str, float], state: State, steps: int) -> None:
    train = TrainConfig.model_validate(budget)
    longer = extended(train, state, 10, updates_per_epoch=20)
    assert (longer.steps, longer.epochs, longer.minutes) == (steps, None, None)
    assert longer.patience in (None, 6)


class Killed(BaseException):
    """The process is no more."""


class KilledEarly(Trainer):
    """Prepares its data, and is killed before the budget is measured."""

    def _workers(self, prepared: Prepared) -> Workers:
        raise Killed


@pytest.mark.parametrize("in_a_file", [False, True])
def test_what_was_set_stays_so_in_a_run_that_was_killed_before_its_first_update(
    tmp_path: Path, small_corpus: Path, in_a_file: bool
) -> None:
    recipe = {"warmup_steps": 30, "validate_every": 7, "save_every": 5}
    file = tmp_path / "own.toml"
    file.write_text("[train]\n" + "".join(f"{key} = {value}\n" for key, value in recipe.items()), encoding="utf-8")
    settings = [] if in_a_file else [f"train.{key}={value}" for key, value in recipe.items()]

    def new(kind: type[Trainer], name: str) -> Trainer:
        files = {"source": small_corpus / "train.en", "target": small_corpus / "train.de"}
        small = [each for each in SMALL if "warmup" not in each]
        own = {"config": file} if in_a_file else {}
        return kind(tmp_path / name, **files, preset="tiny", settings=[*small, "train.steps=8", *settings], **own)

    new(Trainer, "unbroken").run()
    with pytest.raises(Killed):
        new(KilledEarly, "killed").run()
    Trainer.resume(tmp_path / "killed").run()
    ends = [make_config(read_toml(tmp_path / name / "config.toml"), where=name) for name in ("unbroken", "killed")]
    assert [{key: getattr(end.train, key) for key in recipe} for end in ends] == [recipe, recipe]
    assert bundle_digest(tmp_path / "killed") == bundle_digest(tmp_path / "unbroken")


def test_a_number_of_steps_may_be_raised_but_not_below_what_is_done() -> None:
    train = TrainConfig(epochs=2)
    assert stepped(train, State(step=7), 7, run=Path("run")) == TrainConfig(steps=7)
    with pytest.raises(RunError, match="run: 7 updates are done, 6 were asked for"):
        stepped(train, State(step=7), 6, run=Path("run"))


@pytest.mark.parametrize(("without", "patience"), [(2, 3), (3, None)])
def test_a_patience_that_is_used_up_does_not_keep_a_run_from_going_on(without: int, patience: int | None) -> None:
    train, state = TrainConfig(patience=3), State(step=7, without_improvement=without)
    assert stepped(train, state, 9, run=Path("run")) == TrainConfig(steps=9, patience=patience)
    assert extended(train, state, 2, updates_per_epoch=5) == TrainConfig(steps=9, patience=patience)


def test_a_restart_by_torchrun_keeps_the_budgets_of_the_command(
    tmp_path: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    files = ("--source", small_corpus / "train.en", "--target", small_corpus / "train.de", "--out", run)
    small = (word for setting in SMALL for word in ("--set", setting))
    command = ("train", *files, *small, "--preset", "tiny", "--steps", "900", "--epochs", "1")
    assert transduce(*command).code == 0
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    ran = transduce(*command)
    assert ran.code == 0, ran.err
    assert "already at its end" in ran.err
    train = read_toml(run / "config.toml")["train"]
    assert (train["steps"], train["epochs"]) == (900, 1)


def test_another_number_of_threads_is_told(tmp_path: Path, letters: Letters) -> None:
    loop = new_loop(*letters, tmp_path / "a", "train.steps=1")
    state = loop.run()
    assert differences(state, loop.workers) is None
    assert differences(State(), loop.workers) is None
    loop.workers.threads = 7
    warning = differences(state, loop.workers)
    assert warning is not None
    assert warning.startswith("threads 1 -> 7: training goes on")


def line(kind: str, **values: object) -> bytes:
    return json.dumps({"event": kind, **values}).encode() + b"\n"


@pytest.mark.parametrize("validations", [(), ((2, 9.0, 1.0),), ((2, 9.0, 1.0), (4, 8.0, 2.0))])
def test_a_log_is_cut_back_to_what_will_not_be_done_again(
    tmp_path: Path, validations: tuple[tuple[int, float, float], ...]
) -> None:
    log = tmp_path / "log.jsonl"
    early = [line("note", message="x"), line("report", step=3), line("checkpoint", step=4)]
    repeated = line("validation", step=4)
    late = [line("report", step=5), line("skipped", step=6), b'{"event": "rep']
    log.write_bytes(b"".join([*early, repeated, *late]))
    state = State(step=4, validations=validations)
    cut_back(log, state)
    assert log.read_bytes() == b"".join([*early, repeated] if state.validated else early)
    before = log.stat().st_ino
    cut_back(log, state)
    assert log.stat().st_ino == before
    cut_back(tmp_path / "none", State())
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--more", "5", "--out", "x"), "--more goes on with a run: name it by --resume RUN"),
        (("--resume", "x", "--more", "5", "--steps", "9"), "with --more N or --steps N"),
        (("--resume", "x", "--seed", "9"), "with --more N or --steps N"),
        (("--resume", "x", "--more", "0"), "x: cannot go on for 0 updates: give a number from 1 on"),
        (("--resume", "x", "--more", "5"), "x: no config.toml: not a run"),
    ],
)
def test_mistakes_with_more_are_told_in_a_line(arguments: tuple[str, ...], told: str) -> None:
    ran = transduce("train", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert ran.err.count("\n") == 1
