"""Learned and sinusoidal positions on sentences longer than any in training (section 3.5; Table 3 E)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from transduce.paper.corpora import Pairs, Sides, Texts, at_most, longest, read, write_pairs
from transduce.paper.grid import Failure, Numbers, Outcome
from transduce.paper.result import Table
from transduce.paper.training import Training, cost, measure
from transduce.train.progress import Listener

KINDS = ("sinusoidal", "learned")
LONGEST = 500  # of the pairs that were too long to train on
EXTRAPOLATION = (
    'Section 3.5 chose sinusoids because they "may allow the model to extrapolate to sequence lengths longer than the '
    'ones encountered during training"; the paper shows no number for it. Here both kinds were trained, once each, on '
    "{kept} of the {pairs} training pairs, {share:.0%}: those whose longer side has at most {words} words. "
    "Rows of the learned table that no training sentence reached are as they were drawn at the start."
)


@dataclass(frozen=True)
class LongerTask:
    """A training on short pairs, measured on longer ones."""

    name: str
    training: Training
    tests: tuple[tuple[str, Sides], ...]

    @property
    def work(self) -> float:
        """That of the training."""
        return self.training.work

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Scores by the name of the test."""
        translator = self.training.run(out, listener)
        return {
            **cost(translator, out),
            "tests": {name: measure(translator, read(sides)) for name, sides in self.tests},
        }


def longer_tasks(texts: Texts, recipe: tuple[str, ...], directory: Path) -> list[LongerTask]:
    """Both kinds of positions, trained on the pairs up to the median length, which are half of them or more."""
    words = median_length(read(texts.train))
    short = at_most(texts, words, directory)
    tests = longer_tests(texts, words, directory)
    return [
        LongerTask(
            f"short, {kind} positions",
            Training((*short.settings(), *recipe, f'model.positions="{kind}"')),
            tests,
        )
        for kind in KINDS
    ]


def median_length(pairs: Pairs) -> int:
    """Words of the longer side; half of the pairs or more have at most so many."""
    return sorted(map(longest, pairs))[len(pairs) // 2]


def longer_tests(texts: Texts, words: int, directory: Path) -> tuple[tuple[str, Sides], ...]:
    """Validation pairs that are as short, the longest pairs left out of training, and joined validation pairs."""
    valid = read(texts.valid)
    left_out = sorted((pair for pair in read(texts.train) if longest(pair) > words), key=longest)
    tests = {
        f"as short as in training, at most {words} words": [pair for pair in valid if longest(pair) <= words],
        "the longest pairs, left out of training": left_out[-LONGEST:],
        "two sentences joined": joined(valid, 2),
        "three sentences joined": joined(valid, 3),
    }
    sides = {name: directory / f"longer-{number}" for number, name in enumerate(tests, 1)}
    return tuple((name, write_pairs(sides[name], pairs)) for name, pairs in tests.items())


def joined(pairs: Pairs, count: int) -> Pairs:
    """Every `count` neighbours as one pair; what is left over at the end is left out."""
    groups = [pairs[start : start + count] for start in range(0, len(pairs) - count + 1, count)]
    return [(" ".join(source for source, _ in group), " ".join(target for _, target in group)) for group in groups]


def longer_parts(tasks: list[LongerTask], outcomes: Mapping[str, Outcome], train: Sides) -> list[str | Table]:
    """The comparison as a table, and what it says of the paper's guess; `train` is what short pairs were cut from."""
    found = [outcomes[task.name] for task in tasks]
    failed = [
        f"{task.name}: failed: {o.message}" for task, o in zip(tasks, found, strict=True) if isinstance(o, Failure)
    ]
    if failed:
        return ["## Positions beyond the longest sentence of training", *failed]
    sinusoidal, learned = (outcome["tests"] for outcome in found if not isinstance(outcome, Failure))
    rows = []
    for name, sides in tasks[0].tests:
        pairs = read(sides)
        cells = [
            f"{each[name][what]:.2f}" for what in ("perplexity", "bleu", "length") for each in (sinusoidal, learned)
        ]
        rows.append([name, str(len(pairs)), f"{fmean(map(longest, pairs)):.1f}", *cells])
    measures = ("PPL", "BLEU", "length of the output / reference")
    heading = ["test", "pairs", "words", *(f"{what}, {kind}" for what in measures for kind in KINDS)]
    beyond = [name for name, _ in tasks[0].tests][1:]
    better = sum(sinusoidal[name]["bleu"] > learned[name]["bleu"] for name in beyond)
    return [
        "## Positions beyond the longest sentence of training",
        explain_cut(train),
        Table("longer", heading, rows),
        f"Sinusoids have the better BLEU in {better} of {len(beyond)} tests with longer sentences.",
    ]


def explain_cut(train: Sides) -> str:
    """What was trained on, and why."""
    pairs = read(train)
    words = median_length(pairs)
    kept = sum(longest(pair) <= words for pair in pairs)
    return EXTRAPOLATION.format(kept=f"{kept:,}", pairs=f"{len(pairs):,}", share=kept / len(pairs), words=words)
