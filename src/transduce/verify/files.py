"""Every file of a bundle, or of a run's checkpoints and model, against its hash; and the digest of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from transduce.bundle import MANIFEST, WEIGHTS, damages, parse_manifest, read_weights, weights_digest
from transduce.errors import BundleError


@dataclass(frozen=True)
class Checked:
    """One bundle or checkpoint."""

    path: Path
    files: int
    """How many the manifest names."""
    digest: str | None
    """Of the weights; None when they could not be read."""
    damage: tuple[str, ...]
    """A line for each file that is not what it was."""


def check_files(path: Path) -> Iterator[Checked]:
    """Each checkpoint of a run and its model, or the one bundle or checkpoint that `path` is."""
    for directory in hashed_directories(path):
        yield check_directory(directory)


def hashed_directories(path: Path) -> list[Path]:
    """The directories below `path` that have, or should have, a manifest."""
    if not path.is_dir():
        raise BundleError(f"{path}: no such directory: give a run or a bundle")
    if (path / MANIFEST).is_file():
        return [path]
    found = sorted(each for each in (path / "checkpoints").glob("step-*") if each.is_dir())
    if (path / "model").is_dir():
        found.append(path / "model")
    if not found:
        raise BundleError(f"{path}: neither a bundle (no {MANIFEST}) nor a run (no checkpoints/step-*, no model/)")
    return found


def check_directory(directory: Path) -> Checked:
    """Hash every file that the manifest names; what it does not name is no part of the model."""
    try:
        manifest = parse_manifest(directory / MANIFEST)
    except BundleError as error:
        return Checked(directory, 0, None, (str(error),))
    damage = list(damages(directory, manifest))
    if WEIGHTS not in manifest.files:
        damage.append(f"{directory / MANIFEST}: does not name {WEIGHTS}: copy or train the model again")
    digest = None if damage else weights_digest(read_weights(directory / WEIGHTS))
    return Checked(directory, len(manifest.files), digest, tuple(damage))
