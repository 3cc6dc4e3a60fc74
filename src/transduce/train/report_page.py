"""`report.html` of a run: one static page with its curves, samples, corpus, environment and configuration.

It needs no network and runs no script, and every text in it is escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from importlib.resources import files
from pathlib import Path

from transduce.data.preparation import recall
from transduce.errors import UserError
from transduce.files import new_file
from transduce.train.history import History, read_history
from transduce.train.progress import Listener, Validation
from transduce.train.report_curves import Curve, curves_svg, linear, logarithmic

PAGE = "report.html"
SHOWN = 12  # translations of a sample; more are thinned out


class ReportPage(Listener):
    """Writes the page after each validation and at the end."""

    def __init__(self, run: Path) -> None:
        self.run = run

    def validated(self, validation: Validation) -> None:
        """With the new point."""
        write_page(self.run)

    def ended(self, outcome: str) -> None:
        """For the last time."""
        write_page(self.run)


def write_page(run: Path) -> Path:
    """Write the page from what the run has logged so far, whole or not at all, and return its path."""
    page = render(run, read_history(run)).encode()
    with new_file(run / PAGE) as file:
        file.write(page)
    return run / PAGE


def render(run: Path, history: History) -> str:
    """The page as HTML."""
    name = run.resolve().name
    sections = {
        "Curves": _curves(history),
        "Validation samples": _samples(history.validations),
        "Corpus": _table(_corpus(run)),
        "Environment": _table(history.environment),
        "Configuration": f"<pre>{text((run / 'config.toml').read_text(encoding='utf-8'))}</pre>",
        "What the run said": _messages(history),
    }
    body = "\n".join(f"<section><h2>{title}</h2>\n{html}</section>" for title, html in sections.items() if html)
    style = (files("transduce.train") / "report.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(name)}: {text(state(history))}</title>
<style>
{style}</style>
</head>
<body>
<header><h1>{text(name)}</h1>
<p>{text(state(history))}{_dates(history)}</p></header>
{_figures(history)}
{body}
</body>
</html>
"""


def text(value: str) -> str:
    """HTML text; characters that a document cannot hold, such as control characters, become U+FFFD."""
    return escape(re.sub(r"[^\t\n\x20-\x7E\xA0-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]", "\ufffd", value))


def state(history: History) -> str:
    """What became of the run, in a few words."""
    if history.outcome is not None:
        return history.outcome
    return "training" if history.reports else "preparing"


def _dates(history: History) -> str:
    if history.begun is None or history.heard is None:
        return ""
    begun, heard = (f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}" for time in (history.begun, history.heard))
    return f"; begun {begun}, last heard of {heard} UTC"


def _figures(history: History) -> str:
    """The numbers to know first."""
    shown: dict[str, str] = {}
    if history.reports:
        last = history.reports[-1]
        shown |= {"update": f"{last.step:,}", "epoch": f"{last.epoch + 1:,}"}
        shown |= {"trained for": str(timedelta(seconds=round(last.seconds)))}
        if last.remaining is not None and history.outcome is None:
            shown["left"] = str(timedelta(seconds=round(last.remaining)))
        shown["tokens a second"] = f"{sum(r.tokens_per_second for r in history.reports) / len(history.reports):,.0f}"
    if history.validations:
        shown["best perplexity"] = f"{min(v.perplexity for v in history.validations):.2f}"
        shown["best BLEU"] = f"{max(v.bleu for v in history.validations):.2f}"
    if not shown:
        return "<p>No report yet.</p>"
    pairs = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in shown.items())
    return f"<dl>{pairs}</dl>"


