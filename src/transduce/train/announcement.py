"""The first lines of a run: what will be trained, on what, and until when."""

from __future__ import annotations

from datetime import datetime, timedelta

from transduce.config import Config, TrainConfig
from transduce.data.preparation import Prepared
from transduce.model import Transformer
from transduce.settings import load_config
from transduce.train.calibration import Budget, multiplications

DAY, HOUR = 86400.0, 3600.0


def until(train: TrainConfig, budget: Budget) -> str:
    """When the run ends, in words."""
    if budget.updates is None or budget.seconds is None:
        epoch = timedelta(seconds=round(budget.updates_per_epoch * budget.seconds_per_update))
        return f"{train.patience} validations bring no better perplexity; an epoch takes about {epoch}"
    end = datetime.now().astimezone() + timedelta(seconds=budget.seconds)
    epochs = budget.updates / budget.updates_per_epoch
    duration = timedelta(seconds=round(budget.seconds))
    return f"about {end:%a %H:%M} (in {duration}): {budget.updates:,} updates, {epochs:.1f} epochs"


def too_long(config: Config, budget: Budget, vocabulary: int) -> str:
    """A warning that names the largest preset with which the same epochs would fit an hour."""
    assert budget.seconds is not None
    now = multiplications(config.model, vocabulary)
    hours = budget.seconds / HOUR
    for name in ("small", "tiny"):
        preset = load_config(preset=name)
        seconds = budget.seconds * multiplications(preset.model, preset.text.vocabulary) / now
        if seconds <= HOUR:
            return f"that is {hours:.0f} hours; --preset {name} would fit the same epochs into an hour"
    return f"that is {hours:.0f} hours; --preset tiny --minutes 60 would fit an hour, in fewer epochs"


def describe_model(config: Config, model: Transformer) -> str:
    """The variant by its names in the paper."""
    m = config.model
    attention = m.attention if m.attention == "additive" else f"{m.attention} dot-product"
    window = f" within {m.window} positions" if m.window else ""
    return (
        f"{m.norm}-norm Transformer ({config.preset}), {attention} attention{window}, "
        f"{m.encoder_layers}+{m.decoder_layers} layers, d_model {m.d_model}, d_ff {m.d_ff}, {m.num_heads} heads, "
        f"{m.positions} positions, {model.num_parameters():,} parameters"
    )


def describe_data(prepared: Prepared) -> str:
    """The corpus in a line."""
    codes = prepared.source_lang, prepared.target_lang
    languages = f"{codes[0] or '?'}-{codes[1] or '?'}, " if any(codes) else ""
    sizes = sorted({prepared.source_codec.size, prepared.target_codec.size})
    vocabulary = " and ".join(f"{size:,}" for size in sizes)
    tokens = int(prepared.train.target.offsets[-1])
    return (
        f"{languages}{len(prepared.train):,} pairs ({tokens:,} target tokens), "
        f"{len(prepared.valid_source):,} for validation, vocabulary {vocabulary}"
    )


def describe_recipe(config: Config) -> str:
    """How it is trained, by the names of section 5."""
    train = config.train
    options = {"BPE-dropout": train.bpe_dropout, "word dropout": config.model.word_dropout, "R-Drop": train.r_drop}
    chosen = "".join(f", {name} {value:g}" for name, value in options.items() if value)
    cools = train.cooldown and (train.steps or train.epochs or train.minutes)
    cooldown = f", cool-down over the last {train.cooldown:.0%}" if cools else ""
    return (
        f"{train.batch_tokens:,} tokens an update, warm-up {train.warmup_steps:,}{cooldown}, "
        f"dropout {config.model.dropout}, label smoothing {train.label_smoothing}{chosen}, seed {train.seed}"
    )
