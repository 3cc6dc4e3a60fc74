"""What every run keeps of itself."""

from __future__ import annotations

from pathlib import Path

from transduce.config import TrainConfig
from transduce.train.progress import Listener, Log
from transduce.train.report_page import ReportPage
from transduce.train.tensorboard import TensorBoard


def recorders(run: Path, train: TrainConfig) -> list[Listener]:
    """The log first, as the page is made from it; TensorBoard's events if asked for."""
    kept: list[Listener] = [Log(run / "log.jsonl"), ReportPage(run)]
    if train.tensorboard:
        kept.append(TensorBoard(run / "tensorboard"))
    return kept
