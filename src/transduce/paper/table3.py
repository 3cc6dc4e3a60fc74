"""Table 3: variations of the Transformer, every row trained again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from transduce.errors import CorpusError
from transduce.paper.conclusions import Noise, Values, conclusions_table
from transduce.paper.corpora import Sides, Texts, multi30k, phrasebook, read
from transduce.paper.grid import Failure, Numbers, Outcome, Task, cores, run_grid
from transduce.paper.longer import longer_parts, longer_tasks
from transduce.paper.result import Result, Table
from transduce.paper.study import Scale, Study
from transduce.paper.table3_picture import rows_picture
from transduce.paper.table3_rows import BASE, ROWS, Row, described, settings, small
from transduce.paper.training import Training, cost, measure
from transduce.paper.wmt import arguments, locate
from transduce.train.progress import Listener

SEEDS = (1, 2, 3)  # of base; the other rows have the first
PHRASES = 6_000  # so few that base does not learn the phrasebook by heart


@dataclass(frozen=True)
class Budget:
    """What a scale can afford: updates of every row, and of big, of which the paper makes three times as many."""

    updates: int
    big: int


BUDGETS: dict[Scale, Budget] = {
    "tiny": Budget(1_500, big=2_000),
    "small": Budget(15_000, big=45_000),
    "paper": Budget(100_000, big=300_000),
}
ON_TWO_CORES = (
    "text.vocabulary=4000",
    "train.batch_tokens=1000",
    "train.micro_batch_tokens=1000",
    "train.warmup_steps=400",
    "train.learning_rate=0.5",
    "train.threads=1",
)


@dataclass(frozen=True)
class RowTask:
    """A row with one seed."""

    name: str
    training: Training
    valid: Sides

    @property
    def work(self) -> float:
        """That of the training."""
        return self.training.work

    def run(self, out: Path, listener: Listener) -> Numbers:
        """Train, then score the validation pairs, as the paper does for this table: beam 4, alpha 0.6."""
        translator = self.training.run(out, listener)
        return {**measure(translator, read(self.valid)), **cost(translator, out)}


def table3(study: Study) -> Result:
    """All rows as a grid of trainings; what lies in `study.work` is used again."""
    directory = study.work.absolute() / "table3" / study.scale
    texts = _texts(study, directory)
    recipe = _recipe(study.scale, directory)
    rows = {row.name: _tasks(row, study.scale, texts, recipe) for row in ROWS}
    updates = _updates(BUDGETS[study.scale].updates)
    longer = longer_tasks(texts, (*recipe, *_shape({}, study.scale), *updates, "train.seed=1"), directory)
    tasks: list[Task] = [*(task for row in rows.values() for task in row), *longer]
    processes = 1 if study.scale == "paper" else cores()
    study.listener.note(f"Table 3: {len(tasks)} trainings on {texts.name}, {processes} at a time, in {directory}")
    outcomes = run_grid(tasks, directory, study.listener, processes=processes)
    found = {name: [outcomes[task.name] for task in row] for name, row in rows.items()}
    fits, bleus = _values(found)
    return Result(
        "table3",
        "Table 3: variations on the Transformer",
        _scope(study.scale, texts, found),
        [
            _table(study.scale, found),
            *([rows_picture(fits, bleus)] if "base" in fits else []),
            "## The paper's conclusions",
            _noise(fits, bleus),
            conclusions_table(fits, bleus),
            *longer_parts(longer, outcomes, texts.train),
        ],
    )


def _texts(study: Study, directory: Path) -> Texts:
    if study.scale == "paper":
        return _wmt14(study.data / "wmt14-en-de")
    return multi30k(study.data) or phrasebook(directory, train=PHRASES, valid=500)


def _wmt14(directory: Path) -> Texts:
    """English to German, measured on newstest2013 as in the paper."""
    found = locate("en-de", directory.absolute())
    if missing := found.missing():
        command = " ".join(arguments("en-de", directory))
        raise CorpusError(f"{missing[0]}: no such file: the paper's scale trains on WMT14; this fetches it: {command}")
    return Texts("WMT14 English-German", found.train, found.valid)


def _recipe(scale: Scale, directory: Path) -> tuple[str, ...]:
    """What all rows share; the vocabulary and the token ids are in one place. Nothing is averaged."""
    everywhere = (f"data.store={json.dumps(str(directory / 'data'))}", "train.average_count=1", "train.keep=1")
    return everywhere if scale == "paper" else (*everywhere, *ON_TWO_CORES)


def _tasks(row: Row, scale: Scale, texts: Texts, recipe: tuple[str, ...]) -> list[RowTask]:
    budget = BUDGETS[scale]
    shared = (*texts.settings(), *recipe, *_shape(row.changes, scale), *settings("train", row.recipe))
    shared = (*shared, *_updates(budget.big if row.longer > 1 else budget.updates))
    seeds = SEEDS if row.name == "base" else SEEDS[:1]
    return [
        RowTask(
            row.name if len(seeds) == 1 else f"{row.name}, seed {seed}",
            Training((*shared, f"train.seed={seed}")),
            texts.valid,
        )
        for seed in seeds
    ]


def _shape(changes: Mapping[str, object], scale: Scale) -> tuple[str, ...]:
    shape = {**BASE, **changes}
    return settings("model", shape if scale == "paper" else small(shape))


def _updates(updates: int) -> tuple[str, ...]:
    """The end is measured, the way is not."""
    return (
        f"train.steps={updates}",
        f"train.validate_every={updates + 1}",
        f"train.save_every={max(1, updates // 10)}",
    )


def _values(found: Mapping[str, list[Outcome]]) -> tuple[dict[str, Values], dict[str, Values]]:
    """By row: minus the logarithm of perplexity, and BLEU, so that more is better; rows that failed have none."""
    fits: dict[str, Values] = {}
    bleus: dict[str, Values] = {}
    for name, outcomes in found.items():
        numbers = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
        if numbers:
            fits[name] = Values(tuple(-math.log(each["perplexity"]) for each in numbers))
            bleus[name] = Values(tuple(each["bleu"] for each in numbers))
    return fits, bleus


def _table(scale: Scale, found: Mapping[str, list[Outcome]]) -> Table:
    rows = []
    for row in ROWS:
        changes = row.changes if row.name != "base" else BASE
        changes = {**(changes if scale == "paper" else small(changes)), **row.recipe}
        numbers = [outcome for outcome in found[row.name] if not isinstance(outcome, Failure)]
        failures = [outcome.message for outcome in found[row.name] if isinstance(outcome, Failure)]
        updates, *here = _cells(numbers) if numbers else ["", "", "", ""]
        if failures:
            here[0] = f"{here[0]} {len(failures)} failed: {failures[0]}".strip()
        paper = [f"{row.perplexity:.2f}", f"{row.bleu:.1f}", "" if row.printed is None else f"{row.printed}M"]
        beside = [cell for pair in zip(here, paper, strict=True) for cell in pair]
        rows.append([row.name, described(changes), updates, *beside])
    measures = [name for measure in ("PPL", "BLEU", "parameters") for name in (measure, f"{measure}, paper")]
    heading = ["row", "here", "updates", *measures]
    return Table("table3", heading, rows)


def _cells(numbers: list[Numbers]) -> list[str]:
    def spread(values: list[float]) -> str:
        deviation = Noise.of(Values(tuple(values)))
        return f"{Values(tuple(values)).mean:.2f}" + (f" ± {deviation.deviation:.2f}" if deviation else "")

    first = numbers[0]
    scores = [spread([each[what] for each in numbers]) for what in ("perplexity", "bleu")]
    return [f"{first['updates']:,}", *scores, f"{first['parameters'] / 1e6:.2f}M"]


def _noise(fits: Mapping[str, Values], bleus: Mapping[str, Values]) -> str:
    noises = [Noise.of(values["base"]) if "base" in values else None for values in (fits, bleus)]
    if noises[0] is None or noises[1] is None:
        return "Base has fewer than two finished seeds: its noise, and so every verdict, is unknown."
    one = Values((0.0,))
    margins = [noise.margin(values["base"], one) for noise, values in zip(noises, (fits, bleus), strict=True) if noise]
    return (
        f"Over {noises[1].freedom + 1} seeds of base the standard deviation is {noises[1].deviation:.2f} BLEU and "
        f"{math.expm1(noises[0].deviation):.1%} of perplexity. A row, trained once, must differ from base by more than "
        f"{margins[1]:.2f} BLEU or {math.expm1(margins[0]):.1%} of perplexity before the difference counts (Student's "
        "t, one-sided, 5 %); otherwise it is hidden by noise. A conclusion about several rows holds if all of its "
        "comparisons do, and does not hold if one is the other way round by more than noise. The paper's rows are one "
        "training each; its own table is judged as printed, where any difference counts (and up to 0.1 BLEU or 1 % of "
        "perplexity is called alike)."
    )


def _scope(scale: Scale, texts: Texts, found: Mapping[str, list[Outcome]]) -> str:
    budget = BUDGETS[scale]
    example = next((o for row in found.values() for o in row if not isinstance(o, Failure)), None)
    scored = "nothing" if example is None else f"{example['sentences']:,} validation pairs, {example['signature']}"
    if scale == "paper":
        return f"The paper's own sizes, on {texts.name}; scored: {scored}; beam 4, alpha 0.6, no averaging."
    return (
        "A base of a quarter of the paper's widths and half its depth, so that every row keeps the paper's ratio to "
        f"base; {texts.name}; {budget.updates:,} updates of at most 1,000 tokens a side for every row, "
        f"{budget.big:,} for big (the paper: three times as many as base). Scored: {scored}; beam 4, alpha 0.6, no "
        "averaging; perplexity is per subword and without smoothing. This scale can show which way a change goes when "
        "it goes further than noise. It cannot show the paper's numbers: other data, another test set, models that "
        "stop long before they have learned all they could. That favours what learns quickly (small models, no "
        "dropout) over what learns much."
    )
