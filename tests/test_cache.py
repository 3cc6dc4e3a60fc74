from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from random_weights import randomized
from transduce.config import ModelConfig
from transduce.model import AttentionRecord, Cache, Transformer

BATCH, BEAM, SOURCE, TARGET, VOCABULARY = 3, 2, 6, 9, 20
SHAPES = [
    {},
    {"norm": "pre", "positions": "learned", "max_positions": 16},
    {"window": 1},
    {"window": 3},
    {"window": 6, "attention": "additive"},
    {"attention": "unscaled", "d_k": 3, "d_v": 5, "attention_bias": True},
]
every_shape = pytest.mark.parametrize("changes", SHAPES, ids=str)


def make_model(changes: dict[str, object]) -> Transformer:
    shape = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2}
    model = Transformer(ModelConfig.model_validate({**shape, **changes}), VOCABULARY, VOCABULARY)
    return randomized(model).requires_grad_(False)


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(4, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def sources() -> Tensor:
    source = ids(BATCH, SOURCE)
    source[1, 4:] = 0
    source[2, 2:] = 0
    return source


def decode_in_steps(model: Transformer, source: Tensor, target: Tensor, steps: list[int]) -> Tensor:
    memory, may_attend = model.encode(source)
    cache = model.start(memory)
    parts = [model.decode(part, None, may_attend, cache=cache) for part in target.split(steps, dim=1)]
    assert cache.length == target.size(1)
    return torch.cat(parts, dim=1)


def assert_close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() < 1e-9 * (1 + theirs.abs().max())


@every_shape
def test_a_token_at_a_time_gives_what_all_at_once_gives(changes: dict[str, object]) -> None:
    model, source, target = make_model(changes), sources(), ids(BATCH, TARGET, seed=2)
    assert_close(decode_in_steps(model, source, target, [1] * TARGET), model(source, target))


@every_shape
@given(cuts=st.sets(st.integers(1, TARGET - 1)))
@settings(max_examples=25)
def test_any_number_of_tokens_may_come_at_once(changes: dict[str, object], cuts: set[int]) -> None:
    model, source, target = make_model(changes), sources(), ids(BATCH, TARGET, seed=2)
    ends = [0, *sorted(cuts), TARGET]
    steps = [stop - start for start, stop in itertools.pairwise(ends)]
    assert_close(decode_in_steps(model, source, target, steps), model(source, target))


@every_shape
@pytest.mark.parametrize("steps", [[TARGET], [1] * TARGET, [2, 3, 4]], ids=str)
def test_beams_share_the_memory_of_their_sentence(changes: dict[str, object], steps: list[int]) -> None:
    model, source, target = make_model(changes), sources(), ids(BATCH * BEAM, TARGET, seed=2)
    copied = model(source.repeat_interleave(BEAM, dim=0), target)
    assert_close(decode_in_steps(model, source, target, steps), copied)
    memory, may_attend = model.encode(source)
    assert_close(model.decode(target, memory, may_attend), copied)


@every_shape
def test_reordered_rows_go_on_from_where_they_came(changes: dict[str, object]) -> None:
    model, source, target = make_model(changes), sources(), ids(BATCH * BEAM, TARGET, seed=2)
    memory, may_attend = model.encode(source)
    cache = model.start(memory)
    for position in range(4):
        model.decode(target[:, position : position + 1], None, may_attend, cache=cache)
    rows = torch.tensor([1, 0, 2, 2, 5, 4])  # each within its sentence
    cache.reorder(rows)
    mixed = torch.cat([target[rows, :4], target[:, 4:]], dim=1)
    continued = torch.cat(
        [model.decode(mixed[:, p : p + 1], None, may_attend, cache=cache) for p in range(4, TARGET)], dim=1
    )
    expected = model(source.repeat_interleave(BEAM, dim=0), mixed)
    assert_close(continued, expected[:, 4:])


@every_shape
def test_sentences_may_leave(changes: dict[str, object]) -> None:
    model, source, target = make_model(changes), sources(), ids(BATCH * BEAM, TARGET, seed=2)
    memory, may_attend = model.encode(source)
    cache = model.start(memory)
    model.decode(target[:, :4], None, may_attend, cache=cache)
    sentences, rows = torch.tensor([0, 2]), torch.tensor([0, 1, 5, 4])
    cache.keep(sentences)
    cache.reorder(rows)
    continued = model.decode(target[rows, 4:], None, may_attend[sentences], cache=cache)
    expected = model(source.repeat_interleave(BEAM, dim=0), target)[rows]
    assert_close(continued, expected[:, 4:])


@every_shape
def test_recorded_steps_are_the_rows_of_the_whole(changes: dict[str, object]) -> None:
    model, source, target = make_model(changes), sources(), ids(BATCH, TARGET, seed=2)
    whole, stepwise = AttentionRecord(), AttentionRecord()
    model(source, target, record=whole)
    memory, may_attend = model.encode(source)
    cache = model.start(memory)
    for position in range(TARGET):
        model.decode(target[:, position : position + 1], None, may_attend, cache=cache, record=stepwise)
    layers = model.config.decoder_layers
    for position in range(TARGET):
        for layer in range(layers):
            place = position * layers + layer
            row = whole.decoder[layer][:, :, position : position + 1, : position + 1]
            assert_close(stepwise.decoder[place], row)
            assert_close(stepwise.cross[place], whole.cross[layer][:, :, position : position + 1])


def test_the_memory_is_projected_once_and_needed_no_more() -> None:
    model, source, target = make_model({}), sources(), ids(BATCH, TARGET, seed=2)
    memory, may_attend = model.encode(source)
    projections = []
    model.decoder.memory.register_forward_hook(lambda *_: projections.append(1))
    cache = model.start(memory)
    for position in range(TARGET):
        model.decode(target[:, position : position + 1], None, may_attend, cache=cache)
    assert len(projections) == 1
    with pytest.raises(AssertionError, match="a memory or a cache"):
        model.decode(target, None, may_attend)


def test_caches_of_two_requests_do_not_meet() -> None:
    model, source, target = make_model({}), sources(), ids(2 * BATCH, TARGET, seed=2).view(2, BATCH, TARGET)
    memory, may_attend = model.encode(source)
    caches = [model.start(memory), model.start(memory)]
    parts: list[list[Tensor]] = [[], []]
    for position in range(TARGET):
        for request in (0, 1):
            step = target[request][:, position : position + 1]
            parts[request].append(model.decode(step, None, may_attend, cache=caches[request]))
    for request in (0, 1):
        assert_close(torch.cat(parts[request], dim=1), model(source, target[request]))


def test_a_cache_counts_appends_and_reorders() -> None:
    keys, values = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 5)
    cache = Cache([(keys, values), (keys, values)])
    assert cache.length == 0
    cache.reorder(torch.tensor([0]))
    assert cache.past == [None, None]
    for layer in (0, 1):
        assert cache.extend(layer, keys[:, :, :2], values[:, :, :2])[0].size(2) == 2
    assert cache.length == 2
    for layer in (0, 1):
        all_keys, all_values = cache.extend(layer, keys[:, :, 2:], values[:, :, 2:])
        assert torch.equal(all_keys, keys)
        assert torch.equal(all_values, values)
    assert cache.length == 3
    cache.reorder(torch.tensor([1, 1, 0]))
    assert torch.equal(cache.past[1][0], keys[[1, 1, 0]])
    assert torch.equal(cache.past[0][1], values[[1, 1, 0]])
    cache.keep(torch.tensor([1]))
    assert torch.equal(cache.memory[0][0], keys[[1]])
    assert torch.equal(cache.memory[1][1], values[[1]])
