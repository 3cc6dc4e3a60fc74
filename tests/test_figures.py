import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce import errors
from transduce.errors import MissingExtra, UserError
from transduce.explain.figures import heatmap_svg, lines_svg, write_heatmap, write_lines
from transduce.explain.record import Attention, merge_words, word_groups

SVG = "{http://www.w3.org/2000/svg}"


def make_attention(queries: list[str], keys: list[str], *, layers: int = 2, heads: int = 3, seed: int = 0) -> Attention:
    scores = np.random.default_rng(seed).normal(scale=2.0, size=(layers, heads, len(queries), len(keys)))
    weights = np.exp(scores)
    return Attention("cross", weights / weights.sum(axis=-1, keepdims=True), queries, keys)


def marks(svg: str, tag: str) -> list[ElementTree.Element]:
    """The elements that stand for a weight: they have a title; legends have none."""
    return [e for e in ElementTree.fromstring(svg).iter(SVG + tag) if e.find(SVG + "title") is not None]


def titled_weight(element: ElementTree.Element) -> float:
    title = element.findtext(SVG + "title")
    assert title is not None
    return float(title.rsplit(": ", 1)[1])


def labels(svg: str) -> list[str | None]:
    return [e.text for e in ElementTree.fromstring(svg).iter(SVG + "text")]


@pytest.fixture
def attention() -> Attention:
    return make_attention(["Das", "Gesetz", "gilt"], ["The", "law", "applies", "</s>"])


def test_every_weight_over_the_threshold_is_one_line(attention: Attention) -> None:
    for threshold in (0.0, 0.1, 0.5):
        expected = int((attention.weights[1] >= threshold).sum())
        assert len(marks(lines_svg(attention, layer=1, threshold=threshold), "line")) == expected


def test_lines_can_show_one_query_or_some_heads(attention: Attention) -> None:
    one_query = marks(lines_svg(attention, layer=0, query=2, threshold=0.0), "line")
    assert len(one_query) == 3 * 4
    assert all(" gilt → " in (e.findtext(SVG + "title") or "") for e in one_query)
    one_head = marks(lines_svg(attention, layer=0, heads=[1], threshold=0.0), "line")
    assert [titled_weight(e) for e in one_head] == pytest.approx(attention.weights[0, 1].ravel(), rel=1e-5)


def test_opacity_is_proportional_to_weight_and_the_strongest_line_is_opaque(attention: Attention) -> None:
    lines = marks(lines_svg(attention, layer=0, heads=[2], threshold=0.0), "line")
    strongest = max(titled_weight(e) for e in lines)
    for line in lines:
        assert float(line.attrib["stroke-opacity"]) == pytest.approx(titled_weight(line) / strongest, abs=1e-4)


def test_heads_differ_in_colour_or_dashes() -> None:
    lines = marks(lines_svg(make_attention(["a"], ["b"], heads=16), layer=0), "line")
    looks = {(e.attrib["stroke"], e.attrib.get("stroke-dasharray")) for e in lines}
    assert len(looks) == 16


def test_a_head_has_the_same_colour_in_every_picture(attention: Attention) -> None:
    alone = marks(lines_svg(attention, layer=0, heads=[2], query=0, threshold=0.0), "line")
    among = marks(lines_svg(attention, layer=0, query=0, threshold=0.0), "line")
    assert alone[0].attrib["stroke"] == among[-1].attrib["stroke"]


def test_heatmap_has_a_cell_per_weight(attention: Attention) -> None:
    cells = marks(heatmap_svg(attention, layer=1, head=0), "rect")
    assert [titled_weight(e) for e in cells] == pytest.approx(attention.weights[1, 0].ravel(), rel=1e-5)


def test_heatmap_without_a_head_is_the_mean(attention: Attention) -> None:
    cells = marks(heatmap_svg(attention, layer=1), "rect")
    assert [titled_weight(e) for e in cells] == pytest.approx(attention.weights[1].mean(axis=0).ravel(), rel=1e-5)


def test_a_heavier_cell_is_darker(attention: Attention) -> None:
    def lightness(cell: ElementTree.Element) -> int:
        return sum(bytes.fromhex(cell.attrib["fill"].removeprefix("#")))

    cells = sorted(marks(heatmap_svg(attention, layer=0, head=0), "rect"), key=titled_weight)
    shades = [lightness(cell) for cell in cells]
    assert shades == sorted(shades, reverse=True)
    assert shades[0] > shades[-1]


def test_markup_in_words_is_text() -> None:
    attention = make_attention(["<b>&", '"x"'], ["</text>", "&amp;", "]]>"])
    for svg in (lines_svg(attention, layer=0, query=0), heatmap_svg(attention, layer=0)):
        for word in attention.queries + attention.keys:
            assert word in labels(svg)


