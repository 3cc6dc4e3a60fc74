from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from random_weights import random, randomized
from transduce.config import ModelConfig
from transduce.model import Transformer
from transduce.model.attention import causal_mask
from transduce.model.layers import FeedForward
from transduce.model.transformer import Decoder, Encoder, shape_only, source_mask

BATCH, TARGET, SOURCE, WIDTH, HEADS, INNER, VOCABULARY = 2, 5, 7, 8, 2, 12, 20


def config(**changes: object) -> ModelConfig:
    shape = {"encoder_layers": 2, "decoder_layers": 3, "d_model": WIDTH, "d_ff": INNER, "num_heads": HEADS}
    return ModelConfig.model_validate({**shape, **changes})


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def present() -> Tensor:
    """The second sentence is two positions shorter."""
    mask = torch.ones(BATCH, SOURCE, dtype=torch.bool)
    mask[1, -2:] = False
    return mask


# The same network of torch.nn, weight by weight.


class Twin(NamedTuple):
    """Rows of one of our weights, and the rows of torch's that are the same matrix."""

    ours: nn.Parameter
    rows: slice
    theirs: nn.Parameter
    their_rows: slice


ALL = slice(None)


def linear_twins(ours: nn.Linear, theirs: nn.Module) -> Iterator[Twin]:
    yield Twin(ours.weight, ALL, theirs.weight, ALL)
    if ours.bias is not None:
        yield Twin(ours.bias, ALL, theirs.bias, ALL)


def projection_twins(ours: nn.Linear, rows: slice, theirs: nn.MultiheadAttention, their_rows: slice) -> Iterator[Twin]:
    yield Twin(ours.weight, rows, theirs.in_proj_weight, their_rows)
    if ours.bias is not None:
        yield Twin(ours.bias, rows, theirs.in_proj_bias, their_rows)


def layer_twins(ours: nn.Module, theirs: nn.Module) -> Iterator[Twin]:
    """What an encoder's and a decoder's layer have in common."""
    yield from projection_twins(ours.self_attention.qkv, ALL, theirs.self_attn, ALL)
    yield from linear_twins(ours.self_attention.output, theirs.self_attn.out_proj)
    yield from linear_twins(ours.feed_forward.inner, theirs.linear1)
    yield from linear_twins(ours.feed_forward.outer, theirs.linear2)
    yield from linear_twins(ours.self_residual.norm, theirs.norm1)


def encoder_twins(ours: Encoder, theirs: nn.TransformerEncoder) -> Iterator[Twin]:
    for layer, twin in zip(ours.layers, theirs.layers, strict=True):
        yield from layer_twins(layer, twin)
        yield from linear_twins(layer.feed_forward_residual.norm, twin.norm2)
    if theirs.norm is not None:
        yield from linear_twins(ours.norm, theirs.norm)


def decoder_twins(ours: Decoder, theirs: nn.TransformerDecoder) -> Iterator[Twin]:
    for number, (layer, twin) in enumerate(zip(ours.layers, theirs.layers, strict=True)):
        yield from layer_twins(layer, twin)
        keys_values = slice(number * 2 * WIDTH, (number + 1) * 2 * WIDTH)
        yield from projection_twins(layer.cross_attention.query, ALL, twin.multihead_attn, slice(0, WIDTH))
        yield from projection_twins(ours.memory, keys_values, twin.multihead_attn, slice(WIDTH, 3 * WIDTH))
        yield from linear_twins(layer.cross_attention.output, twin.multihead_attn.out_proj)
        yield from linear_twins(layer.cross_residual.norm, twin.norm2)
        yield from linear_twins(layer.feed_forward_residual.norm, twin.norm3)
    if theirs.norm is not None:
        yield from linear_twins(ours.norm, theirs.norm)


def torch_layer(kind: type[nn.Module], shape: ModelConfig) -> nn.Module:
    return kind(
        WIDTH,
        HEADS,
        INNER,
        dropout=0.0,
        activation=shape.activation,
        layer_norm_eps=shape.layer_norm_eps,
        batch_first=True,
        norm_first=shape.norm == "pre",
    )


