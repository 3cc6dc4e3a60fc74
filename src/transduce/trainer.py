"""Two text files to a bundle: the facade over data, train, decode and evaluate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from transduce.bundle import load_weights, open_bundle, unique_weights, write_bundle
from transduce.card import model_card
from transduce.config import Config, TrainConfig
from transduce.data.batching import Batching
from transduce.data.preparation import RECORD, Prepared, prepare, recall
from transduce.data.resampling import EPOCHS, Resampling, remove_others
from transduce.decode.conversion import convert_early
from transduce.errors import RunError, UserError
from transduce.files import write_file
from transduce.interop.ctranslate2 import refusal
from transduce.model import Transformer
from transduce.settings import make_config, read_toml
from transduce.train.allocator import keep_freed_memory
from transduce.train.announcement import DAY, describe_data, describe_model, describe_recipe, too_long, until
from transduce.train.average import average, describe_averaged
from transduce.train.beginning import (
    CHECKPOINTS,
    clear_killed,
    configure,
    decided,
    keep_given,
    kept_given,
    nothing_left_if_refused,
    refuse_other_run,
)
from transduce.train.calibration import Budget, calibrate, resolve
from transduce.train.device import choose_device, where
from transduce.train.ema import MovingAverage
from transduce.train.largest import try_largest
from transduce.train.lock import locked
from transduce.train.loop import Loop, make_optimizer
from transduce.train.progress import Listener, Listeners, told
from transduce.train.recompute import recompute_layers
from transduce.train.recorders import recorders
from transduce.train.resume import cut_back, differences, extended, stepped
from transduce.train.sharding import ShardedWorkers, gather, shard
from transduce.train.start import doubts, find_start, keep_start, kept_codecs, keys_in, keys_of, load_start
from transduce.train.state import (
    State,
    checkpoints,
    kept_weights,
    load_checkpoint,
    set_damaged_aside,
    step_of,
    to_average,
)
from transduce.train.workers import Workers
from transduce.train.world import ALONE, World
from transduce.validation import validate


class Trainer:
    """One run: `Trainer("run", source=["a.en"], target=["a.de"]).run()` trains and returns the bundle's path.

    In a script that torchrun starts, each process makes one within `with joined() as world`. That of rank 0 looks at
    the corpus, prepares the data, writes and speaks; the others do as its files say.
    """

    def __init__(
        self,
        out: str | Path,
        *,
        source: str | Path | Sequence[str | Path] = (),
        target: str | Path | Sequence[str | Path] = (),
        preset: str | None = None,
        config: Path | None = None,
        settings: Sequence[str] = (),
        start: str | Path | None = None,
        vocabulary_of: str | Path | None = None,
        listener: Listener | None = None,
        world: World = ALONE,
    ) -> None:
        """`start` is train.start, a model to go on from; of `vocabulary_of`, a model too, only the codecs are used."""
        self.out, self.world = Path(out), world
        self.listener = listener or Listener()
        self._resumes = False
        self._more: int | None = None
        self._steps: int | None = None
        if not world.first:
            return
        sides = (("source", source), ("target", target))
        files = [f"data.{side}={json.dumps(_names(given))}" for side, given in sides if given]
        files += [] if start is None else [f"train.start={json.dumps(str(start))}"]
        refuse_other_run(self.out)
        self._given = frozenset(keys_in(settings) | keys_of(config))
        self.config = configure(preset, config, [*files, *settings], self.listener, world)
        self._begins = find_start(self.config.train.start, vocabulary_of)
        if self._begins is not None:
            self.config = self._begins.settle(self.config, given=self._given, warn=self.listener.warn)
        choose_device(self.config.train)

    @classmethod
    def resume(
        cls,
        out: str | Path,
        *,
        more: int | None = None,
        steps: int | None = None,
        listener: Listener | None = None,
        world: World = ALONE,
    ) -> Trainer:
        """Go on with a run from its newest whole checkpoint: to its end, `more` updates beyond it, or to `steps`."""
        for number in (more, steps):
            if number is not None and number < 1:
                raise RunError(f"{out}: cannot go on for {number} updates: give a number from 1 on")
        trainer = cls.__new__(cls)
        trainer.world = world
        trainer._more, trainer._steps = more, steps
        trainer.out, trainer.listener, trainer._resumes = Path(out), listener or Listener(), True
        path = trainer.out / "config.toml"
        if not path.is_file() or (trainer.out / "manifest.json").exists():
            what = "holds a bundle" if path.is_file() else "no config.toml"
            raise RunError(f"{out}: {what}: not a run; start one with `transduce train --out DIRECTORY`")
        trainer._given = kept_given(trainer.out)
        trainer._read_config()
        return trainer

    def run(self) -> Path:
        """Train until the budget is spent, then write the bundle and return its path."""
        keep_freed_memory()
        if not self.world.first:
            return self._follow()
        existed = self.out.is_dir()
        if not self._resumes:
            refuse_other_run(self.out)  # another may have begun since
            self.out.mkdir(parents=True, exist_ok=True)
        with locked(self.out), nullcontext() if self._resumes else nothing_left_if_refused(self.out, existed):
            prepared = self._resume() if self._resumes else self._start()
            self.world.tell("prepared")
            return self._train(prepared)

    def _follow(self) -> Path:
        """Take part in the run that rank 0 makes, once it has prepared the data."""
        self.world.tell()
        self._read_config()
        return self._train(recall(self.out))

    def _start(self) -> Prepared:
        """Prepare the run's data."""
        clear_killed(self.out)
        keep_start(self.out, self._begins)
        keep_given(self.out, self._given)
        self._write_config()
        self.listener = Listeners(self.listener, *recorders(self.out, self.config.train))
        if self._begins is not None:
            self.listener.note(str(self._begins))
        prepared = self._prepare()
        self._resumes = True
        return prepared

    def _resume(self) -> Prepared:
        """The data of a run that is there; it is prepared anew if the run was killed before it was ready."""
        self.listener = Listeners(self.listener, *recorders(self.out, self.config.train))
        if (self.out / RECORD).is_file():
            return recall(self.out)
        return self._prepare()

    def _prepare(self) -> Prepared:
        """The data, with the vocabulary that the run began with, if any; what it hardly covers is warned of."""
        given = kept_codecs(self.out)
        prepared = prepare(self.config, self.out, self.listener.note, given=given)
        for doubt in doubts(prepared) if given is not None else ():
            self.listener.warn(doubt)
        return prepared

    def _train(self, prepared: Prepared) -> Path:
        workers = self._workers(prepared)
        model, directory = workers.model, self.out / CHECKPOINTS
        sharded = isinstance(workers, ShardedWorkers)
        plain = self.new_model(prepared).to(workers.device) if sharded and self.world.first else None
        optimizer = make_optimizer(model, self.config.train)
        newest = self._newest(directory)
        moving = MovingAverage.of(model, optimizer, self.config.train)
        state = State() if newest is None else load_checkpoint(directory / newest, model, optimizer, moving)
        resampling = self._resampling(prepared)
        seen = prepared if resampling is None else replace(prepared, train=resampling.store(state.epoch))
        batching = make_batching(self.config.train, seen)
        if self.world.first:
            self._take_up(state, workers, batching)
            cut_back(self.out / "log.jsonl", state)
        try_largest(workers, seen.train, batching, self.config)
        if newest is not None:
            self.listener.note(f"resuming at step {state.step:,}, epoch {state.epoch + 1}")
        else:
            self._announce(model, prepared, calibrate(workers, seen.train, batching), workers)
        if self.world.first:
            directory.mkdir(exist_ok=True)
        self.world.tell("settled")
        if not self.world.first:
            self._read_config()
        loop = Loop(
            model,
            optimizer,
            prepared.train,
            batching,
            workers,
            self.config,
            state=state,
            checkpoints=directory,
            validate=lambda step: validate(plain or model, prepared, self.config, step, loop.signals.check),
            listener=self.listener,
            gather=lambda: gather(model, plain),
            average=moving,
            resampling=resampling,
        )
        if loop.finished:
            self.listener.note(f"already at its end, step {state.step:,}: --more N goes on; the bundle is made again")
        with (
            told(self.listener, self.out, self.config),
            closing(workers),
            closing(resampling) if resampling else nullcontext(),
        ):
            state = loop.run()
            return self.finish(plain or model, prepared, state) if self.world.first else self.out / "model"

    def new_model(self, prepared: Prepared) -> Transformer:
        """The model to train; who studies another one overrides this, and `finish` if no bundle can hold it."""
        model, start = new_model(self.config, prepared), self.config.train.start
        if start is not None:
            load_start(model, self.out, start)
        return model

    def _resampling(self, prepared: Prepared) -> Resampling | None:
        """The subwords of each epoch, where merges are left out; each process makes them for itself."""
        if not self.config.train.bpe_dropout:
            return None
        self.listener.note("cutting the training text into subwords anew, for this epoch and each that follows")
        codecs = prepared.source_codec, prepared.target_codec
        if self.world.first:
            remove_others(self.out / EPOCHS, self.world.size)
        return Resampling(self.config, prepared.train, codecs, self.out / EPOCHS / str(self.world.rank))

    def _workers(self, prepared: Prepared) -> Workers:
        """A new model on its device, and those who train it."""
        train, world = self.config.train, self.world
        if train.threads or world.size > 1:
            torch.set_num_threads(train.threads or world.cores)  # torchrun would have it be 1
        model = self.new_model(prepared).to(choose_device(train))
        if train.recompute:
            recompute_layers(model)
        if train.compile:
            model.compile(dynamic=True)
        if train.parallel == "data" or world.size == 1:
            return Workers(model, train, world)
        shard(model, world)
        return ShardedWorkers(model, train, world)

    def _newest(self, directory: Path) -> str | None:
        """The name of the checkpoint to go on from, as rank 0 finds it; damaged ones are set aside."""
        name = None
        if self.world.first:
            for damage in set_damaged_aside(directory):
                self.listener.warn(f"{damage}; set aside, using the checkpoint before it")
            name = next((path.name for path in reversed(checkpoints(directory))), None)
        told: str | None = self.world.tell(name)
        return told

    def _take_up(self, state: State, workers: Workers, batching: Batching) -> None:
        """Warn of what is no longer as it was, and set the budget that was asked for."""
        if changed := differences(state, workers):
            self.listener.warn(changed)
        train = self.config.train
        if self._steps is not None:
            train = stepped(train, state, self._steps, run=self.out)
        if self._more is not None:
            train = extended(train, state, self._more, updates_per_epoch=batching.updates_per_epoch)
        self._steps = self._more = None
        if train != self.config.train:
            self.config = self.config.model_copy(update={"train": train})
            self._write_config()

    def finish(self, model: Transformer, prepared: Prepared, state: State) -> Path:
        """Average the checkpoints, validate what comes of it and write the bundle; returns its path."""
        train = self.config.train
        paths = to_average(self.out / CHECKPOINTS, train)
        load_weights(model, average(kept_weights(path, train) for path in paths), where=self.out)
        final = validate(model, prepared, self.config, state.step)
        kept = describe_averaged(train, [step_of(path) for path in paths])
        self.listener.note(f"{kept}: validation perplexity {final.perplexity:.2f}, BLEU {final.bleu:.2f}")
        path = self.out / "model"
        write_bundle(
            path,
            config=self.config,
            source_codec=prepared.source_codec,
            target_codec=prepared.target_codec,
            languages=(prepared.source_lang, prepared.target_lang),
            weights={name: weight.cpu() for name, weight in unique_weights(model).items()},
            card=model_card(
                self.config,
                prepared,
                parameters=model.num_parameters(),
                step=state.step,
                perplexity=final.perplexity,
                bleu=final.bleu,
            ),
        )
        self.listener.note(f"wrote {path}")
        try:
            convert_early(open_bundle(path), self.listener.note)
        except (OSError, UserError) as error:  # the model is there all the same
            self.listener.warn(f"not converted for CTranslate2: {error}")
        return path

    def _announce(self, model: Transformer, prepared: Prepared, budget: Budget, workers: Workers) -> None:
        """Say what will be trained, on what, and when it will be done; fill in what the budget decides."""
        if not self.world.first:
            return
        train, changes = resolve(self.config.train, budget, given=self._given)
        self.config = self.config.model_copy(update={"train": train})
        self._write_config()
        decided(self.out)
        for line in (
            f"until {until(train, budget)}",
            f"model: {describe_model(self.config, model)}, on {where(workers)} in {train.precision}",
            f"data: {describe_data(prepared)}",
            f"recipe: {describe_recipe(self.config)}",
        ):
            self.listener.note(line)
        for change in changes:
            self.listener.warn(change)
        if lacking := refusal(self.config.model):
            self.listener.warn(f"CTranslate2 has no {lacking}: this model will be translated by PyTorch, more slowly")
        if budget.seconds is not None and budget.seconds > DAY:
            self.listener.warn(too_long(self.config, budget, prepared.target_codec.size))

    def _read_config(self) -> None:
        path = self.out / "config.toml"
        self.config = make_config(read_toml(path), where=str(path))

    def _write_config(self) -> None:
        write_file(self.out / "config.toml", self.config.to_toml().encode())


def new_model(config: Config, prepared: Prepared) -> Transformer:
    """A model whose first weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        return Transformer(config.model, prepared.source_codec.size, prepared.target_codec.size)


def make_batching(train: TrainConfig, prepared: Prepared) -> Batching:
    """The training pairs in batches, as the recipe says."""
    return Batching.of(
        prepared.train,
        batch_tokens=train.batch_tokens,
        micro_batch_tokens=train.micro_batch_tokens,
        seed=train.seed,
    )


def _names(given: str | Path | Sequence[str | Path]) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [str(name) for name in given]
