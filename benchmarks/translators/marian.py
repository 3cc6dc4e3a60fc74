"""Hugging Face's `generate` with the MarianMT model that the package exports. Knows nothing of the package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import MarianMTModel, MarianTokenizer

ROWS = 64
EXTRA_LENGTH = 50
"""An output has at most so many tokens more than the longest input of its batch; without it, one sentence that finds no
end keeps its whole batch going for as long as the model has positions."""


class Generate:
    """Sorted by length and cut into batches: its pipeline would take the lines as they come, with more padding."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer = MarianTokenizer.from_pretrained(directory)
        self.model = cast(Any, MarianMTModel.from_pretrained(directory))
        self.model.eval()

    @torch.inference_mode()
    def translate(self, lines: Sequence[str], beam: int, length: int | None = None) -> list[str]:
        """Batch by batch, the longest first."""
        found = [""] * len(lines)
        order = sorted(range(len(lines)), key=lambda place: -len(lines[place]))
        for places in (order[first : first + ROWS] for first in range(0, len(order), ROWS)):
            batch = self.tokenizer([lines[place] for place in places], return_tensors="pt", padding=True)
            limit = batch["input_ids"].shape[1] + EXTRA_LENGTH
            lengths = {"min_new_tokens": length or 0, "max_new_tokens": length or limit}
            outputs = self.model.generate(**batch, num_beams=beam, early_stopping=beam > 1, **lengths)
            texts = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
            for place, text in zip(places, texts, strict=True):
                found[place] = text
        return found


def generate(directory: Path) -> Generate:
    """In float32 on all cores."""
    return Generate(directory / "marian")
