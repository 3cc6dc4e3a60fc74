"""The sections of docs/performance.md about the server and its page."""

from __future__ import annotations

import statistics

from benchmarks.markdown import spread, table, wrapped
from benchmarks.results import Frames, Load, Serving

SERVING = """## Serving

`transduce serve`, one sentence a request, beam 4, the cache off, clients that ask again as soon as they are answered.
The engine alone translates the same sentences, {lines}, in one call of `Translator.translate`; both take turns, and
medians of {rounds} rounds are shown. The client is `{client}`{note}, on the same cores: it takes its share of them.
tiny is the model of the tables above; base3 is not trained, and its outputs are all {length} tokens long.
"""

FRAMES = """## Frames of the page

Milliseconds from frame to frame while the pointer moves over the attention view, and while the slider moves, in
headless Chromium: a sentence of {tokens} tokens on both sides, {layers} layers of {heads} heads. Aimed at: a median of
33 ms, 95 of 100 within 66 ms.
"""


def serving(found: dict[str, Serving], length: int) -> str:
    """A row for each model and number of clients."""
    if not found:
        return ""
    first = next(iter(found.values()))
    text = SERVING.format(
        lines=" and ".join(f"{each.lines:,} for {name}" for name, each in found.items()),
        rounds=len(first.raw),
        client=first.client,
        note="" if first.client == "wrk" else " (`wrk` is not installed; this one, in Python, takes more)",
        length=length,
    )
    rows = [serving_row(name, each, loads) for name, each in found.items() for loads in each.loads.values()]
    heading = ["model", "clients", "requests/s", "range", "engine alone", "share of it", "p50, ms", "p99, ms"]
    heading += ["client's share of the cores", "errors"]
    return wrapped(text) + "\n" + table(heading, rows, numbers=(1, 2, *range(4, len(heading))))


def serving_row(name: str, serving: Serving, loads: list[Load]) -> list[str]:
    """Of one number of clients."""
    rates = [load.rate for load in loads]
    shares = [rate / raw for rate, raw in zip(rates, serving.raw, strict=True)]
    cpu = statistics.median(load.cpu / load.seconds / serving.cores for load in loads)
    return [
        name,
        f"{loads[0].clients}",
        f"{statistics.median(rates):,.0f}",
        spread(rates, "{:,.0f}"),
        f"{statistics.median(serving.raw):,.0f}",
        f"{statistics.median(shares):.0%}",
        f"{1000 * statistics.median(load.p50 for load in loads):.1f}",
        f"{1000 * statistics.median(load.p99 for load in loads):.1f}",
        f"{cpu:.0%}",
        f"{sum(load.errors for load in loads)}",
    ]


def frames(found: Frames | None) -> str:
    """A row for each move."""
    if found is None:
        return ""
    text = wrapped(FRAMES.format(tokens=found.tokens, layers=found.layers, heads=found.heads))
    if found.reason is not None:
        return f"{text}\nNot measured: {found.reason}.\n"
    rows = [
        [name, f"{statistics.median(times):.1f}", f"{statistics.quantiles(times, n=20)[-1]:.1f}"]
        for name, times in found.times.items()
    ]
    return text + "\n" + table(["move", "median", "95 %"], rows, numbers=(1, 2))
