"""A run for TensorBoard: `tensorboard --logdir RUN/tensorboard`. Needs the extra `track`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from transduce.errors import require
from transduce.train.progress import Listener, Report, Validation

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoard(Listener):
    """Writes reports, scores and samples as TensorBoard's events."""

    def __init__(self, directory: Path) -> None:
        require("tensorboard", extra="track")
        self.directory = directory
        self._writer: SummaryWriter | None = None

    def report(self, report: Report) -> None:
        """Each number as a curve."""
        values = {
            "loss": report.loss,
            "perplexity": report.perplexity,
            "accuracy": report.accuracy,
            "learning_rate": report.learning_rate,
            "tokens_per_second": report.tokens_per_second,
        }
        self._write("train", values, report.step)

    def validated(self, validation: Validation) -> None:
        """Scores as curves, samples as text."""
        self._write("validation", {"perplexity": validation.perplexity, "bleu": validation.bleu}, validation.step)
        writer = self._open(validation.step)
        for number, sample in enumerate(validation.samples, start=1):
            lines = (sample.source, sample.reference, sample.translation)
            text = "\n\n".join("    " + line.replace("\n", " ") for line in lines)  # Markdown: as it stands
            writer.add_text(f"sample/{number}", text, validation.step)
        writer.flush()

    def ended(self, outcome: str) -> None:
        """Nothing comes after it."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, group: str, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._open(step).add_scalar(f"{group}/{name}", value, step)

    def _open(self, step: int) -> SummaryWriter:
        """The writer; opened at the first event, so that what a resumed run does again replaces what was lost."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.directory), purge_step=step)
        return self._writer
