"""What stands before a run: an empty directory, and a configuration, its preset chosen where none is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from transduce.config import Config
from transduce.data.corpus import training_corpus, validation_corpus
from transduce.data.doctor import examine
from transduce.data.pace import Notes, stage
from transduce.errors import RunError, UserError
from transduce.files import write_json
from transduce.settings import known_keys, load_config, read_toml
from transduce.train.calibration import expected
from transduce.train.choice import TABLE, Size, budget_in_words, choose, settings_of
from transduce.train.lock import LOCK
from transduce.train.progress import Listener
from transduce.train.start import START, keys_in, keys_of
from transduce.train.world import World

CONFIG = "config.toml"  # in the run; what stands there before it is written is no run
CHECKPOINTS = "checkpoints"
"""In the run, from when it is decided what is trained."""
GIVEN = "given.json"
"""In the run: the keys that were set, until what is left to the budget is decided."""
EARLY = (LOCK, START, GIVEN)
UNFINISHED = tuple(f".{name}." for name in (START, GIVEN, CONFIG))


def refuse_other_run(out: Path) -> None:
    """A run starts in a new or empty directory."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    killed = LOCK in names and all(name in EARLY or name.startswith(UNFINISHED) for name in names)
    if out.is_dir() and (not names or killed):
        return
    if (out / CONFIG).is_file():
        raise RunError(f"{out}: holds another run: `--resume {out}` goes on with it, or choose another --out")
    if out.exists():
        raise RunError(f"{out}: exists and is not a run: choose another --out")


@contextmanager
def nothing_left_if_refused(out: Path, existed: bool) -> Iterator[None]:
    """What cannot be trained leaves no run behind that has not begun."""
    refuse_other_run(out)  # another may have begun since
    try:
        yield
    except (OSError, UserError):
        if not (out / CHECKPOINTS).exists():
            shutil.rmtree(out, ignore_errors=True)
            if existed:
                out.mkdir(exist_ok=True)
        raise


def clear_killed(out: Path) -> None:
    """What a start that was killed has left goes, but for the lock."""
    for left in out.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != LOCK:
            left.unlink()


def keep_given(run: Path, keys: Iterable[str]) -> None:
    """Write down what was set, for a run that is killed before its budget was measured."""
    write_json(run / GIVEN, sorted(keys))


def kept_given(run: Path) -> frozenset[str]:
    """The keys that the budget leaves alone: all, once it has decided the others."""
    path = run / GIVEN
    return frozenset(json.loads(path.read_bytes()) if path.is_file() else known_keys())


def decided(run: Path) -> None:
    """The configuration says all that the budget decides; whoever resumes decides nothing anew."""
    (run / GIVEN).unlink(missing_ok=True)


def configure(preset: str | None, path: Path | None, settings: list[str], listener: Listener, world: World) -> Config:
    """The configuration, its preset chosen when none is named; the doctor looks at the corpus first."""
    named = preset is not None or (path is not None and "preset" in read_toml(path))
    config = load_config(preset=preset if named else TABLE[0].preset, path=path, settings=settings)
    corpus, valid = training_corpus(config.data), validation_corpus(config.data)
    listener.note(f"looking at {', '.join(path.name for path in corpus.files)}")
    tick = stage(Notes(listener.note), "looking")
    report = examine(corpus, valid=valid, data=config.data, tick=tick)
    for problem in report.problems:
        listener.warn(problem)
    if named:
        return config
    given = keys_of(path) | keys_in(settings)
    if config.train.start:
        given.add("text.vocabulary")  # is the model's
    pairs, size = report.corpora[0].usable, Size.of(report.corpora[0])

    def configured(name: str, more: Iterable[str] = ()) -> Config:
        return load_config(preset=name, path=path, settings=[*more, *settings])

    @cache
    def updates(name: str) -> int | None:
        if config.train.start or not size.pairs:  # a model has its own shape; what has no pairs is refused later
            return None
        if config.train.minutes is not None:
            listener.note(f"trying out preset {name}")
        return expected(configured(name, settings_of(name, pairs, None, given)), size, world).updates

    def updates_per_epoch(name: str) -> int:
        return size.updates_per_epoch(configured(name).train)

    choice = choose(pairs, updates, updates_per_epoch, budget=budget_in_words(config.train), given=given)
    listener.note(f"preset {choice.words}")
    return configured(choice.preset, choice.settings)
