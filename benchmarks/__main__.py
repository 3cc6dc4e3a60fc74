"""`make bench`: writes docs/performance.md."""

from __future__ import annotations

import platform
import sys
from datetime import date
from pathlib import Path

import torch

from benchmarks.contenders import Transduce, torch_nn
from benchmarks.corpus import workload
from benchmarks.training import Speed, flops_per_target_token, race, sgemm
from transduce.config import ModelConfig
from transduce.train.allocator import keep_freed_memory

TINY = ModelConfig(
    encoder_layers=4,
    decoder_layers=4,
    d_model=128,
    d_ff=256,
    num_heads=4,
    dropout=0.3,
    attention_dropout=0.3,
    relu_dropout=0.3,
)
BASE3 = ModelConfig(encoder_layers=3, decoder_layers=3, attention_dropout=0.1, relu_dropout=0.1)
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"

HEAD = """# Performance

Made by `make bench` on {date}: {machine}, {threads} threads, torch {torch}. Contenders take turns on the same batches
in one run; medians of {rounds} rounds with their range. The machine is shared and noisy: read ratios, and take those
under 1.1 for ties.

## Training

{name}, joint vocabulary of {vocabulary:,}, at most {tokens:,} tokens a side in a batch, dropout at the places where
torch.nn.Transformer has it (residuals, embeddings, attention weights, inside the FFN), one Adam update a batch. MFU:
useful FLOPs (padding not counted) over the best 2048^3 matrix product of the same run, {sgemm:.0f} GFLOP/s. tiny is
d_model 128, d_ff 256, 4 heads, 4+4 layers; base3 is 512, 2048, 8 heads, 3+3 layers.

| shape | loop | target tokens/s | range | ratio | MFU |
|---|---|---:|---|---:|---:|
"""


def rows(shape: str, speeds: list[Speed], flops: float, peak: float) -> str:
    """Table rows, the last contender being the one to compare with."""
    base = speeds[-1].median
    lines = [
        f"| {shape} | {s.name} | {s.median:,.0f} | {min(s.rounds):,.0f} - {max(s.rounds):,.0f} | "
        f"{s.median / base:.2f} | {s.median * flops / peak:.0%} |"
        for s in speeds
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    keep_freed_memory()
    rounds, tokens = 7, 3000
    work = workload(vocabulary=10_000, tokens=tokens, batches=60)
    peak = sgemm()
    table = ""
    for shape, config, updates in (("tiny", TINY, 6), ("base3", BASE3, 2)):
        contenders = [Transduce(config, work.vocabulary), torch_nn(config, work.vocabulary)]
        speeds = race(contenders, work, rounds=rounds, updates=updates)
        peak = max(peak, sgemm())
        table += rows(shape, speeds, flops_per_target_token(config, work), peak)
        print(table, file=sys.stderr)
    head = HEAD.format(
        date=date.today(),
        machine=f"{platform.machine()}, {platform.system()}",
        threads=torch.get_num_threads(),
        torch=torch.__version__.partition("+")[0],
        rounds=rounds,
        name=work.name,
        vocabulary=work.vocabulary,
        tokens=tokens,
        sgemm=peak / 1e9,
    )
    notes = PAGE.read_text(encoding="utf-8").partition("\n## Where the speed comes from")
    PAGE.write_text(head + table + notes[1] + notes[2], encoding="utf-8")


main()
