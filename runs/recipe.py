"""What a run of a script is trained by, and its outputs, each made once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transduce.bundle import MANIFEST, locate
from transduce.decode.translator import Translator
from transduce.files import sha256, write_json
from transduce.settings import load_config, search_settings
from transduce.train.progress import Listener
from transduce.trainer import Trainer


@dataclass(frozen=True)
class Recipe:
    """A preset and settings; those of a trial come last and win."""

    name: str
    preset: str
    settings: tuple[str, ...]
    tried: tuple[str, ...] = ()
    beside: str = ""
    """What else a run depends on."""

    @property
    def search(self) -> dict[str, Any]:
        """How outputs are searched for."""
        return search_settings(filter(_of_search, (*self.settings, *self.tried)))

    def directory(self, work: Path) -> Path:
        """Another recipe, or a preset that has changed, is another run; another search is the same one."""
        settings = [each for each in (*self.settings, *self.tried) if not _of_search(each)]
        config = load_config(preset=self.preset, settings=settings).model_dump(mode="json")
        return work / f"{self.name}-{digest([config, self.beside])[:8]}"

    def train(self, work: Path, files: Sequence[str], listener: Listener) -> Path:
        """The run, trained to its end or gone on with; `files` are the settings that name the corpus."""
        tried = (each for each in self.tried if not _of_search(each))
        settings = [*files, *self.settings, *tried]
        return train(self.directory(work), preset=self.preset, settings=settings, listener=listener)


def train(run: Path, *, preset: str, settings: Sequence[str], listener: Listener) -> Path:
    """A run, trained to its end or gone on with."""
    if (run / "model" / MANIFEST).is_file():
        listener.note(f"using the model in {run}")
        return run
    if (run / "config.toml").is_file():
        trainer = Trainer.resume(run, listener=listener)
    else:
        trainer = Trainer(run, preset=preset, settings=settings, listener=listener)
    trainer.run()
    return run


def files(**named: Path) -> list[str]:
    """The settings that name the files of a corpus: `files(source=..., target=...)`."""
    return [f"data.{key}={json.dumps([str(path.absolute())])}" for key, path in named.items()]


def both_sides(directory: Path, part: str) -> tuple[Path, Path]:
    """The two files of one part of an English-German corpus."""
    return directory / f"{part}.en.gz", directory / f"{part}.de.gz"


def parallel(directory: Path, *, valid: str) -> list[str]:
    """The settings that name the training and the validation pairs of such a corpus."""
    train, held = (both_sides(directory, part) for part in ("train", valid))
    return files(source=train[0], target=train[1], valid_source=held[0], valid_target=held[1])


def outputs(work: Path, model: Path, lines: Sequence[str], search: dict[str, Any]) -> list[str]:
    """What a run or bundle makes of some lines by PyTorch in float32; kept below `work`, so that it is made once."""
    made = digest([sha256(locate(model) / MANIFEST), search, list(lines)])
    kept = work / "outputs" / f"{made[:16]}.json"
    if not kept.is_file():
        translator = Translator.load(model, engine="pytorch")
        kept.parent.mkdir(exist_ok=True)
        write_json(kept, [each.text for each in translator.translate(lines, settings=search)])
    found: list[str] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def _of_search(setting: str) -> bool:
    return setting.startswith("search.")


def digest(facts: object) -> str:
    """Of what JSON can hold."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
