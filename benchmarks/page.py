"""docs/performance.md from what was measured; what is written there by hand stays."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

from benchmarks import serving_page, translation_page
from benchmarks.contenders import OURS_RESIDUAL
from benchmarks.markdown import spread, table, wrapped
from benchmarks.pictures import PICTURES
from benchmarks.results import Cold, Contest, Growth, Race, Ranks, Results, Serving, Shares, Speed, Startup
from benchmarks.targets import target_table, training_targets
from benchmarks.translation import LENGTH

DOCS = Path(__file__).parent.parent / "docs"
BY_HAND = "## Where the speed comes from"

HEAD = """# Performance

Made by `make bench` {dates}: {processor}, threads: {threads}, torch {torch}.
The machine is shared and noisy: read ratios, and take those under 1.1 for ties.
"""

TRAINING = """## Training

{text}, one joint vocabulary, at most {tokens:,} tokens a side in a batch, one Adam update a batch, label smoothing, and
dropout on embeddings, residuals, attention weights and inside the feed-forward network, where torch.nn.Transformer has
it. Each loop has a process of its own; in every round they do the same batches, one loop after the other, while the
others sleep. Medians of {rounds} rounds after one for warming up, with their range; ratios are taken round by round.

- MFU: FLOPs of the matrix products (padding not counted) over the best 2048^3 product of the same run, {sgemm}.
- Memory: the most that the process held, above what it held after its imports.
- `{residual}`: dropout as the presets have it, on embeddings and residuals. It draws fewer masks than the others.
- eole and JoeyNMT train by their own commands, on batches of the same size that they make themselves (eole from pairs
  sorted by length; JoeyNMT from pairs in random order, which is all it offers, with more padding). Their speed is what
  their own logs say, and the range is over the reports. The machine may be faster or slower then: where ours was
  measured just before and just after, their ratio is that to ours times ours to the torch.nn loop.
- {shapes}.
"""

LEVERS = """## What each fast way is worth

The loop against itself with one of its ways taken out and torch's own in its place, tiny, vocabulary {vocabulary:,},
dropout at all places; medians of {rounds} rounds in which all take turns.
"""

COMPANY = """## In company

The same beside a process that takes all it can get of one core, {shape}, medians of {rounds} rounds. An operation that
is split over two cores waits for the slower half, thousands of times an update; a worker waits once.
"""

SHARES = """## Where the time goes

Shares of an update of ours, by torch's profiler (which makes small operations look a little larger than they are): one
worker on one thread, dropout at all places, vocabulary {vocabulary:,}.
"""

GROWTH = """## Growth

Seconds = a * size^exponent, fitted to the medians. An update is one of tiny's shape, post-norm; where fixed costs
weigh, at small sizes, the exponent is low: the last doubling shows where it tends. Preparation is what happens to a
corpus before training, each stage by itself.
"""

STARTUP = """## The first update

From the command `transduce train` to the end of its first update, and of the checkpoint by which that is known: preset
tiny on the {pairs:,} pairs of {text}, medians of {rounds}. A new run looks at the corpus, learns subwords, encodes, and
tries some seconds of updates to tell how long it will take; a resumed one has all that.
"""


RANKS = """## From one process to two

