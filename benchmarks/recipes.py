"""How peers are told to train one of our shapes, and where their logs say how fast they are.

Where a peer has no setting for it, its own way stands: eole puts the layer norm before each sublayer of the decoder, so
here it does in the encoder too, and each stack ends with one; JoeyNMT has biases in its attention, an Adam epsilon of
1e-8, and takes pairs in random order, since it has no buckets: its batches hold more padding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shapes import Shape

SMOOTHING = 0.1
BETAS = (0.9, 0.98)
WARMUP = 4000
SOURCE, TARGET = "source", "target"
"""What the two sides' files are called: `train.source`."""


@dataclass(frozen=True)
class Run:
    """A short training run: its shape, its length in updates, and a directory with everything that it reads.

    There are train.source and train.target, a pair a line; dev.source and dev.target with one pair; and vocabulary.txt,
    a word a line, without special words. A word is the number of one of our subwords, so that no peer finds white
    space or a special word in it.
    """

    shape: Shape
    pairs: int
    updates: int
    report_every: int
    directory: Path

    def file(self, name: str) -> str:
        """The path of a file, as settings spell it."""
        return str(self.directory / name)


@dataclass(frozen=True)
class Recipe:
    """A peer's command, the settings that it reads, and the target tokens a second in a line of its log."""

    module: str
    arguments: tuple[str, ...]
    settings: Callable[[Run], dict[str, Any]]
    report: re.Pattern[str]


def eole_settings(run: Run) -> dict[str, Any]:
    """One bucket holds the whole corpus, sorted by length; batches are made in the training process."""
    shape = run.shape
    model = {
        "architecture": "transformer",
        "layers": shape.layers,
        "hidden_size": shape.d_model,
        "word_vec_size": shape.d_model,
        "transformer_ff": shape.d_ff,
        "heads": shape.num_heads,
        "add_ffnbias": True,
        "generator_bias": False,
        "embeddings": {"position_encoding": True, "position_encoding_type": "SinusoidalInterleaved"},
        "share_embeddings": True,
        "share_decoder_embeddings": True,
    }
    training = {
        "model_path": run.file("model"),
        "train_steps": run.updates,
        "save_checkpoint_steps": run.updates + 1,
        "valid_steps": run.updates + 1,
        "batch_type": "tokens",
        "batch_size": shape.tokens,
        "normalization": "tokens",
        "bucket_size": run.pairs,
        "num_workers": 0,
        "optim": "adam",
        "adam_beta1": BETAS[0],
        "adam_beta2": BETAS[1],
        "adam_eps": 1e-9,
        "learning_rate": 1.0,
        "decay_method": "noam",
        "warmup_steps": WARMUP,
        "max_grad_norm": 0,
        "label_smoothing": SMOOTHING,
        "dropout": [shape.dropout],
        "attention_dropout": [shape.dropout],
        "param_init_method": "xavier_uniform",
        "log_attention_entropy": False,
    }
    return {
        "seed": 1,
        "report_every": run.report_every,
        "data": {"train": {"path_src": run.file(f"train.{SOURCE}"), "path_tgt": run.file(f"train.{TARGET}")}},
        "src_vocab": run.file("vocabulary.txt"),
        "share_vocab": True,
        "vocab_size_multiple": 1,
        "model": model,
        "training": training,
    }


def joeynmt_settings(run: Run) -> dict[str, Any]:
    """JoeyNMT wants a development set; training ends before it would be used."""
    shape = run.shape
    side = {"level": "word", "voc_file": run.file("vocabulary.txt")}
    stack = {
        "type": "transformer",
        "num_layers": shape.layers,
        "num_heads": shape.num_heads,
        "embeddings": {"embedding_dim": shape.d_model, "scale": True, "dropout": shape.dropout},
        "hidden_size": shape.d_model,
        "ff_size": shape.d_ff,
        "dropout": shape.dropout,
        "layer_norm": "post",
    }
    training = {
        "overwrite": True,
        "updates": run.updates,
        "epochs": run.updates,
        "logging_freq": run.report_every,
        "validation_freq": run.report_every * run.updates,
        "batch_type": "token",
        "batch_size": shape.tokens,
        "normalization": "tokens",
        "optimizer": "adam",
        "adam_betas": BETAS,
        "scheduling": "noam",
        "learning_rate_factor": 1.0,
        "learning_rate_warmup": WARMUP,
        "learning_rate_min": 0.0,  # it stops below this, where warming up begins
        "label_smoothing": SMOOTHING,
    }
    return {
        "name": shape.name,
        "model_dir": run.file("model"),
        "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": run.file("train"),
            "dev": run.file("dev"),
            "dataset_type": "plain",
            "src": {"lang": SOURCE, **side},
            "trg": {"lang": TARGET, **side},
        },
        "model": {"tied_embeddings": True, "tied_softmax": True, "encoder": stack, "decoder": stack},
        "training": training,
        "testing": {},
    }


RECIPES = {
    # "Step 16/   96; ...; 3405/3190 tok/s; ...": source and target. The second counts every position of the batch that
    # has a word to predict: the end of a sentence does, padding does not. Just as we count.
    "eole": Recipe("eole.bin.main", ("train", "-config"), eole_settings, re.compile(r"Step .*; *\d+/ *(\d+) tok/s")),
    # "Epoch   1, Step:       16, ..., Tokens per Sec:     1010, ...": the same count of the target side, no source.
    "joeynmt": Recipe(
        "joeynmt", ("train", "--skip-test"), joeynmt_settings, re.compile(r"Step: .*Tokens per Sec: *(\d+)")
    ),
}
