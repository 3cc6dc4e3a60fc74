"""The view of attention in a real browser: every number in it is the model's."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest

from browser import TEXT, chosen, labels, looked, watched
from transduce import Translator
from transduce.explain.ablation import switched_off
from transduce.explain.attend import attend
from transduce.explain.head import Head
from transduce.explain.offline_page import offline_page
from transduce.explain.sentence_record import sentence_record

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HEADS = 4
LAYERS = 2


def table(page: Page) -> list[list[float]]:
    """All weights that the page shows."""
    summary = page.get_by_text("Weights as a table")
    if not page.locator("details[open] .numbers").count():
        summary.click()
        page.locator("details[open] .numbers tbody tr").first.wait_for()
    rows = page.locator("details[open] .numbers tbody tr").all()
    return [[float(cell) for cell in row.locator("td").all_inner_texts()] for row in rows]


def test_every_kind_shows_every_head(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    attended = attend(translator, TEXT)
    for name, kind in (("Encoder", "encoder"), ("Decoder", "decoder"), ("Decoder to encoder", "cross")):
        chosen(page, "Attention", name)
        attention = getattr(attended, kind)
        assert labels(page.locator(".lines .query .word")) == attention.queries
        assert labels(page.locator(".lines .key .word")) == attention.keys
        assert page.locator(".thumbnails canvas").count() == LAYERS * HEADS
        page.get_by_role("button", name="Layer 1, head 3", exact=True).click()
        assert np.allclose(table(page), attention.weights[0, 2], atol=2e-3)


def test_heads_are_shown_alone_as_mean_and_as_maximum(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    weights = attend(translator, TEXT).encoder.weights[1]
    chosen(page, "Show heads", "Mean")
    assert np.allclose(table(page), weights.mean(axis=0), atol=2e-3)
    chosen(page, "Show heads", "Maximum")
    assert np.allclose(table(page), weights.max(axis=0), atol=2e-3)
    page.get_by_role("button", name="Head 2", exact=True).click()  # alone
    assert np.allclose(table(page), weights[1], atol=2e-3)
    page.get_by_role("button", name="Head 4", exact=True).click()  # as well
    assert np.allclose(table(page), weights[[1, 3]].max(axis=0), atol=2e-3)
    page.get_by_role("button", name="Head 4", exact=True).click()  # no more
    page.get_by_role("button", name="Head 2", exact=True).click()  # all again
    assert np.allclose(table(page), weights.max(axis=0), atol=2e-3)


def test_what_is_hidden_is_shared_out(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    chosen(page, "Show heads", "Mean")
    page.get_by_label("Specials").uncheck()
    weights = attend(translator, TEXT).encoder.weights[1].astype(np.float64)[:, :-1, :-1]
    expected = (weights / weights.sum(axis=-1, keepdims=True)).mean(axis=0)
    assert np.allclose(table(page), expected, atol=3e-3)
    page.get_by_label("Whole words").uncheck()
    record: Any = sentence_record(translator, TEXT)
    assert labels(page.locator(".lines .key .word")) == record["source"]["pieces"][:-1]
    page.get_by_label("Punctuation").uncheck()
    assert labels(page.locator(".lines .key .word")) == [p for p in record["source"]["pieces"][:-1] if p.strip("▁.")]


def test_a_word_tells_its_exact_weights(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    page.get_by_role("button", name="Layer 2, head 1", exact=True).click()
    attention = attend(translator, TEXT).encoder
    page.locator(".lines .query .word").first.focus()
    page.keyboard.press("ArrowDown")
    page.locator(".readout .title", has_text="“dog” looks at").wait_for()
    shown = [float(number) for number in labels(page.locator(".readout .number:visible"))]
    assert np.allclose(shown, sorted(attention.weights[1, 0, 1], reverse=True)[:8], atol=2e-3)
    page.locator(".lines .key .word").nth(2).hover()
    page.locator(".readout .title", has_text="“sees” is looked at by").wait_for()
    shown = [float(number) for number in labels(page.locator(".readout .number:visible"))]
    assert np.allclose(shown, sorted(attention.weights[1, 0, :, 2], reverse=True)[:8], atol=2e-3)


def test_a_cell_opens_to_its_arithmetic(page: Page, site: str, translator: Translator) -> None:
    looked(page, site, "&layer=1&heads=3&hide=words")
    heat = page.locator(".heat canvas.over")
    heat.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):  # the first one enters the map at its corner
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.locator(".cell").wait_for()
    told = dict(zip(labels(page.locator(".cell dt")), labels(page.locator(".cell dd")), strict=True))
    record: Any = sentence_record(translator, TEXT)
    keys = len(record["source"]["pieces"])
    weight = np.frombuffer(base64.b64decode(record["attention"]["encoder"]["weights"]["float16"]), dtype="<f2").reshape(
        LAYERS, HEADS, keys, keys
    )[0, 2, 1, 1]
    assert float(told["weight"].split()[0]) == pytest.approx(float(weight), abs=6e-4)
    assert float(told["softmax"].split("= ")[1]) == pytest.approx(float(weight), abs=4e-3)
    products = [float(cell.replace("−", "-")) for cell in labels(page.locator(".cell tbody tr td:nth-child(4)"))]
    assert len(products) == record["model"]["d_k"]
    assert float(told["q · k"].split()[0].replace("−", "-")) == pytest.approx(sum(products), abs=0.02)
    page.get_by_role("button", name="Close").press("Enter")
    assert page.locator(".cell").count() == 0


def test_the_slider_walks_through_the_search(page: Page, site: str, translator: Translator) -> None:
    looked(page, site, "&kind=cross&hide=words")
    record: Any = sentence_record(translator, TEXT)
    slider = page.get_by_role("slider", name="Step")
    slider.focus()
    for step, piece in enumerate(record["target"]["pieces"], 1):
        page.keyboard.press("ArrowRight")
        assert (
            f"{step} of {len(record['target']['pieces'])}: “{piece.replace('▁', '')}”"
            in page.locator("output").inner_text()
        )
        page.locator('.lines .query [aria-selected="true"]', has_text=re.compile(f"^{re.escape(piece)}$")).wait_for()
        assert labels(page.locator(".ranked .chosen strong")) == [piece.replace("▁", "")]
        ranked = [place for place, at in enumerate(record["tree"]["steps"]) if at == step]
        assert page.locator(".ranked tr").count() == len(ranked)
        assert labels(page.locator(".steps-panel .bar-list .label")) == [
            each["piece"] for each in record["target"]["alternatives"][step - 1]
        ]
    page.keyboard.press("Home")
    assert page.locator("output").inner_text() == "the whole sentence"


def test_the_tree_has_its_pruned_branches(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    tree: Any = sentence_record(translator, TEXT)["tree"]
    for fate in ("kept", "pruned", "finished"):
        assert page.locator(f".tree g.{fate}").count() == tree["fates"].count(fate)
    assert page.locator(".tree path.best").count() == len(tree["best"]) - 1


def test_a_head_is_switched_off_and_on_again(page: Page, site: str, translator: Translator) -> None:
    looked(page, site, "&kind=cross")
    before = translator.translate([TEXT])[0].text
    off = []
    for head in range(HEADS):
        page.get_by_role("button", name=f"Layer 2, head {head + 1}", exact=True).click()
        page.get_by_role("button", name=f"Switch off decoder-to-encoder layer 2 head {head + 1}").click()
        page.get_by_role("button", name=f"layer 2 head {head + 1} is off").wait_for()
        off.append(Head("cross", 1, head))
        with switched_off(translator.reference.model, off):
            after = translator.translate([TEXT])[0].text
        told = page.locator(".ablation [role=status]")
        if after == before:
            assert "stays the same" in told.inner_text()
        else:
            assert " ".join(labels(told.locator("span, ins"))) == after
            assert " ".join(labels(told.locator("span, del"))) == before
        assert page.locator(".thumbnails .off").count() == head + 1
    assert after != before
    for left in range(HEADS - 1, -1, -1):
        page.locator(".off-head").first.click()
        page.wait_for_function("count => document.querySelectorAll('.off-head').length === count", arg=left)
    assert page.locator(".sentence").inner_text() == TEXT
    assert "".join(page.locator(".tokens .token").all_inner_texts()).replace("</s>", "") == before.replace(" ", "")


def test_a_prefix_is_forced(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    page.get_by_label("Translation begins with").fill("Die Katze")
    page.keyboard.press("Enter")
    expected = translator.translate([TEXT], prefix="Die Katze")[0].text
    page.locator(".tokens", has_text="DieKatze").wait_for()
    assert "".join(page.locator(".tokens .token").all_inner_texts()).replace("</s>", "") == expected.replace(" ", "")


def test_positions_are_the_papers(page: Page, site: str) -> None:
    looked(page, site)
    page.get_by_text("Position encodings").click()
    canvas = page.locator(".position-map canvas")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".readout-line").inner_text() == f"PE(1, 1) = {np.cos(1):.2f}, cosine of wavelength 6.3"


def test_a_link_shows_the_same(page: Page, site: str, browser: Browser) -> None:
    looked(page, site, "&prefix=Die")
    chosen(page, "Attention", "Decoder")
    page.get_by_role("button", name="Layer 1, head 2", exact=True).click()
    page.get_by_label("Punctuation").uncheck()
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="Copy link").click()
    page.locator(".exports .quiet", has_text=".").wait_for()
    shown, address = page.locator(".pictures").inner_text(), page.url
    with watched(browser) as other:
        other.goto(address)
        other.locator(".heat canvas.over").wait_for()
        other.locator(".readout .title", has_text="looks at").wait_for()
        assert other.locator(".pictures").inner_text() == shown
        assert other.locator("output").inner_text() == page.locator("output").inner_text()


def test_a_link_in_the_same_tab_shows_its_state_alone(page: Page, site: str) -> None:
    looked(page, site)
    first = page.locator(".pictures").inner_text()
    looked(page, site, "&kind=cross&layer=1&heads=2&combine=max&hide=words.marks&step=2&prefix=Die&beam=2")
    page.locator(".tokens", has_text="Die").wait_for()
    assert page.locator("#prefix").input_value() == "Die"
    page.goto(f"{site}/#/attend?text={TEXT}")
    page.wait_for_function("first => document.querySelector('.pictures').innerText === first", arg=first)
    assert (page.locator("#prefix").input_value(), page.locator("#beam").input_value()) == ("", "")
    assert page.get_by_label("Punctuation").is_checked()
    page.get_by_role("link", name="Translate").click()
    page.get_by_role("link", name="Attend").click()  # without parameters: what was there stays
    page.locator(".heat canvas.over").wait_for()
    assert page.locator(".sentence").inner_text() == TEXT


def test_focus_stays_where_a_head_is_switched(page: Page, site: str) -> None:
    looked(page, site, "&kind=cross&layer=2&heads=1")
    page.get_by_role("button", name="Switch off decoder-to-encoder layer 2 head 1").press("Enter")
    page.get_by_role("button", name="layer 2 head 1 is off").wait_for()
    focused = page.locator(":focus")
    assert focused.inner_text() == "Switch on decoder-to-encoder layer 2 head 1"
    focused.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.off-head').length === 0")
    assert page.locator(":focus").inner_text() == "Switch off decoder-to-encoder layer 2 head 1"


def test_what_one_number_of_several_heads_is_is_told(page: Page, site: str) -> None:
    looked(page, site)
    heat = page.locator("section[aria-label='Heat map'] .caption")
    assert heat.inner_text() == f"Of each word, the mean of {HEADS} heads."
    page.locator(".heat canvas.over").focus()
    page.keyboard.press("ArrowDown")
    title = page.locator(".readout .title")
    title.filter(has_text=f"(the mean of {HEADS} heads)").wait_for()
    assert labels(page.locator(".readout .label:visible")) == [f"head {head + 1}" for head in range(HEADS)]
    chosen(page, "Show heads", "Maximum")
    assert heat.inner_text() == f"Of each word, the largest of {HEADS} heads."
    page.get_by_role("button", name="Head 2", exact=True).click()
    assert heat.inner_text() == "Of each word, head 2."


def test_marks_that_hang_on_words_are_hidden(page: Page, site: str, translator: Translator) -> None:
    looked(page, site, "&layer=2&heads=1&hide=marks")
    record: Any = sentence_record(translator, TEXT)
    side = record["source"]
    assert labels(page.locator(".lines .key .word")) == ["The", "dog", "sees", "a", "bird", "</s>"]
    words = [[at for at in word if side["pieces"][at] != "."] for word in side["words"]]
    assert words != side["words"], "the full stop is a token of its own"
    keys = len(side["pieces"])
    packed = base64.b64decode(record["attention"]["encoder"]["weights"]["float16"])
    weights = np.frombuffer(packed, dtype="<f2").reshape(LAYERS, HEADS, keys, keys)[1, 0].astype(np.float64)
    merged = np.array([[weights[np.ix_(query, key)].sum() / len(query) for key in words] for query in words])
    assert np.allclose(table(page), merged / merged.sum(axis=1, keepdims=True), atol=3e-3)


def test_pictures_and_data_are_saved(page: Page, site: str, translator: Translator) -> None:
    looked(page, site)
    saved = {}
    for kind in ("SVG", "PNG", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Save {kind}").click()
        assert download.value.suggested_filename == f"attention.{kind.lower()}"
        saved[kind] = Path(download.value.path()).read_bytes()
    picture = ElementTree.fromstring(saved["SVG"])
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {*TEXT.split(), "</s>"} == set(words)
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}line"))) > len(TEXT.split())
    assert saved["PNG"].startswith(b"\x89PNG\r\n\x1a\n")
    assert len(saved["PNG"]) > 5000
    assert json.loads(saved["JSON"]) == json.loads(json.dumps(sentence_record(translator, TEXT)))


@pytest.fixture(scope="module")
def recorded(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "page.html"
    path.write_text(offline_page(translator, TEXT), encoding="utf-8")
    return path


def test_a_recorded_sentence_needs_no_server(page: Page, recorded: Path, translator: Translator) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.context.set_offline(True)
    page.goto(recorded.as_uri())
    page.locator(".heat canvas.over").wait_for()
    attention = attend(translator, TEXT).cross
    chosen(page, "Attention", "Decoder to encoder")
    page.get_by_role("button", name="Layer 2, head 4", exact=True).click()
    assert np.allclose(table(page), attention.weights[1, 3], atol=2e-3)
    page.get_by_role("button", name="Switch off").click()
    with switched_off(translator.reference.model, [Head("cross", 1, 3)]):
        after = translator.translate([TEXT])[0].text
    told = page.locator(".ablation [role=status]").inner_text()
    assert "stays the same" in told if after == translator.translate([TEXT])[0].text else after.split()[-1] in told
    with page.expect_download():
        page.get_by_role("button", name="Save PNG").click()
    assert page.locator("textarea, input[type=text], input[type=file], nav").count() == 0
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
