from __future__ import annotations

import gzip
import json
import os
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from transduce.config import DataConfig
from transduce.data import hashes
from transduce.data.corpus import Corpus, read_pairs
from transduce.data.doctor import examine
from transduce.data.hashes import PairHashes
from transduce.data.problems import Problem
from transduce.data.report import Report
from transduce.data.shift import Lengths, Shift, find_shifts
from transduce.errors import CorpusError, UserError

DATA = DataConfig()


def sentences(count: int, *, seed: int = 0) -> tuple[list[str], list[str]]:
    """Pairs whose lengths go together as those of translations do."""
    rng = random.Random(seed)
    words = ["a", "to", "sun", "tree", "house", "garden", "morning", "mountain"]
    source, target = [], []
    for index in range(count):
        length = max(2, int(rng.lognormvariate(2.2, 0.5)))
        source.append(f"{index} " + " ".join(rng.choices(words, k=length)))
        target.append(f"{index} " + " ".join(rng.choices(words, k=max(1, round(length * rng.gauss(1.1, 0.12))))))
    return source, target


def write(folder: Path, name: str, source: list[str], target: list[str]) -> Corpus:
    paths = [folder / f"{name}.{side}" for side in ("en", "de")]
    for path, lines in zip(paths, (source, target), strict=True):
        path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return Corpus((paths[0],), (paths[1],))


def shifts(report: Report) -> list[Shift]:
    return [found.shift for found in report.corpora[0].shifts]


def lengths(lines: list[str]) -> Lengths:
    return np.array([len(line) for line in lines], dtype=np.uint16)


def real_corpora() -> list[tuple[str, list[str], list[str]]]:
    root = Path(os.environ.get("TRANSDUCE_DATA", Path(__file__).parents[2] / "shared" / "data"))
    found = []
    for name in ("multi30k", "tatoeba-en-de"):
        paths = [root / name / f"train.{side}.gz" for side in ("en", "de")]
        if all(path.exists() for path in paths):
            sides = [gzip.decompress(path.read_bytes()).decode().split("\n")[:-1] for path in paths]
            found.append((name, sides[0], sides[1]))
    if not found:
        pytest.skip("no corpora: set TRANSDUCE_DATA to a directory with multi30k/ or tatoeba-en-de/")
    return found


def test_a_clean_corpus_has_no_problems(tmp_path: Path) -> None:
    source, target = sentences(3000)
    train = write(tmp_path, "train", source[:2800], target[:2800])
    report = examine(train, valid=write(tmp_path, "valid", source[2800:], target[2800:]), data=DATA)
    assert report.problems == []
    assert report.lines()[-1] == "no problems found"


def test_every_kind_of_damage_is_counted_with_its_lines(tmp_path: Path) -> None:
    source, target = sentences(1000)
    source[9], target[19], source[29], source[39] = "", " ", "a\0b", "a\rb"
    target[49], source[59], target[69] = "a\u2028b", "x" * 6000, "y" * 900
    corpus = write(tmp_path, "train", source, target)
    path = corpus.source[0]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n", 7) + b"\xff bad\n")
    corpus.target[0].write_bytes(corpus.target[0].read_bytes() + b"schlecht\n")
    found = examine(corpus, data=DATA).corpora[0]
    lines = {problem: [place.line for place in finding.places] for problem, finding in found.dropped.items()}
    assert lines == {
        Problem.EMPTY_SOURCE: [10],
        Problem.EMPTY_TARGET: [20],
        Problem.NUL: [30],
        Problem.CARRIAGE_RETURN: [40],
        Problem.LINE_BREAK: [50],
        Problem.OVER_LONG: [60],
        Problem.LENGTH_RATIO: [70],
        Problem.BAD_UTF8: [1001],
    }
    assert (found.pairs, found.usable, found.boms, found.crs) == (1001, 993, 1, 7)


def test_repeats_are_counted_as_a_dictionary_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "HELD", 50)
    monkeypatch.setattr(hashes, "READ", 3)
    rng = random.Random(1)
    pairs = [(f"s{rng.randrange(60)}", f"t{rng.randrange(4)}") for _ in range(500)]
    noted = PairHashes(tmp_path / "hashes")
    for start in range(0, 500, 20):
        part = pairs[start : start + 20]
        noted.add([s for s, _ in part], [t for _, t in part], np.arange(start, start + 20))
    copies, sources = noted.repeated()
    targets: dict[str, set[str]] = {}
    for one, other in pairs:
        targets.setdefault(one, set()).add(other)
    assert copies.count == len(pairs) - len(set(pairs))
    assert copies.lines == tuple(sorted(pairs.index(pair) for pair in set(pairs) if pairs.count(pair) > 1)[:5])
    assert sources.count == sum(len(found) > 1 for found in targets.values())
    firsts = sorted(next(i for i, p in enumerate(pairs) if p[0] == s) for s, found in targets.items() if len(found) > 1)
    assert sources.lines == tuple(firsts[:5])


