"""The page in a real browser: what it shows is what the model says, by pointer and by keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser import TEXT, labels, looked, stand_in, watched
from transduce import Translator

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIELDS = ("text", "prefix", "kind", "heads", "off")
XSS = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\"><svg onload=window.hacked=1> '><b>",
    "javascript:window.hacked=1//</textarea></title>{{7*7}}${window.hacked=1}",
]


def test_what_is_typed_is_translated(page: Page, site: str, translator: Translator) -> None:
    lines = [TEXT, "", "The cat sleeps."]
    page.goto(site)
    page.locator("#text").fill("\n".join(lines))
    page.locator(".output .words").nth(1).wait_for()
    expected = [each.text for each in translator.translate(lines)]
    assert page.locator(".output").text_content() == "\n".join(expected)


def test_a_paragraph_is_translated_sentence_by_sentence(page: Page, site: str, translator: Translator) -> None:
    sentences = [TEXT, "The cat sleeps.", "The man reads a book."]
    page.goto(site)
    page.locator("#text").fill("  ".join(sentences) + "\n\n\t" + TEXT + "\n" * 100 + TEXT)
    page.locator(".output .words").nth(4).wait_for()
    expected = [each.text for each in translator.translate(sentences)]
    shown = page.locator(".output").text_content()
    assert shown == "  ".join(expected) + "\n\n\t" + expected[0] + "\n" * 100 + expected[0]
    given = page.locator(".given .words")
    assert [given.nth(at).text_content() for at in range(3)] == sentences


def test_other_words_are_taken_into_one_sentence(page: Page, site: str, translator: Translator) -> None:
    page.goto(site)
    page.locator("#text").fill(f"The cat sleeps. {TEXT}")
    second = page.locator(".output .words").nth(1)
    second.locator(".word-box").nth(1).click()
    prefix = translator.translate([TEXT])[0].text.split()[0]
    offered = translator.alternatives(TEXT, prefix)
    assert labels(page.locator(".menu .label")) == [each.text for each in offered]
    page.locator(".menu .choose").nth(1).click()
    page.locator(".menu").filter(has_not=page.locator(".choose")).wait_for(state="attached")
    assert " ".join(labels(second.locator(".word-box"))[:2]) == " ".join(offered[1].text.split()[:2])
    assert page.locator(".output .words").first.text_content() == translator.translate(["The cat sleeps."])[0].text


def test_a_key_is_asked_for_and_sent(browser: Browser, translator: Translator) -> None:
    with stand_in(translator, key="secret") as site, watched(browser) as page:
        page.goto(f"{site}/#/translate?text={TEXT}")
        field = page.get_by_label("API key")
        field.wait_for()
        assert "needs an API key" in page.locator(".message").first.inner_text()
        for given, told in (("wrong", "not known"), ("secret", "")):
            field.fill(given)
            field.press("Enter")
            page.wait_for_function(
                "told => document.querySelector('.message').textContent.includes(told)"
                " && (told || document.querySelector('.output .word-box'))",
                arg=told,
            )
        page.get_by_label("A text file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
        page.get_by_role("link", name="Download the translation of a.txt").wait_for()
        page.get_by_role("link", name="Attend").click()
        page.locator(".heat canvas.over").wait_for()
        page.get_by_role("button", name="Copy link").click()
        assert "secret" not in page.url
        page.reload()  # the tab keeps it
        page.locator(".heat canvas.over").wait_for()
        assert not field.is_visible()


def test_a_link_names_the_languages_of_its_model(browser: Browser, translator: Translator) -> None:
    offered = [("one", "en", "de"), ("two", "fr", "es")]
    with stand_in(translator, offered=offered) as site, watched(browser) as page:
        page.goto(f"{site}/#/translate?text={TEXT}&model=two")
        page.locator(".output .word-box").first.wait_for()
        assert labels(page.locator("h2 span")) == ["fr", "es"]
        assert page.locator("#text").get_attribute("lang") == "fr"
        assert page.locator(".output .words").first.get_attribute("lang") == "es"
        assert page.get_by_label("Model").input_value() == "1"
        page.goto(f"{site}/#/attend?text={TEXT}")  # in the same tab: the first model again
        page.locator(".heat canvas.over").wait_for()
        assert page.get_by_label("Model").input_value() == "0"
        assert page.locator("#sentence").get_attribute("lang") == "en"


def test_fields_have_their_language_with_one_model(page: Page, site: str) -> None:
    looked(page, site)
    assert page.locator("#sentence").get_attribute("lang") == "en"
    assert page.locator("#prefix").get_attribute("lang") == "de"


def test_a_word_shows_what_it_translates(page: Page, site: str, translator: Translator) -> None:
    from transduce.decode.alignment import align_lines

    page.goto(f"{site}/#/translate?text={TEXT}")
    made = page.locator(".output .word-box")
    made.first.wait_for()
    (alignment,) = align_lines(translator, [TEXT], translator.translate([TEXT])[0].text.split("\n"))
    for at in range(made.count()):
        expected = [TEXT.split()[source] for source, target in alignment.links if target == at]
        made.nth(at).hover()
        assert labels(page.locator(".given .linked")) == expected
    made.first.focus()
    page.keyboard.press("End")
    last = [TEXT.split()[source] for source, target in alignment.links if target == made.count() - 1]
    assert labels(page.locator(".given .linked")) == last


def test_other_words_are_offered_and_taken(page: Page, site: str, translator: Translator) -> None:
    page.goto(f"{site}/#/translate?text={TEXT}")
    made = page.locator(".output .word-box")
    made.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(".menu .choose").first.wait_for()
    prefix = translator.translate([TEXT])[0].text.split()[0]
    offered = translator.alternatives(TEXT, prefix)
    assert labels(page.locator(".menu .label")) == [each.text for each in offered]
    page.locator(".menu .choose").nth(1).press("Enter")
    page.locator(".menu").filter(has_not=page.locator(".choose")).wait_for(state="attached")
    page.locator(".more > .quiet").wait_for()
    taken = " ".join(offered[1].text.split()[:2])
    assert " ".join(labels(made)[:2]) == taken


def test_probabilities_are_told(page: Page, site: str, translator: Translator) -> None:
    page.goto(f"{site}/#/translate?text={TEXT}")
    page.get_by_text("Probability of each token").click()
    (translation,) = translator.translate([TEXT], tokens=True)
    assert labels(page.locator(".more .label")) == [token.piece for token in translation.tokens]
    shares = [
        float(re.sub("[^0-9.]", "", text)) / 100 for text in labels(page.locator(".more .number").filter(has_text="%"))
    ]
    expected = np.exp([token.log_probability for token in translation.tokens])
    assert np.allclose(shares, expected, atol=0.006)


def test_a_glossary_is_kept_to(page: Page, site: str) -> None:
    from playwright.sync_api import expect

    page.goto(f"{site}/#/translate?text={TEXT}")
    page.get_by_label("Glossary").fill("bird = Garten")
    expect(page.locator(".output .word-box", has_text="Garten").first).to_be_visible(timeout=30_000)


def test_a_file_is_translated(page: Page, site: str, translator: Translator) -> None:
    page.goto(site)
    lines = [TEXT, "The cat sleeps."]
    content = "".join(f"{line}\n" for line in lines).encode()
    page.get_by_label("A text file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": content})
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the translation of a.txt").click()
    written = Path(download.value.path()).read_text(encoding="utf-8")
    assert written == "".join(f"{each.text}\n" for each in translator.translate(lines))


@pytest.mark.parametrize("attack", XSS)
def test_no_text_becomes_a_script(page: Page, site: str, attack: str) -> None:
    page.goto(site)
    page.locator("#text").fill(attack)
    page.get_by_label("Glossary").fill(f"{attack.replace('=', '')}\tHund")
    page.locator(".more > .quiet, .message:not(:empty)").first.wait_for()
    page.evaluate(
        "asked => { location.hash = '#/attend?' + new URLSearchParams(asked) }", dict.fromkeys(FIELDS, attack)
    )
    page.locator(".heat canvas.over").wait_for()
    assert page.locator(".sentence").inner_text() == attack
    assert page.evaluate("window.hacked") is None
    assert page.locator("main script, main img, main b").count() == 0


def test_a_mistake_is_told(page: Page, site: str) -> None:
    page.goto(f"{site}/#/attend?text={'a' * 5}")
    page.locator(".heat canvas.over").wait_for()
    page.locator("#sentence").fill("word " * 1100)
    page.locator("button.main").click()
    page.locator(".message", has_text="at most").wait_for()
    assert "at most" in page.locator(".message").inner_text()


@pytest.mark.parametrize("view", ["translate", "attend"])
def test_a_phone_needs_no_sideways_scrolling(page: Page, site: str, view: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(f"{site}/#/{view}?text={TEXT}")
    page.locator(".output .word-box, .heat canvas.over").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


DURATIONS = "[...document.querySelectorAll('*')].map((node) => getComputedStyle(node).transitionDuration)"
UNREACHED = """() => {
  const seen = (node) => node.checkVisibility() && !node.disabled;
  const every = "a, button, input, select, textarea, summary, [tabindex]";
  const controls = [...document.querySelectorAll(every)].filter(seen);
  const radio = (node) => node.type === "radio" && !node.checked;
  const stop = (node) => node.matches("[data-stop]") && node.parentElement.querySelector('[data-stop][tabindex="0"]');
  return controls
    .filter((node) => !window.reached.has(node) && !radio(node) && !stop(node) && !node.matches(".cell"))
    .map((node) => node.outerHTML.slice(0, 120));
}"""


@pytest.mark.parametrize("view", ["translate", "attend"])
def test_every_control_is_reached_by_keyboard(page: Page, site: str, view: str) -> None:
    page.goto(f"{site}/#/{view}?text={TEXT}")
    page.locator(".output .word-box, .heat canvas.over").first.wait_for()
    page.evaluate(
        "window.reached = new Set(); document.addEventListener('focusin', (e) => window.reached.add(e.target))"
    )
    for _ in range(80):
        page.keyboard.press("Tab")
    assert page.evaluate(UNREACHED) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["translate", "attend"])
def test_nothing_keeps_anybody_out(browser: Browser, site: str, view: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra 'dev' brings it")
    with watched(browser, color_scheme=scheme) as page:
        page.goto(f"{site}/#/{view}?text={TEXT}&step=2&kind=cross")
        page.locator(".output .word-box, .heat canvas.over").first.wait_for()
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        if view == "attend":
            page.locator(".heat canvas.over").click()
            page.locator(".cell").wait_for()
        found = axe.Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in serious] == []


def test_nothing_moves_for_those_who_want_it_still(browser: Browser, site: str) -> None:
    with watched(browser, reduced_motion="reduce") as page:
        looked(page, site)
        assert set(page.evaluate(DURATIONS)) == {"0s"}


def test_text_has_its_language(page: Page, site: str) -> None:
    looked(page, site, "&kind=cross")
    assert page.locator(".sentence").get_attribute("lang") == "en"
    assert page.locator(".tokens").get_attribute("lang") == "de"
    assert page.locator(".lines .query .word").first.get_attribute("lang") == "de"
    assert page.locator(".lines .key .word").first.get_attribute("dir") == "auto"
