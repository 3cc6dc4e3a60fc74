"""`transduce plan`, and the arithmetic behind it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from click.testing import Result
from rich.console import Console
from torch.autograd.graph import saved_tensors_hooks
from typer.testing import CliRunner

from transduce.cli.display import Display
from transduce.cli.plan import plan
from transduce.config import Config
from transduce.errors import ConfigError, CorpusError, UserError
from transduce.model import Noise, Transformer
from transduce.paper import here
from transduce.paper import training_cost as costs
from transduce.settings import load_config, presets
from transduce.train.calibration import SYMBOLS
from transduce.train.choice import Size
from transduce.train.feed import LoadedBatch
from transduce.train.workers import batch_loss
from trials import SMALL


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(plan)
    display = Display(Console(stderr=True))
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}, obj=display)


def rows(*arguments: str, measure: bool = False) -> dict[str, str]:
    """Of the page on one configuration."""
    result = run(*arguments, *([] if measure else ["--no-measure"]))
    assert result.exit_code == 0, result.output
    return {line[:22].strip(): line[22:] for line in result.stdout.split("\n")[:-1]}


@pytest.mark.parametrize(("preset", "time"), [("wmt14-en-de", "12.0 hours"), ("wmt14-en-de-big", "3.5 days")])
def test_the_papers_recipes_take_the_papers_time_on_its_machine(preset: str, time: str) -> None:
    page = rows("--preset", preset, "--gpus", "8", "--gpu", "P100")
    assert page["time"] == f"{time} on 8 x P100"
    assert page["here"] == "not measured"


def test_a_price_and_energy_follow_from_the_hours() -> None:
    page = rows("--preset", "wmt14-en-de", "--price", "2.5")
    assert page["price"] == "240.00, at 2.5 a GPU and hour"  # 12 hours of 8 GPUs
    assert page["energy"].startswith("28.8 kWh")  # 12 hours of 8 times 300 watts


def test_settings_are_heeded() -> None:
    plain, longer = rows("--preset", "tiny"), rows("--preset", "tiny", "--set", "train.steps=2000")
    assert "train.steps is not set" in plain["in all"]
    assert "time" not in plain
    assert longer["in all"].endswith("operations in 2,000 updates")
    wider = rows("--preset", "tiny", "--set", "model.d_model=256")
    assert "d_model 256" in wider["preset"]
    assert wider["parameters"] != plain["parameters"]


def test_parameters_are_those_of_the_model() -> None:
    config = load_config(preset="tiny")
    model = Transformer(config.model, config.text.vocabulary, config.text.vocabulary)
    assert rows("--preset", "tiny")["parameters"] == f"{model.num_parameters():,}"


def test_a_file_of_settings_is_a_configuration_too(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('preset = "small"\n[train]\nsteps = 10\n', encoding="utf-8")
    assert "in 10 updates" in rows("--config", str(path))["in all"]


def test_without_a_configuration_all_presets_are_listed() -> None:
    lines = run("--no-measure").stdout.split("\n")[1:-1]
    assert [line.split()[0] for line in lines] == presets()


def test_symbols_are_said_to_be_a_guess() -> None:
    assert f"symbols: {SYMBOLS} are assumed" in rows("--preset", "pronounce")["preset"]


def test_help_names_every_gpu() -> None:
    named = re.findall(r"\w+", run("--help").output)
    assert [gpu for gpu in costs.GPUS if gpu not in named] == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("--gpu", "TPU"), UserError, "--gpu TPU: not known: there are P100, V100"),
        (("--preset", "tiny", "--utilisation", "1.5"), UserError, "--utilisation 1.5: .* at most 1"),
        (("--preset", "tiny", "--utilisation", "0"), UserError, "--utilisation 0: .* more than 0"),
        (("--preset", "tyni"), ConfigError, "unknown preset 'tyni': did you mean 'tiny'"),
        (("--preset", "tiny", "--set", "train.step=1"), ConfigError, "did you mean 'train.steps'"),
        (("--preset", "tiny", "--set", "train.precision=bfloat16"), UserError, "P100: has no bfloat16: .*float16"),
        (("--minutes", "inf"), UserError, "--minutes inf: give more than 0"),
        (("--minutes", "0"), UserError, "--minutes 0: give more than 0"),
        (("--minutes", "5", "--no-measure"), UserError, "--minutes 5: .* no --no-measure"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], error: type[UserError], message: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert re.search(message, str(result.exception))


def test_a_gpu_has_one_name_however_it_is_written() -> None:
    assert costs.find_gpu("rtx 4090") == costs.find_gpu("RTX-4090") == "RTX4090"


def test_twice_the_gpus_or_the_utilisation_take_half_the_time() -> None:
    hours = costs.Machine("A100", 4, 0.2).hours(1e18, "bfloat16")
    assert costs.Machine("A100", 8, 0.2).hours(1e18, "bfloat16") == pytest.approx(hours / 2)
    assert costs.Machine("A100", 4, 0.4).hours(1e18, "bfloat16") == pytest.approx(hours / 2)
    assert hours == pytest.approx(1e18 / (4 * 312e12 * 0.2) / 3600)


def test_no_gpu_is_used_better_than_it_can_be() -> None:
    for training in (costs.BASE, costs.BIG):
        assert 0.2 < costs.utilisation(training) < costs.counted(training) / training.flops < 0.5


def kept_bytes(config: Config, tokens: int, length: int) -> int:
    """What autograd keeps of a batch without padding, weights aside, each piece of memory once."""
    model = Transformer(config.model, 60, 60)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    ids = torch.randint(4, 60, (tokens // length, length), generator=torch.Generator().manual_seed(0))
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    batch = LoadedBatch(ids, ids, ids.flatten(), present=None, source_padded=False)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = batch_loss(model, batch, Noise(1, 1), 0.1)
    assert loss.smoothed.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("change", [{}, {"activation": "gelu"}, {"dropout": 0.0}, {"norm": "pre"}], ids=str)
def test_the_estimate_of_activations_is_near_what_autograd_keeps(change: dict[str, Any]) -> None:
    config = load_config(preset="tiny")
    config = config.model_copy(update={"model": config.model.model_copy(update=change)})
    assert costs.activation_bytes(config) == pytest.approx(kept_bytes(config, 640, 20) / 640, rel=0.15)


def test_recomputing_and_sharing_take_less_memory() -> None:
    plain, recomputed = (
        costs.memory(load_config(preset="base", settings=[f"train.recompute={value}"]), 1000)
        for value in ("false", "true")
    )
    shared = costs.memory(load_config(preset="base"), 1000, gpus=8)
    assert recomputed.activations < plain.activations / 3
    assert shared.activations == pytest.approx(plain.activations / 8, rel=1e-6)
    assert shared.total == shared.activations + 16 * 1000


def test_r_drop_and_the_moving_average_cost_what_they_cost() -> None:
    plain, dropped, averaged = (
        load_config(preset="base", settings=settings) for settings in ([], ["train.r_drop=5.0"], ["train.ema=0.999"])
    )
    assert costs.flops_per_update(dropped) == 2 * costs.flops_per_update(plain)
    before, twice, with_average = (costs.memory(each, 1000) for each in (plain, dropped, averaged))
    assert twice.activations == pytest.approx(2 * before.activations, rel=1e-6)
    assert with_average.total == before.total + 4 * 1000


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Which configurations are tried out, on a machine that makes 1,000 tokens a second of any."""
    found: list[Config] = []

    def tokens_per_second(config: Config, size: Size, *, seconds: float) -> float:
        found.append(config)
        return 1000.0

    monkeypatch.setattr(here, "tokens_per_second", tokens_per_second)
    return found


