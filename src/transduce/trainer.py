"""Two text files to a bundle: the facade over data, train, decode and evaluate."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from transduce.bundle import load_weights, read_weights, unique_weights, write_bundle
from transduce.card import model_card
from transduce.config import Config, SearchConfig, TrainConfig
from transduce.data.corpus import training_corpus, validation_corpus
from transduce.data.doctor import examine
from transduce.data.preparation import RECORD, Prepared, prepare, recall
from transduce.decode.translator import Translator
from transduce.errors import ConfigError, RunError, UserError
from transduce.evaluate.bleu import bleu
from transduce.evaluate.perplexity import perplexity
from transduce.files import write_file
from transduce.model import Transformer
from transduce.settings import load_config, make_config, read_toml
from transduce.train.allocator import keep_freed_memory
from transduce.train.announcement import DAY, describe_data, describe_model, too_long, until
from transduce.train.average import average
from transduce.train.calibration import calibrate, resolve
from transduce.train.loop import Loop, make_optimizer
from transduce.train.progress import Listener, Listeners, Log, Sample, Validation
from transduce.train.state import State, checkpoints, load_checkpoint, set_damaged_aside, to_average

SAMPLES = 3


def choose_preset(pairs: int) -> tuple[str, str]:
    """The preset for a corpus of this size, and why."""
    for limit, name in ((200_000, "tiny"), (2_000_000, "small")):
        if pairs < limit:
            return name, f"{pairs:,} pairs are fewer than {limit:,}"
    return "base", f"{pairs:,} pairs are at least 2,000,000"


class Trainer:
    """One run: `Trainer("run", source=["a.en"], target=["a.de"]).run()` trains and returns the bundle's path."""

    def __init__(
        self,
        out: str | Path,
        *,
        source: str | Path | Sequence[str | Path] = (),
        target: str | Path | Sequence[str | Path] = (),
        preset: str | None = None,
        config: Path | None = None,
        settings: Sequence[str] = (),
        listener: Listener | None = None,
    ) -> None:
        self.out = Path(out)
        self.listener = listener or Listener()
        self._resumes = False
        sides = (("source", source), ("target", target))
        files = [f"data.{side}={json.dumps(_names(given))}" for side, given in sides if given]
        refuse_other_run(self.out)
        self._given = frozenset(setting.partition("=")[0].strip() for setting in settings)
        self.config = self._configure(preset, config, [*files, *settings])
        choose_device(self.config.train)

    @classmethod
    def resume(cls, out: str | Path, *, listener: Listener | None = None) -> Trainer:
        """Go on with a run from its newest whole checkpoint."""
        trainer = cls.__new__(cls)
        trainer.out, trainer.listener, trainer._resumes = Path(out), listener or Listener(), True
        trainer._given = frozenset()
        path = trainer.out / "config.toml"
        if not path.is_file() or (trainer.out / "manifest.json").exists():
            what = "holds a bundle" if path.is_file() else "no config.toml"
            raise RunError(f"{out}: {what}: not a run; start one with `transduce train --out DIRECTORY`")
        trainer.config = make_config(read_toml(path), where=str(path))
        return trainer

    def run(self) -> Path:
        """Train until the budget is spent, then write the bundle and return its path."""
        keep_freed_memory()
        if self.config.train.threads:
            torch.set_num_threads(self.config.train.threads)
        prepared = self._resume() if self._resumes else self._start()
        return self._train(prepared)

    def _start(self) -> Prepared:
        """Make the run's directory and prepare its data; if that fails, leave no half-made run behind."""
        refuse_other_run(self.out)  # another may have begun since
        existed = self.out.is_dir()
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            self._write_config()
            self.listener = Listeners(self.listener, Log(self.out / "log.jsonl"))
            prepared = prepare(self.config, self.out, self.listener.note)
        except (OSError, UserError):
            shutil.rmtree(self.out, ignore_errors=True)
            if existed:
                self.out.mkdir(exist_ok=True)
            raise
        self._resumes = True
        return prepared

    def _resume(self) -> Prepared:
        """The data of a run that is there; it is prepared anew if the run was killed before it was ready."""
        self.listener = Listeners(self.listener, Log(self.out / "log.jsonl"))
        if (self.out / RECORD).is_file():
            return recall(self.out)
        return prepare(self.config, self.out, self.listener.note)

    def _train(self, prepared: Prepared) -> Path:
        device = choose_device(self.config.train)
        model = new_model(self.config, prepared).to(device)
        optimizer = make_optimizer(model, self.config.train)
        directory = self.out / "checkpoints"
        directory.mkdir(exist_ok=True)
        for damage in set_damaged_aside(directory):
            self.listener.warn(f"{damage}; set aside, using the checkpoint before it")
        if kept := checkpoints(directory):
            state = load_checkpoint(kept[-1], model, optimizer)
            self.listener.note(f"resuming at step {state.step:,}, epoch {state.epoch + 1}")
        else:
            state = State()
            self._announce(model, prepared, device)
        loop = Loop(
            model,
            optimizer,
            prepared.train,
            self.config,
            state=state,
            checkpoints=directory,
            validate=lambda step: validate(model, prepared, self.config.search, step),
            listener=self.listener,
        )
        if loop.finished():
            self.listener.note(f"already at its end, step {state.step:,}: the bundle is made again")
        return self._finish(model, prepared, loop.run())

    def _finish(self, model: Transformer, prepared: Prepared, state: State) -> Path:
        paths = to_average(self.out / "checkpoints", self.config.train)
        load_weights(model, average(read_weights(path / "model.safetensors") for path in paths), where=self.out)
        final = validate(model, prepared, self.config.search, state.step)
        self.listener.note(
            f"averaged {len(paths)} checkpoints: validation perplexity {final.perplexity:.2f}, BLEU {final.bleu:.2f}"
        )
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
        return path

    def _configure(self, preset: str | None, path: Path | None, settings: list[str]) -> Config:
        """The configuration, its preset chosen by the corpus when none is named; the doctor looks at it first."""
        config = load_config(preset=preset, path=path, settings=settings)
        corpus, valid = training_corpus(config.data), validation_corpus(config.data)
        self.listener.note(f"looking at {', '.join(path.name for path in corpus.files)}")
        report = examine(corpus, valid=valid, data=config.data)
        for problem in report.problems:
            self.listener.warn(problem)
        if preset or (path and "preset" in read_toml(path)):
            return config
        name, reason = choose_preset(report.corpora[0].usable)
        self.listener.note(f"preset {name}: {reason}")
        return load_config(preset=name, path=path, settings=settings)

    def _announce(self, model: Transformer, prepared: Prepared, device: torch.device) -> None:
        """Say what will be trained, on what, and when it will be done; fill in what the budget decides."""
        budget = calibrate(model, prepared.train, self.config)
        train, changes = resolve(self.config.train, budget, given=self._given)
        self.config = self.config.model_copy(update={"train": train})
        self._write_config()
        self.listener.note(f"until {until(train, budget)}")
        self.listener.note(f"model: {describe_model(self.config, model)}, on {device}")
        self.listener.note(f"data: {describe_data(prepared)}")
        self.listener.note(
            f"recipe: {train.batch_tokens:,} tokens an update, warm-up {train.warmup_steps:,}, dropout "
            f"{self.config.model.dropout}, label smoothing {train.label_smoothing}, seed {train.seed}"
        )
        for change in changes:
            self.listener.warn(change)
        if budget.seconds is not None and budget.seconds > DAY:
            self.listener.warn(too_long(self.config, budget, prepared.target_codec.size))

    def _write_config(self) -> None:
        write_file(self.out / "config.toml", self.config.to_toml().encode())