def final_norm(shape: ModelConfig) -> nn.LayerNorm | None:
    return nn.LayerNorm(WIDTH, shape.layer_norm_eps) if shape.norm == "pre" else None


def torch_encoder(shape: ModelConfig) -> nn.TransformerEncoder:
    layer = torch_layer(nn.TransformerEncoderLayer, shape)
    norm = final_norm(shape)
    return nn.TransformerEncoder(layer, shape.encoder_layers, norm, enable_nested_tensor=False).double()


def torch_decoder(shape: ModelConfig) -> nn.TransformerDecoder:
    layer = torch_layer(nn.TransformerDecoderLayer, shape)
    return nn.TransformerDecoder(layer, shape.decoder_layers, final_norm(shape)).double()


def copy(twins: list[Twin], theirs: nn.Module) -> None:
    """Give torch's module our weights; what we do not have (biases of attention) is zero there."""
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.zero_()
        for twin in twins:
            twin.theirs[twin.their_rows] = twin.ours[twin.rows]


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() < 1e-9 * (1 + theirs.abs().max())


def assert_same_gradients(module: nn.Module, twins: list[Twin], ours: Tensor, theirs: Tensor) -> None:
    """Of every weight of `module`, each element once."""
    upstream = random(*ours.shape, seed=9)
    ours.backward(upstream)
    theirs.backward(upstream)
    compared = 0
    for twin in twins:
        gradient = twin.ours.grad[twin.rows]
        assert_close(gradient, twin.theirs.grad[twin.their_rows])
        assert gradient.any()
        compared += gradient.numel()
    assert compared == sum(parameter.numel() for parameter in module.parameters() if parameter.grad is not None)


VARIANTS = [
    {"norm": norm, "activation": activation, "attention_bias": bias}
    for norm in ("post", "pre")
    for activation in ("relu", "gelu")
    for bias in (True, False)
] + [{"layer_norm_eps": 0.1}]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_encoder_is_torchs(changes: dict[str, object], layers: int) -> None:
    shape = config(encoder_layers=layers, **changes)
    ours, theirs = randomized(Encoder(shape)), torch_encoder(shape)
    twins = list(encoder_twins(ours, theirs))
    copy(twins, theirs)
    x, y = (random(BATCH, SOURCE, WIDTH).requires_grad_() for _ in range(2))
    out = ours(x, present()[:, None, None, :], noise=None, record=None)
    expected = theirs(y, src_key_padding_mask=~present())
    assert_close(out, expected)
    assert_same_gradients(ours, twins, out, expected)
    assert_close(x.grad, y.grad)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_decoder_is_torchs(changes: dict[str, object], layers: int) -> None:
    shape = config(decoder_layers=layers, **changes)
    ours, theirs = randomized(Decoder(shape)), torch_decoder(shape)
    twins = list(decoder_twins(ours, theirs))
    copy(twins, theirs)
    x, y = (random(BATCH, TARGET, WIDTH).requires_grad_() for _ in range(2))
    memory, twin_memory = (random(BATCH, SOURCE, WIDTH, seed=2).requires_grad_() for _ in range(2))
    mask = present()[:, None, None, :]
    out = ours(x, ours.project(memory), mask, cache=None, noise=None, record=None)
    future = ~causal_mask(TARGET, TARGET, x.device)
    expected = theirs(y, twin_memory, tgt_mask=future, memory_key_padding_mask=~present())
    assert_close(out, expected)
    assert_same_gradients(ours, twins, out, expected)
    assert_close(x.grad, y.grad)
    assert_close(memory.grad, twin_memory.grad)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_single_layers_are_torchs(changes: dict[str, object]) -> None:
    shape = config(encoder_layers=1, decoder_layers=1, **changes)
    encoder, torchs_encoder = randomized(Encoder(shape)), torch_encoder(shape)
    decoder, torchs_decoder = randomized(Decoder(shape), seed=3), torch_decoder(shape)
    copy(list(encoder_twins(encoder, torchs_encoder)), torchs_encoder)
    copy(list(decoder_twins(decoder, torchs_decoder)), torchs_decoder)
    x, y, mask = random(BATCH, SOURCE, WIDTH), random(BATCH, TARGET, WIDTH, seed=2), present()[:, None, None, :]
    assert_close(
        encoder.layers[0](x, mask, noise=None, record=None),
        torchs_encoder.layers[0](x, src_key_padding_mask=~present()),
    )
    past = causal_mask(TARGET, TARGET, x.device)
    assert_close(
        decoder.layers[0](y, past, decoder.project(x)[0], mask, cache=None, noise=None, record=None),
        torchs_decoder.layers[0](y, x, tgt_mask=~past, memory_key_padding_mask=~present()),
    )