def test_what_is_tried_out_is_told_in_updates_and_hours(tried: list[Config]) -> None:
    page = rows("--preset", "tiny", "--set", "train.batch_tokens=2000", "--minutes", "3", measure=True)
    assert page["here"].startswith("1,000 target tokens/s on ")
    assert "sentences of 30 and 30 tokens; memory about 0." in page["here"]
    assert page["recommended here"] == "7,500 updates: 4.2 hours"  # 25 warm-ups of 300; 2 seconds each
    assert page["3 minutes here"] == "90 updates"


def test_presets_that_do_the_same_work_are_tried_once(tried: list[Config]) -> None:
    result = run("--minutes", "60")
    assert result.exit_code == 0, result.output
    costs_of, lines = result.stdout.split("\n\n")
    assert len(costs_of.split("\n")) == len(presets()) + 1
    table = {line.split()[0]: line.split() for line in lines.split("\n")[1 : len(presets()) + 1]}
    assert sorted(table) == presets()
    assert table["tiny"][1] == "1,000"
    assert table["tiny"][-2:] == ["1,200", "updates"]  # 3 seconds each
    names = [config.preset for config in tried]
    assert "base" in names
    assert "wmt14-en-de" not in names
    assert table["wmt14-en-de"][1] == "1,000"


def test_a_corpus_says_how_many_epochs_and_which_preset(tried: list[Config], small_corpus: Path) -> None:
    files = "--source", str(small_corpus / "train.en"), "--target", str(small_corpus / "train.de")
    result = run(*files, "--minutes", "60")
    assert result.exit_code == 0, result.output
    assert "`transduce train` would choose tiny: 300 pairs are fewer than 1,000" in result.stdout
    assert "sets text.vocabulary=1000" in result.stdout
    given = run(*files, "--set", "text.vocabulary=400", "--set", "train.batch_tokens=1000")
    assert "sets text.vocabulary" not in given.stdout
    assert {config.train.batch_tokens for config in tried[-2:]} == {1000}
    page = rows(*files, "--preset", "tiny", "--minutes", "60", measure=True)
    found = re.fullmatch(r"([\d,]+) updates = ([\d,.]+) epochs", page["60 minutes here"])
    assert found
    updates, epochs = (float(number.replace(",", "")) for number in found.groups())
    lengths = re.search(r"sentences of (\d+) and (\d+) tokens", page["here"])
    assert lengths
    pairs_seen = epochs * 300
    assert pairs_seen * int(lengths[2]) == pytest.approx(60 * 60 * 1000, rel=0.1)  # all tokens that an hour has
    assert updates >= epochs


