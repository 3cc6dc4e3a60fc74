"""What many tests share: one small bundle, trained once per session, and hypothesis without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import settings

from short_phrases import write_phrasebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from transduce import Translator
    from transduce.data.store import Store
    from transduce.text import Symbols

settings.register_profile("transduce", deadline=None, print_blob=True)
settings.load_profile("transduce")

BUNDLE_SETTINGS = [
    "model.encoder_layers=2",
    "model.decoder_layers=2",
    "model.d_model=64",
    "model.d_ff=128",
    "model.dropout=0.0",
    "model.norm=post",
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One test that needs the shared run comes first, the others last: while a worker trains it, none has to wait."""
    users = [item for item in items if "run" in getattr(item, "fixturenames", ())]
    if users:
        first, others = users[0], set(users)
        items[:] = [first, *(item for item in items if item not in others), *users[1:]]


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


@pytest.fixture(scope="session")
def small_run(session_directory: Path, phrasebook: Path) -> Path:
    """A finished run of two steps with very small weights; its data serves runs that tests damage."""
    from transduce import Trainer
    from trials import SMALL

    directory = session_directory / "small"
    with FileLock(session_directory / "small.lock"):
        if not (directory / "run" / "model").is_dir():
            directory.mkdir(exist_ok=True)
            for name in ("train.en", "train.de"):
                lines = (phrasebook / name).read_text(encoding="utf-8").split("\n")[:300]
                (directory / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
            files = [
                f"data.{side}=['{directory / name}']" for side, name in (("source", "train.en"), ("target", "train.de"))
            ]
            Trainer(directory / "run", preset="tiny", settings=[*files, *SMALL, "train.steps=2"]).run()
    return directory / "run"


@pytest.fixture
def small_corpus(tmp_path: Path, phrasebook: Path) -> Path:
    """A directory with the first 300 pairs of the phrasebook."""
    directory = tmp_path / "corpus"
    directory.mkdir()
    for name in ("train.en", "train.de"):
        lines = (phrasebook / name).read_text(encoding="utf-8").split("\n")[:300]
        (directory / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return directory


@pytest.fixture
def letters(tmp_path: Path) -> tuple[Store, Symbols]:
    """Pairs of short sequences of letters, the target the source reversed."""
    from transduce.data.store import write_store
    from transduce.text import Symbols

    codec = Symbols(list("abcdef"))
    generator = np.random.default_rng(0)
    rows = [" ".join(generator.choice(list("abcdef"), size=generator.integers(1, 9))) for _ in range(80)]
    return write_store(
        tmp_path / "ids", [(i, r, r[::-1]) for i, r in enumerate(rows)], codec, codec, max_length=20
    ), codec


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    """The shared bundle by the reference engine."""
    from transduce import Translator

    return Translator.load(bundle, engine="pytorch")


@pytest.fixture(scope="module")
def site(translator: Translator) -> Iterator[str]:
    """The address of the page, behind which that model answers."""
    from browser import stand_in

    with stand_in(translator) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one, the test is skipped."""
    from browser import chromium

    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new page of it, in which nothing may go wrong unseen."""
    from browser import watched

    with watched(browser) as opened:
        yield opened
