"""What many tests share: one small bundle, trained once per session, and hypothesis without a clock."""

from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from short_phrases import write_phrasebook

settings.register_profile("transduce", deadline=None, print_blob=True)
settings.load_profile("transduce")

BUNDLE_SETTINGS = [
    "model.encoder_layers=2",
    "model.decoder_layers=2",
    "model.d_model=64",
    "model.d_ff=128",
    "model.dropout=0.0",
    "text.vocabulary=700",
    "train.batch_tokens=800",
    "train.micro_batch_tokens=800",
    "train.warmup_steps=150",
    "train.learning_rate=0.6",
    "train.steps=700",
    "train.validate_every=200",
    "train.save_every=50",
    "train.threads=1",
]


@pytest.fixture(scope="session")
def session_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A directory that all workers of this session share."""
    base = tmp_path_factory.getbasetemp()
    return base if worker_id == "master" else base.parent


@pytest.fixture(scope="session")
def phrasebook(session_directory: Path) -> Path:
    """A directory with train.en, train.de, valid.en and valid.de."""
    directory = session_directory / "phrasebook"
    with FileLock(session_directory / "phrasebook.lock"):
        if not (directory / "valid.de").is_file():
            write_phrasebook(directory, train=20_000, valid=600)
    return directory


@pytest.fixture(scope="session")
def run(session_directory: Path, phrasebook: Path) -> Path:
    """A finished run on the phrasebook: small, but it has learned something."""
    from transduce import Trainer

    directory = session_directory / "run"
    with FileLock(session_directory / "run.lock"):
        if not (directory / "model").is_dir():
            sides = {side: [str(phrasebook / f"{part}.{lang}")] for side, part, lang in _SIDES}
            settings = [f"data.{side}={paths}" for side, paths in sides.items()]
            Trainer(directory, preset="tiny", settings=[*settings, *BUNDLE_SETTINGS]).run()
    return directory


_SIDES = (
    ("source", "train", "en"),
    ("target", "train", "de"),
    ("valid_source", "valid", "en"),
    ("valid_target", "valid", "de"),
)


@pytest.fixture(scope="session")
def bundle(run: Path) -> Path:
    """The bundle of that run."""
    return run / "model"
