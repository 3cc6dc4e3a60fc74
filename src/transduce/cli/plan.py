"""`transduce plan`: what a training would cost, before it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce import settings
from transduce.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transduce.config import Config
    from transduce.paper.training_cost import Cost, Machine, Memory


def plan(
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
) -> None:
    """Print what a configuration would cost: parameters, operations, hours, energy, price, memory.

    Operations are counted from the configuration. Hours are operations over the peak rate of the GPUs times their
    utilisation: a plan, not a promise.
    """
    if utilisation is not None and not 0 < utilisation <= 1:
        raise UserError(f"--utilisation {utilisation:g}: a share of the peak rate: give more than 0 and at most 1")
    from transduce.paper.training_cost import LENGTH, find_gpu

    name, tokens = find_gpu(gpu), length or LENGTH
    if preset is None and config is None and not set_:
        names = settings.presets()
        planned = [(each, settings.load_config(preset=each)) for each in names]
        typer.echo(_table(planned, name, gpus, utilisation, tokens))
        return
    chosen = settings.load_config(preset=preset, path=config, settings=set_ or [])
    machine, origin = _machine(chosen, name, gpus, utilisation)
    typer.echo("\n".join(_page(chosen, machine, origin, price, tokens)))


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


def _page(config: Config, machine: Machine, origin: str, price: float | None, length: int) -> list[str]:
    """All about one configuration."""
    from transduce.paper import training_cost as costs

    cost, train = costs.cost(config, length), config.train
    memory = costs.memory(config, cost.parameters, machine.count)
    load = f"{train.batch_tokens:,} tokens a side in sentences of {length}"
    peak = machine.peak(train.precision) / 1e12
    rows = [
        ("preset", _describe(config)),
        ("parameters", f"{cost.parameters:,}"),
        ("operations an update", f"{cost.flops_per_update:.2e} ({load})"),
        *_end(cost, machine, train.precision, price),
        ("utilisation", f"{machine.utilisation:.1%} of {peak:g} TFLOP/s ({train.precision}): {origin}"),
        ("memory of each GPU", f"{_gigabytes(memory.total)} of {_gigabytes(machine.gpu.memory)}: {_parts(memory)}"),
        ("here", "not measured"),
    ]
    return [f"{name:<22}{text}" for name, text in rows]


def _describe(config: Config) -> str:
    from transduce.paper.training_cost import SYMBOLS, vocabularies

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


def _table(planned: Sequence[tuple[str, Config]], gpu: str, gpus: int, utilisation: float | None, length: int) -> str:
    """A line a preset."""
    from transduce.paper import training_cost as costs

    rows = [["preset", "parameters", "operations an update", "updates", "in all", f"time on {gpus} x {gpu}"]]
    for name, config in planned:
        cost = costs.cost(config, length)
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
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
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