def test_copies_ambiguous_sources_and_equal_sides_are_reported(tmp_path: Path) -> None:
    source, target = sentences(300)
    source += [source[4], source[7], "the same"]
    target += [target[4], "something else", "the same"]
    found = examine(write(tmp_path, "train", source, target), data=DATA).corpora[0]
    assert (found.copies.count, [p.line for p in found.copies.places]) == (1, [5])
    assert (found.ambiguous.count, [p.line for p in found.ambiguous.places]) == (1, [8])
    assert (found.identical.count, [p.line for p in found.identical.places]) == (1, [303])


def test_overlap_counts_pairs_and_sources(tmp_path: Path) -> None:
    source, target = sentences(700)
    train = write(tmp_path, "train", source[:500], target[:500])
    valid = write(tmp_path, "valid", source[500:600], target[500:600])
    test = write(
        tmp_path,
        "test",
        [*source[600:], *source[:3], source[550]],
        [*target[600:], *target[:2], *(f"{text} x" for text in (target[2], target[550]))],
    )
    report = examine(train, valid=valid, test=test, data=DATA)
    counts = {(o.part, o.other): (o.pairs.count, o.sources.count) for o in report.overlaps}
    assert counts == {("valid", "train"): (0, 0), ("test", "train"): (2, 3), ("test", "valid"): (0, 1)}
    assert [str(place) for place in report.overlaps[1].pairs.places] == [f"{tmp_path}/test.en:{n}" for n in (101, 102)]
    assert any("test: 2 pairs and 3 sources" in problem for problem in report.problems)


@pytest.mark.parametrize("place", [150, 1200, 5000, 9700])
@pytest.mark.parametrize("side", ["source", "target"])
def test_one_lost_line_is_found_near_its_place(tmp_path: Path, place: int, side: str) -> None:
    source, target = sentences(10000)
    del (source if side == "source" else target)[place]
    corpus = write(tmp_path, "train", source, target)
    report = examine(corpus, data=DATA)
    (shift,) = shifts(report)
    assert abs(shift.line - place) < 100
    assert shift.offset == (1 if side == "source" else -1)
    assert re.search(r"line counts differ: .*train\.en: [\d,]+, .*train\.de: [\d,]+", "\n".join(report.problems))
    with pytest.raises(CorpusError, match=r"from about line") as error:
        list(read_pairs(corpus))
    message = str(error.value)
    named = re.search(r"from about line ([\d,]+) on", message)
    assert named
    assert abs(int(named[1].replace(",", "")) - place) < 100
    assert f"{len(source):,} lines" in message
    assert f": {len(target):,};" in message


def test_a_shift_that_is_made_up_for_later_is_found(tmp_path: Path) -> None:
    source, target = sentences(10000)
    del source[1200]
    del target[5000]
    report = examine(write(tmp_path, "train", source, target), data=DATA)
    first, second = shifts(report)
    assert abs(first.line - 1200) < 100
    assert abs(second.line - 5000) < 100
    assert (first.offset, second.offset) == (1, 0)
    assert report.corpora[0].surplus == ()
    assert sum("from about line" in problem for problem in report.problems) == 2


def test_a_lost_block_is_found_with_its_size() -> None:
    source, target = (lengths(side) for side in sentences(10000))
    (shift,) = find_shifts(np.delete(source, slice(4000, 4300)), target)
    assert abs(shift.line - 4000) < 100
    assert shift.change == 300
    (shift,) = find_shifts(source, np.delete(target, slice(4000, 4300)))
    assert abs(shift.line - 4000) < 100
    assert shift.change == -300


def test_lines_added_at_the_end_are_no_shift_and_garbage_hides_none() -> None:
    source, target = (lengths(side) for side in sentences(6000))
    assert find_shifts(source, target[:-2]) == ()
    rng = np.random.default_rng(0)
    for side in (source, target):
        side[rng.choice(6000, 300, replace=False)] = rng.choice([0, 1, 60000], 300)
    assert find_shifts(source, target) == ()
    assert [shift.change for shift in find_shifts(np.delete(source, 3000), target)] == [1]


