"""Checkpoints: everything a run needs to go on as if it had never stopped.

A checkpoint is a directory that appears whole or not at all, in which every file is hashed. Nothing random is in it:
the order of data and each dropout mask follow from the seed and the step.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor
from torch.optim import Adam

from transduce.bundle import (
    WEIGHTS,
    check_weights,
    read_manifest,
    read_weights,
    unique_weights,
    write_manifest,
)
from transduce.config import TrainConfig
from transduce.errors import BundleError, RunError
from transduce.files import write_directory, write_file, write_json
from transduce.model import Transformer
from transduce.train.ema import MovingAverage
from transduce.train.sharding import as_part, gathered
from transduce.train.world import ALONE, World

OPTIMIZER = "optimizer.safetensors"
AVERAGE = "average.safetensors"
"""The moving average of the weights, in checkpoints of runs that keep one."""
LATEST = "latest"  # names the newest checkpoint, for people and scripts; nothing here depends on it


@dataclass(frozen=True)
class LossScale:
    """What float16 gradients are scaled by, and for how many updates that went well."""

    value: float
    steps: int


@dataclass(frozen=True)
class State:
    """Where a run is: `step` updates are done; the next is number `update` of epoch `epoch`."""

    step: int = 0
    epoch: int = 0
    update: int = 0
    of_epoch: int = 0  # updates of the epoch that the last one was in; 0: not known
    seconds: float = 0.0
    best_perplexity: float | None = None
    without_improvement: int = 0
    validations: tuple[tuple[int, float, float], ...] = ()  # step, perplexity, BLEU
    skipped: int = 0  # updates in a row, the last one among them, that were left out for a NaN or an infinity
    rollbacks: int = 0  # each halved the learning rate
    loss_scale: LossScale | None = None
    threads: int | None = None  # of the process that saved it
    workers: int | None = None
    world_size: int = 1

    def after_validation(self, perplexity: float, bleu: float) -> State:
        """This state with one more validation, counted for patience."""
        better = self.best_perplexity is None or perplexity < self.best_perplexity
        return replace(
            self,
            best_perplexity=perplexity if better else self.best_perplexity,
            without_improvement=0 if better else self.without_improvement + 1,
            validations=(*self.validations, (self.step, perplexity, bleu)),
        )

    @property
    def validated(self) -> bool:
        """Whether this very step was."""
        return bool(self.validations) and self.validations[-1][0] == self.step

    def validation_due(self, train: TrainConfig) -> bool:
        """Whether this step is to be validated and was not: a signal came."""
        return self.step > 0 and self.step % train.validate_every == 0 and not self.validated

    def equals(self, other: State) -> bool:
        """Whether the two lead to the same run, whatever the clock says and whoever saved them."""
        same = {"seconds": 0.0, "threads": None, "workers": None, "world_size": 1}
        return replace(self, **same) == replace(other, **same)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Numbers:
    """The tensors of a checkpoint, whole, by their names in its files; none on a rank that does not write."""

    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    averages: dict[str, Tensor]

    @classmethod
    def of(
        cls, model: Transformer, optimizer: Adam, world: World = ALONE, average: MovingAverage | None = None
    ) -> Numbers:
        """Those of a model, its optimiser and its average; all ranks must ask at once, as they may be sharded."""
        moments = {
            f"{name}.{key}": torch.as_tensor(value)
            for name, parameter in model.named_parameters()
            for key, value in optimizer.state[parameter].items()
        }
        averages = {} if average is None else average.weights
        return cls(*(gathered(tensors, world) for tensors in (unique_weights(model), moments, averages)))

    def refuse_bad(self, directory: Path, step: int) -> None:
        """A model with a NaN or infinity in it is never saved: the last good checkpoint must stay the newest."""
        for name, tensor in (*self.weights.items(), *self.moments.items(), *self.averages.items()):
            if not bool(tensor.isfinite().all()):
                raise RunError(
                    f"{directory}: step {step:,}: {name} is not finite: lower train.learning_rate or lengthen "
                    "train.warmup_steps, and start again with another --out"
                )


def save_checkpoint(directory: Path, model: Transformer, optimizer: Adam, state: State) -> Path:
    """Write checkpoints/step-N, then `latest`."""
    return write_checkpoint(directory, Numbers.of(model, optimizer), state)


def write_checkpoint(directory: Path, numbers: Numbers, state: State) -> Path:
    """Write checkpoints/step-N, then `latest`."""
    path = directory / f"step-{state.step:08d}"

    def fill(temporary: Path) -> None:
        write_file(temporary / WEIGHTS, save(numbers.weights))
        write_file(temporary / OPTIMIZER, save(numbers.moments))
        if numbers.averages:
            write_file(temporary / AVERAGE, save(numbers.averages))
        write_json(temporary / "state.json", asdict(state))
        write_manifest(temporary, {"step": state.step})

    write_directory(path, fill)
    write_file(directory / LATEST, f"{path.name}\n".encode())
    return path


def load_checkpoint(path: Path, model: Transformer, optimizer: Adam, average: MovingAverage | None = None) -> State:
    """Put a checkpoint's numbers into a model, its optimiser and its average, which starts here if it has none."""
    weights, tensors = read_weights(path / WEIGHTS), read_weights(path / OPTIMIZER)
    check_weights(model, weights, where=path)
    for name, parameter in model.named_parameters():
        parameter.detach().copy_(as_part(weights[name], parameter))
        moments = {key: as_part(tensors[f"{name}.{key}"], parameter) for key in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": tensors[f"{name}.step"].to(parameter.device), **moments}
    if average is not None:
        average.load(read_weights(path / AVERAGE) if (path / AVERAGE).is_file() else weights)
    return read_state(path)


def read_state(path: Path) -> State:
    """The counters of a checkpoint."""
    table = json.loads((path / "state.json").read_text(encoding="utf-8"))
    validations = tuple((int(s), float(p), float(b)) for s, p, b in table.pop("validations"))
    scale = table.pop("loss_scale", None)
    return State(**table, validations=validations, loss_scale=LossScale(**scale) if scale else None)


def checkpoints(directory: Path) -> list[Path]:
    """All checkpoints of a run, oldest first."""
    return sorted(p for p in directory.glob("step-*") if p.is_dir())


def latest(directory: Path) -> Path | None:
    """The checkpoint that `latest` names, or the newest if that file is not there or not true; None without any."""
    try:
        named = directory / (directory / LATEST).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        named = directory
    kept = checkpoints(directory)
    return named if named in kept else kept[-1] if kept else None


def step_of(path: Path) -> int:
    """The step at which a checkpoint was written."""
    return int(path.name.removeprefix("step-"))


def set_damaged_aside(directory: Path) -> list[str]:
    """Rename checkpoints that are not what their manifest says to damaged-*; returns what was wrong with each.

    What a killed save left half-made is removed: the run that resumes is the only writer.
    """
    for leftover in directory.glob(".step-*"):
        shutil.rmtree(leftover)
    damage: list[str] = []
    for path in checkpoints(directory):
        try:
            read_manifest(path, needs=(WEIGHTS, OPTIMIZER, "state.json"))
        except BundleError as error:
            damage.append(str(error))
            aside = path.with_name(f"damaged-{path.name}")
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
    return damage


def save_due(train: TrainConfig, step: int) -> bool:
    """Whether a checkpoint of this step is regular; where the best are averaged each validated model is kept."""
    validated = train.average != "last" and step % train.validate_every == 0
    return validated or step % train.save_every == 0


def to_average(directory: Path, train: TrainConfig) -> list[Path]:
    """The checkpoints that the bundle averages: the last ones, or those whose own validation was best.

    One that a signal left between two regular ones is not among them: it would make the result depend on the signal.
    A moving average is an average already: of those, one.
    """
    paths, count = checkpoints(directory), 1 if train.ema else train.average_count
    if train.average != "last":
        order = _by_perplexity if train.average == "best" else _by_bleu
        if best := order([path for path in paths if _validated(path)]):
            return sorted(best[:count])
    regular = [path for path in paths[:-1] if save_due(train, step_of(path))] + paths[-1:]
    return regular[-count:]


def kept_weights(path: Path, train: TrainConfig) -> dict[str, Tensor]:
    """What a checkpoint was validated by and the bundle is made of: the moving average if there is one."""
    averaged = train.ema and (path / AVERAGE).is_file()
    return read_weights(path / (AVERAGE if averaged else WEIGHTS))


def prune(directory: Path, train: TrainConfig) -> None:
    """Remove all but the newest `keep` checkpoints, those to be averaged, and the best one."""
    paths = checkpoints(directory)
    kept = {*paths[-train.keep :], *to_average(directory, train), *_by_perplexity(paths)[:1]}
    for path in paths:
        if path not in kept:
            discard(path)


def discard(path: Path) -> None:
    """Remove a checkpoint: out of sight in one step, so that a kill leaves no half of it."""
    hidden = path.with_name(f".{path.name}.old")
    path.rename(hidden)
    shutil.rmtree(hidden)


def _by_perplexity(paths: list[Path]) -> list[Path]:
    """Best first, each by the last validation before it was saved; those saved before any are left out."""
    return sorted(_scored(paths), key=lambda path: (_last_validation(path)[1], path))


def _by_bleu(paths: list[Path]) -> list[Path]:
    """The same by BLEU; of equals, as of a model that does not end a sentence yet, the later first."""
    return sorted(_scored(paths), key=lambda path: (_last_validation(path)[2], path), reverse=True)


def _scored(paths: list[Path]) -> list[Path]:
    return [path for path in paths if read_state(path).validations]


def _last_validation(path: Path) -> tuple[int, float, float]:
    return read_state(path).validations[-1]


def _validated(path: Path) -> bool:
    """Whether it is this checkpoint's model that its last validation scored."""
    validations = read_state(path).validations
    return bool(validations) and validations[-1][0] == step_of(path)
