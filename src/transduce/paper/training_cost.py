"""What a training costs: operations, hours on a number of GPUs, energy and memory; before it is begun.

Table 2's way is time x number of GPUs x the sustained rate of one: what the hardware could have done. Counting what the
model multiplies and adds gives less; the quotient is how well the hardware was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from transduce.config import Config, ModelConfig
from transduce.errors import UserError
from transduce.model.flops import training_flops
from transduce.model.transformer import shape_only
from transduce.settings import load_config
from transduce.train.calibration import vocabularies

LENGTH = 30
"""Tokens of a sentence, as WMT14's have on either side; only attention's own products, about 1 %, depend on it."""
HOUR = 3600.0
SUSTAINED = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}
"""Single-precision FLOP/s that the paper takes a GPU to sustain (footnote of section 6.1)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU by its maker's data sheet: peak rates in FLOP/s for dense matrices, memory in bytes, power in watts.

    `half` is the rate of 16-bit products that are summed in 32 bits, where the sheet tells them apart.
    """

    float32: float
    half: float
    bfloat16: bool
    memory: float
    watts: float


GPUS = {
    "P100": Gpu(10.6e12, 21.2e12, False, 16e9, 300),
    "V100": Gpu(15.7e12, 125e12, False, 32e9, 300),
    "T4": Gpu(8.1e12, 65e12, False, 16e9, 70),
    "A100": Gpu(19.5e12, 312e12, True, 80e9, 400),
    "H100": Gpu(67e12, 989e12, True, 80e9, 700),
    "L4": Gpu(30.3e12, 121e12, True, 24e9, 72),
    "L40S": Gpu(91.6e12, 362e12, True, 48e9, 350),
    "RTX3090": Gpu(35.6e12, 71e12, True, 24e9, 350),
    "RTX4090": Gpu(82.6e12, 165e12, True, 24e9, 450),
}
"""From NVIDIA's data sheets of P100, V100, A100 and H100 (SXM), T4, L4 and L40S (PCIe), and from its white papers on
GA102 (RTX 3090) and Ada (RTX 4090); rates "with sparsity" are halved."""


@dataclass(frozen=True)
class Training:
    """A training of the paper: how long it took on how many P100s (section 5.2)."""

    preset: str
    hours: float
    gpus: int = 8
    gpu: str = "P100"

    @property
    def flops(self) -> float:
        """As Table 2 has them: time x GPUs x sustained rate."""
        return self.hours * HOUR * self.gpus * SUSTAINED[self.gpu]


BASE = Training("wmt14-en-de", hours=12)
BIG = Training("wmt14-en-de-big", hours=3.5 * 24)


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU."""

    weights: int
    """With their moving average, if there is one."""
    gradients: int
    moments: int
    """Adam's two."""
    activations: int
    """What is kept for the backward pass; an estimate."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.moments + self.activations


@dataclass(frozen=True)
class Cost:
    """What a configuration takes, wherever it is trained."""

    parameters: int
    flops_per_update: float
    updates: int | None
    """None: no train.steps is set, and the end is not known beforehand."""

    @property
    def flops(self) -> float | None:
        """Of the whole training."""
        return None if self.updates is None else self.updates * self.flops_per_update


@dataclass(frozen=True)
class Machine:
    """Some GPUs, and the share of their peak rate that a training gets."""

    name: str
    count: int
    utilisation: float

    @property
    def gpu(self) -> Gpu:
        """One of them."""
        return GPUS[self.name]

    def peak(self, precision: str) -> float:
        """Of one, for products in the precision of `train.precision`."""
        if precision == "bfloat16" and not self.gpu.bfloat16:
            raise UserError(f"{self.name}: has no bfloat16: --set train.precision=float16, or another GPU")
        return self.gpu.float32 if precision == "float32" else self.gpu.half

    def hours(self, flops: float, precision: str) -> float:
        """Until so many operations are done."""
        return flops / (self.count * self.peak(precision) * self.utilisation) / HOUR

    def updates_an_hour(self, flops_per_update: float, precision: str) -> float:
        """How many updates of so many operations are done in an hour."""
        return 1 / self.hours(flops_per_update, precision)

    def price(self, hours: float, price: float) -> float:
        """Of so long, if one GPU costs `price` an hour."""
        return hours * self.count * price

    def kilowatt_hours(self, hours: float) -> float:
        """At the boards' full power; what surrounds them is not counted."""
        return hours * self.count * self.gpu.watts / 1000


