"""Questions that readers of the paper ask, answered by small trainings on the embedded phrasebook."""

from __future__ import annotations

import json
from dataclasses import dataclass

from transduce.paper.corpora import phrasebook
from transduce.paper.depth import depth_parts, depth_tasks
from transduce.paper.grid import Failure, Task, cores, run_grid
from transduce.paper.lesion_curves import LOOKED_AT, WHOLE, lesion_parts, lesion_tasks
from transduce.paper.neighbours import neighbour_parts
from transduce.paper.position_wise import position_wise_parts
from transduce.paper.reach import reach_parts
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Scale, Study


@dataclass(frozen=True)
class Size:
    """What a scale can afford."""

    pairs: int
    updates: int
    """Of the whole model and of each without a part."""
    depths: tuple[int, ...]
    depth_updates: int
    shape: tuple[str, ...]


SMALL_SHAPE = (
    "model.encoder_layers=3",
    "model.decoder_layers=3",
    "model.d_model=128",
    "model.d_ff=512",
    "model.num_heads=8",
    "text.vocabulary=1200",
    "train.batch_tokens=1500",
    "train.micro_batch_tokens=1500",
    "train.warmup_steps=300",
    "train.learning_rate=0.5",
    "train.threads=1",
)
DEEP_SHAPE = ("model.d_model=64", "model.d_ff=256", "model.num_heads=4")  # else as the others
SIZES: dict[Scale, Size] = {
    "tiny": Size(40_000, 1_200, (2, 4, 6, 8, 12), 100, SMALL_SHAPE),
    "small": Size(100_000, 10_000, (2, 4, 6, 8, 12, 18), 500, SMALL_SHAPE),
    "paper": Size(100_000, 20_000, (2, 6, 12, 18, 24), 4_000, ("text.vocabulary=1200",)),
}
VALID_PAIRS, VALIDATIONS = 400, 12


def questions(study: Study) -> Result:
    """One page of answers; what lies in `study.work` is used again."""
    size = SIZES[study.scale]
    directory = study.work.absolute() / "questions" / study.scale
    texts = phrasebook(directory, train=size.pairs, valid=VALID_PAIRS)
    store = f"data.store={json.dumps(str(directory / 'data'))}"
    recipe = (*texts.settings(), store, *size.shape, "train.keep=1", "train.average_count=1")
    lesions = lesion_tasks((*recipe, *_updates(size.updates, VALIDATIONS)), texts.valid)
    deep = () if study.scale == "paper" else DEEP_SHAPE
    depths = depth_tasks(size.depths, (*recipe, *deep, *_updates(size.depth_updates, 0)))
    processes = 1 if study.scale == "paper" else cores()
    tasks: list[Task] = [*lesions, *depths]
    study.listener.note(f"questions: {len(tasks)} trainings on {texts.name}, {processes} at a time, in {directory}")
    outcomes = run_grid(tasks, directory, study.listener, processes=processes)
    whole = outcomes[WHOLE]
    looked_into: list[str | Table | Picture] = []
    if not isinstance(whole, Failure):
        looked_into += reach_parts(whole["reach"], min(LOOKED_AT, VALID_PAIRS))
        looked_into += neighbour_parts(whole["neighbours"])
        looked_into += position_wise_parts(whole["position_wise"])
    return Result(
        "questions",
        "Questions that readers of the paper ask",
        _scope(study.scale, size),
        [
            *lesion_parts(lesions, outcomes),
            *depth_parts(size.depths, size.depth_updates, outcomes),
            *looked_into,
        ],
    )


def _updates(updates: int, validations: int) -> tuple[str, ...]:
    every = max(1, updates // validations) if validations else updates + 1  # or the end alone is measured
    return (f"train.steps={updates}", f"train.validate_every={every}", f"train.save_every={max(1, updates // 10)}")


def _scope(scale: Scale, size: Size) -> str:
    models = "The paper's base model" if scale == "paper" else "Models of 3 + 3 layers and d_model 128"
    return (
        f"{models}, {size.updates:,} updates on {size.pairs:,} pairs of the embedded phrasebook, scored on "
        f"{VALID_PAIRS} others by sacreBLEU, beam 4. Its sentences are short and made by a grammar: that is enough to "
        "show what a model cannot do at all without a part, and how fast it learns; it is no measure of translation. "
        "The paper asks few of these questions itself; where it prints a number, the number is beside."
    )
