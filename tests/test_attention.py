from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from random_weights import random, randomized
from transduce.config import ModelConfig
from transduce.model import AttentionRecord, Noise, Transformer
from transduce.model.attention import (
    Compatibility,
    CrossAttention,
    SelfAttention,
    attention_weights,
    causal_mask,
    scaled_dot_product,
)

BATCH, TARGET, SOURCE, WIDTH, HEADS, KEY, VALUE = 2, 5, 7, 8, 3, 4, 6


def config(**changes: object) -> ModelConfig:
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": WIDTH, "d_ff": 12, "num_heads": HEADS}
    return ModelConfig.model_validate({**shape, "d_k": KEY, "d_v": VALUE, **changes})


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() < 1e-9


def scaled_score(query: Tensor, key: Tensor, _: Tensor | None) -> Tensor:
    return (query * key).sum() / math.sqrt(len(key))


def unscaled_score(query: Tensor, key: Tensor, _: Tensor | None) -> Tensor:
    return (query * key).sum()


def additive_score(query: Tensor, key: Tensor, hidden: Tensor | None) -> Tensor:
    assert hidden is not None
    return (hidden * torch.tanh(query + key)).sum()


Score = Callable[[Tensor, Tensor, Tensor | None], Tensor]
SCORES: dict[str, Score] = {"scaled": scaled_score, "unscaled": unscaled_score, "additive": additive_score}


def plain_attention(q: Tensor, k: Tensor, v: Tensor, visible: Tensor, score: Callable[..., Tensor]) -> Tensor:
    """One head of one sentence, a query at a time: TK, SK, SV -> TV."""
    rows = []
    for t in range(len(q)):
        seen = [s for s in range(len(k)) if visible[t, s]]
        weights = torch.stack([score(q[t], k[s]) for s in seen]).exp()
        rows.append(sum(w * v[s] for w, s in zip(weights / weights.sum(), seen, strict=True)))
    return torch.stack(rows)


def plain_multi_head(
    q: Tensor, k: Tensor, v: Tensor, visible: Tensor, name: str, compatibility: Compatibility
) -> Tensor:
    """Concat(head_1, ..., head_h), head by head and sentence by sentence."""
    sentences = []
    for b in range(len(q)):
        heads = []
        for h in range(HEADS):
            keys, values = slice(h * KEY, (h + 1) * KEY), slice(h * VALUE, (h + 1) * VALUE)
            hidden = None if compatibility.hidden is None else compatibility.hidden[h]
            heads.append(
                plain_attention(
                    q[b][:, keys],
                    k[b][:, keys],
                    v[b][:, values],
                    visible[b],
                    lambda query, key, hidden=hidden: SCORES[name](query, key, hidden),
                )
            )
        sentences.append(torch.cat(heads, dim=1))
    return torch.stack(sentences)


