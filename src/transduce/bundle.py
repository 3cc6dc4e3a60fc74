"""A model on disk: config.toml, codec/, model.safetensors, README.md (the card) and a manifest that hashes them all.

Opening a bundle imports no torch and runs no code from it; its weights are read by `load_model`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, PositiveInt

from transduce.config import Config
from transduce.errors import BundleError
from transduce.files import file_name, sha256, write_directory, write_file, write_json
from transduce.settings import make_config, read_toml
from transduce.text import load_codecs, save_codecs
from transduce.text.codec import Codec
from transduce.version import __version__

if TYPE_CHECKING:
    from torch import Tensor

    from transduce.model import Transformer

FORMAT = 1
WEIGHTS = "model.safetensors"
MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 20
"""Bytes; a manifest is a few lines."""
SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*", re.IGNORECASE)


class Languages(BaseModel):
    """Language codes, where they are known."""

    model_config = ConfigDict(frozen=True, strict=True)

    source: str | None = None
    target: str | None = None


class Manifest(BaseModel):
    """What stands in manifest.json of a bundle or a checkpoint; facts that are not named here are left alone."""

    model_config = ConfigDict(frozen=True, strict=True)

    format: PositiveInt
    files: dict[str, str]
    """The SHA-256 of each file, by its name relative to the manifest."""
    languages: Languages = Languages()


@dataclass(frozen=True)
class Bundle:
    """An opened bundle whose files were found to be what the manifest says."""

    path: Path
    config: Config
    source_codec: Codec
    target_codec: Codec
    source_lang: str | None
    target_lang: str | None


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
    manifest = read_manifest(path, needs=["config.toml", WEIGHTS, *_codec_files(path)])
    config = make_config(read_toml(path / "config.toml"), where=str(path / "config.toml"))
    source_codec, target_codec = load_codecs(path / "codec")
    if config.model.tying == "three-way" and source_codec.size != target_codec.size:
        raise BundleError(f"{path}: config.toml tells of one vocabulary, codec/ holds two: train or copy it again")
    return Bundle(
        path=path,
        config=config,
        source_codec=source_codec,
        target_codec=target_codec,
        source_lang=manifest.languages.source,
        target_lang=manifest.languages.target,
    )


def load_model(bundle: Bundle) -> Transformer:
    """The bundle's Transformer with its weights, on the CPU, ready to decode."""
    from transduce.model.transformer import Transformer, shape_only

    weights = read_weights(bundle.path / WEIGHTS)
    config, sizes = bundle.config.model, (bundle.source_codec.size, bundle.target_codec.size)
    # names and shapes first: a configuration must not take time and memory for a model that the weights do not fill
    if config.encoder_layers + config.decoder_layers > len(weights):
        raise BundleError(f"{bundle.path}: config.toml has more layers than {WEIGHTS}: train or copy it again")
    check_weights(shape_only(config, *sizes), weights, where=bundle.path)
    model = Transformer(config, *sizes)
    load_weights(model, weights, where=bundle.path)
    return model.eval().requires_grad_(False)


def load_weights(model: Transformer, weights: Mapping[str, Tensor], *, where: Path) -> None:
    """Copy weights into a model, or say which of them do not fit its configuration."""
    check_weights(model, weights, where=where)
    for name, parameter in unique_weights(model).items():
        parameter.copy_(weights[name])


def check_weights(model: Transformer, weights: Mapping[str, Tensor], *, where: Path) -> None:
    """Refuse weights whose names or shapes are not the model's."""
    expected = unique_weights(model)
    for name in sorted(expected.keys() ^ weights.keys()):
        raise BundleError(f"{where}: {WEIGHTS} and config.toml disagree about {name!r}: train or copy it again")
    for name, weight in weights.items():
        if weight.shape != expected[name].shape:
            shapes = f"{tuple(weight.shape)} in {WEIGHTS}, {tuple(expected[name].shape)} by config.toml"
            raise BundleError(f"{where}: {name!r} is {shapes}: train or copy it again")


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


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of name, dtype, shape and bytes of each tensor in the order of names: equal models, equal digests."""
    import torch

    total = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        total.update(json.dumps([name, str(weight.dtype).removeprefix("torch."), list(weight.shape)]).encode())
        total.update(weight.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def write_manifest(directory: Path, facts: Mapping[str, object]) -> None:
    """Hash every file of a directory into its manifest.json, and then the manifest itself."""
    hashes = {name: sha256(directory / name) for name in _files(directory)}
    table = {"format": FORMAT, "transduce": __version__, **facts, "files": hashes}
    write_json(directory / MANIFEST, {**table, "sha256": _digest(table)})


def read_manifest(directory: Path, *, needs: Iterable[str] = ()) -> Manifest:
    """A directory's manifest, once it names all that is needed and every file it names was found unchanged."""
    path = directory / MANIFEST
    manifest = parse_manifest(path)
    for name in needs:
        if name not in manifest.files:
            raise BundleError(f"{path}: does not name {name}: copy or train the model again")
    for damage in damages(directory, manifest):
        raise BundleError(damage)
    return manifest


