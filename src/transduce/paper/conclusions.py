"""What the paper concludes from Table 3 (sections 5.4 and 6.2), as statements that rows can hold or break.

The noise of a row is that of base, which is trained with several seeds. A difference counts when it is larger than
chance would make it once in 20 times: Student's t, one-sided, with the freedom that so few seeds leave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from transduce.paper.result import Table
from transduce.paper.table3_rows import ROWS

STUDENT = {1: 6.31, 2: 2.92, 3: 2.35, 4: 2.13}  # the 95 % quantile by degrees of freedom
HOLDS, BROKEN, HIDDEN, UNKNOWN = "holds", "does not hold", "hidden by noise", "not measured"
Pair = tuple[str, str]


@dataclass(frozen=True)
class Values:
    """A measure of a row, once for each seed; larger is better."""

    seeds: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fmean(self.seeds)


@dataclass(frozen=True)
class Noise:
    """What seeds alone do to a row: a standard deviation and how much is known of it."""

    deviation: float
    freedom: int

    @classmethod
    def of(cls, values: Values) -> Noise | None:
        """The noise that several seeds show; None: one seed shows none."""
        freedom = len(values.seeds) - 1
        return cls(stdev(values.seeds), freedom) if freedom else None

    def margin(self, one: Values, other: Values) -> float:
        """How far chance drives two means apart, at most, 19 times in 20."""
        spread = math.sqrt(1 / len(one.seeds) + 1 / len(other.seeds))
        return STUDENT[min(self.freedom, max(STUDENT))] * self.deviation * spread


@dataclass(frozen=True)
class Conclusion:
    """What the paper says. In each pair the first row is better than the second; `alike` ones do not differ."""

    text: str
    by_perplexity: tuple[Pair, ...] = ()
    by_bleu: tuple[Pair, ...] = ()
    alike: tuple[Pair, ...] = ()


def _both(text: str, *pairs: Pair) -> Conclusion:
    return Conclusion(text, by_perplexity=pairs, by_bleu=pairs)


CONCLUSIONS = (
    _both("(A) a single head is worse than 8", ("base", "A h=1")),
    _both("(A) quality drops off with too many heads", ("base", "A h=32")),
    _both("(B) reducing d_k hurts", ("base", "B d_k=32"), ("base", "B d_k=16")),
    _both("(C) deeper is better", ("C N=4", "C N=2"), ("base", "C N=4"), ("C N=8", "base")),
    _both("(C) wider is better", ("base", "C d_model=256"), ("C d_model=1024", "base")),
    _both("(C) a larger d_ff is better", ("base", "C d_ff=1024"), ("C d_ff=4096", "base")),
    _both("(D) dropout helps", ("base", "D P_drop=0.0")),
    Conclusion(
        "(D, section 5.4) label smoothing hurts perplexity but improves BLEU",
        by_perplexity=(("D eps_ls=0.0", "base"), ("base", "D eps_ls=0.2")),
        by_bleu=(("base", "D eps_ls=0.0"),),
    ),
    Conclusion("(E) learned positions are nearly as good as sinusoids", alike=(("base", "E learned positions"),)),
    _both("big is better than base", ("big", "base")),
)


def judge(better: Sequence[Pair], alike: Sequence[Pair], rows: Mapping[str, Values], noise: Noise | None) -> str:
    """Whether a conclusion holds for all its pairs, is broken by one, or cannot be told from noise."""
    if noise is None or any(name not in rows for pair in (*better, *alike) for name in pair):
        return UNKNOWN
    verdicts = []
    for first, second in better:
        difference, margin = rows[first].mean - rows[second].mean, noise.margin(rows[first], rows[second])
        verdicts.append(HOLDS if difference > margin else BROKEN if difference < -margin else HIDDEN)
    for first, second in alike:
        apart = abs(rows[first].mean - rows[second].mean) > noise.margin(rows[first], rows[second])
        verdicts.append(BROKEN if apart else HOLDS)
    return next((verdict for verdict in (BROKEN, HIDDEN) if verdict in verdicts), HOLDS)


def conclusions_table(fits: Mapping[str, Values], bleus: Mapping[str, Values]) -> Table:
    """Every conclusion with its verdicts; `fits` are negative logarithms of perplexity.

    The paper's own rows are one seed each and show no noise: there any difference counts, except that rows within 0.1
    BLEU or 1 % of perplexity are called alike.
    """
    noises = Noise.of(fits["base"]) if "base" in fits else None, Noise.of(bleus["base"]) if "base" in bleus else None
    printed_fits = {row.name: -math.log(row.perplexity) for row in ROWS}
    printed_bleus = {row.name: row.bleu for row in ROWS}
    rows = []
    for conclusion in CONCLUSIONS:
        by_fit, by_bleu = conclusion.by_perplexity, conclusion.by_bleu
        rows.append(
            [
                conclusion.text,
                judge(by_fit, conclusion.alike, fits, noises[0]),
                judge(by_bleu, conclusion.alike, bleus, noises[1]),
                _printed(by_fit, conclusion.alike, printed_fits, 0.01),
                _printed(by_bleu, conclusion.alike, printed_bleus, 0.1),
            ]
        )
    heading = [
        "the paper's conclusion",
        "here, by PPL",
        "here, by BLEU",
        "paper's table, by PPL",
        "paper's table, by BLEU",
    ]
    return Table("conclusions", heading, rows)


def _printed(better: Sequence[Pair], alike: Sequence[Pair], rows: Mapping[str, float], near: float) -> str:
    ordered = all(rows[first] > rows[second] for first, second in better)
    close = all(abs(rows[first] - rows[second]) <= near + 1e-9 for first, second in alike)
    return HOLDS if ordered and close else BROKEN
