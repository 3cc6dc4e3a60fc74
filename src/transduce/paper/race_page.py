"""What a race came to, as part of a page: a table, a plot, and who was ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transduce.explain.plot import plot_svg
from transduce.paper.race import Curve, Race, Texts
from transduce.paper.result import Picture, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def race_parts(race: Race, texts: Texts, curves: tuple[Curve, Curve]) -> list[str | Table | Picture]:
    """The section on a race that was run."""
    sizes = [f"{curve.parameters / 1e6:.2f} million" for curve in curves]
    heading = ["model", "M parameters", "updates", "sacreBLEU", "paper BLEU", "averaged"]
    return [
        "## The Transformer and a recurrent model in the same minutes",
        (
            f"{race.minutes:g} minutes of training each, validation not counted, on {texts.corpus.name}: the same "
            f"text, vocabulary, batches, loss and search; threads: {curves[0].threads}. The recurrent model is a GRU "
            f"encoder-decoder with additive attention. It has {sizes[1]} parameters, the Transformer {sizes[0]}; its "
            "learning rate is its own, and its gradients are clipped. That rate was chosen for this race, by the "
            "validation set, after four tries of 2.5 minutes on Multi30k; the Transformer's was not: this favours the "
            "GRU. The Transformer is post-norm, as the paper's. One seed each."
        ),
        Picture("table2-race", f"Validation BLEU against minutes of training. {verdict(*curves)}", _plot(curves)),
        _marks(curves),
        (
            "Validation: sacreBLEU of greedy translations, and perplexity per subword without smoothing, at the "
            "checkpoint nearest to each mark."
        ),
        Table("table2-test", heading, _test(curves)),
        (
            f"Test: {len(texts.test):,} lines by the last weights, beam 4, alpha 0.6 (`{curves[0].test_signature}`). "
            "Averaged: sacreBLEU of the Transformer's last checkpoints averaged, as in section 6.1. "
            f"{verdict(*curves)} The paper trained no recurrent model itself. Its claim is about GPUs, which steps "
            "that wait for each other leave idle, more than they do the cores of a CPU."
        ),
    ]


def verdict(transformer: Curve, gru: Curve) -> str:
    """Who was ahead, and by how much at the end."""
    points = list(zip(transformer.points, gru.points, strict=True))
    ahead = sum(ours.bleu > theirs.bleu for ours, theirs in points)
    difference = transformer.test_bleu - gru.test_bleu
    leader = transformer.name if difference > 0 else gru.name
    test = (
        f"on the test set the {leader} is, by {abs(difference):.2f} BLEU" if difference else "on the test set none is"
    )
    return f"The Transformer is ahead at {ahead} of {len(points)} marks; {test}."


def _marks(curves: tuple[Curve, Curve]) -> Table:
    rows = []
    for points in zip(*(curve.points for curve in curves), strict=True):
        minutes = [f"{point.minutes:.1f}" for point in points]
        scores = [f"{score:.2f}" for score in (*(p.bleu for p in points), *(p.perplexity for p in points))]
        rows.append([*minutes, *scores])
    heading = [f"{curve.name}: {what}" for what in ("minutes", "BLEU", "perplexity") for curve in curves]
    return Table("table2-race", heading, rows)


def _test(curves: tuple[Curve, Curve]) -> list[list[str]]:
    rows = []
    for curve in curves:
        averaged = "" if curve.averaged_bleu is None else f"{curve.averaged_bleu:.2f}"
        scores = [f"{curve.test_bleu:.2f}", f"{curve.test_paper_bleu:.2f}", averaged]
        rows.append([curve.name, f"{curve.parameters / 1e6:.2f}", f"{curve.points[-1].step:,}", *scores])
    return rows


def _plot(curves: tuple[Curve, Curve]) -> str:
    def fill(figure: Figure) -> None:
        figure.set_size_inches(6.4, 3.6)
        axes = figure.add_subplot()
        axes.grid(axis="y")
        for curve, marker in zip(curves, "os", strict=True):
            minutes, scores = [point.minutes for point in curve.points], [point.bleu for point in curve.points]
            axes.plot(minutes, scores, marker=marker, label=curve.name)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("minutes of training")
        axes.set_ylabel("validation BLEU")
        axes.legend(frameon=False, loc="lower right")

    return plot_svg(fill)
