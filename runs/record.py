"""A published result as a JSON file: what was measured, when, by which command, commit, seed and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any

from transduce.bundle import open_bundle
from transduce.config import Config
from transduce.evaluate.bleu import Score
from transduce.files import file_name, write_json
from transduce.paper.result import Table
from transduce.settings import apart
from transduce.train.environment import environment
from transduce.train.history import read_history
from transduce.train.state import checkpoints, read_state

Record = dict[str, Any]

PATHS = ("store", "start")  # keys whose values are paths, beside the files of data


def write_record(results: Path, name: str, run: Path, *, search: Mapping[str, Any], **measured: object) -> Record:
    """Write results/NAME.json: the measured values, and how the run came about that they are of.

    `search` is what outputs were searched by beyond the run's own settings, which may be of another day.
    """
    config, state = open_bundle(run).config, read_state(checkpoints(run / "checkpoints")[-1])
    config = config.model_copy(update={"search": config.search.model_copy(update=dict(search))})
    record: Record = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": f"python -m runs.{name} --work DIRECTORY",
        "seed": config.train.seed,
        "preset": config.preset,
        "config": changed(config),
        "updates": state.step,
        "seconds": round(state.seconds),
        "validations": [list(each) for each in state.validations],
        "environment": read_history(run).environment or environment(config.train),
        **measured,
    }
    results.mkdir(exist_ok=True)
    write_json(results / f"{name}.json", record)
    return record


def read_record(results: Path, name: str) -> Record | None:
    """The result of a script; None: it was never published."""
    path = results / f"{name}.json"
    if not path.is_file():
        return None
    record: Record = json.loads(path.read_text(encoding="utf-8"))
    return record


def changed(config: Config) -> dict[str, object]:
    """Every setting that is not the default, by its key; of files only the names."""
    ours, found = config.model_dump(mode="json"), {}
    for key in apart(config, Config()):
        section, _, name = key.partition(".")
        value = ours[section][name]
        found[key] = _names(value) if section == "data" or name in PATHS else value
    return found


def numbers(score: Score) -> dict[str, object]:
    """A score for JSON."""
    found: dict[str, object] = {"name": score.name, "value": score.value, "signature": score.signature}
    return {**found, "sentences": score.sentences}


def budget(record: Record) -> str:
    """How long was trained."""
    minutes, steps = (record["config"].get(f"train.{key}") for key in ("minutes", "steps"))
    return f"{steps:,} updates" if minutes is None else f"{minutes:g} minutes"


def section(record: Record, *, title: str, text: str, table: Table) -> str:
    """A result for docs/results.md, with who measured it, and where."""
    machine = record["environment"]
    where = f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, torch {machine['torch']}"
    how = f"preset {record['preset']}, {machine['precision']}, seed {record['seed']}"
    training = f"{how}, {record['updates']:,} updates in {record['seconds'] / 60:.0f} minutes"
    made = f"`{record['command']}`, {record['date']}, transduce {machine['transduce']}: {training}; {where}."
    paragraphs = [fill(paragraph, 120, break_on_hyphens=False) for paragraph in (text, made)]
    return "\n\n".join([f"## {title}", paragraphs[0], table.markdown(), paragraphs[1]])


def _names(value: object) -> object:
    """Paths in it, and in tables of it, without their directories."""
    if isinstance(value, dict):
        return {key: _names(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_names(each) for each in value]
    return file_name(value) if isinstance(value, str) else value