@settings(deadline=None)
@given(st.lists(st.text(max_size=8), min_size=1, max_size=3))
def test_any_words_at_all_give_well_formed_xml(words: list[str]) -> None:
    attention = make_attention(words, words)
    for svg in (lines_svg(attention, layer=0, query=0), heatmap_svg(attention, layer=0)):
        ElementTree.fromstring(svg.encode("utf-8"))


def test_every_word_lies_inside_the_picture() -> None:
    long = "Donaudampfschifffahrtsgesellschaft"
    attention = make_attention([long, "a"], ["b", long])
    for svg in (lines_svg(attention, layer=0), lines_svg(attention, layer=0, query=0)):
        root = ElementTree.fromstring(svg)
        for text in root.iter(SVG + "text"):
            reach = 7.5 * len(text.text or "")  # a wide font at 13 pixels
            x = float(text.attrib["x"])
            assert x - reach >= 0 if text.attrib["text-anchor"] == "end" else x + reach <= float(root.attrib["width"])


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<svg "), ("pdf", b"%PDF-"), ("png", b"\x89PNG\r\n\x1a\n")])
def test_the_suffix_chooses_the_format(tmp_path: Path, attention: Attention, suffix: str, magic: bytes) -> None:
    for name in ("first", "second"):
        write_lines(tmp_path / f"lines-{name}.{suffix}", attention, layer=1, query=0)
        write_heatmap(tmp_path / f"heat-{name}.{suffix.upper()}", attention, layer=1)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(written) == 4
    assert all(data.startswith(magic) for data in written.values())
    assert written[f"lines-first.{suffix}"] == written[f"lines-second.{suffix}"]


def test_svg_is_saved_as_it_is(tmp_path: Path, attention: Attention) -> None:
    svg = lines_svg(attention, layer=0)
    write_lines(tmp_path / "a.svg", attention, layer=0)
    assert (tmp_path / "a.svg").read_bytes() == svg.encode("utf-8")


@pytest.mark.parametrize("name", ["picture.gif", "picture"])
def test_another_suffix_is_refused(tmp_path: Path, attention: Attention, name: str) -> None:
    with pytest.raises(UserError, match=r"\.svg, \.pdf or \.png"):
        write_heatmap(tmp_path / name, attention, layer=0)


def test_dollars_are_no_formula(tmp_path: Path) -> None:
    write_heatmap(tmp_path / "price.png", make_attention(["$5", "$x_", "$6$"], ["\\frac{", "%"]), layer=0)
    assert (tmp_path / "price.png").stat().st_size > 0


def test_a_missing_extra_is_named(tmp_path: Path, attention: Attention, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(module)

    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(MissingExtra, match=re.escape("pip install '.[figures]'")):
        write_lines(tmp_path / "a.pdf", attention, layer=0)
    write_lines(tmp_path / "a.svg", attention, layer=0)
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


@pytest.mark.parametrize("arguments", [{"layer": 2}, {"layer": -1}, {"layer": 0, "heads": [0, 3]}])
def test_what_the_model_lacks_is_refused(attention: Attention, arguments: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"(layer|head) \d: there are [23]"):
        lines_svg(attention, **arguments)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_merged_weights_still_sum_to_one(query_sizes: list[int], key_sizes: list[int]) -> None:
    def groups(sizes: list[int]) -> list[list[int]]:
        ends = np.cumsum(sizes).tolist()
        return [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]

    pieces = make_attention(["q"] * sum(query_sizes), ["k"] * sum(key_sizes))
    words = merge_words(pieces, groups(query_sizes), groups(key_sizes))
    assert words.weights.shape[2:] == (len(query_sizes), len(key_sizes))
    assert words.weights.sum(axis=-1) == pytest.approx(1.0)


def test_merging_sums_over_keys_and_averages_over_queries() -> None:
    weights = np.array([[[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]]])
    pieces = Attention("encoder", weights, ["▁mak", "ing"], ["▁new", "▁la", "ws"])
    words = merge_words(pieces, word_groups(pieces.queries), word_groups(pieces.keys))
    assert (words.queries, words.keys) == (["making"], ["new", "laws"])
    assert words.weights.ravel() == pytest.approx([0.3, 0.7])


def test_a_character_spelled_in_bytes_is_read_as_itself() -> None:
    pieces = ["▁5", "<0xE2>", "<0x82>", "<0xAC>", "▁", "<0xFF>"]
    merged = merge_words(make_attention(pieces, pieces), word_groups(pieces), word_groups(pieces))
    assert merged.keys == ["5€", "\N{REPLACEMENT CHARACTER}"]


def test_specials_are_words_of_their_own() -> None:
    assert word_groups(["▁a", "b", "</s>"]) == [[0, 1], [2]]
    assert word_groups(["<s>", "a", "b", "▁c"]) == [[0], [1, 2], [3]]
    assert word_groups([]) == []


def test_drawing_loads_neither_torch_nor_matplotlib() -> None:
    program = "import sys, transduce.explain.figures; sys.exit(bool({'torch', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