def find_gpu(name: str) -> str:
    """The name as the table has it, whatever its case and spaces."""
    plain = name.replace(" ", "").replace("-", "").casefold()
    for known in GPUS:
        if known.casefold() == plain:
            return known
    raise UserError(f"--gpu {name}: not known: there are {', '.join(GPUS)}")


def flops_per_update(config: Config, length: int = LENGTH) -> float:
    """Of a full update, in sentences of this length."""
    pair = training_flops(config.model, length, length, vocabularies(config)[1])
    return passes(config) * pair * config.train.batch_tokens / length


def passes(config: Config) -> int:
    """How often the model sees each pair of an update: R-Drop asks it twice."""
    return 2 if config.train.r_drop else 1


def cost(config: Config, length: int = LENGTH) -> Cost:
    """Of training by this configuration, in sentences of this length."""
    return Cost(
        count_parameters(config.model, *vocabularies(config)), flops_per_update(config, length), config.train.steps
    )


@cache
def count_parameters(model: ModelConfig, source: int, target: int) -> int:
    """Of a model with vocabularies of these sizes; presets share shapes, and are asked for again and again."""
    return shape_only(model, source, target).num_parameters()


def counted(training: Training) -> float:
    """What the paper's training multiplied and added."""
    config = load_config(preset=training.preset)
    assert config.train.steps is not None, f"{training.preset} has a number of updates"
    return config.train.steps * flops_per_update(config)


def utilisation(training: Training) -> float:
    """What was counted, of what the GPUs' peak allows in the time that the paper tells."""
    return counted(training) / (training.hours * HOUR * training.gpus * GPUS[training.gpu].float32)


def expected_utilisation(model: ModelConfig) -> tuple[float, str]:
    """That of the paper's big model from its width on, else of base, and which: wider products use a GPU better."""
    big = load_config(preset=BIG.preset).model
    training = BIG if model.d_model >= big.d_model else BASE
    return utilisation(training), "big" if training is BIG else "base"


def memory(config: Config, parameters: int, gpus: int = 1) -> Memory:
    """Of one process of several that train together, each with the whole model and its share of a micro-batch."""
    tokens = min(config.train.batch_tokens, config.train.micro_batch_tokens) / gpus
    weights = 4 * parameters * (2 if config.train.ema else 1)
    return Memory(weights, 4 * parameters, 8 * parameters, round(passes(config) * tokens * activation_bytes(config)))


def activation_bytes(config: Config) -> float:
    """For a source and a target token: what autograd keeps of each layer, about.

    Sums before a norm are float32 always; other products are kept in the precision of training, dropout's masks in a
    byte an element. The logits are never kept (train/loss.py).
    """
    model = config.model
    keys, values = model.num_heads * model.key_width, model.num_heads * model.value_width
    width = 4 if config.train.precision == "float32" else 2
    mask = model.d_model if model.dropout else 0
    inner = model.d_ff * (1 if model.activation == "relu" else 2)
    # input, queries, keys, values, what was attended to; of the memory, keys and values are those of source tokens
    attention = width * (model.d_model + 2 * keys + 2 * values) + 4 * model.d_model + mask
    feed_forward = width * (model.d_model + inner) + 4 * model.d_model + mask
    encoder, decoder = attention + feed_forward, 2 * attention + feed_forward
    if not config.train.recompute:
        return model.encoder_layers * encoder + model.decoder_layers * decoder
    inputs = 4 * model.d_model * (model.encoder_layers + model.decoder_layers)
    return inputs + max(encoder, decoder)
