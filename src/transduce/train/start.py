"""Starting from a model that is there: with its weights, its shape and its vocabulary, or with the vocabulary alone.

The run keeps a copy in start/, whole before its config.toml appears: going on with the run needs nothing else.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transduce.bundle import (
    MANIFEST,
    WEIGHTS,
    Bundle,
    load_weights,
    open_bundle,
    parse_manifest,
    read_weights,
)
from transduce.config import Config
from transduce.data.corpus import languages, training_corpus
from transduce.data.preparation import Prepared
from transduce.data.store import Integers
from transduce.errors import ConfigError, CorpusError
from transduce.files import write_directory
from transduce.model import Transformer
from transduce.settings import apart, load_config, make_config, read_toml
from transduce.text import Codec, load_codecs, save_codecs
from transduce.text.codec import UNK

START = "start"  # in the run
RECIPE = frozenset({"dropout", "attention_dropout", "relu_dropout", "word_dropout"})
"""What of the model is a matter of training: weights fit whatever it is."""
MANY = 0.05
"""If a larger share of a side's tokens is unknown or single bytes, the vocabulary was made for other text."""

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_COUNTED = 1 << 22  # tokens at once


@dataclass(frozen=True)
class Start:
    """A bundle that a run begins with: with all of it, or only with its vocabulary."""

    bundle: Bundle
    with_weights: bool = True

    def __str__(self) -> str:
        taken = "starting from {}: its weights, shape and vocabulary" if self.with_weights else "the vocabulary of {}"
        return taken.format(self.bundle.path)

    def settle(self, config: Config, *, given: Container[str], warn: Callable[[str], None]) -> Config:
        """The configuration with what the bundle decides; keys that were `given` must not say otherwise."""
        fitted, (source_lang, target_lang) = self.fit(config, given=given), self._languages(config, warn)
        data = config.data.model_copy(update={"source_lang": source_lang, "target_lang": target_lang})
        return fitted.model_copy(update={"data": data})

    def fit(self, config: Config, *, given: Container[str]) -> Config:
        """The configuration with the bundle's shape and vocabulary, whatever the languages."""
        table = config.model_dump()
        if self.with_weights:
            shape = {key: value for key, value in self.bundle.config.model.model_dump().items() if key not in RECIPE}
            self._refuse(table["model"], shape, "model", given)
            table["model"] |= shape
        text = self.bundle.config.text.model_dump()
        self._refuse(table["text"], text, "text", given)
        table["text"] = text
        return make_config(table, where=str(self))

    def copy(self, directory: Path) -> None:
        """Write into a directory what a run begins with."""
        if not self.with_weights:
            save_codecs(directory / "codec", self.bundle.source_codec, self.bundle.target_codec)
            return
        for name in (*parse_manifest(self.bundle.path / MANIFEST).files, MANIFEST):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.bundle.path / name, directory / name)

    def _refuse(self, table: dict[str, Any], theirs: dict[str, Any], section: str, given: Container[str]) -> None:
        """What was asked for and is otherwise in the bundle cannot be had."""
        for key, value in theirs.items():
            name = f"{section}.{key}"
            if name in given and table[key] != value:
                there = f"{self.bundle.path}: {name} is {_spelled(value)} there"
                raise ConfigError(f"{there}, and {_spelled(table[key])} was set: leave it out, or start from nothing")

    def _languages(self, config: Config, warn: Callable[[str], None]) -> tuple[str | None, str | None]:
        """What to call the languages: as the files do, else as the bundle does; both must mean the same."""
        found = languages(training_corpus(config.data), config.data)
        known = self.bundle.source_lang, self.bundle.target_lang
        set_ = config.data.source_lang, config.data.target_lang
        apart = [side for side in (0, 1) if not _same(found[side], known[side])]
        if apart:
            told = f"{self.bundle.path}: from {_pair(known)}, and the files are {_pair(found)}"
            if not all(set_[side] for side in apart):
                codes = [code or "CODE" for code in found]
                raise CorpusError(
                    f"{told}: give --source and --target the other way round, or start from another model; if one of"
                    f" other languages is meant, say so by --source-lang {codes[0]} --target-lang {codes[1]}"
                )
            warn(f"{told}: what it knows of its own languages will be unlearned")
        source, target = (set_[side] or (None if found[side] else known[side]) for side in (0, 1))
        return source, target


def find_start(start: str | Path | None, vocabulary_of: str | Path | None) -> Start | None:
    """What a run is asked to begin with, if anything."""
    if start is not None:
        if vocabulary_of is not None:
            raise ConfigError(f"{start}: a model is started from with its own vocabulary: name no other")
        return Start(open_bundle(Path(start)))
    return None if vocabulary_of is None else Start(open_bundle(Path(vocabulary_of)), with_weights=False)


def keys_of(path: Path | None) -> set[str]:
    """Every `section.key` that a TOML file sets otherwise than the preset it names: `transduce config` writes all."""
    if path is None:
        return set()
    tables = read_toml(path)
    keys = {f"{name}.{key}" for name, table in tables.items() if isinstance(table, dict) for key in table}
    if "preset" in tables:
        keys.intersection_update(apart(load_config(path=path), load_config(preset=tables["preset"])))
    return keys


def keys_in(settings: Iterable[str]) -> set[str]:
    """Every `section.key` of `section.key=value`."""
    return {setting.partition("=")[0].strip() for setting in settings}


def keep_start(run: Path, start: Start | None) -> None:
    """Copy into a new run what it begins with."""
    if start is not None:
        write_directory(run / START, start.copy)


def kept_codecs(run: Path) -> tuple[Codec, Codec] | None:
    """The vocabulary that a run began with; None: it learns one."""
    path = run / START / "codec"
    return load_codecs(path) if path.is_dir() else None


def load_start(model: Transformer, run: Path, start: str) -> None:
    """Give a model the weights that its run began with; a run made without its copy has the bundle's own."""
    kept = run / START
    bundle = open_bundle(kept if kept.is_dir() else Path(start))
    load_weights(model, read_weights(bundle.path / WEIGHTS), where=bundle.path)


def doubts(prepared: Prepared) -> Iterator[str]:
    """What of the text a given vocabulary hardly covers."""
    sides = (
        ("source", prepared.source_codec, prepared.train.source),
        ("target", prepared.target_codec, prepared.train.target),
    )
    for name, codec, sequences in sides:
        share = uncovered(codec, sequences.ids)
        if share > MANY:
            yield (
                f"{share:.0%} of the {name} tokens are unknown or single bytes: the vocabulary was made for other text:"
                " let training learn one of its own, from nothing"
            )


def uncovered(codec: Codec, ids: Integers) -> float:
    """The share of tokens that are unknown or single bytes."""
    counts = np.zeros(codec.size, dtype=np.int64)
    for at in range(0, len(ids), _COUNTED):
        counts += np.bincount(ids[at : at + _COUNTED], minlength=codec.size)
    alien = [id for id, piece in enumerate(codec.pieces(range(codec.size))) if id == UNK or _BYTE.fullmatch(piece)]
    return float(counts[alien].sum() / max(counts.sum(), 1))


def _same(one: str | None, other: str | None) -> bool:
    """Whether two codes may mean one language: script and region aside, and nothing is known of an unset one."""
    if one is None or other is None:
        return True
    return re.split("[-_]", one)[0] == re.split("[-_]", other)[0]


def _pair(codes: tuple[str | None, str | None]) -> str:
    return " to ".join(code or "?" for code in codes)


def _spelled(value: object) -> str:
    return "unset" if value is None else str(value)