@pytest.mark.parametrize("kind", ["equal", "unrelated", "sorted"])
def test_lengths_that_tell_nothing_raise_no_alarm(kind: str) -> None:
    source, target = (lengths(side) for side in sentences(8000))
    order = np.argsort(source, kind="stable")
    source, target = {
        "equal": (np.full_like(source, 20), np.full_like(target, 30)),
        "unrelated": (source, np.random.default_rng(0).permutation(target)),
        "sorted": (source[order], target[order]),
    }[kind]
    assert find_shifts(source, target) == ()


def test_files_that_do_not_belong_together_are_a_problem(tmp_path: Path) -> None:
    source, target = sentences(2000)
    random.Random(0).shuffle(target)
    problems = examine(write(tmp_path, "train", source, target), data=DATA).problems
    assert any("do the files belong together?" in problem for problem in problems)


def test_real_corpora_are_unflagged_clean_and_flagged_when_a_line_is_lost() -> None:
    for name, source, target in real_corpora():
        one, other = lengths(source), lengths(target)
        assert find_shifts(one, other) == (), name
        for place in (300, 2500, 9000):
            found = find_shifts(np.delete(one[:10000], place), other[:10000])
            assert [shift.change for shift in found] == [1], name
            assert abs(found[0].line - place) < 100, name


def test_several_files_are_compared_each_with_its_own_other(tmp_path: Path) -> None:
    parts = []
    for number in range(3):
        source, target = sentences(1000, seed=number)
        if number == 1:
            del source[500]
        source[0] = ""
        parts.append(write(tmp_path, f"part{number}", source, target))
    corpus = Corpus(tuple(p.source[0] for p in parts), tuple(p.target[0] for p in parts))
    found = examine(corpus, data=DATA).corpora[0]
    assert [Path(shift.source).name for shift in found.shifts] == ["part1.en"]
    assert abs(found.shifts[0].shift.line - 500) < 100
    assert [str(p) for p in found.dropped[Problem.EMPTY_SOURCE].places] == [f"{p.source[0]}:1" for p in parts]
    assert (found.source_lines, found.target_lines) == (2999, 3000)


def test_each_of_several_corpora_is_reported_with_its_weight(tmp_path: Path) -> None:
    source, target = sentences(600)
    source[7] = ""
    one = write(tmp_path, "one", source[:500], target[:500])
    rows = tmp_path / "two.tsv"
    rows.write_text("".join(f"{s}\t{t}\n" for s, t in zip(source[500:], target[500:], strict=True)), encoding="utf-8")
    report = examine(replace(one, others=(Corpus(pairs=(rows,), weight=2.5),)), data=DATA).corpora[0]
    assert [(part.weight, part.pairs, part.usable) for part in report.parts] == [(1, 500, 499), (2.5, 100, 100)]
    assert (report.pairs, report.usable) == (600, 599)
    share = 100 * 250 / (250 + 499)
    assert any(f"weight 2.5, {share:.2f} % of an epoch: {rows}" in line for line in Report((report,), ()).lines())
    assert report.to_json()["corpora"][1]["files"] == (str(rows),)


def test_the_report_is_json_and_a_table_and_ticks_count_bytes(tmp_path: Path) -> None:
    source, target = sentences(200)
    source[4] = ""
    seen: list[tuple[int, int]] = []
    corpus = write(tmp_path, "train", source, target)
    report = examine(corpus, data=DATA, tick=lambda done, total: seen.append((done, total)))
    table = json.loads(json.dumps(report.to_json()))
    assert table["train"]["unusable"] == {"empty source": {"count": 1, "first": [f"{tmp_path}/train.en:5"]}}
    assert table["problems"] == report.problems
    assert any(re.fullmatch(r"  empty source +1 +0\.50 %  line 5", line) for line in report.lines())
    size = sum(path.stat().st_size for path in corpus.files)
    assert seen[-1] == (size, size)
    mean = sum(map(len, target[:4] + target[5:])) / 199
    assert table["train"]["lengths"]["target characters"]["mean"] == pytest.approx(mean)


def test_the_95th_percentile_is_the_length_that_19_of_20_lines_keep_to(tmp_path: Path) -> None:
    source = ["x" * n for n in range(1, 101)]
    spread = examine(write(tmp_path, "train", source, source), data=DATA).corpora[0].lengths["source characters"]
    assert (spread.mean, spread.p95, spread.maximum) == (50.5, 95, 100)


def test_a_full_disk_names_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: PairHashes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PairHashes, "flush", full)
    source, target = sentences(10)
    with pytest.raises(UserError, match=rf"{tempfile.gettempdir()}: .*No space left.*TMPDIR"):
        examine(write(tmp_path, "train", source, target), data=DATA)
