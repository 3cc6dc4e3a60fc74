"""What the doctor found: as a text table for people, as JSON for programs, and as a list of what is wrong."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from transduce.data.problems import Finding, Problem
from transduce.data.shift import Shift

REPEATED_SHARE = 0.01
"""More copies, or more test sources known from training, than this are worth a word."""
MIN_CORRELATION = 0.1
MIN_PAIRS_TO_CORRELATE = 500


@dataclass(frozen=True)
class Spread:
    """Mean, 95th percentile and maximum of some lengths."""

    mean: float
    p95: int
    maximum: int

    def __str__(self) -> str:
        return f"mean {self.mean:.1f}, 95 % up to {self.p95:,}, longest {self.maximum:,}"


@dataclass(frozen=True)
class FileShift:
    """A shift and the two files that it stands between."""

    source: str
    target: str
    shift: Shift


@dataclass(frozen=True)
class PartReport:
    """One of the corpora that are trained on together."""

    files: tuple[str, ...]
    weight: float
    pairs: int = 0
    usable: int = 0

    def plus(self, pairs: int, usable: int) -> PartReport:
        """With some more pairs."""
        return replace(self, pairs=self.pairs + pairs, usable=self.usable + usable)

    @property
    def seen(self) -> float:
        """Pairs that an epoch sees, copies counted."""
        return self.weight * self.usable


@dataclass(frozen=True)
class CorpusReport:
    """One corpus, or several that are trained on together."""

    name: str
    files: tuple[str, ...]
    parts: tuple[PartReport, ...]
    source_lines: int
    target_lines: int
    surplus: tuple[str, ...]
    """Files whose line counts differ, in words."""
    pairs: int
    usable: int
    boms: int
    crs: int
    dropped: dict[Problem, Finding]
    identical: Finding
    copies: Finding
    ambiguous: Finding
    correlation: float | None
    """Of the sides' log lengths over usable pairs; None: they do not vary."""
    shifts: tuple[FileShift, ...]
    lengths: dict[str, Spread] = field(default_factory=dict)
    """Characters and words (split at white space) of usable pairs, by side."""

    @property
    def problems(self) -> list[str]:
        """What is wrong with it, one sentence each; empty: healthy."""
        found = [f"{self.name}: line counts differ: {files}" for files in self.surplus]
        found += [f"{self.name}: {s.source}, {s.target}: {s.shift}" for s in self.shifts]
        if self.pairs > self.usable:
            share = _share(self.pairs - self.usable, self.pairs)
            found.append(f"{self.name}: {self.pairs - self.usable:,} pairs ({share}) are unusable")
        if self.copies.count > REPEATED_SHARE * self.usable:
            share = _share(self.copies.count, self.usable)
            found.append(f"{self.name}: {self.copies.count:,} pairs ({share}) are copies of others")
        if self.identical.count > REPEATED_SHARE * self.usable:
            share = _share(self.identical.count, self.usable)
            found.append(f"{self.name}: {self.identical.count:,} pairs ({share}) have equal sides: not translated?")
        weak = self.correlation is not None and self.correlation < MIN_CORRELATION
        if weak and self.usable >= MIN_PAIRS_TO_CORRELATE:
            found.append(f"{self.name}: long lines do not go with long lines: do the files belong together?")
        return found

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Name, count, share and remark of everything that was looked at."""
        of_pairs = [(str(p), self.dropped.get(p, Finding()), self.pairs) for p in Problem]
        of_usable = [
            ("source = target", self.identical, self.usable),
            ("copies of a pair", self.copies, self.usable),
            ("sources with several targets", self.ambiguous, self.usable),
        ]
        rows = [
            ("source lines", f"{self.source_lines:,}", "", ""),
            ("target lines", f"{self.target_lines:,}", "", "; ".join(self.surplus)),
            ("usable pairs", f"{self.usable:,}", _share(self.usable, self.pairs), ""),
        ]
        if len(self.parts) > 1:
            seen = sum(part.seen for part in self.parts)
            for part in self.parts:
                share = f"weight {part.weight:g}, {_share(part.seen, seen)} of an epoch"
                counts = f"{part.usable:,}", _share(part.usable, part.pairs)
                rows.append(("  of these", *counts, f"{share}: {', '.join(part.files)}"))
        for name, finding, total in of_pairs + of_usable:
            where = finding.where() if finding.places else ""
            rows.append((name, f"{finding.count:,}", _share(finding.count, total) if finding.count else "", where))
        rows.append(("BOM removed", f"{self.boms:,}", "", ""))
        rows.append(("CR before newline removed", f"{self.crs:,}", "", ""))
        rows += [("shift", f"{s.shift.offset:+,}", "", f"{s.source}: {s.shift}") for s in self.shifts]
        if not self.shifts:
            rows.append(("shift", "none", "", ""))
        correlation = "-" if self.correlation is None else f"{self.correlation:.2f}"
        rows.append(("length correlation", correlation, "", ""))
        rows += [(name, "", "", str(spread)) for name, spread in self.lengths.items()]
        return rows

    def to_json(self) -> dict[str, Any]:
        """Plain values; places are "file:line"."""
        findings = {"identical": self.identical, "copies": self.copies, "ambiguous_sources": self.ambiguous}
        return {
            "files": list(self.files),
            "corpora": [asdict(part) for part in self.parts],
            "source_lines": self.source_lines,
            "target_lines": self.target_lines,
            "pairs": self.pairs,
            "usable": self.usable,
            "unusable": {str(problem): _finding(finding) for problem, finding in self.dropped.items()},
            "mended": {"bom": self.boms, "cr": self.crs},
            **{name: _finding(finding) for name, finding in findings.items()},
            "shifts": [{"source": s.source, "target": s.target, **s.shift._asdict()} for s in self.shifts],
            "length_correlation": self.correlation,
            "lengths": {name: vars(spread) for name, spread in self.lengths.items()},
        }


@dataclass(frozen=True)
class Overlap:
    """What one corpus has in common with another that should hold other sentences."""

    part: str
    other: str
    pairs: Finding
    sources: Finding
    total: int
    """Usable pairs of `part`."""

    @property
    def problems(self) -> list[str]:
        """Pairs seen before are always a leak; sources may recur by chance, up to a share."""
        if not self.pairs.count and self.sources.count <= REPEATED_SHARE * self.total:
            return []
        share = _share(self.sources.count, self.total)
        pairs = f"{self.pairs.count:,} pairs and {self.sources.count:,} sources ({share})"
        return [f"{self.part}: {pairs} are in {self.other} too: scores will flatter"]


@dataclass(frozen=True)
class Report:
    """Everything the doctor found."""

    corpora: tuple[CorpusReport, ...]
    overlaps: tuple[Overlap, ...]

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence each; empty: healthy."""
        found = [problem for corpus in self.corpora for problem in corpus.problems]
        return found + [problem for overlap in self.overlaps for problem in overlap.problems]

    def lines(self) -> list[str]:
        """The report as a plain-text table and a verdict."""
        lines: list[str] = []
        for corpus in self.corpora:
            lines += [f"{corpus.name}: {', '.join(corpus.files)}", *_table(corpus.rows()), ""]
        if self.overlaps:
            rows = []
            for overlap in self.overlaps:
                for what, finding in (("pairs", overlap.pairs), ("sources", overlap.sources)):
                    where = finding.where() if finding.places else ""
                    name = f"{overlap.part} {what} in {overlap.other}"
                    rows.append((name, f"{finding.count:,}", _share(finding.count, overlap.total), where))
            lines += ["overlap", *_table(rows), ""]
        problems = self.problems
        return lines + ([f"! {problem}" for problem in problems] or ["no problems found"])

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "problems": self.problems,
            **{corpus.name: corpus.to_json() for corpus in self.corpora},
            "overlaps": [
                {
                    "part": overlap.part,
                    "other": overlap.other,
                    "pairs": _finding(overlap.pairs),
                    "sources": _finding(overlap.sources),
                }
                for overlap in self.overlaps
            ],
        }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"count": finding.count, "first": [str(place) for place in finding.places]}


def _share(count: float, total: float) -> str:
    return f"{100 * count / total:.2f} %" if total else ""


def _table(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        f"  {name:<{widths[0]}}  {count:>{widths[1]}}  {share:>{widths[2]}}  {remark}".rstrip()
        for name, count, share, remark in rows
    ]
