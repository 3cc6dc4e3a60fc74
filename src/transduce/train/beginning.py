"""What stands before a run: an empty directory, and a configuration, its preset chosen where none is named."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from transduce.config import Config
from transduce.data.corpus import training_corpus, validation_corpus
from transduce.data.doctor import examine
from transduce.data.pace import Notes, stage
from transduce.errors import RunError
from transduce.settings import load_config, read_toml
from transduce.train.calibration import expected
from transduce.train.choice import Size, budget_in_words, choose_preset, in_words, settings_of
from transduce.train.lock import LOCK
from transduce.train.progress import Listener
from transduce.train.start import START, keys_of
from transduce.train.world import World


def refuse_other_run(out: Path) -> None:
    """A run starts in a new or empty directory."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    killed = LOCK in names and all(name.lstrip(".").partition(".")[0] in (LOCK, START) for name in names)
    if out.is_dir() and (not names or killed):  # killed: before it had written more
        return
    if (out / "config.toml").is_file():
        raise RunError(f"{out}: holds another run: `--resume {out}` goes on with it, or choose another --out")
    if out.exists():
        raise RunError(f"{out}: exists and is not a run: choose another --out")


def configure(preset: str | None, path: Path | None, settings: list[str], listener: Listener, world: World) -> Config:
    """The configuration, its preset chosen when none is named; the doctor looks at the corpus first."""
    config = load_config(preset=preset, path=path, settings=settings)
    corpus, valid = training_corpus(config.data), validation_corpus(config.data)
    listener.note(f"looking at {', '.join(path.name for path in corpus.files)}")
    tick = stage(Notes(listener.note), "looking")
    report = examine(corpus, valid=valid, data=config.data, tick=tick)
    for problem in report.problems:
        listener.warn(problem)
    if preset or (path and "preset" in read_toml(path)):
        return config
    given = keys_of(path) | {setting.partition("=")[0].strip() for setting in settings}
    pairs, size = report.corpora[0].usable, Size.of(report.corpora[0])

    def configured(name: str, epochs: float | None = None) -> Config:
        return load_config(preset=name, path=path, settings=[*settings_of(name, pairs, epochs, given), *settings])

    @cache
    def updates(name: str) -> int | None:
        if config.train.start:  # which has its own shape
            return None
        if config.train.minutes is not None:
            listener.note(f"trying out preset {name}")
        return expected(configured(name), size, world).updates

    name, reason = choose_preset(pairs, updates, budget_in_words(config.train))
    got = updates(name)
    epochs = None if got is None else got / size.updates_per_epoch(configured(name).train)
    listener.note(f"preset {in_words(name, reason, epochs, settings_of(name, pairs, epochs, given))}")
    return configured(name, epochs)