@pytest.mark.parametrize(
    ("name", "activation"),
    [
        ("relu", lambda x: x.clamp(min=0)),
        ("gelu", lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2),
        ("silu", lambda x: x / (1 + torch.exp(-x))),
    ],
)
def test_the_feed_forward_network_is_equation_2(name: str, activation: Callable[[Tensor], Tensor]) -> None:
    network, x = randomized(FeedForward(config(activation=name))), random(BATCH, TARGET, WIDTH)
    inner = activation(x @ network.inner.weight.T + network.inner.bias)
    assert_close(network(x, None), inner @ network.outer.weight.T + network.outer.bias)


def plain_embedding(weight: Tensor, tokens: Tensor) -> Tensor:
    positions = [
        [(math.sin, math.cos)[d % 2](p / 10000 ** ((d - d % 2) / WIDTH)) for d in range(WIDTH)]
        for p in range(tokens.size(1))
    ]
    return weight[tokens] * math.sqrt(WIDTH) + torch.tensor(positions, dtype=torch.float64)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("tying", ["three-way", "target", "none"])
@pytest.mark.parametrize("bias", [True, False])
def test_the_whole_model_is_torchs_between_embeddings_and_a_projection(norm: str, tying: str, bias: bool) -> None:
    shape = config(norm=norm, tying=tying, output_bias=bias)
    model = randomized(Transformer(shape, VOCABULARY, VOCABULARY))
    encoder, decoder = torch_encoder(shape), torch_decoder(shape)
    twins = [*encoder_twins(model.encoder, encoder), *decoder_twins(model.decoder, decoder)]
    copy([twin for twin in twins if any(twin.theirs is p for p in encoder.parameters())], encoder)
    copy([twin for twin in twins if any(twin.theirs is p for p in decoder.parameters())], decoder)
    source, target = ids(BATCH, SOURCE) * present(), ids(BATCH, TARGET, seed=2)
    memory = encoder(plain_embedding(model.source_embedding.tokens.weight, source), src_key_padding_mask=~present())
    hidden = decoder(
        plain_embedding(model.target_embedding.tokens.weight, target),
        memory,
        tgt_mask=~causal_mask(TARGET, TARGET, source.device),
        memory_key_padding_mask=~present(),
    )
    projection = model.projection.weight if tying == "none" else model.target_embedding.tokens.weight
    expected = F.linear(hidden, projection, model.projection.bias)
    logits = model.logits(model(source, target))
    assert_close(logits, expected)
    outer = [p for name, p in model.named_parameters() if not name.startswith(("encoder.", "decoder."))]
    upstream = random(*logits.shape, seed=9)
    for ours, theirs in zip(
        torch.autograd.grad(logits, outer, upstream), torch.autograd.grad(expected, outer, upstream), strict=True
    ):
        assert_close(ours, theirs)


# What no output may depend on.

SHAPES = [
    {},
    {"norm": "pre", "positions": "learned", "max_positions": 16},
    {"window": 3},
    {"window": 4, "attention": "additive"},
    {"attention": "unscaled", "d_k": 3, "d_v": 5},
]


