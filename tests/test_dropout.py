from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from transduce.config import ModelConfig
from transduce.model import Noise, Transformer
from transduce.model.dropout import Dropout, number_sites
from transduce.model.layers import ACTIVATIONS

NOISE = Noise(seed=1, update=2, micro_batch=3, rank=4)
MANY = torch.Size((400, 500))
RATES = [0.1, 0.3, 0.5, 0.9]
SIGMAS = 4


def dropout(rate: float, site: int = 5) -> Dropout:
    module = Dropout(rate)
    module.site = site
    return module


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mask(noise: Noise = NOISE, site: int = 5, rate: float = 0.3) -> Tensor:
    return noise.keep(site, MANY, Dropout(rate).threshold)


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten().double(), b.flatten().double()]))[0, 1])


@pytest.mark.parametrize("rate", RATES)
def test_as_many_are_dropped_as_the_rate_says(rate: float) -> None:
    dropped = int((~mask(rate=rate)).sum())
    assert abs(dropped - rate * MANY.numel()) < SIGMAS * math.sqrt(rate * (1 - rate) * MANY.numel())


@pytest.mark.parametrize("rate", RATES)
def test_kept_elements_are_scaled_so_that_the_mean_stays(rate: float) -> None:
    module = dropout(rate)
    out = module(torch.ones(MANY, dtype=torch.float64), NOISE)
    assert out.unique().tolist() == [0.0, module.scale]
    assert module.scale == pytest.approx(1 / (1 - rate), rel=2**-16 / (1 - rate))
    assert abs(out.mean() - 1) < SIGMAS * math.sqrt(rate / (1 - rate) / MANY.numel())


@given(rate=st.floats(0, 1, exclude_max=True))
def test_the_rate_is_the_nearest_multiple_of_a_65536th_below_one(rate: float) -> None:
    module = Dropout(rate)
    assert (module.rate * 2**16).is_integer()
    assert module.rate < 1
    assert abs(module.rate - rate) <= (2**-17 if rate <= 1 - 2**-17 else 2**-16)
    assert module(torch.ones(5), NOISE).isfinite().all()


@pytest.mark.parametrize("step", [1, 2, 3, 4, 500])
def test_neighbouring_elements_are_independent(step: int) -> None:
    flat = mask().flatten()
    assert abs(correlation(flat[:-step], flat[step:])) < SIGMAS / math.sqrt(len(flat))


FIELDS = ["seed", "update", "micro_batch", "rank"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("distance", [1, 2, 1000])
def test_masks_of_other_moments_are_independent(field: str, distance: int) -> None:
    other = replace(NOISE, **{field: getattr(NOISE, field) + distance})
    assert abs(correlation(mask(), mask(other))) < SIGMAS / math.sqrt(MANY.numel())


@pytest.mark.parametrize("site", [0, 4, 6, 100])
def test_masks_of_other_sites_are_independent(site: int) -> None:
    assert abs(correlation(mask(), mask(site=site))) < SIGMAS / math.sqrt(MANY.numel())


def test_all_masks_of_some_updates_micro_batches_ranks_and_sites_differ() -> None:
    shape = torch.Size((128,))
    masks = {
        tuple(Noise(seed, update, micro_batch, rank).keep(site, shape, 2**15).tolist())
        for seed in range(3)
        for update in range(3)
        for micro_batch in range(3)
        for rank in range(3)
        for site in range(3)
    }
    assert len(masks) == 3**5


def test_a_mask_depends_on_nothing_else() -> None:
    module, x = dropout(0.3), random(7, 9)
    torch.manual_seed(1)
    first = module(x, NOISE)
    torch.manual_seed(2)
    torch.rand(5)
    assert torch.equal(module(x, replace(NOISE)), first)
    assert torch.equal(dropout(0.3)(x, NOISE), first)
    assert torch.equal(mask(), mask())


def test_without_noise_or_rate_nothing_is_dropped() -> None:
    x, y = random(7, 9), random(7, 9, seed=2)
    assert dropout(0.5)(x, None) is x
    assert dropout(0.0)(x, NOISE) is x
    assert torch.equal(dropout(0.5).add(x, y, None), x + y)
    assert torch.equal(dropout(0.0).add(x, y, NOISE), x + y)


def test_the_gradient_passes_where_the_value_did() -> None:
    module, x, upstream = dropout(0.4), random(7, 9).requires_grad_(), random(7, 9, seed=2)
    factor = NOISE.keep(5, x.shape, module.threshold).double() * module.scale
    out = module(x, NOISE)
    assert 0 < factor.count_nonzero() < factor.numel()
    assert torch.allclose(out, x * factor, rtol=1e-15)
    assert torch.allclose(torch.autograd.grad(out, x, upstream)[0], upstream * factor, rtol=1e-15)
    assert torch.autograd.gradcheck(lambda x: module(x, NOISE), x)


def test_dropping_what_is_rectified_is_rectifying_and_dropping() -> None:
    module, x, upstream = dropout(0.4), random(7, 9).requires_grad_(), random(7, 9, seed=2)
    ours, plain = module.relu(x, NOISE), module(F.relu(x), NOISE)
    assert torch.equal(ours, plain)
    gradients = [torch.autograd.grad(out, x, upstream)[0] for out in (ours, plain)]
    assert torch.allclose(*gradients, rtol=1e-15)
    assert torch.equal(module.relu(x, None), F.relu(x))


def test_adding_a_dropped_output_is_dropping_and_adding() -> None:
    module = dropout(0.4)
    x, y, upstream = random(7, 9).requires_grad_(), random(7, 9, seed=2).requires_grad_(), random(7, 9, seed=3)
    fused, plain = module.add(x, y, NOISE), x + module(y, NOISE)
    assert torch.allclose(fused, plain, rtol=0, atol=1e-14)
    for ours, theirs in zip(*(torch.autograd.grad(out, [x, y], upstream) for out in (fused, plain)), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.autograd.gradcheck(lambda x, y: module.add(x, y, NOISE), (x, y))


def test_what_is_kept_of_a_bfloat16_output_is_scaled_without_rounding() -> None:
    module, y = dropout(0.15), torch.ones(50, 40, dtype=torch.bfloat16, requires_grad=True)
    found = module.add(torch.zeros(50, 40), y, NOISE)
    assert set(found.unique().tolist()) == {0.0, torch.tensor(module.scale).item()}
    assert found.mean().item() == pytest.approx(1, abs=SIGMAS * math.sqrt(0.15 / 0.85 / 2000))
    (gradient,) = torch.autograd.grad(found.sum(), y)
    assert gradient.dtype == torch.bfloat16


def test_a_transposed_tensor_is_dropped_in_its_own_order() -> None:
    module, x = dropout(0.4), random(7, 9)
    assert torch.equal(module(x.T, NOISE), module(x.T.contiguous(), NOISE))


def model(**changes: object) -> Transformer:
    shape = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 8, "d_ff": 12, "num_heads": 2}
    torch.manual_seed(0)
    return Transformer(ModelConfig.model_validate({**shape, **changes}), 20, 20).double()


SOURCE = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]])
TARGET = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 10]])


