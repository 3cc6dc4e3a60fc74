"""Models as they were after so many minutes of a run, each as a bundle of the checkpoints that there were."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.bundle import open_bundle, write_bundle
from transduce.config import Config
from transduce.data.preparation import recall
from transduce.errors import UserError
from transduce.files import write_json
from transduce.train.average import average
from transduce.train.progress import Listener
from transduce.train.state import checkpoints, kept_weights, read_state, to_average


class Milestone(NamedTuple):
    """A bundle of a run on its way."""

    bundle: Path
    updates: int
    seconds: float
    """Of training, at its newest checkpoint."""
    checkpoints: int
    """That it averages."""


class Milestones(Listener):
    """With each checkpoint, the bundle of the next milestone is made anew; the last one before its time stays."""

    def __init__(self, run: Path, minutes: Sequence[float]) -> None:
        self.run, self.minutes = run, sorted(minutes)
        self.config: Config | None = None

    def started(self, run: Path, config: Config) -> None:
        """Make up for a checkpoint after which the run was killed."""
        self.config = config
        for newest in checkpoints(run / "checkpoints")[-1:]:
            self.keep(newest)

    def saved(self, path: Path, step: int) -> None:
        """One more checkpoint."""
        self.keep(path)

    def keep(self, newest: Path) -> None:
        """Make the bundle of the first milestone that lies ahead of this checkpoint."""
        assert self.config is not None, "a run starts before it saves"
        state, train = read_state(newest), self.config.train
        minutes = next((each for each in self.minutes if state.seconds <= 60 * each), None)
        if minutes is None:
            return
        paths, prepared = to_average(newest.parent, train), recall(self.run)
        directory = self.run / "milestones"
        directory.mkdir(exist_ok=True)
        write_bundle(
            directory / f"{minutes:g}",
            config=self.config,
            source_codec=prepared.source_codec,
            target_codec=prepared.target_codec,
            languages=(prepared.source_lang, prepared.target_lang),
            weights=average(kept_weights(path, train) for path in paths),
            card=f"# A run after {state.step:,} updates, before {minutes:g} minutes\n",
        )
        facts = {"updates": state.step, "seconds": state.seconds, "checkpoints": len(paths)}
        write_json(directory / f"{minutes:g}.json", facts)


def at_the_end(run: Path) -> Milestone:
    """A run's own bundle."""
    paths = checkpoints(run / "checkpoints")
    state, averaged = read_state(paths[-1]), to_average(paths[-1].parent, open_bundle(run).config.train)
    return Milestone(run / "model", state.step, state.seconds, len(averaged))


def milestone(run: Path, minutes: float) -> Milestone:
    """What was kept of a run for this time."""
    facts = run / "milestones" / f"{minutes:g}.json"
    if not facts.is_file():
        raise UserError(f"{run}: no checkpoint was saved before {minutes:g} minutes: lower train.save_every")
    return Milestone(facts.with_suffix(""), **json.loads(facts.read_text(encoding="utf-8")))
