"""A small English-German model on the embedded phrasebook, for studies that need one and were given none."""

from __future__ import annotations

import json
from pathlib import Path

from transduce.config import DataConfig
from transduce.data.phrasebook import Split, phrases
from transduce.errors import UserError
from transduce.files import file_name, write_file
from transduce.paper.study import Study
from transduce.trainer import Trainer

PAIRS: tuple[tuple[Split, str, int], ...] = (("train", "", 100_000), ("valid", "valid_", 500))
"""The splits that are written, what the names of their settings begin with, and how many pairs each has."""
STEPS: dict[str, tuple[str, ...]] = {
    "tiny": (),
    "small": ("train.steps=15000", "train.warmup_steps=1000", "train.validate_every=1500"),
}
"""By scale, what is set beside preset demo."""
PHRASEBOOK = "phrasebook-"
"""What the names of its files begin with; a bundle keeps the names of what it was trained on."""


def model_of(study: Study) -> Path:
    """The bundle or run that the user gives, or else a run on the phrasebook, trained or gone on with."""
    if study.bundles:
        return study.bundles[0]
    if study.scale == "paper":
        raise UserError(
            "at scale paper this is about the paper's own model: train it by `transduce train --preset wmt14-en-de`,"
            " and give its run"
        )
    return demo_run(study)


def demo_run(study: Study) -> Path:
    """The finished run of preset demo under `study.work`: about 4 minutes on 2 cores, ten times that at scale small."""
    directory = study.work / f"demo-{study.scale}"
    run = directory / "run"
    if (run / "model" / "manifest.json").is_file():
        study.listener.note(f"using the model in {run}")
        return run
    if (run / "config.toml").is_file():
        trainer = Trainer.resume(run, listener=study.listener)
    else:
        settings = [
            f"data.{key}={json.dumps([str(path)])}" for key, path in write_phrasebook(directory / "data").items()
        ]
        trainer = Trainer(run, preset="demo", settings=[*settings, *STEPS[study.scale]], listener=study.listener)
    trainer.run()
    return run


def knows_only_phrases(data: DataConfig) -> bool:
    """Whether the phrasebook is all that was trained on, by the names of the files."""
    return bool(data.source) and not data.corpora and all(file_name(p).startswith(PHRASEBOOK) for p in data.source)


def write_phrasebook(directory: Path) -> dict[str, Path]:
    """Training and validation files, by the setting that names them."""
    directory.mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    for split, prefix, count in PAIRS:
        found = phrases(split, count)
        files[f"{prefix}source"], files[f"{prefix}target"] = (
            directory / f"{PHRASEBOOK}{split}.{language}" for language in ("en", "de")
        )
        write_file(files[f"{prefix}source"], "".join(phrase.source + "\n" for phrase in found).encode())
        write_file(files[f"{prefix}target"], "".join(phrase.target + "\n" for phrase in found).encode())
    return files