@pytest.mark.parametrize(
    ("settings", "told", "dropout"),
    [
        ([], "", False),
        (["train.epochs=5"], "; about 5.0 epochs, fewer than 20; ", True),
        (["train.minutes=60", "train.epochs=5"], "; about 5.0 epochs, fewer than 20; ", True),
        (["train.epochs=25"], "; about 25.0 epochs; ", False),
        (["train.epochs=25", "train.steps=2"], ", fewer than 20; ", True),
    ],
    ids=str,
)
@pytest.mark.usefixtures("tried")
def test_every_budget_has_a_say_in_the_choice(
    small_corpus: Path, settings: list[str], told: str, dropout: bool
) -> None:
    files = "--source", str(small_corpus / "train.en"), "--target", str(small_corpus / "train.de")
    result = run(*files, *(word for each in settings for word in ("--set", each)))
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stdout.split("\n") if line.startswith("`transduce train` would choose tiny"))
    assert told in line
    assert ("epochs" in line) == bool(settings)
    assert ("model.dropout=0.1" in line) == dropout


def test_the_corpus_is_looked_at_by_the_rules_that_are_set(tmp_path: Path, tried: list[Config]) -> None:
    (tmp_path / "a").write_text(f"{'long ' * 20}\n", encoding="utf-8")
    (tmp_path / "b").write_text("short\n", encoding="utf-8")
    files = "--source", str(tmp_path / "a"), "--target", str(tmp_path / "b"), "--preset", "tiny"
    assert isinstance(run(*files).exception, CorpusError)
    assert run(*files, "--set", "data.max_ratio=50.0").exit_code == 0
    assert len(tried) == 1


def test_a_corpus_without_a_usable_pair_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("\n", encoding="utf-8")
    result = run("--source", str(tmp_path / "a"), "--target", str(tmp_path / "a"), "--no-measure")
    assert isinstance(result.exception, CorpusError)
    assert "no usable pair: `transduce doctor` says why" in str(result.exception)


def test_what_memory_does_not_hold_is_not_tried(tried: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    planned = {name: load_config(preset=name) for name in ("small", "base")}
    limit = here.memory_here(planned["small"], torch.device("cpu"))
    monkeypatch.setattr(here, "free_memory", lambda device: limit)
    trials = here.try_out(planned, Size(1000, 30, 30), lambda done: None)
    assert (trials["small"].speed, trials["base"].speed, trials["base"].updates(60)) == (1000.0, None, 0)
    assert tried == [planned["small"]]
    assert "not tried out: memory about" in rows("--preset", "base", measure=True)["here"]


def test_every_worker_has_gradients_of_its_own() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    one, two = (load_config(preset="tiny", settings=[f"train.threads={number}"]) for number in (1, 2))
    parameters = costs.cost(one).parameters
    assert here.memory_here(one, cpu) == here.memory_here(one, gpu) == costs.memory(one, parameters).total
    assert here.memory_here(two, cpu) - here.memory_here(one, cpu) == 4 * parameters


def test_this_machine_has_a_speed_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "SECONDS", 0.05)
    settings = [word for setting in SMALL for word in ("--set", setting)]
    page = rows("--preset", "tiny", *settings, measure=True)
    assert re.match(r"[1-9][\d,]* target tokens/s on ", page["here"])
    assert here.free_memory(torch.device("cpu")) > 0
