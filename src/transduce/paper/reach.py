"""How far attention looks and how sharply, by layer and head: of a trained model, over some sentences.

S source tokens, T target tokens, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from transduce.decode.torch_engine import pad, shift_right
from transduce.decode.translator import Translator
from transduce.explain.drawing import PALETTE
from transduce.explain.even import even_weights
from transduce.explain.plot import plot_svg
from transduce.model import AttentionRecord
from transduce.paper.corpora import Pairs
from transduce.paper.result import Picture, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STACKS = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "encoder-decoder"}


def reach(translator: Translator, pairs: Pairs) -> dict[str, Any]:
    """By stack: mean distance and entropy (layers x heads, means over all queries) and those of even attention."""
    sums: dict[str, list[Tensor]] = {}
    queries = dict.fromkeys(STACKS, 0)
    for source, target in pairs:
        for stack, layers in _record(translator, source, target).items():
            weights = torch.stack([layer[0] for layer in layers])  # layers, H, queries, keys
            found = torch.stack([distance(weights), entropy(weights)]).sum(dim=-1)
            even = torch.from_numpy(even_weights(*weights.shape[-2:], causal=stack == "decoder")).to(weights)
            baseline = torch.stack([distance(even), entropy(even)]).sum(dim=-1)
            queries[stack] += weights.size(-2)
            before = sums.get(stack, [torch.zeros(()), torch.zeros(())])
            sums[stack] = [before[0] + found, before[1] + baseline]
    return {
        stack: {
            "distance": (found[0] / queries[stack]).tolist(),
            "entropy": (found[1] / queries[stack]).tolist(),
            "even": (even / queries[stack]).tolist(),
        }
        for stack, (found, even) in sums.items()
    }


def distance(weights: Tensor) -> Tensor:
    """How many positions away a query looks, in the mean over its weights: (..., T, S) -> (..., T)."""
    queries, keys = (torch.arange(size, dtype=weights.dtype) for size in weights.shape[-2:])
    return (weights * (queries[:, None] - keys).abs()).sum(dim=-1)


def entropy(weights: Tensor) -> Tensor:
    """In bits: 0 for a query that looks at one key, log2 n for one that looks at n keys evenly."""
    bits: Tensor = -torch.special.xlogy(weights, weights).sum(dim=-1) / math.log(2)
    return bits


@torch.inference_mode()
def _record(translator: Translator, source: str, target: str) -> dict[str, list[Tensor]]:
    record = AttentionRecord()
    expected = pad([translator.target_codec.encode(target)])
    translator.reference.model(pad([translator.source_codec.encode(source)]), shift_right(expected), record=record)
    return {"encoder": record.encoder, "decoder": record.decoder, "cross": record.cross}


def reach_parts(found: dict[str, Any], sentences: int) -> list[str | Table | Picture]:
    """Distance and entropy by layer, as a picture with a dot for every head and a table of their means."""
    rows = []
    for stack, numbers in found.items():
        even_distance, even_entropy = numbers["even"]
        for layer, (distances, entropies) in enumerate(zip(numbers["distance"], numbers["entropy"], strict=True), 1):
            far = ["", ""] if stack == "cross" else [_range(distances), f"{even_distance:.2f}"]
            rows.append([STACKS[stack], str(layer), *far, _range(entropies), f"{even_entropy:.2f}"])
    text = (
        f"Of the whole model above, over {sentences} validation sentences: how many positions away a head looks in the "
        "mean, and the entropy of its weights in bits (0: one key; log2 n: n keys evenly). A cell is the mean over "
        "heads and, in brackets, the least and the most of a head; the picture has a dot for each head, and a dotted "
        "line where attention would be even. The paper prints no such numbers; it says that "
        'heads "clearly learn to perform different tasks" (section 4), which would show as a range within a layer.'
    )
    heading = ["attention", "layer", "distance", "of even attention", "entropy", "of even attention"]
    return [
        "## How far and how sharply does attention look?",
        text,
        _picture(found),
        Table("reach", heading, rows),
    ]


def _range(heads: Sequence[float]) -> str:
    return f"{fmean(heads):.2f} ({min(heads):.2f} - {max(heads):.2f})"


def _picture(found: dict[str, Any]) -> Picture:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(8, 3.4)
        left, right = figure.subplots(1, 2)
        for place, (stack, numbers) in enumerate(found.items()):
            shift = 0.15 * (place - 1)
            for axes, what, even in ((left, "distance", 0), (right, "entropy", 1)):
                if stack == "cross" and what == "distance":
                    continue
                layers = numbers[what]
                xs = [layer + shift for layer, heads in enumerate(layers, 1) for _ in heads]
                axes.scatter(
                    xs, [v for heads in layers for v in heads], s=18, color=PALETTE[place], label=STACKS[stack]
                )
                axes.axhline(numbers["even"][even], color=PALETTE[place], linestyle=":", linewidth=1)
                axes.set_xticks(range(1, len(layers) + 1))
                axes.set_xlim(0.5, len(layers) + 0.5)
        for axes in (left, right):
            axes.set_xlabel("layer")
            axes.set_ylim(bottom=0)
        left.set_title("mean distance, in tokens")
        right.set_title("entropy, in bits")
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)

    alt = "Dots: distance and entropy of every attention head by layer; dotted lines: attention that is even"
    return Picture("reach", alt, plot_svg(fill))