def damages(directory: Path, manifest: Manifest) -> Iterator[str]:
    """What is wrong with each file that is not what the manifest says; looks at no more than is asked for."""
    for name, expected in manifest.files.items():
        file = directory / name
        if not SAFE_NAME.fullmatch(name) or _leads_through_a_link(directory, name):
            yield f"{directory / MANIFEST}: refuses the file name {name!r}: a bundle holds plain files of its own"
        elif not file.is_file():
            yield f"{file}: missing: copy or train the model again"
        else:
            try:
                found = sha256(file)
            except OSError as error:
                yield f"{file}: cannot read: {error.strerror}: check its permissions and disk"
                continue
            if found != expected:
                yield f"{file}: damaged: its SHA-256 is not the manifest's: copy or train the model again"


def locate(path: Path) -> Path:
    """The bundle at `path`, or at `path`/model when `path` is a run."""
    if not path.is_dir():
        raise BundleError(f"{path}: no such directory: give a run or a bundle")
    if (path / "state.json").is_file():
        raise BundleError(f"{path}: a checkpoint, which has no vocabulary: give the run it belongs to")
    if (path / MANIFEST).is_file():
        return path
    if (path / "model" / MANIFEST).is_file():
        return path / "model"
    if (path / "checkpoints").is_dir():
        raise BundleError(f"{path}: this run has no model yet: `transduce train --resume {path}` goes on with it")
    raise BundleError(f"{path}: neither a bundle (no {MANIFEST}) nor a run (no model/)")


def parse_manifest(path: Path) -> Manifest:
    """What a manifest says, if it is one; the files that it names are not looked at."""
    try:
        if path.stat().st_size > MAX_MANIFEST:
            raise ValueError("too large")
        table = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(table["format"], int) and table["format"] > FORMAT:
            newer = f"format {table['format']}, and this version reads up to {FORMAT}"
            raise BundleError(f"{path}: {newer}: upgrade transduce")
        if table.pop("sha256") != _digest(table):
            raise ValueError("changed")
        return Manifest.model_validate(table)
    except FileNotFoundError:
        raise BundleError(f"{path.parent}: no {MANIFEST}: not a bundle, or not a whole one") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BundleError(f"{path}: damaged: copy or train the model again") from None


def _digest(table: Mapping[str, object]) -> str:
    """The SHA-256 of what a manifest says, however it is laid out."""
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


def _leads_through_a_link(directory: Path, name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(directory.joinpath(*parts[: end + 1]).is_symlink() for end in range(len(parts)))


def _files(directory: Path) -> list[str]:
    """Names of all files below a directory, and of links, which would hide some."""
    found = (p for p in directory.rglob("*") if p.is_file() or p.is_symlink())
    return sorted(p.relative_to(directory).as_posix() for p in found)


def _codec_files(directory: Path) -> list[str]:
    return [f"codec/{name}" for name in _files(directory / "codec")]


def _without_paths(config: Config) -> Config:
    files = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")
    names = {field: tuple(file_name(p) for p in getattr(config.data, field)) for field in files}
    corpora = tuple(
        each.model_copy(update={field: tuple(map(file_name, getattr(each, field))) for field in files[:3]})
        for each in config.data.corpora
    )
    data = config.data.model_copy(update={**names, "corpora": corpora, "store": None})
    return config.model_copy(update={"data": data, "train": config.train.model_copy(update={"start": None})})