def refuse_other_run(out: Path) -> None:
    """A run starts in a new or empty directory."""
    if out.is_dir() and not any(out.iterdir()):
        return
    if (out / "config.toml").is_file():
        raise RunError(f"{out}: holds another run: `--resume {out}` goes on with it, or choose another --out")
    if out.exists():
        raise RunError(f"{out}: exists and is not a run: choose another --out")


def choose_device(train: TrainConfig) -> torch.device:
    """The device asked for; auto is CUDA if there is one, else the CPU."""
    if train.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device = cuda: torch sees no CUDA device here: use cpu or auto")
    if train.device == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("train.device = mps: torch sees no Apple GPU here: use cpu or auto")
    if train.device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(train.device)


def new_model(config: Config, prepared: Prepared) -> Transformer:
    """A model whose first weights follow from the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        return Transformer(config.model, prepared.source_codec.size, prepared.target_codec.size)


def _names(given: str | Path | Sequence[str | Path]) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [str(name) for name in given]


def validate(model: Transformer, prepared: Prepared, search: SearchConfig, step: int) -> Validation:
    """Unsmoothed perplexity, and BLEU of greedily decoded text."""
    start = time.monotonic()
    greedy = search.model_copy(update={"beam": 1})
    translator = Translator(model, prepared.source_codec, prepared.target_codec, greedy)
    likelihood = translator.likelihood(prepared.valid_source, prepared.valid_target)
    texts = [translation.text for translation in translator.translate(prepared.valid_source)]
    samples = zip(prepared.valid_source, prepared.valid_target, texts, strict=True)
    return Validation(
        step=step,
        perplexity=perplexity(*likelihood),
        bleu=bleu(texts, prepared.valid_target).value,
        samples=tuple(Sample(*sample) for sample in list(samples)[:SAMPLES]),
        seconds=time.monotonic() - start,
    )