@pytest.mark.parametrize("changes", SHAPES, ids=str)
@pytest.mark.parametrize("changed", range(TARGET))
def test_no_output_depends_on_a_later_target_token(changes: dict[str, object], changed: int) -> None:
    model = randomized(Transformer(config(**changes), VOCABULARY, VOCABULARY))
    source, target = ids(BATCH, SOURCE), ids(BATCH, TARGET, seed=2)
    other = target.clone()
    other[:, changed] = 4 + (other[:, changed] - 3) % (VOCABULARY - 4)
    before, after = model(source, target), model(source, other)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert not torch.allclose(before[:, changed], after[:, changed])


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_padding_changes_no_real_position(changes: dict[str, object]) -> None:
    model = randomized(Transformer(config(**changes), VOCABULARY, VOCABULARY))
    source, target = ids(BATCH, SOURCE), ids(BATCH, TARGET, seed=2)
    memory, hidden = model.encode(source)[0], model(source, target)
    for columns in (1, 2, 5):
        longer_source, longer_target = F.pad(source, (0, columns)), F.pad(target, (0, columns))
        assert_close(model.encode(longer_source)[0][:, :SOURCE], memory)
        assert_close(model(longer_source, longer_target)[:, :TARGET], hidden)


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_a_sentence_does_not_see_the_others_of_its_batch(changes: dict[str, object]) -> None:
    model = randomized(Transformer(config(**changes), VOCABULARY, VOCABULARY))
    source, target = ids(3, SOURCE), ids(3, TARGET, seed=2)
    source[1, 4:] = 0
    together = model(source, target)
    for row, length in enumerate([SOURCE, 4, SOURCE]):
        assert_close(together[row : row + 1], model(source[row : row + 1, :length], target[row : row + 1]))
    assert_close(model(source.flip(0), target.flip(0)), together.flip(0))


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
@settings(max_examples=30)
def test_the_source_mask_is_true_where_there_is_a_token(lengths: list[int]) -> None:
    source = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in enumerate(lengths):
        source[row, :length] = 5
    mask = source_mask(source)
    if len(set(lengths)) == 1:
        assert mask is None
    else:
        assert mask.shape == (len(lengths), 1, 1, max(lengths))
        assert mask.sum(dim=-1).flatten().tolist() == lengths


# Weights: which are one, how many, and how they start.


def storages(model: Transformer) -> list[int]:
    weights = (model.source_embedding.tokens.weight, model.target_embedding.tokens.weight, model.projection.weight)
    return [weight.untyped_storage().data_ptr() for weight in weights]


def test_tying_shares_what_it_says_and_nothing_more() -> None:
    sizes = {}
    for tying in ("three-way", "target", "none"):
        model = Transformer(config(tying=tying), VOCABULARY, VOCABULARY)
        source, target, projection = storages(model)
        assert (source == target, target == projection) == {
            "three-way": (True, True),
            "target": (False, True),
            "none": (False, False),
        }[tying]
        sizes[tying] = model.num_parameters()
    assert sizes["target"] - sizes["three-way"] == sizes["none"] - sizes["target"] == VOCABULARY * WIDTH


def test_two_vocabularies_may_differ_unless_they_are_one() -> None:
    for tying in ("target", "none"):
        model = Transformer(config(tying=tying), 30, VOCABULARY)
        assert model.logits(model(torch.tensor([[29, 2]]), torch.tensor([[1]]))).shape == (1, 1, VOCABULARY)
    with pytest.raises(AssertionError, match="one vocabulary"):
        Transformer(config(), 30, VOCABULARY)


def test_tied_weights_stay_tied_when_training_moves_them() -> None:
    model = Transformer(config(), VOCABULARY, VOCABULARY)
    before = model.projection.weight.detach().clone()
    model.logits(model(ids(BATCH, SOURCE), ids(BATCH, TARGET))).square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert not torch.equal(model.projection.weight, before)
    assert len(set(storages(model))) == 1