`torchrun --nproc-per-node K -m transduce train`, preset tiny on {text}, one thread a process, half a minute of training
each, medians of {rounds} rounds in which they take turns. An update has the same tokens however many share it.
"""


def write_page(results: Results, docs: Path) -> None:
    """Write performance.md and its pictures to a directory."""
    (docs / "images").mkdir(parents=True, exist_ok=True)
    images = []
    for picture in PICTURES:
        if (svg := picture.draw(results)) is not None:
            (docs / "images" / picture.file).write_text(svg, encoding="utf-8", newline="\n")
            images.append((picture.section, f"![{picture.alt}](images/{picture.file})\n"))
    kept = (DOCS / "performance.md").read_text(encoding="utf-8").partition(BY_HAND)
    page = "\n".join([*sections(results, images), kept[1] + kept[2]])
    (docs / "performance.md").write_text(page, encoding="utf-8", newline="\n")


def sections(results: Results, images: Iterable[tuple[str, str]]) -> list[str]:
    """The measured part of the page; a part that was not measured has no section."""
    found = {
        "training": training(results),
        "levers": levers(results.levers),
        "company": company(results),
        "shares": shares(list(results.shares.values())),
        "growth": growth(results),
        "startup": startup(results.startup),
        "ranks": ranks(results.ranks),
        "translation": translation_page.translation(results),
        "cold": translation_page.cold(results.cold),
        "serving": serving_page.serving(results.serving, LENGTH),
        "frames": serving_page.frames(results.frames),
    }
    shown = {name: [image for section, image in images if section == name] for name in found}
    return [head(results), *(part for name, text in found.items() if text for part in (text, *shown[name]))]


def head(results: Results) -> str:
    """Command, machine and dates."""
    machines = [each.machine for each in measured(results)]
    if not machines:
        return "# Performance\n"
    dates = sorted({machine.date for machine in machines})
    first = machines[0]
    return HEAD.format(
        processor=first.processor,
        threads=first.threads,
        torch=first.torch,
        dates=f"on {dates[0]}" if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}",
    )


def measured(results: Results) -> list[Race | Growth | Startup | Contest | Cold | Serving]:
    """Every record that knows its machine."""
    growths = [*results.growth.values(), *results.preparation.values()]
    others = [each for each in (results.startup, results.cold) if each is not None]
    return [*results.training.values(), *growths, *results.translation.values(), *others, *results.serving.values()]


def training(results: Results) -> str:
    """The main races, then the others."""
    races = results.training
    if not races:
        return ""
    main = results.main_races()
    others = {name: race for name, race in races.items() if name not in main}
    first = next(iter(races.values()))
    limits = [race.sgemm / 1e9 for race in races.values()]
    shapes = {race.shape.name: race.shape for race in races.values()}
    described = [
        f"{s.name} is d_model {s.d_model}, d_ff {s.d_ff}, {s.num_heads} heads, {s.layers}+{s.layers} layers, "
        f"dropout {s.dropout}"
        for s in shapes.values()
    ]
    text = TRAINING.format(
        text=", ".join(dict.fromkeys(race.text for race in races.values())),
        tokens=first.shape.tokens,
        rounds=spread([len(s.rounds) for race in races.values() for s in race.speeds if s.rounds], "{:.0f}"),
        sgemm=spread(limits, "{:.0f}") + " GFLOP/s",
        residual=OURS_RESIDUAL,
        shapes="; ".join(described),
    )
    aimed = training_targets(results)
    tables = [
        race_table(main, results.peers),
        target_table(aimed) if aimed else "",
        race_table(others, {}) if others else "",
    ]
    return "\n".join([wrapped(text), *filter(None, tables)])


def race_table(races: dict[str, Race], peers: dict[str, list[Speed]]) -> str:
    """A row a contender."""
    rows = [speed_row(race, speed) for name, race in races.items() for speed in [*race.speeds, *peers.get(name, [])]]
    heading = ["shape", "vocabulary", "loop", "target tokens/s", "range", "ratio", "range", "MFU", "memory"]
    return table(heading, rows, numbers=(1, 3, 5, 7, 8))


def speed_row(race: Race, speed: Speed) -> list[str]:
    """One contender in one race, or why it is not there."""
    start = [race.shape.name, f"{race.shape.vocabulary:,}", speed.name]
    if speed.reason is not None:
        return [*start, speed.reason.replace("|", "\\|"), "", "", "", "", ""]
    ratios = race.ratios(speed)
    memory = "" if speed.peak_memory is None else f"{speed.peak_memory / 2**20:,.0f} MB"
    return [
        *start,
        f"{speed.median:,.0f}",
        spread(speed.rounds, "{:,.0f}"),
        f"{statistics.median(ratios):.2f}" if ratios else "",
        spread(ratios, "{:.2f}") if ratios else "",
        f"{speed.median * race.flops_per_token / race.sgemm:.0%}",
        memory,
    ]


def levers(found: Race | None) -> str:
    """How many times as fast the loop is with each of its ways as without."""
    if found is None:
        return ""
    mine = found.speeds[0]
    rows = [
        [speed.name, f"{statistics.median(gains):.2f}", spread(gains, "{:.2f}"), memory(speed, mine)]
        for speed in found.speeds[1:]
        if speed.rounds and (gains := [1 / ratio for ratio in found.ratios(speed, to=mine.name)])
    ]
    text = LEVERS.format(vocabulary=found.shape.vocabulary, rounds=len(mine.rounds))
    return text + "\n" + table(["way", "times as fast", "range", "memory without it"], rows, numbers=(1, 3))


def company(results: Results) -> str:
    """Tokens a second alone and beside a busy process."""
    found = results.company
    alone = {
        speed.name: speed
        for race in results.main_races().values()
        if found and race.shape == found.shape
        for speed in race.speeds
    }
    if found is None:
        return ""
    rows = [
        [
            speed.name,
            f"{alone[speed.name].median:,.0f}",
            f"{speed.median:,.0f}",
            f"{speed.median / alone[speed.name].median:.0%}",
        ]
        for speed in found.speeds
        if speed.rounds and speed.name in alone
    ]
    text = COMPANY.format(shape=found.shape.name, rounds=len(found.speeds[0].rounds))
    return text + "\n" + table(["loop", "alone, tokens/s", "in company", "kept"], rows, numbers=(1, 2, 3))


def memory(speed: Speed, base: Speed) -> str:
    """Peak memory as a multiple of another's."""
    return f"{speed.peak_memory / base.peak_memory:.2f}x" if speed.peak_memory and base.peak_memory else ""


