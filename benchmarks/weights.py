"""The model that translators are compared with: trained once, kept in the cache, exported for those who need that."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.corpus import Text
from benchmarks.environments import cache
from benchmarks.shapes import Shape
from benchmarks.translation import LENGTH
from transduce.bundle import MANIFEST, Bundle, open_bundle, unique_weights, write_bundle
from transduce.config import SearchConfig
from transduce.files import write_directory
from transduce.interop.ctranslate2 import convert
from transduce.interop.marian_export import export_marian
from transduce.model import Transformer

VOCABULARIES = {"Multi30k": 10_000, "phrasebook": 1_000}
EPOCHS = 6
RECIPE = {  # for so few epochs more and smaller updates than the preset's, and less dropout
    "model.dropout": 0.1,
    "model.norm": "post",  # as Marian has it
    "train.batch_tokens": 1500,
    "train.micro_batch_tokens": 1500,
    "train.warmup_steps": 400,
    "train.learning_rate": 0.5,
    "train.validate_every": 10**6,
    "train.seed": 1,
    "train.epochs": EPOCHS,
}


def weights(text: Text) -> Path:
    """A directory with run/, ctranslate2/ and marian/: some minutes where the run has to be made, or made whole."""
    settings = [word for key, value in recipe(text).items() for word in ("--set", f"{key}={value}")]
    name = hashlib.sha256("\n".join([text.name, *settings]).encode()).hexdigest()[:16]
    directory = cache() / f"weights-{name}"
    run = directory / "run"
    if not (run / "model" / MANIFEST).is_file():
        directory.mkdir(parents=True, exist_ok=True)
        source, target = text.write(directory)
        begin: list[str | Path] = ["--source", source, "--target", target, "--out", run, "--preset", "tiny", *settings]
        train(["--resume", run] if (run / "config.toml").is_file() else begin)
    export(open_bundle(run), directory)
    return directory


def untrained(text: Text, shape: Shape) -> Path:
    """A directory with run/ and marian/: another shape with its first weights and the vocabulary of `weights`.

    Its outputs all have LENGTH tokens: for such a one it takes as long as a trained model does.
    """
    trained = open_bundle(weights(text) / "run")
    directory = cache() / f"untrained-{shape.name}-{LENGTH}"
    if not (directory / "run" / MANIFEST).is_file():
        search = SearchConfig(min_length=LENGTH, max_length=LENGTH)
        config = trained.config.model_copy(update={"model": shape.residual_dropout_config(), "search": search})
        torch.manual_seed(1)
        model = Transformer(config.model, trained.source_codec.size, trained.target_codec.size)
        write_bundle(
            directory / "run",
            config=config,
            source_codec=trained.source_codec,
            target_codec=trained.target_codec,
            languages=(trained.source_lang, trained.target_lang),
            weights=unique_weights(model),
            card="Not trained.",
        )
    if not (directory / "marian").is_dir():
        write_directory(directory / "marian", lambda path: export_marian(open_bundle(directory / "run"), path))
    return directory


def recipe(text: Text) -> dict[str, object]:
    """Of preset tiny, what is changed."""
    return {**RECIPE, "text.vocabulary": VOCABULARIES[text.name]}


def train(arguments: list[str | Path]) -> None:
    """`transduce train`, which tells of its progress."""
    subprocess.run([sys.executable, "-m", "transduce", "train", *arguments], stdout=subprocess.DEVNULL, check=True)


def export(bundle: Bundle, directory: Path) -> None:
    """What is not there yet: as `transduce export --to ctranslate2` and `--to marian` write it."""
    if not (directory / "ctranslate2").is_dir():
        write_directory(directory / "ctranslate2", lambda path: convert(bundle, path, "int8"))
    if not (directory / "marian").is_dir():
        write_directory(directory / "marian", lambda path: export_marian(bundle, path))