@pytest.mark.parametrize("tying", ["three-way", "none"])
def test_matrices_start_as_xavier_says_block_by_block(tying: str) -> None:
    torch.manual_seed(0)
    shape = ModelConfig(
        encoder_layers=1, decoder_layers=2, d_model=64, d_ff=96, num_heads=4, d_k=12, d_v=20, tying=tying
    )
    model = Transformer(shape, 500, 500)
    counts = {"qkv.weight": 3, "decoder.memory.weight": 4}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1 or "tokens" in name or name == "projection.weight":
            continue
        blocks = model.blocks(name, parameter)
        assert len(blocks) == next((count for end, count in counts.items() if name.endswith(end)), 1)
        assert torch.equal(torch.cat(blocks), parameter)
        for block in blocks:
            rows, columns = block.shape
            attends = name.endswith(("qkv.weight", "query.weight", "decoder.memory.weight"))
            bound = math.sqrt((3 if attends else 6) / (rows + columns))
            assert block.abs().max() <= bound
            assert block.abs().max() > 0.98 * bound
            assert block.std() == pytest.approx(bound / math.sqrt(3), rel=0.06)
            assert abs(block.mean()) < 4 * bound / math.sqrt(3 * block.numel())


def test_the_blocks_of_fused_weights_are_the_projections_of_the_paper() -> None:
    shape = config(d_k=3, d_v=5)
    model = Transformer(shape, VOCABULARY, VOCABULARY)
    keys, values = HEADS * 3, HEADS * 5
    blocks = model.blocks(
        "encoder.layers.0.self_attention.qkv.weight", model.encoder.layers[0].self_attention.qkv.weight
    )
    assert [block.shape for block in blocks] == [(keys, WIDTH), (keys, WIDTH), (values, WIDTH)]
    blocks = model.blocks("decoder.memory.weight", model.decoder.memory.weight)
    assert [block.shape for block in blocks] == [(keys, WIDTH), (values, WIDTH)] * 3


@pytest.mark.parametrize("tying", ["three-way", "target", "none"])
def test_embeddings_start_normal_so_that_scaled_ones_have_variance_1(tying: str) -> None:
    torch.manual_seed(0)
    shape = config(tying=tying, d_model=64, positions="learned", max_positions=500)
    model = Transformer(shape, 500, 500)
    tables = [e.tokens.weight for e in (model.source_embedding, model.target_embedding)]
    tables += [e.positions.weight for e in (model.source_embedding, model.target_embedding)]
    for table in (weight.detach() for weight in [*tables, model.projection.weight]):
        assert table.std() == pytest.approx(64**-0.5, rel=4 / math.sqrt(2 * table.numel()))
        assert abs(table.mean()) < 4 * 64**-0.5 / math.sqrt(table.numel())
    assert (tables[0].detach() * model.source_embedding.scale).var() == pytest.approx(1, rel=0.05)


def test_norms_start_as_the_identity_and_biases_at_zero() -> None:
    model = Transformer(config(norm="pre", attention_bias=True, output_bias=True), VOCABULARY, VOCABULARY)
    vectors = {name: p for name, p in model.named_parameters() if p.dim() == 1}
    for name, vector in vectors.items():
        assert (vector == (1 if name.endswith("norm.weight") else 0)).all()
    assert sum(name.endswith("norm.weight") for name in vectors) == 2 * 2 + 3 * 3 + 2
    assert sum(name.endswith(("qkv.bias", "query.bias", "memory.bias", "projection.bias")) for name in vectors) == 10


def test_a_shape_has_the_model_s_names_and_sizes_but_no_numbers() -> None:
    real, shape = Transformer(config(), VOCABULARY, VOCABULARY), shape_only(config(), VOCABULARY, VOCABULARY)
    assert {n: p.shape for n, p in real.named_parameters()} == {n: p.shape for n, p in shape.named_parameters()}
    assert all(parameter.is_meta for parameter in shape.parameters())
    assert real.num_parameters() == shape.num_parameters()


def test_the_same_seed_starts_the_same_model() -> None:
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(torch.cat([p.flatten() for p in Transformer(config(), VOCABULARY, VOCABULARY).parameters()]))
    assert torch.equal(models[0], models[1])
    assert not torch.equal(models[0], models[2])
