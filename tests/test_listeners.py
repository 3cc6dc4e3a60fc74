"""Who listens to a run: the protocol, the log, TensorBoard, and the loggers that the documentation shows."""

from __future__ import annotations

import builtins
import errno
import inspect
import json
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import transduce
from command import transduce as run_command
from no_skip import import_or_skip
from transduce import Listener, Report, Sample, Validation
from transduce.config import Config, TrainConfig
from transduce.errors import Interrupted, MissingExtra, UserError
from transduce.train.environment import environment, package_commit, processor
from transduce.train.history import read_history
from transduce.train.progress import Listeners, Log, told
from transduce.train.recorders import recorders
from transduce.train.tensorboard import TensorBoard

GUIDE = Path(__file__).parent.parent / "docs" / "watching.md"


def report(step: int, loss: float = 2.5) -> Report:
    return Report(
        step=step,
        epoch=0,
        loss=loss,
        perplexity=math.exp(loss),
        accuracy=0.5,
        learning_rate=0.001,
        tokens_per_second=1000.0,
        seconds=float(step),
        remaining=None,
        share=None,
    )


def validation(step: int, bleu: float = 20.0) -> Validation:
    return Validation(step, 8.0, bleu, (Sample("a dog", "ein Hund", "eine Katze"),), 0.5)


