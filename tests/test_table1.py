"""Table 1: the layers are what they are called, costs and paths are counted right, times are kept."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from transduce.paper.cost import exponent, fewest_seconds, operations, saved_bytes, seconds
from transduce.paper.layer_types import (
    LAYER_TYPES,
    AttentionFunction,
    Convolution,
    Projected,
    Recurrent,
    Restricted,
    Separable,
    WrittenOut,
    usual_size,
)
from transduce.paper.paths import DISTANCES, KERNEL, NEIGHBOURHOOD, layers_needed, longest_chain, steps_needed
from transduce.paper.result import Picture, Table
from transduce.paper.table1 import Sizes, crossing, make_sweeps, study_table1
from transduce.train.progress import Listener

SMALL = Sizes((4, 8, 16), 8, (8, 16, 32), 8, (3, 5, 9), (4, 8, 16), rounds=2, chains=(4, 8), paths=(8, 32))


def sequence(n: int, d: int) -> torch.Tensor:
    return torch.randn(1, n, d, generator=torch.Generator().manual_seed(n))


def test_every_layer_gives_as_many_vectors_as_it_takes() -> None:
    for layer in LAYER_TYPES:
        for n in (1, 7, 100):
            assert layer.make(64, usual_size(layer))(sequence(n, 64)).shape == (1, n, 64), layer.name


def test_attention_is_the_same_function_fused_written_out_and_in_one_neighbourhood() -> None:
    x = sequence(9, 128)
    expected = WrittenOut(128)(x)
    assert torch.allclose(AttentionFunction(128)(x), expected, atol=1e-5)
    assert torch.allclose(Restricted(128, 100)(x), expected, atol=1e-5)
    assert not torch.allclose(Restricted(128, 4)(x), expected, atol=1e-2)


def test_a_convolution_looks_back_as_far_as_it_should() -> None:
    layer, x = Convolution(1, 3, 2), torch.arange(1.0, 8.0).view(1, 7, 1)
    with torch.no_grad():
        layer.convolution.weight.copy_(torch.tensor([[[100.0, 10.0, 1.0]]]))
        layer.convolution.bias.zero_()  # type: ignore[union-attr]
        assert layer(x).flatten().tolist() == [1, 2, 13, 24, 135, 246, 357]


@pytest.mark.parametrize("n", [32, 128])
@pytest.mark.parametrize("d", [64, 128])
def test_operations_are_those_of_the_formulas(n: int, d: int) -> None:
    x = sequence(n, d)
    assert operations(AttentionFunction(d), x) == operations(WrittenOut(d), x) == 4 * n * n * d
    assert operations(Projected(d), x) == 4 * n * n * d + 8 * n * d * d
    assert operations(Recurrent(nn.LSTM, d), x) == 16 * n * d * d
    assert operations(Recurrent(nn.GRU, d), x) == 12 * n * d * d
    for kernel in (3, 5):
        assert (
            operations(Convolution(d, kernel), x) == operations(Convolution(d, kernel, 2), x) == 2 * kernel * n * d * d
        )
        assert operations(Separable(d, kernel), x) == 2 * kernel * n * d + 2 * n * d * d
    assert operations(Restricted(d, 16), x) == 4 * n * d * 24  # 8 queries meet 3 blocks of 8 keys


def test_written_out_attention_keeps_the_weights_and_fused_attention_does_not() -> None:
    small, large = (saved_bytes(WrittenOut(64), sequence(n, 64)) for n in (256, 512))
    assert large > 512 * 512 * 4
    assert large > 3 * small
    fused = [saved_bytes(AttentionFunction(64), sequence(n, 64)) for n in (256, 512)]
    assert fused[1] <= 2 * fused[0]
    assert fused[1] < 512 * 512 * 4


def test_weights_are_no_activations() -> None:
    layer, x = nn.Linear(50, 70, bias=False), torch.randn(3, 50)
    assert saved_bytes(layer, x) == 4 * (3 * 50 + 3 * 70)  # what came in and what goes out


def test_counted_bytes_are_the_same_every_time() -> None:
    for layer in LAYER_TYPES:
        first, second = (saved_bytes(layer.make(64, usual_size(layer)), sequence(20, 64)) for _ in range(2))
        assert first == second >= 20 * 64 * 4, layer.name


def test_an_exponent_is_fitted_to_the_largest_sizes() -> None:
    assert exponent([1, 2, 4, 8], [7 * 2**1.5, 7 * 2**1.5, 7 * 4**1.5, 7 * 8**1.5]) == pytest.approx(1.5)


def test_only_recurrent_layers_have_chains_that_grow() -> None:
    for layer in LAYER_TYPES:
        chains = [longest_chain(layer.make(8, usual_size(layer)), sequence(n, 8)) for n in (8, 16, 24)]
        if layer.sequential == "O(n)":
            assert chains[1] - chains[0] == chains[2] - chains[1] >= 8, layer.name
        else:
            assert chains[0] == chains[1] == chains[2] > 0, layer.name


def test_a_chain_counts_operations() -> None:
    class Chain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ((x * 2).exp() + x).tanh()

    assert longest_chain(Chain(), torch.ones(3)) == 4


@pytest.mark.parametrize("n", [2, 9, 10, 27, 28, 100])
def test_path_lengths_are_those_of_the_geometry(n: int) -> None:
    found = {row.name.partition(", k =")[0].partition(", r =")[0]: row.measure(n) for row in DISTANCES}
    dilated = next(layers for layers in range(10) if KERNEL**layers >= n)
    assert found == {
        "self-attention": 1,
        "recurrent: LSTM": n,
        "recurrent: GRU": n,
        "convolutional": math.ceil((n - 1) / (KERNEL - 1)),
        "convolutional, dilated": dilated,
        "self-attention, restricted": math.ceil((n - 1) / (NEIGHBOURHOOD // 2)),
    }


def test_layers_that_never_connect_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="5 layers do not connect 5 positions"):
        layers_needed(lambda _: nn.Linear(8, 8), 5)


def test_the_steps_of_a_recurrent_layer_are_its_cell_at_every_position_n_times() -> None:
    cell = nn.GRUCell(8, 8)
    layer = nn.GRU(8, 8, batch_first=True)
    layer.load_state_dict({f"{name}_l0": weight for name, weight in cell.state_dict().items()})
    x, state = sequence(6, 8)[0], torch.zeros(6, 8)
    expected = layer(x[None])[0][0]
    for step in range(1, 7):
        state = cell(x, torch.cat([torch.zeros(1, 8), state[:-1]]))
        assert torch.allclose(state, expected, atol=1e-5) == (step == 6)
    assert steps_needed(cell, 6) == 6


class Heard(Listener):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_times_are_taken_in_turns_and_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    order: list[str] = []

    def cell(name: str, times: list[float]) -> float:
        if name == "b" and order.count("b") == 1 and "c" not in order:
            order.append("c")
            raise KeyboardInterrupt
        order.append(name)
        return times[order.count(name) - 1]

    cells = {"a": lambda: cell("a", [3.0, 1.0, 2.0]), "b": lambda: cell("b", [5.0, 7.0, 6.0])}
    path = tmp_path / "times.json"
    with pytest.raises(KeyboardInterrupt):
        fewest_seconds(path, cells, rounds=3, listener=Heard())
    assert json.loads(path.read_text(encoding="utf-8"))["times"] == {"a": [3.0, 1.0], "b": [5.0]}
    heard = Heard()
    assert fewest_seconds(path, cells, rounds=3, listener=heard) == {"a": 1.0, "b": 5.0}
    assert order == ["a", "b", "a", "c", "b", "a", "b"]
    assert heard.notes[0].startswith("times: round 2 of 3")
    del order[:]
    assert fewest_seconds(path, cells, rounds=3, listener=Heard()) == {"a": 1.0, "b": 5.0}
    assert order == []


def test_times_of_another_machine_are_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    assert fewest_seconds(path, {"a": lambda: 1.0}, rounds=1, listener=Listener()) == {"a": 1.0}
    saved = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**saved, "machine": {**saved["machine"], "processor": "another"}}), encoding="utf-8")
    assert fewest_seconds(path, {"a": lambda: 2.0}, rounds=1, listener=Listener()) == {"a": 2.0}


def test_a_pass_takes_time() -> None:
    assert seconds(AttentionFunction(64), sequence(8, 64)) > 0


def test_the_claim_of_section_4_is_judged_by_the_times() -> None:
    names = {cell.name: cell for sweep in make_sweeps(SMALL) for cell in sweep.cells}
    times = {name: cell.n * (cell.n if "attention" in name else 6) for name, cell in names.items()}
    text = crossing(SMALL, times)
    assert "self-attention was faster than an LSTM at 1 of 1 lengths below d; the last at which it is has n = 4" in text


def test_a_study_has_every_layer_beside_the_paper(tmp_path: Path) -> None:
    result = study_table1(SMALL, tmp_path / "times.json", Listener())
    tables = {part.name: part for part in result.parts if isinstance(part, Table)}
    growth = {row[0]: row[1:] for row in tables["table1-growth"].rows}
    assert set(growth) == {layer.name for layer in LAYER_TYPES}
    assert growth["self-attention"][:4] == ["O(n² · d)", "2, 1", "2.00", "1.00"]
    assert growth["recurrent: LSTM"][:4] == ["O(n · d²)", "1, 2", "1.00", "2.00"]
    assert [row[-1] for row in tables["table1-sequential"].rows if row[1] == "O(1)"] == [
        row[-2] for row in tables["table1-sequential"].rows if row[1] == "O(1)"
    ]
    assert ["recurrent: LSTM", "O(n)", "8 (8)", "32 (32)"] in [list(row) for row in tables["table1-path-lengths"].rows]
    assert [part.name for part in result.parts if isinstance(part, Picture)] == ["table1-cost", "table1-paths"]
    times = json.loads((tmp_path / "times.json").read_text(encoding="utf-8"))["times"]
    assert all(len(taken) == SMALL.rounds for taken in times.values())