def active(model: Transformer) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, Dropout) and module.threshold]


def test_the_paper_drops_sub_layer_outputs_and_embeddings_and_nothing_else() -> None:
    names = active(model(dropout=0.1))
    assert all(name.endswith(("residual.dropout", "embedding.dropout")) for name in names)
    assert len(names) == 2 + 2 * 2 + 3 * 3
    assert len(active(model(dropout=0.0, attention_dropout=0.1))) == 2 + 2 * 3
    assert len(active(model(dropout=0.0, relu_dropout=0.1))) == 2 + 3


def test_every_place_in_a_model_has_a_site_of_its_own() -> None:
    found = [module.site for module in model().modules() if isinstance(module, Dropout)]
    assert len(set(found)) == len(found) > 20
    two = torch.nn.Sequential(Dropout(0.5), Dropout(0.5))
    number_sites(two)
    assert not torch.equal(two[0](torch.ones(99), NOISE), two[1](torch.ones(99), NOISE))


def kept(module: Dropout, shape: torch.Size) -> Tensor:
    """What the elements of a tensor are multiplied by at one place of a model."""
    assert module.threshold
    return NOISE.keep(module.site, shape, module.threshold).double() * module.scale


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_sub_layers_output_is_dropped_before_it_is_added_and_normed(norm: str) -> None:
    residual, x = model(dropout=0.4, norm=norm).encoder.layers[1].self_residual, random(3, 5, 8)
    if norm == "pre":
        expected = x + residual.norm(x).sin() * kept(residual.dropout, x.shape)
    else:
        expected = residual.norm(x + x.sin() * kept(residual.dropout, x.shape))
    assert torch.allclose(residual(x, torch.sin, NOISE), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_inside_the_feed_forward_network_activations_are_dropped(activation: str) -> None:
    network, x = model(relu_dropout=0.4, activation=activation).decoder.layers[1].feed_forward, random(3, 5, 8)
    activations = ACTIVATIONS[activation](network.inner(x))
    expected = network.outer(activations * kept(network.dropout, activations.shape))
    assert torch.allclose(network(x, NOISE), expected, rtol=0, atol=1e-12)


def test_the_sum_of_embedding_and_position_is_dropped() -> None:
    embedding = model(dropout=0.4).target_embedding
    whole = embedding(TARGET, 3, None)
    expected = whole * kept(embedding.dropout, whole.shape)
    assert torch.allclose(embedding(TARGET, 3, NOISE), expected, rtol=0, atol=1e-12)


EVERYWHERE = {"dropout": 0.2, "attention_dropout": 0.3, "relu_dropout": 0.4}


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_each_kind_of_dropout_changes_training_and_nothing_else(kind: str) -> None:
    dropped, plain = model(**{**dict.fromkeys(EVERYWHERE, 0.0), kind: 0.5}), model(dropout=0.0)
    assert torch.equal(dropped(SOURCE, TARGET), plain(SOURCE, TARGET))
    noisy = dropped(SOURCE, TARGET, noise=NOISE)
    assert torch.equal(noisy, dropped(SOURCE, TARGET, noise=NOISE))
    assert not torch.allclose(noisy, plain(SOURCE, TARGET))
    assert torch.allclose(plain(SOURCE, TARGET, noise=NOISE), plain(SOURCE, TARGET), rtol=0, atol=1e-12)


@pytest.mark.parametrize("window", [None, 3])
def test_recomputed_activations_see_the_same_masks(window: int | None) -> None:
    trained = model(window=window, **EVERYWHERE)

    def gradients(hidden: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(hidden.square().sum(), list(trained.parameters()))

    stored = gradients(trained(SOURCE, TARGET, noise=NOISE))
    recomputed = gradients(checkpoint(trained, SOURCE, TARGET, noise=NOISE, use_reentrant=False))
    assert all(torch.equal(a, b) for a, b in zip(stored, recomputed, strict=True))


def test_training_on_one_sentence_many_times_averages_to_the_model_without_dropout() -> None:
    module, x, y = dropout(0.2), random(3, 4), random(3, 4, seed=2)
    draws = torch.stack([module.add(x, y, Noise(1, update)) for update in range(2000)])
    deviation = y.abs() * math.sqrt(0.2 / 0.8 / len(draws))
    assert ((draws.mean(dim=0) - (x + y)).abs() < SIGMAS * deviation).all()
