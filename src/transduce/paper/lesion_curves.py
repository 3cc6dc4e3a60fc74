"""What each part of the Transformer is for: learning curves of models without it, beside the whole one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.data.phrasebook import phrases
from transduce.decode.translator import Translator
from transduce.explain.drawing import PALETTE
from transduce.explain.plot import plot_svg
from transduce.paper.corpora import Sides, read
from transduce.paper.grid import Failure, Numbers, Outcome
from transduce.paper.lesions import LESIONS
from transduce.paper.neighbours import neighbours
from transduce.paper.position_wise import position_wise
from transduce.paper.reach import reach
from transduce.paper.result import Picture, Table
from transduce.paper.training import Training, cost, measure
from transduce.train.history import read_history
from transduce.train.progress import Listener

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WHOLE, ONE_HEAD = "whole", "with one head"
LOOKED_AT, ALIGNED = 200, 5_000  # sentences whose attention is recorded, phrases that words are aligned in


@dataclass(frozen=True)
class LesionTask:
    """A training of a model with a part taken out, and its learning curve."""

    name: str
    training: Training
    valid: Sides

    @property
    def work(self) -> float:
        """That of the training."""
        return self.training.work

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Scores by beam search at the end; on the way perplexity and greedy BLEU."""
        return self.look(self.training.run(out, listener), out)

    def look(self, translator: Translator, out: Path) -> Numbers:
        """At a run that is at its end."""
        curve = [[each.step, each.perplexity, each.bleu] for each in read_history(out).validations]
        return {**measure(translator, read(self.valid)), **cost(translator, out), "curve": curve}


@dataclass(frozen=True)
class WholeTask(LesionTask):
    """The whole model, which is looked into as well."""

    def look(self, translator: Translator, out: Path) -> Numbers:
        """Scores, attention, embeddings and the feed-forward networks."""
        return {
            **super().look(translator, out),
            "reach": reach(translator, read(self.valid)[:LOOKED_AT]),
            "neighbours": neighbours(translator, phrases("train", ALIGNED)),
            "position_wise": position_wise(translator.reference.model),
        }


def lesion_tasks(recipe: tuple[str, ...], valid: Sides) -> list[LesionTask]:
    """The whole model, one without each part, and one with a single head."""
    tasks: list[LesionTask] = [WholeTask(WHOLE, Training(recipe), valid)]
    tasks += [LesionTask(name, Training(recipe, lesion=name), valid) for name in LESIONS if name != WHOLE]
    return [*tasks, LesionTask(ONE_HEAD, Training((*recipe, "model.num_heads=1")), valid)]


def lesion_parts(tasks: Sequence[LesionTask], outcomes: Mapping[str, Outcome]) -> list[str | Table | Picture]:
    """Learning curves and final scores."""
    whole = outcomes[WHOLE]
    rows = []
    for task in tasks:
        numbers = outcomes[task.name]
        if isinstance(numbers, Failure):
            rows.append([task.name, f"failed: {numbers.message}", "", "", "", ""])
            continue
        against = (
            ""
            if isinstance(whole, Failure) or task.name == WHOLE
            else f"{round(numbers['bleu'] - whole['bleu'], 1) + 0.0:+.1f}"
        )
        scores = [f"{numbers['perplexity']:.2f}", f"{numbers['bleu']:.1f}", against]
        rows.append([task.name, *scores, f"{numbers['parameters'] / 1e6:.2f}M", f"{numbers['seconds'] / 60:.1f}"])
    heading = ["model", "PPL", "BLEU", "BLEU more than whole", "parameters", "minutes"]
    found = {name: numbers for name, numbers in outcomes.items() if not isinstance(numbers, Failure)}
    return [
        "## What is each part for?",
        TAKEN_OUT,
        _picture([task.name for task in tasks], found),
        Table("lesions", heading, rows),
    ]


TAKEN_OUT = (
    "The same training, seed and updates for all; only the named part is missing. Without positions the encoder sees a "
    "bag of words, and the decoder knows order only from what its mask hides. Without residuals a sub-layer's output "
    "replaces its input. One training each: differences of a BLEU or two may be chance. The paper tried one of these, "
    "the single head, at its own scale: 0.9 BLEU worse than 8 heads (Table 3 A); for the others it prints no number."
)


def _picture(names: Sequence[str], found: Mapping[str, Numbers]) -> Picture:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(9, 3.6)
        left, right = figure.subplots(1, 2)
        for colour, name in zip(PALETTE, names, strict=False):
            if name in found:
                steps, perplexities, bleus = zip(*found[name]["curve"], strict=True)
                finite = [value if math.isfinite(value) else math.nan for value in perplexities]
                width = 2.2 if name == WHOLE else 1.4
                left.plot(steps, finite, color=colour, linewidth=width, label=name)
                right.plot(steps, bleus, color=colour, linewidth=width)
        left.set_yscale("log")
        left.set_title("validation perplexity")
        right.set_title("validation BLEU, greedy")
        for axes in (left, right):
            axes.set_xlabel("updates")
            axes.set_xlim(left=0)
            axes.grid(axis="y")
        right.set_ylim(bottom=0)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center", frameon=False)

    return Picture("lesions", "Lines: learning curves of the whole model and of models without a part", plot_svg(fill))