def shares(found: list[Shares]) -> str:
    """A column a shape, the largest share of the first on top."""
    if not found:
        return ""
    kinds = sorted(found[0].shares, key=lambda kind: -found[0].shares[kind])
    rows = [[kind, *(f"{each.shares[kind]:.1%}" for each in found)] for kind in kinds]
    text = SHARES.format(vocabulary=found[0].shape.vocabulary)
    return text + "\n" + table(["", *(each.shape.name for each in found)], rows, numbers=range(1, len(found) + 1))


def growth(results: Results) -> str:
    """Exponents, and pairs a second of the stages of preparation."""
    found = [*results.growth.values(), *results.preparation.values()]
    if not found:
        return ""
    rows = [
        [
            each.what,
            each.over,
            f"{each.sizes[0]:,} - {each.sizes[-1]:,}",
            f"{each.medians[0]:.3f} s - {each.medians[-1]:.3f} s",
            f"{each.exponent:.2f}",
            f"{each.last_exponent:.2f}",
            f"{each.sizes[-1] / each.medians[-1]:,.0f}" if each in results.preparation.values() else "",
        ]
        for each in found
    ]
    heading = ["what", "as this grows", "from - to", "takes", "exponent", "of the last doubling", "pairs/s"]
    return GROWTH + "\n" + table(heading, rows, numbers=(4, 5, 6))


def startup(found: Startup | None) -> str:
    """From the command to the first update."""
    if found is None:
        return ""
    rows = [
        [command, f"{statistics.median(seconds):.1f} s", spread(seconds, "{:.1f} s")]
        for command, seconds in (("a new run", found.fresh), ("`--resume`", found.resumed))
    ]
    text = STARTUP.format(pairs=found.pairs, text=found.text, rounds=len(found.fresh))
    return text + "\n" + table(["", "to the first update", "range"], rows, numbers=(1,))


def ranks(found: Ranks | None) -> str:
    """Tokens a second by the number of processes."""
    if found is None:
        return ""
    most = max(found.speeds)
    rows = [
        [
            f"{size}",
            f"{statistics.median(speeds):,.0f}",
            spread(speeds, "{:,.0f}"),
            f"{statistics.median(found.gains):.2f} ({spread(found.gains, '{:.2f}')})" if size == most else "1.00",
        ]
        for size, speeds in sorted(found.speeds.items())
    ]
    text = RANKS.format(text=found.text, rounds=len(found.gains))
    return wrapped(text) + "\n" + table(["processes", "target tokens/s", "range", "gain"], rows, numbers=(0, 1, 3))