class Recorder(Listener):
    """Remembers the names of the events."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.warnings: list[str] = []

    def started(self, run: Path, config: Config) -> None:
        self.heard.append(f"started {run.name}")

    def report(self, report: Report) -> None:
        self.heard.append(f"report {report.step}")

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def ended(self, outcome: str) -> None:
        self.heard.append(outcome)


class Broken(Listener):
    """A logger whose server is down."""

    def report(self, report: Report) -> None:
        raise ConnectionError("no route to host")


def events_of(listener: type[Listener]) -> set[str]:
    return {name for name, _ in inspect.getmembers(listener, inspect.isfunction) if not name.startswith("_")}


def test_every_event_reaches_every_one_of_several_listeners() -> None:
    calls: list[str] = []

    class Everything(Listener):
        def __getattribute__(self, name: str) -> Any:
            if name in events_of(Listener):
                return lambda *arguments: calls.append(name)
            return super().__getattribute__(name)

    both = Listeners(Everything(), Everything())
    for name in sorted(events_of(Listener)):
        arguments = [None] * (len(inspect.signature(getattr(Listener, name)).parameters) - 1)
        getattr(both, name)(*arguments)
    assert calls == [name for name in sorted(events_of(Listener)) for _ in range(2)]


def test_a_listener_that_raises_is_left_out_and_the_others_are_warned() -> None:
    before, after = Recorder(), Recorder()
    all_of_them = Listeners(before, Broken(), after)
    all_of_them.report(report(1))
    all_of_them.report(report(2))
    assert before.heard == after.heard == ["report 1", "report 2"]
    assert before.warnings == after.warnings == ["Broken failed and is told no more: ConnectionError: no route to host"]


def test_a_mistake_of_the_users_in_a_listener_ends_the_run() -> None:
    class Refusing(Listener):
        def note(self, message: str) -> None:
            raise UserError("no")

    with pytest.raises(UserError, match="no"):
        Listeners(Refusing()).note("x")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Interrupted("SIGINT", exit_code=130), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("out of memory"), "failed: out of memory"),
        (MemoryError(), "failed: MemoryError"),
    ],
    ids=repr,
)
def test_a_run_that_stops_tells_why_and_stops(tmp_path: Path, error: BaseException, outcome: str) -> None:
    heard = Recorder()
    with pytest.raises(type(error)), told(heard, tmp_path, Config()):
        raise error
    assert heard.heard == [f"started {tmp_path.name}", outcome]


def test_a_run_that_reaches_its_end_tells_so(tmp_path: Path) -> None:
    heard = Recorder()
    with told(heard, tmp_path, Config()):
        heard.report(report(1))
    assert heard.heard == [f"started {tmp_path.name}", "report 1", "finished"]


def test_what_the_log_keeps_is_what_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("", encoding="utf-8")
    log = Log(tmp_path / "log.jsonl")
    with told(log, tmp_path, Config()):
        log.note("hello \u2028 \x1b[31m")
        log.report(report(1))
        log.validated(validation(1))
        log.report(report(2, loss=math.inf))
    history = read_history(tmp_path)
    assert history.reports[0] == report(1)
    assert (history.reports[1].step, history.reports[1].seconds) == (2, 2.0)
    assert math.isnan(history.reports[1].loss)  # JSON has no infinity
    assert history.validations == [validation(1)]
    assert [message.text for message in history.messages] == ["hello \u2028 \x1b[31m"]
    assert history.environment == environment(TrainConfig())
    assert history.outcome == "finished"


def test_half_a_line_is_ended_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"event": "note"}\n{"event": "rep')
    Log(path).note("after the kill")
    first, half, last = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert (first, half) == ('{"event": "note"}', '{"event": "rep')
    assert json.loads(last)["message"] == "after the kill"


def test_a_full_disk_under_the_log_names_the_file_and_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, mode: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(UserError, match=r"log\.jsonl: cannot write \d+ bytes: No space left on device"):
        Log(tmp_path / "log.jsonl").note("x")


@pytest.mark.parametrize(
    ("cpuinfo", "told"),
    [
        ("cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC\n\ncpu family\t: 26\n", "EPYC (family 25, model 17)"),
        ("model name\t: Neoverse\n", "Neoverse"),
    ],
)
def test_processors_of_one_name_are_told_apart(cpuinfo: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: cpuinfo)
    assert processor() == told


def test_the_environment_names_no_host_user_or_path() -> None:
    import getpass
    import platform

    values = environment(TrainConfig())
    assert {"transduce", "python", "torch", "cores", "threads", "device"} <= set(values)
    assert values["transduce"].startswith(transduce.__version__)
    told_of = " ".join(values.values()).split()
    assert platform.node() not in told_of
    assert getpass.getuser() not in told_of
    assert str(Path.home()) + "/" not in " ".join(told_of)


def test_a_commit_is_named_in_a_checkout_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = package_commit()
    assert inside is None or re.fullmatch(r"[0-9a-f]{12,40}(-dirty)?", inside)
    monkeypatch.setattr("transduce.train.environment.__file__", str(tmp_path / "environment.py"))
    assert package_commit() is None


def test_tensorboard_reads_what_was_written_and_a_resumed_run_replaces_what_it_does_again(tmp_path: Path) -> None:
    accumulators = import_or_skip("tensorboard.backend.event_processing.event_accumulator", extra="track")
    for steps, loss in (((1, 2, 3, 4), 5.0), ((3, 4, 5), 4.0)):
        board = TensorBoard(tmp_path)
        with told(board, tmp_path, Config()):
            for step in steps:
                board.report(report(step, loss))
            board.validated(validation(steps[-1]))
    events = accumulators.EventAccumulator(str(tmp_path), purge_orphaned_data=True)
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert losses == [(1, 5.0), (2, 5.0), (3, 4.0), (4, 4.0), (5, 4.0)]
    assert [(event.step, event.value) for event in events.Scalars("validation/bleu")] == [(5, 20.0)]
    text = events.Tensors("sample/1/text_summary")[-1]
    assert text.tensor_proto.string_val[0].decode() == "    a dog\n\n    ein Hund\n\n    eine Katze"


def test_without_tensorboard_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtra, match=r"tensorboard is not installed: .*track"):
        recorders(tmp_path, TrainConfig(tensorboard=True))
    assert [type(each).__name__ for each in recorders(tmp_path, TrainConfig())] == ["Log", "ReportPage"]


def test_asked_for_in_vain_it_is_one_line_and_leaves_no_run(
    phrasebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    files = ("--source", phrasebook / "valid.en", "--target", phrasebook / "valid.de", "--out", tmp_path / "run")
    ran = run_command("--quiet", "train", *files, "--preset", "tiny", "--steps", "1", "--tensorboard")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.split("\n")[-2:] == ["transduce: tensorboard is not installed: pip install '.[track]' brings it", ""]
    assert not (tmp_path / "run").exists()


class FakeRun:
    """What `wandb.init` returns, with the signatures that are used of it."""

    def __init__(self, logged: list[object]) -> None:
        self.logged = logged

    def log(self, data: dict[str, float], step: int) -> None:
        self.logged.append((step, data))

    def finish(self, exit_code: int) -> None:
        self.logged.append(exit_code)


def fake_wandb(logged: list[object]) -> ModuleType:
    module = ModuleType("wandb")

    def init(project: str, name: str, config: dict[str, object]) -> FakeRun:
        logged.append(json.loads(json.dumps(config))["train"]["seed"])
        return FakeRun(logged)

    module.init = init  # type: ignore[attr-defined]
    return module


def fake_mlflow(logged: list[object]) -> ModuleType:
    module = ModuleType("mlflow")

    def start_run(run_name: str) -> None: ...

    def log_params(params: dict[str, object]) -> None:
        logged.append(params["seed"])

    def log_metrics(metrics: dict[str, float], step: int) -> None:
        logged.append((step, metrics))

    def end_run(status: str) -> None:
        logged.append({"FINISHED": 0, "FAILED": 1}[status])

    for function in (start_run, log_params, log_metrics, end_run):
        setattr(module, function.__name__, function)
    return module


class FakeTrainer:
    """Trains nothing, but tells."""

    def __init__(self, out: str, *, source: str, target: str, listener: Listener) -> None:
        self.out, self.listener = Path(out), listener

    def run(self) -> None:
        with told(self.listener, self.out, Config()):
            self.listener.report(report(10))
            self.listener.validated(validation(10))


@pytest.mark.parametrize("fake", [fake_wandb, fake_mlflow])
def test_the_loggers_of_the_documentation_log(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    logged: list[object] = []
    module = fake(logged)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(transduce, "Trainer", FakeTrainer, raising=False)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if f"import {module.__name__}" in block]
    builtins.exec(compile(block, str(GUIDE), "exec"), {"__name__": "guide"})
    seed, (train_step, trained), (valid_step, validated), exit_code = logged
    assert (seed, exit_code) == (Config().train.seed, 0)
    assert train_step == valid_step == 10  # type: ignore[has-type]
    assert set(trained.values()) == {2.5, math.exp(2.5)}  # type: ignore[has-type]
    assert set(validated.values()) == {8.0, 20.0}  # type: ignore[has-type]
