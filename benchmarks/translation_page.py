"""The sections of docs/performance.md about translation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.cold import OURS as OUR_COMMAND
from benchmarks.markdown import spread, table, wrapped
from benchmarks.results import Cold, Contest, Rate, Results, Start
from benchmarks.targets import Target, limit, target, target_table
from benchmarks.translation import LENGTH
from benchmarks.translators import BEST, DEFAULTS, GENERATE, OURS, OURS_SHORTLIST, OURS_TORCH
from benchmarks.weights import EPOCHS, VOCABULARIES

BEAM, GREEDY, SINGLE = "beam 4", "greedy", "one line at a time, one thread, beam 4"
UNTRAINED = f"the base model, not trained, {LENGTH} tokens an output, beam 4"
"""The names of contests."""
AIMS = (
    (OURS, BEST, 1.0),
    (OURS_SHORTLIST, BEST, 1.0),
    (OURS, DEFAULTS, 2.5),
    (OURS, GENERATE, 4.0),
    (OURS_TORCH, GENERATE, 1.6),
)
"""How many times as fast, at least."""
TO = {BEST: "to CTranslate2's best", DEFAULTS: "to its defaults", GENERATE: "to generate"}

TRANSLATION = """## Translation

{text}, a model of tiny's shape with a vocabulary of {vocabulary:,}, trained for {epochs} epochs by `transduce
train`. All translate with these weights: ours from the bundle, the others from what `transduce export` makes of it.
Each has a process of its own, is loaded, and has translated {test} once, which gives its BLEU. Then they take turns,
and in every round they get the same lines, sources of both in a mixed order: text in, text out, cutting into subwords
and ranking included. Medians of {rounds} rounds with their range; ratios are taken round by round. {versions}.

- `{ours}`: `Translator.load(...).translate(lines)`, int8, a worker per core. With a shortlist: `shortlist=True`.
  `{torch}`: the same in float32.
- `{best}`: `ctranslate2.Translator` on the same int8 weights, a single-threaded worker per core, sorted by length,
  batches of 64, length penalty 0.6. `{defaults}`: `ctranslate2.Translator(directory)` and one `translate_batch(tokens,
  beam_size=4)`, in which all lines of the round are one batch.
- `{generate}`: float32, on all cores, sorted by length, batches of 64, `early_stopping=True`, at most 50 tokens more
  than the batch's longest input: without these two it is many times as slow.
- Fewer lines for the slow ones: the first of those that the fast ones get.
- Memory: the most that the process held, above what it held after its imports.
"""

PEER_AIMS = {"eole": 4.0, "joeynmt": 11.0}
PEERS = """eole and JoeyNMT cannot take our weights. They translate by their own commands with models of the same shape
that hardly began to learn, given lines that are cut into subwords, and with outputs of {length} tokens, all of them:
beam 4, batches of 64, the seconds for some lines less those for a few. As outputs of ours are shorter, which takes
less time each but reads a line for fewer tokens, tokens of output a second are compared. Ours was measured just
before and just after.
"""

COLD = """## Cold start

From the command to its first translation, one line, the files in the system's cache: medians of {rounds} rounds in
which the programs take turns. Memory: the most that was resident until then. A bundle is converted for CTranslate2
once, before.
"""


def translation(results: Results) -> str:
    """A table a contest, then what was aimed at."""
    contests = results.translation
    if not contests:
        return ""
    first = next(iter(contests.values()))
    text = TRANSLATION.format(
        text=first.text,
        vocabulary=VOCABULARIES[first.text],
        epochs=EPOCHS,
        test=first.test,
        rounds=spread(
            [len(rate.rounds) for each in contests.values() for rate in each.speeds if rate.rounds], "{:.0f}"
        ),
        versions=", ".join(f"{name} {number}" for name, number in first.versions.items()),
        ours=OURS,
        torch=OURS_TORCH,
        best=BEST,
        defaults=DEFAULTS,
        generate=GENERATE,
    )
    parts = [wrapped(text)]
    for name, contest in contests.items():
        shown = single_table(contest) if name == SINGLE else contest_table(contest)
        parts.append(f"{name[0].upper()}{name[1:]}:\n\n{shown}")
    if results.translation_peers:
        parts += [wrapped(PEERS.format(length=LENGTH)), peer_table(results.translation_peers)]
    if found := targets(results):
        parts.append(target_table(found))
    return "\n".join(parts)


def contest_table(contest: Contest) -> str:
    """A row a translator: throughput, ratios, and what the translations are like."""
    to = {name: heading for name, heading in TO.items() if any(rate.name == name for rate in contest.speeds)}
    rows = [
        [rate.name, f"{rate.lines:,}", *speed_cells(rate), *ratio_cells(contest, rate, to), *quality_cells(rate)]
        for rate in contest.speeds
    ]
    heading = ["translator", "lines", "sentences/s", "range", *to.values(), "BLEU", "words", "memory"]
    return table(heading, rows, numbers=(1, 2, *range(4, len(heading))))


def single_table(contest: Contest) -> str:
    """A row a translator: how long a line takes."""
    to = {name: heading for name, heading in TO.items() if any(rate.name == name for rate in contest.speeds)}
    rows = [
        [rate.name, f"{rate.lines:,}", *time_cells(rate), *ratio_cells(contest, rate, to)] for rate in contest.speeds
    ]
    heading = ["translator", "lines", "ms a line", "range", *to.values()]
    return table(heading, rows, numbers=(1, 2, *range(4, len(heading))))


def peer_table(peers: Sequence[Rate]) -> str:
    """A row a peer, with ours beside it."""
    rows = [
        [
            rate.name,
            f"{rate.lines:,}",
            *speed_cells(rate),
            f"{rate.median * LENGTH:,.0f}" if rate.rounds else "",
            f"{statistics.median(rate.beside):,.0f}" if rate.beside else "",
            f"{statistics.median(peer_ratios(rate)):.1f}" if rate.beside else "",
        ]
        for rate in peers
    ]
    heading = ["peer", "lines", "sentences/s", "range", "tokens/s", "tokens/s of ours beside it", "times as fast"]
    return table(heading, rows, numbers=(1, 2, 4, 5, 6))


def peer_ratios(rate: Rate) -> list[float]:
    """How many times as many tokens a second ours made, at its median, as the peer in each of its rounds."""
    return [statistics.median(rate.beside) / (speed * LENGTH) for speed in rate.rounds] if rate.beside else []


def speed_cells(rate: Rate) -> list[str]:
    """Sentences a second, or why there are none."""
    if rate.reason is not None:
        return [rate.reason.replace("|", "\\|"), ""]
    return [f"{rate.median:,.0f}", spread(rate.rounds, "{:,.0f}")]


def time_cells(rate: Rate) -> list[str]:
    """Milliseconds for a sentence, or why there are none."""
    if rate.reason is not None:
        return [rate.reason.replace("|", "\\|"), ""]
    times = [1000 / value for value in rate.rounds]
    return [f"{statistics.median(times):.1f}", spread(times, "{:.1f}")]


def ratio_cells(contest: Contest, rate: Rate, to: dict[str, str]) -> list[str]:
    """How many times as fast as each of some others."""
    found = [contest.ratios(rate, name) for name in to]
    return [f"{statistics.median(ratios):.2f} ({spread(ratios, '{:.2f}')})" if ratios else "" for ratios in found]


def quality_cells(rate: Rate) -> list[str]:
    """BLEU, words of an output, memory."""
    return [
        "" if rate.bleu is None else f"{rate.bleu:.2f}",
        "" if rate.words is None else f"{rate.words:.1f}",
        "" if rate.peak_memory is None else f"{rate.peak_memory / 2**20:,.0f} MB",
    ]


def cold(found: Cold | None) -> str:
    """A row a program, then what was aimed at."""
    if found is None:
        return ""
    rows = []
    for name, starts in found.starts.items():
        seconds, held = [start.seconds for start in starts], megabytes(starts)
        memory = [f"{statistics.median(held):.0f} MB", spread(held, "{:.0f} MB")] if held else ["", ""]
        rows.append([name, f"{statistics.median(seconds):.2f} s", spread(seconds, "{:.2f} s"), *memory])
    text = wrapped(COLD.format(rounds=len(next(iter(found.starts.values())))))
    return text + "\n" + table(["", "to the first translation", "range", "memory", "range"], rows, numbers=(1, 3))


def megabytes(starts: Sequence[Start]) -> list[float]:
    """Where it was seen."""
    return [start.memory / 2**20 for start in starts if start.memory is not None]


def targets(results: Results) -> list[Target]:
    """What was aimed at and has been measured."""
    found = [
        target(f"{BEAM}: {mine} to {other}", least, contest_ratios(results, BEAM, mine, other))
        for mine, other, least in AIMS
    ]
    found.append(
        target(f"a line at a time: {OURS} to {DEFAULTS}", 1.2, contest_ratios(results, SINGLE, OURS, DEFAULTS))
    )
    base = contest_ratios(results, UNTRAINED, OURS_TORCH, GENERATE)
    found.append(target(f"{UNTRAINED}: {OURS_TORCH} to {GENERATE}", 1.2, base))
    found += [
        target(f"tokens of output a second, beam 4: {OURS} to {rate.name}", PEER_AIMS[rate.name], peer_ratios(rate))
        for rate in results.translation_peers
    ]
    if results.cold is not None:
        starts = results.cold.starts[OUR_COMMAND]
        found.append(limit("cold start", "s", 0.8, [start.seconds for start in starts]))
        found.append(limit("memory of a cold start", "MB", 120, megabytes(starts)))
    return [each for each in found if each.values]


def contest_ratios(results: Results, name: str, mine: str, other: str) -> list[float]:
    """Round by round; none where one of the two was not measured."""
    contest = results.translation.get(name)
    rates = [] if contest is None else [rate for rate in contest.speeds if rate.name == mine]
    return contest.ratios(rates[0], other) if contest is not None and rates else []
