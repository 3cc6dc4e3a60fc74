"""A model on disk: config.toml, codec/, model.safetensors, README.md (the card) and a manifest that hashes them all.

Opening a bundle imports no torch and runs no code from it; its weights are read by `load_model`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.config import Config, make_config, read_toml
from transduce.errors import BundleError
from transduce.files import sha256, write_directory, write_file, write_json
from transduce.text import load_codecs, save_codecs
from transduce.text.codec import Codec
from transduce.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.model import Transformer

FORMAT = 1
WEIGHTS = "model.safetensors"
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*", re.IGNORECASE)


@dataclass(frozen=True)
class Bundle:
    """An opened bundle whose files were found to be what the manifest says."""

    path: Path
    config: Config
    source_codec: Codec
    target_codec: Codec
    source_lang: str | None
    target_lang: str | None

    @property
    def name(self) -> str:
        """How a person would call this model."""
        pair = f"{self.source_lang}-{self.target_lang}" if self.source_lang and self.target_lang else ""
        return " ".join(part for part in (pair, self.config.preset) if part)


def write_bundle(
    path: Path,
    *,
    config: Config,
    source_codec: Codec,
    target_codec: Codec,
    languages: tuple[str | None, str | None],
    weights: Mapping[str, Tensor],
    card: str,
) -> None:
    """Write a bundle, whole or not at all. Paths of training files are reduced to their names."""
    from safetensors.torch import save

    def fill(directory: Path) -> None:
        write_file(directory / "config.toml", _without_paths(config).to_toml().encode())
        save_codecs(directory / "codec", source_codec, target_codec)
        write_file(directory / WEIGHTS, save({name: w.contiguous() for name, w in weights.items()}))
        write_file(directory / "README.md", card.encode())
        write_manifest(directory, {"languages": {"source": languages[0], "target": languages[1]}})

    write_directory(path, fill)


def open_bundle(path: Path) -> Bundle:
    """Open a bundle, or the bundle inside a run directory, after checking every file against the manifest."""
    path = locate(path)
    manifest = read_manifest(path)
    source_codec, target_codec = load_codecs(path / "codec")
    languages = manifest.get("languages") or {}
    return Bundle(
        path=path,
        config=make_config(read_toml(path / "config.toml"), where=str(path / "config.toml")),
        source_codec=source_codec,
        target_codec=target_codec,
        source_lang=languages.get("source"),
        target_lang=languages.get("target"),
    )


def load_model(bundle: Bundle) -> Transformer:
    """The bundle's Transformer with its weights, on the CPU, ready to decode."""
    from transduce.model import Transformer

    model = Transformer(bundle.config.model, bundle.source_codec.size, bundle.target_codec.size)
    load_weights(model, read_weights(bundle.path / WEIGHTS), where=bundle.path)
    return model.eval().requires_grad_(False)


def load_weights(model: Transformer, weights: Mapping[str, Tensor], *, where: Path) -> None:
    """Copy weights into a model, or say which of them do not fit its configuration."""
    expected = unique_weights(model)
    for name in sorted(expected.keys() ^ weights.keys()):
        raise BundleError(f"{where}: {WEIGHTS} and config.toml disagree about {name!r}: train or copy it again")
    for name, weight in weights.items():
        if weight.shape != expected[name].shape:
            shapes = f"{tuple(weight.shape)} in {WEIGHTS}, {tuple(expected[name].shape)} by config.toml"
            raise BundleError(f"{where}: {name!r} is {shapes}: train or copy it again")
        expected[name].data.copy_(weight)


def unique_weights(model: Transformer) -> dict[str, Tensor]:
    """Each weight once under its first name: what is saved. Tied ones are tied again by the configuration."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise BundleError(f"{path}: damaged: {error}") from None


def write_manifest(directory: Path, facts: Mapping[str, object]) -> None:
    """Hash every file of a directory into its manifest.json."""
    names = sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
    hashes = {name: sha256(directory / name) for name in names}
    write_json(directory / "manifest.json", {"format": FORMAT, "transduce": __version__, **facts, "files": hashes})


def read_manifest(directory: Path) -> dict[str, dict[str, str | None]]:
    """A directory's manifest, once every file it names was found unchanged."""
    path = directory / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        written, hashes = int(manifest["format"]), dict(manifest["files"])
    except FileNotFoundError:
        raise BundleError(f"{directory}: no manifest.json: not a bundle, or not a whole one") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise BundleError(f"{path}: damaged: copy or train the model again") from None
    if written > FORMAT:
        raise BundleError(f"{path}: format {written}, and this version reads up to {FORMAT}: upgrade transduce")
    for name, expected in hashes.items():
        file = directory / name
        if not SAFE_NAME.fullmatch(name) or ".." in name or file.is_symlink() or file.parent.is_symlink():
            raise BundleError(f"{path}: refuses the file name {name!r}: a bundle holds plain files of its own")
        if not file.is_file():
            raise BundleError(f"{file}: missing: copy or train the model again")
        if sha256(file) != expected:
            raise BundleError(f"{file}: damaged: its SHA-256 is not the manifest's: copy or train the model again")
    return dict(manifest)


def locate(path: Path) -> Path:
    """The bundle at `path`, or at `path`/model when `path` is a run."""
    if not path.is_dir():
        raise BundleError(f"{path}: no such directory: give a run or a bundle")
    if (path / "manifest.json").is_file() and (path / "codec").is_dir():
        return path
    if (path / "model" / "manifest.json").is_file():
        return path / "model"
    if (path / "checkpoints").is_dir():
        raise BundleError(f"{path}: this run has no model yet: `transduce train --resume {path}` goes on with it")
    raise BundleError(f"{path}: neither a bundle (no manifest.json) nor a run (no model/)")


def _without_paths(config: Config) -> Config:
    files = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
    names = {field: tuple(Path(p).name for p in getattr(config.data, field)) for field in files}
    return config.model_copy(update={"data": config.data.model_copy(update={**names, "store": None})})
