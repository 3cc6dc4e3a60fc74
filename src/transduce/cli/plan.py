"""`transduce plan`: what a training would cost, before it is begun."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce import settings
from transduce.cli.display import Display
from transduce.errors import CorpusError, UserError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from transduce.config import Config, DataConfig
    from transduce.paper.here import Trial
    from transduce.paper.training_cost import Cost, Machine, Memory
    from transduce.train.choice import Size


def plan(
    context: typer.Context,
    preset: Annotated[str | None, typer.Option(help="Plan this preset; without --preset or --config: all.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value.")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="How many GPUs.")] = 8,
    gpu: Annotated[str, typer.Option(help="Which: P100, V100, T4, A100, H100, L4, L40S, RTX3090, RTX4090.")] = "P100",
    utilisation: Annotated[
        float | None, typer.Option(help="Share of the peak rate, 0 to 1; else what the paper's times imply.")
    ] = None,
    price: Annotated[float | None, typer.Option(min=0, help="Of one GPU for an hour, in any currency.")] = None,
    length: Annotated[int | None, typer.Option(min=1, help="Tokens of a sentence, on the average.")] = None,
    source: Annotated[list[Path] | None, typer.Option(help="Source text to plan for; plain, .gz or .xz.")] = None,
    target: Annotated[list[Path] | None, typer.Option(help="Its translation, line by line.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Tell what so much time buys here.")] = None,
    measure: Annotated[bool, typer.Option(help="Try it out on this machine, for some seconds each.")] = True,
) -> None:
    """Print what a configuration would cost: parameters, operations, hours, energy, price, memory.

    Operations are counted from the configuration. Hours are operations over the peak rate of the GPUs times their
    utilisation: a plan, not a promise. How fast this machine is, is tried out.
    """
    if utilisation is not None and not 0 < utilisation <= 1:
        raise UserError(f"--utilisation {utilisation:g}: a share of the peak rate: give more than 0 and at most 1")
    if minutes is not None and not (0 < minutes < math.inf and measure):
        raise UserError(f"--minutes {minutes:g}: give more than 0, and no --no-measure: what it buys is measured")
    from transduce.paper.training_cost import find_gpu

    display: Display = context.obj
    given = [*(set_ or []), *([] if minutes is None else [f"train.minutes={minutes!r}"])]
    data = settings.load_config(preset=preset, path=config, settings=given).data
    name, size = find_gpu(gpu), _size(source or [], target or [], data, length, display)
    if preset is None and config is None:
        planned = {each: settings.load_config(preset=each, settings=given) for each in settings.presets()}
        typer.echo(_aligned(_table(planned, name, gpus, utilisation, size)))
        if measure:
            from transduce.train.start import keys_in

            trials = _measured(planned, size, display)
            typer.echo("\n" + "\n".join(_here(planned, trials, size, given=keys_in(given))))
        return
    chosen = settings.load_config(preset=preset, path=config, settings=given)
    machine, origin = _machine(chosen, name, gpus, utilisation)
    page = _page(chosen, machine, origin, price, size)
    trial = _measured({chosen.preset: chosen}, size, display)[chosen.preset] if measure else None
    page += [("here", "not measured")] if trial is None else _here_in_full(chosen, trial, size)
    typer.echo("\n".join(f"{title:<22}{text}" for title, text in page))


def _size(source: list[Path], target: list[Path], data: DataConfig, length: int | None, display: Display) -> Size:
    """Of the corpus, if there is one; a plan without has no end of pairs."""
    from transduce.paper.training_cost import LENGTH
    from transduce.train.choice import Size

    if not source and not target:
        return Size(math.inf, length or LENGTH, length or LENGTH)
    from transduce.data.corpus import Corpus
    from transduce.data.doctor import examine

    with display.progress("reading, bytes:", None) as progress:
        report = examine(
            Corpus(tuple(source), tuple(target)),
            data=data,
            tick=lambda done, total: progress.update(progress.task_ids[0], completed=done, total=total),
        )
    found = Size.of(report.corpora[0])
    if not found.pairs:
        raise CorpusError(f"{', '.join(map(str, [*source, *target]))}: no usable pair: `transduce doctor` says why")
    return Size(found.pairs, length or found.source, length or found.target)


def _measured(planned: Mapping[str, Config], size: Size, display: Display) -> dict[str, Trial]:
    """Each configuration tried out, told while it goes."""
    from transduce.paper.here import try_out

    display.note(f"trying out {', '.join(planned)}; --no-measure leaves it out")
    with display.progress("tried out:", len(planned)) as progress:
        return try_out(planned, size, lambda done: progress.update(progress.task_ids[0], completed=done))


def _machine(config: Config, name: str, gpus: int, utilisation: float | None) -> tuple[Machine, str]:
    """The GPUs with their utilisation, and where that comes from."""
    from transduce.paper.training_cost import Machine, expected_utilisation

    if utilisation is not None:
        return Machine(name, gpus, utilisation), "as given"
    share, which = expected_utilisation(config.model)
    origin = f"what the paper's {which} model had on P100s"
    if config.train.precision != "float32":
        origin += "; 16-bit products are harder to keep fed: expect less"
    return Machine(name, gpus, share), origin


def _page(config: Config, machine: Machine, origin: str, price: float | None, size: Size) -> list[tuple[str, str]]:
    """All about one configuration, this machine aside."""
    from transduce.paper import training_cost as costs

    length, train = round(size.longer), config.train
    cost = costs.cost(config, length)
    memory = costs.memory(config, cost.parameters, machine.count)
    load = f"{train.batch_tokens:,} tokens a side in sentences of {length}"
    peak = machine.peak(train.precision) / 1e12
    return [
        ("preset", _describe(config)),
        ("parameters", f"{cost.parameters:,}"),
        ("operations an update", f"{cost.flops_per_update:.2e} ({load})"),
        *_end(cost, machine, train.precision, price),
        ("utilisation", f"{machine.utilisation:.1%} of {peak:g} TFLOP/s ({train.precision}): {origin}"),
        ("memory of each GPU", f"{_gigabytes(memory.total)} of {_gigabytes(machine.gpu.memory)}: {_parts(memory)}"),
    ]


def _here_in_full(config: Config, trial: Trial, size: Size) -> list[tuple[str, str]]:
    """What was found out about one configuration on this machine."""
    from transduce.train.choice import recommended_updates

    memory = f"memory about {_gigabytes(trial.memory)}"
    if trial.speed is None:
        return [("here", f"not tried out: {memory}, and {_gigabytes(trial.free)} are free on {trial.device}")]
    updates = recommended_updates(config.train)
    lengths = f"{size.source:.0f} and {size.target:.0f} tokens"
    rows = [
        ("here", f"{trial.speed:,.0f} target tokens/s on {trial.device}, in sentences of {lengths}; {memory}"),
        ("recommended here", f"{updates:,} updates: {_duration(trial.hours(updates))}"),
    ]
    if (minutes := config.train.minutes) is not None:
        rows.append((f"{minutes:g} minutes here", " = ".join(_bought(config, trial, size, minutes))))
    return rows


def _bought(config: Config, trial: Trial, size: Size, minutes: float) -> list[str]:
    """Updates in so many minutes and, of a corpus, epochs."""
    updates = trial.updates(minutes)
    bought = [f"{updates:,} updates"]
    if math.isfinite(size.pairs):
        bought.append(f"{updates / size.updates_per_epoch(config.train):.1f} epochs")
    return bought


def _here(
    planned: Mapping[str, Config], trials: Mapping[str, Trial], size: Size, *, given: Collection[str]
) -> list[str]:
    """What was found out about each preset on this machine, and which one `train` would choose."""
    from transduce.train.calibration import budget
    from transduce.train.choice import TABLE, budget_in_words, choose, recommended_updates

    asked = planned[TABLE[0].preset].train  # the budget, which no preset of the table brings
    minutes = asked.minutes
    rows = [["here", "tokens/s", "memory", "recommended", "takes", *([f"in {minutes:g} minutes"] if minutes else [])]]
    for name, config in planned.items():
        trial, updates = trials[name], recommended_updates(config.train)
        row = [name, "does not fit", f"{_gigabytes(trial.memory)}", f"{updates:,} updates"]
        if trial.speed is not None:
            row[1] = f"{trial.speed:,.0f}"
            row.append(_duration(trial.hours(updates)))
            if minutes is not None:
                row.append(" = ".join(_bought(config, trial, size, minutes)))
        rows.append(row)
    first = trials[next(iter(planned))]
    lengths = f"{size.source:.0f} and {size.target:.0f} tokens"
    lines = [_aligned(rows), f"on {first.device} with {_gigabytes(first.free)} free, in sentences of {lengths}; about"]
    if math.isfinite(size.pairs):

        def updates_per_epoch(preset: str) -> int:
            return size.updates_per_epoch(planned[preset].train)

        def updates_of(preset: str) -> int | None:
            return budget(asked, trials[preset].seconds, updates_per_epoch(preset)).updates

        choice = choose(round(size.pairs), updates_of, updates_per_epoch, budget=budget_in_words(asked), given=given)
        lines.append(f"`transduce train` would choose {choice.words}")
    return lines


def _describe(config: Config) -> str:
    from transduce.train.calibration import SYMBOLS, vocabularies

    model, (source, target) = config.model, vocabularies(config)
    vocabulary = f"{source:,}" if config.text.joint else f"{source:,} and {target:,}"
    if "symbols" in (config.text.source_codec, config.text.target_codec):
        vocabulary += f" (symbols: {SYMBOLS} are assumed)"
    layers = f"{model.encoder_layers}+{model.decoder_layers} layers"
    widths = f"d_model {model.d_model}, d_ff {model.d_ff}, {model.num_heads} heads"
    return f"{config.preset}: {layers}, {widths}, vocabulary {vocabulary}"


def _end(cost: Cost, machine: Machine, precision: str, price: float | None) -> list[tuple[str, str]]:
    """What it comes to, if the number of updates is known; else what an hour brings."""
    where = f"on {machine.count} x {machine.name}"
    if cost.flops is None:
        an_hour = machine.updates_an_hour(cost.flops_per_update, precision)
        return [
            ("in all", "not known: train.steps is not set; --set train.steps=100000"),
            ("updates an hour", f"{an_hour:,.0f} {where}"),
        ]
    hours = machine.hours(cost.flops, precision)
    rows = [
        ("in all", f"{cost.flops:.2e} operations in {cost.updates:,} updates"),
        ("time", f"{_duration(hours)} {where}"),
        ("energy", f"{machine.kilowatt_hours(hours):,.1f} kWh: the GPUs alone, at full power"),
    ]
    if price is not None:
        rows.append(("price", f"{machine.price(hours, price):,.2f}, at {price:g} a GPU and hour"))
    return rows


def _table(
    planned: Mapping[str, Config], gpu: str, gpus: int, utilisation: float | None, size: Size
) -> list[list[str]]:
    """A row a preset."""
    from transduce.paper import training_cost as costs

    rows = [["preset", "parameters", "operations an update", "updates", "in all", f"time on {gpus} x {gpu}"]]
    for name, config in planned.items():
        cost = costs.cost(config, round(size.longer))
        machine, _ = _machine(config, gpu, gpus, utilisation)
        hours = None if cost.flops is None else machine.hours(cost.flops, config.train.precision)
        rows.append(
            [
                name,
                f"{cost.parameters:,}",
                f"{cost.flops_per_update:.2e}",
                "open" if cost.updates is None else f"{cost.updates:,}",
                "" if cost.flops is None else f"{cost.flops:.2e}",
                "" if hours is None else _duration(hours),
            ]
        )
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, the first column on the left and the others on the right; a row may end early."""
    full = [[*row, *[""] * (len(rows[0]) - len(row))] for row in rows]
    widths = [max(len(row[column]) for row in full) for column in range(len(rows[0]))]
    lines = []
    for first, *others in full:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def _parts(memory: Memory) -> str:
    return (
        f"weights {_gigabytes(memory.weights)}, gradients {_gigabytes(memory.gradients)}, "
        f"Adam's moments {_gigabytes(memory.moments)}, activations about {_gigabytes(memory.activations)}"
    )


def _gigabytes(number: float) -> str:
    return f"{number / 1e9:.2f} GB" if number < 1e10 else f"{number / 1e9:.0f} GB"


def _duration(hours: float) -> str:
    if hours >= 72:
        return f"{hours / 24:.1f} days"
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{hours * 60:.1f} minutes" if hours * 60 >= 1 else f"{hours * 3600:.1f} seconds"
