"""A treebank of our own: short sentences by a small grammar, so that a parser can learn it in seconds."""

from __future__ import annotations

import random
from pathlib import Path

NOUNS = ("dog", "cat", "child", "ship", "song")
VERBS = ("sees", "hears", "likes")
ADVERBS = ("today", "often")

SETTINGS = [
    "model.encoder_layers=1",
    "model.decoder_layers=2",
    "model.d_model=32",
    "model.d_ff=64",
    "model.num_heads=2",
    "model.dropout=0.0",
    "model.attention_dropout=0.0",
    "train.batch_tokens=600",
    "train.micro_batch_tokens=600",
    "train.warmup_steps=60",
    "train.learning_rate=0.3",
    "train.average_count=1",
    "train.threads=1",
    "train.validate_every=200",
    "train.save_every=100",
    "search.extra_length=60",
]
"""Of a model that learns it."""


def nominal(draw: random.Random) -> str:
    inner = f"(NP (DT the) (NN {draw.choice(NOUNS)}))"
    return f"(NP-SBJ {inner} (PP (IN near) {nominal(draw)}))" if draw.random() < 0.3 else inner


def sentence(draw: random.Random) -> str:
    adverb = f" (ADVP-TMP (RB {draw.choice(ADVERBS)}))" if draw.random() < 0.5 else ""
    comma = f"{adverb} (, ,)" if adverb and draw.random() < 0.3 else ""
    end = draw.choice((".", ".", "?"))
    trace = " (NP (-NONE- *))" if draw.random() < 0.2 else ""
    verb = f"(VP (VBZ {draw.choice(VERBS)}) {nominal(draw)}{'' if comma else adverb}{trace})"
    return f"((S{comma} {nominal(draw)} {verb} (. {end})))"


def write_treebank(directory: Path, **sizes: int) -> Path:
    """`NAME.trees` for each name and size."""
    directory.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    for name, size in sizes.items():
        lines = "".join(sentence(draw) + "\n" for _ in range(size))
        (directory / f"{name}.trees").write_text(lines, encoding="utf-8", newline="\n")
    return directory
