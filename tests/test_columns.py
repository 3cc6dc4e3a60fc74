"""Tables: one column is translated, everything else stays as it was, and every row gets its row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command import transduce
from loud import Loud
from test_mistakes import refused
from transduce.decode.columns import Jsonl, Tsv


@pytest.fixture
def loud(monkeypatch: pytest.MonkeyPatch) -> Loud:
    return Loud().take_part(monkeypatch)


TABLE = "id\ttext\tnote\n1\ta b\tkept  as it is\n2\t\t\n3\n4\tc\t\n"


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize(
    ("column", "heading"), [(["--column", "text"], "translation"), (["--column", "text", "--into", "de"], "de")]
)
def test_a_column_of_a_table_by_its_name(small_run: Path, tmp_path: Path, column: list[str], heading: str) -> None:
    (tmp_path / "in.tsv").write_text(TABLE, encoding="utf-8")
    ran = transduce("translate", small_run, tmp_path / "in.tsv", *column)
    assert ran.code == 0
    rows = TABLE.split("\n")
    assert ran.lines == [f"{rows[0]}\t{heading}", f"{rows[1]}\tA B", f"{rows[2]}\t", "3", f"{rows[4]}\tC"]
    assert ran.err == f"warning: {tmp_path / 'in.tsv'}: line 4: has 1 of the 2 columns needed: left as it is\n"


@pytest.mark.usefixtures("loud")
def test_a_column_of_a_table_by_its_number(small_run: Path, tmp_path: Path) -> None:
    ran = transduce("translate", small_run, "--format", "tsv", "--column", "2", stdin=TABLE.encode())
    assert ran.lines[:2] == ["id\ttext\tnote\tTEXT", "1\ta b\tkept  as it is\tA B"]
    assert ran.err == "warning: stdin: line 4: has 1 of the 2 columns needed: left as it is\n"


@pytest.mark.usefixtures("loud")
def test_each_table_has_its_heading_whatever_the_window_or_the_shard(small_run: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\ttext\n" + "1\ta\n" * 5, encoding="utf-8")
    (tmp_path / "b.tsv").write_text("text\ty\n" + "b\t2\n" * 5, encoding="utf-8")
    arguments = ("translate", small_run, tmp_path / "a.tsv", tmp_path / "b.tsv", "--column", "text")
    whole = transduce(*arguments)
    first = ["x\ttext\ttranslation", *["1\ta\tA"] * 5]
    assert whole.lines == [*first, "text\ty\ttranslation", *["b\t2\tB"] * 5]
    shards = [transduce(*arguments, "--shards", f"{number}/3").out for number in (1, 2, 3)]
    assert "".join(shards) == whole.out


@pytest.mark.usefixtures("loud")
def test_a_key_of_json_lines(small_run: Path, tmp_path: Path) -> None:
    rows = [
        '{"id": 1.50, "text": "a \\u00e4 b", "deep": {"x": [1, null]} }',
        '{"text":"c"}',
        '{"id": 3}',
        '{"text": 4}',
        '{"text": "\\ud800"}',
        '["text"]',
        "{broken",
        "",
        '{"text": "d", "translation": "there"}',
    ]
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode() + b"\n"))
    ran = transduce("translate", small_run, tmp_path / "in.jsonl.gz", "--column", "text")
    assert ran.code == 0
    first = '{"id": 1.50, "text": "a \\u00e4 b", "deep": {"x": [1, null]}, "translation": "A Ä B"}'
    assert ran.lines == [first, '{"text":"c", "translation": "C"}', *rows[2:]]
    told = [line.split(": ", 2)[2] for line in ran.err.split("\n")[:-1]]
    assert told == [
        "line 3: has no 'text': left as it is",
        "line 4: 'text' is not text: left as it is",
        "line 5: 'text' is not text: left as it is",
        "line 6: is not a JSON object: left as it is",
        "line 7: is not JSON: left as it is",
        "line 8: is not JSON: left as it is",
        "line 9: has a key 'translation' already: left as it is",
    ]


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(), max_size=4),
    st.text(),
    st.text(),
    st.sampled_from([None, 1]),
)
def test_a_translation_in_json_changes_nothing_else(
    others: dict[str, object], source: str, translation: str, indent: int | None
) -> None:
    table = {**others, "t": source}
    others.pop("new", None)
    table.pop("new", None)
    line = json.dumps(table, indent=indent).replace("\n", " ")
    layout = Jsonl("t", "new")
    row = layout.row(line, 1)
    answer = row.before + layout.spell(translation) + row.after
    assert row.source == source
    assert json.loads(answer) == {**table, "new": translation}
    assert answer.startswith(line[:-1].rstrip(" "))
    assert "\n" not in answer


def test_a_tab_in_a_translation_begins_no_column() -> None:
    assert Tsv("1", "x").spell("a\tb") == "a b"


@pytest.mark.usefixtures("loud")
def test_a_table_is_broken_off_and_gone_on_with(small_run: Path, tmp_path: Path, loud: Loud) -> None:
    (tmp_path / "in.tsv").write_text("n\ttext\n" + "".join(f"{n}\tline {n}\n" for n in range(9)), encoding="utf-8")
    arguments = ("translate", small_run, tmp_path / "in.tsv", "--column", "text", "-o", tmp_path / "out.tsv")
    loud.break_at = 5
    assert transduce(*arguments).code == 130
    loud.break_at = None
    assert transduce(*arguments).code == 0
    found = (tmp_path / "out.tsv").read_text(encoding="utf-8").split("\n")
    assert found == ["n\ttext\ttranslation", *(f"{n}\tline {n}\tLINE {n}" for n in range(9)), ""]


MISTAKES: dict[str, tuple[list[str], str]] = {
    "no column": (["t.tsv"], "tsv: say with --column which one to translate, or take whole lines with --format text"),
    "no key": (["t.jsonl"], "jsonl: say with --column which one"),
    "no table": (["in.txt", "--column", "1"], "text has no columns: --column and --into need --format tsv or jsonl"),
    "column 0": (["t.tsv", "--column", "0"], "--column 0: columns are counted from 1"),
    "no such column": (["t.tsv", "--column", "tex"], "t.tsv: line 1: no column 'tex', only 'id', 'text', 'note'"),
    "a column twice": (["t.tsv", "--column", "text", "--into", "note"], "line 1: has a column 'note' already"),
    "a name for a number": (["t.tsv", "--column", "2", "--into", "x"], "--into x: a column is named only where"),
    "a tab in a name": (["t.tsv", "--column", "text", "--into", "a\tb"], "a name cannot hold a tab"),
    "two kinds": (["t.tsv", "in.txt", "--column", "1"], "in.txt is text: translate each kind by itself"),
    "n-best": (["t.tsv", "--column", "text", "--n-best", "2"], "--n-best writes rows of its own: not with tsv"),
}


@pytest.mark.usefixtures("loud")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_with_columns(small_run: Path, tmp_path: Path, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, told = MISTAKES[mistake]
    (tmp_path / "t.tsv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "in.txt").write_text("a\n", encoding="utf-8")
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert told in refused(tmp_path, "translate", small_run, *arguments, "-o", "out")
