"""`transduce attend` and `transduce explain`: the files they write and what they refuse."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
import typer
from rich.console import Console

from transduce import Translator
from transduce.cli.attend import Style, Which, attend, place_of
from transduce.cli.display import Display
from transduce.cli.explain import explain
from transduce.errors import UserError
from transduce.explain.attend import attend as attend_to
from transduce.explain.figures import heatmap_svg, lines_svg

SENTENCE = "The dog sees the bird."


@pytest.fixture
def context() -> typer.Context:
    return cast(typer.Context, SimpleNamespace(obj=Display(Console(file=io.StringIO()))))


def drawn(context: typer.Context, bundle: Path, output: Path, **options: Any) -> str:
    attend(context, bundle, SENTENCE, output, **options)
    return output.read_text(encoding="utf-8")


def test_the_picture_is_the_one_that_was_asked_for(context: typer.Context, bundle: Path, tmp_path: Path) -> None:
    attended = attend_to(Translator.load(bundle, engine="pytorch"), SENTENCE)
    picture = drawn(context, bundle, tmp_path / "a.svg", kind=Which.CROSS, layer=1, head=[2, 4])
    assert picture == lines_svg(attended.cross, layer=0, heads=[1, 3])
    picture = drawn(context, bundle, tmp_path / "b.svg", word="dog")
    assert picture == lines_svg(attended.encoder, layer=1, query=1)
    picture = drawn(context, bundle, tmp_path / "c.svg", kind=Which.DECODER, head=[1], style=Style.HEAT)
    assert picture == heatmap_svg(attended.decoder, layer=1, head=0)
    picture = drawn(context, bundle, tmp_path / "d.svg", style=Style.HEAT)
    assert picture == heatmap_svg(attended.encoder, layer=1)


def test_the_path_is_the_result_and_the_translation_a_note(
    context: typer.Context, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ElementTree.fromstring(drawn(context, bundle, tmp_path / "a.svg"))
    assert capsys.readouterr().out == f"{tmp_path / 'a.svg'}\n"
    assert SENTENCE in context.obj.console.file.getvalue()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer": 3}, "layer 3: there are 2: choose from 1 to 2"),
        ({"layer": 0}, "layer 0: there are 2"),
        ({"head": [1, 5]}, "head 5: there are 4: choose from 1 to 4"),
        ({"head": [0]}, "head 0: there are 4"),
        ({"head": [9], "style": Style.HEAT}, "head 9: there are 4"),
        ({"word": "7"}, "word 7: there are 6: choose from 1 to 6"),
        ({"word": "0"}, "word 0: there are 6"),
        ({"word": "cat"}, "word 'cat': not one of"),
        ({"word": "dog", "style": Style.HEAT}, "leave out --word"),
        ({"head": [1, 2], "style": Style.HEAT}, "name one --head"),
    ],
)
def test_what_is_not_there_is_refused(
    context: typer.Context, bundle: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        drawn(context, bundle, tmp_path / "a.svg", **options)
    assert list(tmp_path.iterdir()) == []


def test_outputs_are_refused_before_the_model_is_looked_for(context: typer.Context, tmp_path: Path) -> None:
    nowhere, there = tmp_path / "none", tmp_path / "there.svg"
    there.write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"\.svg or \.pdf or \.png"):
        attend(context, nowhere, SENTENCE, tmp_path / "a.gif")
    with pytest.raises(UserError, match="exists: choose another"):
        attend(context, nowhere, SENTENCE, there)
    with pytest.raises(UserError, match=r"end in \.html"):
        explain(context, nowhere, SENTENCE, output=tmp_path / "a.svg")
    assert there.read_text(encoding="utf-8") == "mine"


def test_a_sentence_without_words_is_refused(context: typer.Context, bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give a sentence in quotes"):
        attend(context, bundle, "", tmp_path / "a.svg")


def test_a_word_is_found_by_number_or_by_what_it_is() -> None:
    words = ["The", "dog,", "the", "42", "Dog.", "bird."]
    assert [place_of(word, words) for word in ("The", "bird", "2", "42", "the", "dog,")] == [0, 5, 1, 3, 2, 1]
    with pytest.raises(UserError, match="'THE': it is there 2 times, as words 1 and 3: give one of the numbers"):
        place_of("THE", words)


def test_explain_prints_the_walk_or_writes_a_page(
    context: typer.Context, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(context, bundle, SENTENCE)
    printed = capsys.readouterr().out
    assert printed.startswith(f"“{SENTENCE}” → “")
    assert "layer 1, head 1" in printed
    explain(context, bundle, SENTENCE, layer=2, head=3, output=tmp_path / "walk.html")
    assert capsys.readouterr().out == f"{tmp_path / 'walk.html'}\n"
    assert "layer 2, head 3" in (tmp_path / "walk.html").read_text(encoding="utf-8")
    with pytest.raises(UserError, match="layer 3: there are 2"):
        explain(context, bundle, SENTENCE, layer=3)


def test_a_page_is_one_file_that_asks_nobody(context: typer.Context, bundle: Path, tmp_path: Path) -> None:
    text = drawn(context, bundle, tmp_path / "page.html")
    assert "default-src 'none'" in text
    assert "src=" not in text.split("</head>")[0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"head": [1]}, "--head"),
        ({"kind": Which.ENCODER}, "--kind"),
        ({"layer": 1}, "--layer"),
        ({"word": "dog"}, "--word"),
        ({"style": Style.LINES}, "--style"),
        ({"kind": Which.CROSS, "layer": 2}, "--kind, --layer"),
    ],
)
def test_a_page_shows_all_and_takes_no_choice(
    context: typer.Context, bundle: Path, tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(UserError, match=f"leave out {named}$"):
        drawn(context, bundle, tmp_path / "page.html", **options)
    assert list(tmp_path.iterdir()) == []