def assert_same_with_gradients(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> None:
    assert_close(ours, theirs)
    upstream = random(*ours.shape, seed=9)
    for mine, reference in zip(
        torch.autograd.grad(ours, leaves, upstream), torch.autograd.grad(theirs, leaves, upstream), strict=True
    ):
        assert_close(mine, reference)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_self_attention_is_a_loop_over_heads(name: str, bias: bool) -> None:
    attention = randomized(SelfAttention(config(attention=name, attention_bias=bias), causal=True))
    x = random(BATCH, TARGET, WIDTH).requires_grad_()
    projected = x @ attention.qkv.weight.T
    if bias:
        projected = projected + attention.qkv.bias
    q, k, v = projected.split([HEADS * KEY, HEADS * KEY, HEADS * VALUE], dim=-1)
    visible = torch.ones(BATCH, TARGET, TARGET).tril().bool()
    heads = plain_multi_head(q, k, v, visible, name, attention.compatibility)
    expected = F.linear(heads, attention.output.weight, attention.output.bias)
    ours = attention(x, causal_mask(TARGET, TARGET, x.device))
    assert_same_with_gradients(ours, expected, [x, *attention.parameters()])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", SCORES)
def test_attention_to_the_memory_is_a_loop_over_heads(name: str, bias: bool) -> None:
    attention = randomized(CrossAttention(config(attention=name, attention_bias=bias)))
    x = random(BATCH, TARGET, WIDTH).requires_grad_()
    k = random(BATCH, SOURCE, HEADS * KEY, seed=2).requires_grad_()
    v = random(BATCH, SOURCE, HEADS * VALUE, seed=3).requires_grad_()
    present = torch.ones(BATCH, SOURCE).bool()
    present[1, 4:] = False
    visible = present[:, None, :].expand(-1, TARGET, -1)
    q = F.linear(x, attention.query.weight, attention.query.bias)
    heads = plain_multi_head(q, k, v, visible, name, attention.compatibility)
    expected = F.linear(heads, attention.output.weight, attention.output.bias)
    memory = tuple(t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (k, v))
    ours = attention(x, memory, present[:, None, None, :])
    assert_same_with_gradients(ours, expected, [x, k, v, *attention.parameters()])


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("value", [KEY, VALUE])
def test_equation_1_is_what_torch_computes(value: int, masked: bool) -> None:
    q, k, v = (random(BATCH, HEADS, n, w, seed=n + w) for n, w in ((TARGET, KEY), (SOURCE, KEY), (SOURCE, value)))
    leaves = [t.requires_grad_() for t in (q, k, v)]
    mask = causal_mask(TARGET, SOURCE, q.device) if masked else None
    assert_same_with_gradients(
        scaled_dot_product(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, attn_mask=mask), leaves
    )
    assert_close(scaled_dot_product(q, k, v, mask), Compatibility(config())(q, k, v, mask))


@pytest.mark.parametrize("past", range(4))
def test_each_query_of_the_causal_mask_sees_itself_and_what_came_before(past: int) -> None:
    mask = causal_mask(TARGET, past + TARGET, torch.device("cpu"))
    for query in range(TARGET):
        assert mask[query].nonzero().flatten().tolist() == list(range(past + query + 1))


def test_weights_are_a_distribution_over_the_visible_keys_only() -> None:
    mask = causal_mask(TARGET, SOURCE, torch.device("cpu"))
    weights = attention_weights(100 * random(BATCH, HEADS, TARGET, SOURCE), mask)
    assert_close(weights.sum(dim=-1), torch.ones(BATCH, HEADS, TARGET, dtype=torch.float64))
    assert not weights[..., ~mask].any()


def sentences() -> tuple[Tensor, Tensor]:
    source = torch.randint(4, 20, (BATCH, SOURCE), generator=torch.Generator().manual_seed(5))
    source[1, 5:] = 0
    return source, torch.randint(4, 20, (BATCH, TARGET), generator=torch.Generator().manual_seed(6))


VARIANTS = [{}, {"attention": "unscaled"}, {"attention": "additive"}, {"window": 3}, {"norm": "pre"}]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_recording_changes_no_output_and_no_gradient(changes: dict[str, object]) -> None:
    model = randomized(Transformer(config(**changes), 20, 20))
    source, target = sentences()
    leaves = list(model.parameters())
    assert_same_with_gradients(model(source, target, record=AttentionRecord()), model(source, target), leaves)


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_recorded_rows_sum_to_one_and_never_see_padding_or_the_future(changes: dict[str, object]) -> None:
    model = randomized(Transformer(config(**changes), 20, 20))
    source, target = sentences()
    record = AttentionRecord()
    model(source, target, record=record)
    shapes = {"encoder": (SOURCE, SOURCE), "decoder": (TARGET, TARGET), "cross": (TARGET, SOURCE)}
    for name, shape in shapes.items():
        layers = getattr(record, name)
        assert [tuple(layer.shape) for layer in layers] == [(BATCH, HEADS, *shape)] * 2
        for layer in layers:
            assert not layer.requires_grad
            assert_close(layer.sum(dim=-1), torch.ones(layer.shape[:-1], dtype=torch.float64))
    assert all(not layer[1, :, :5, 5:].any() for layer in record.encoder + record.cross)
    assert all(not layer.triu(1).any() for layer in record.decoder)


def test_recorded_weights_are_those_that_made_the_output() -> None:
    compatibility = Compatibility(config())
    q, k, v = (random(BATCH, HEADS, n, w, seed=n + w) for n, w in ((TARGET, KEY), (SOURCE, KEY), (SOURCE, VALUE)))
    record: list[Tensor] = []
    attended = compatibility(q, k, v, None, record=record)
    assert_close(record[0] @ v, attended)
    assert_close(attended, scaled_dot_product(q, k, v))


def state(model: nn.Module) -> dict[tuple[str, str], object]:
    """Every attribute of every module, and what its containers hold."""
    found: dict[tuple[str, str], object] = {}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            found[name, attribute] = value
            if isinstance(value, dict):
                found |= {(name, f"{attribute}.{key}"): held for key, held in value.items()}
            if isinstance(value, list):
                found[name, f"{attribute} has"] = len(value)
    return found


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_forward_pass_leaves_nothing_on_the_modules(changes: dict[str, object]) -> None:
    model = Transformer(config(dropout=0.1, **changes), 20, 20)
    before = state(model)
    source, target = sentences()
    model(source, target, noise=Noise(1, 2), record=AttentionRecord())
    memory, may_attend = model.encode(source)
    model.decode(target, None, may_attend, cache=model.start(memory), record=AttentionRecord())
    after = state(model)
    assert before.keys() == after.keys()
    assert all(after[place] is value or after[place] == value for place, value in before.items())


def test_dropout_on_attention_drops_weights_not_values() -> None:
    compatibility = Compatibility(config(attention_dropout=0.5))
    compatibility.dropout.site = 3
    q, k, v = (random(BATCH, HEADS, n, w, seed=n + w) for n, w in ((TARGET, KEY), (SOURCE, KEY), (SOURCE, VALUE)))
    noise, record = Noise(1, 2), []
    dropped = compatibility(q, k, v, None, noise=noise, record=record)
    keep = noise.keep(3, record[0].shape, compatibility.dropout.threshold)
    assert_close(dropped, (record[0] * keep * 2) @ v)
    assert_close(compatibility(q, k, v, None), record[0] @ v)