def _curves(history: History) -> str:
    def training(value: str) -> Curve:
        return Curve("training", [(r.step, float(getattr(r, value))) for r in history.reports])

    def validation(value: str) -> Curve:
        return Curve("validation", [(v.step, float(getattr(v, value))) for v in history.validations])

    charts = {
        "Loss, smoothed": ([training("loss")], linear, math.inf),
        "Perplexity": ([training("perplexity"), validation("perplexity")], logarithmic, math.inf),
        "BLEU": ([validation("bleu")], linear, 0.0),
        "Learning rate": ([training("learning_rate")], linear, 0.0),
        "Tokens a second": ([training("tokens_per_second")], linear, 0.0),
    }
    drawn = {
        title: curves_svg(title, curves, scale, down_to=down_to) for title, (curves, scale, down_to) in charts.items()
    }
    figures = [
        f"<figure><figcaption>{title}{_legend(charts[title][0])}</figcaption>\n{svg}</figure>"
        for title, svg in drawn.items()
        if svg
    ]
    return f'<div class="charts">{"".join(figures)}</div>\n<p class="quiet">over updates</p>' if figures else ""


def _legend(curves: Sequence[Curve]) -> str:
    return "".join(f' <span class="key {curve.name}">{curve.name}</span>' for curve in curves if curve.points)


def _samples(validations: Sequence[Validation]) -> str:
    """Each sample's translations over time; only those that differ from the one before."""
    if not validations:
        return ""
    parts = []
    for place, sample in enumerate(validations[-1].samples):
        rows: list[tuple[int, str]] = []
        for validation in validations:
            same = [s for s in validation.samples if (s.source, s.reference) == (sample.source, sample.reference)]
            if same and (not rows or rows[-1][1] != same[0].translation):
                rows.append((validation.step, same[0].translation))
        thinned = f'<p class="quiet">{SHOWN} of {len(rows):,} changes</p>' if len(rows) > SHOWN else ""
        lines = "".join(_sample_row(f"{step:,}", said, said == sample.reference) for step, said in _thin(rows))
        parts.append(
            f'<table class="sample"><caption dir="auto">{place + 1}. {text(sample.source)}</caption>{lines}'
            f"{_sample_row('reference', sample.reference, True)}</table>{thinned}"
        )
    return "\n".join(parts)


def _sample_row(label: str, said: str, right: bool) -> str:
    return f'<tr{" class=right" if right else ""}><th>{label}</th><td dir="auto">{text(said)}</td></tr>'


def _thin(rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    if len(rows) <= SHOWN:
        return rows
    return [rows[round(place * (len(rows) - 1) / (SHOWN - 1))] for place in range(SHOWN)]


def _corpus(run: Path) -> dict[str, str]:
    """Statistics of the text, from data.json and the stores that it names."""
    try:
        prepared = recall(run)
    except UserError as error:
        return {"not to be had": str(error)}
    pairs = len(prepared.train)
    tokens = [int(side.offsets[-1]) for side in (prepared.train.source, prepared.train.target)]
    joint = prepared.source_codec is prepared.target_codec
    sizes = [codec.size for codec in (prepared.source_codec, prepared.target_codec)]
    return {
        "languages": f"{prepared.source_lang or 'unnamed'} to {prepared.target_lang or 'unnamed'}",
        "training pairs": f"{pairs:,}",
        "too long to train on": f"{prepared.train.too_long:,}",
        "tokens": f"{tokens[0]:,} source, {tokens[1]:,} target",
        "tokens a pair": f"{tokens[0] / pairs:.1f} source, {tokens[1] / pairs:.1f} target",
        "validation pairs": f"{len(prepared.valid_source):,}",
        "vocabulary": f"{sizes[0]:,}, joint" if joint else f"{sizes[0]:,} source, {sizes[1]:,} target",
    }


def _table(rows: Mapping[str, str]) -> str:
    lines = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in rows.items())
    return f"<table>{lines}</table>" if lines else ""


def _messages(history: History) -> str:
    lines = "".join(
        f"<tr{' class=warning' if message.warning else ''}>"
        f"<th>{datetime.fromtimestamp(message.time, UTC):%Y-%m-%d %H:%M:%S}</th><td>{text(message.text)}</td></tr>"
        for message in history.messages
    )
    return f"<table>{lines}</table>" if lines else ""
