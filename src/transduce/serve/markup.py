"""HTML: its text is translated; tags, attributes, comments, scripts and styles stay as they are, to the character.

Tags are told from text as browsers do it (the tokenizer of the HTML standard), also in HTML that is not well formed. A
translation is written with `<`, `>` and `&` escaped: no text of a model can become a tag. Elements that say
`translate="no"`, or are of the class `notranslate`, stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape

from transduce.serve.document import LINE, Document, Piece, sentence_spans

# every alternative goes on to the end where its own end is missing: none is tried twice
MARKUP = re.compile(
    r"""
    <!--(?:-?>|.*?(?:--!?>|\Z))                                     # comment
    | <!\[CDATA\[.*?(?:\]\]>|\Z)
    | <(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*+)                  # tag
      (?P<attributes>(?:
        [\s/]++
        | [^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>]*+))?+
      )*+)(?:>|\Z)
    | <(?:[!?]|/(?!\Z))[^>]*+(?:>|\Z)                               # doctype, and what browsers take for a comment
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
SCRIPT = re.compile(
    r"(?P<empty><!---*+>)|(?P<opened><!--)|(?P<closed>-->)|(?P<begin><script(?=[\s/>]))|(?P<end></script(?=[\s/>]))",
    re.IGNORECASE | re.ASCII,
)
REFERENCE = re.compile(r"&(?:#[0-9]++|#[xX][0-9a-fA-F]++|[A-Za-z][A-Za-z0-9]*+);?")
RAW = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes", "plaintext"})
"""Elements whose content is no markup, and no text to read either."""
BY_LINES = frozenset({"pre", "textarea"})
"""Elements in which a line break is one."""
VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
KEEP = re.compile(
    r"""\stranslate\s*=\s*["']?no(?![\w-]) | \sclass\s*=\s*(?:"[^"]*|'[^']*|[^\s>]*)\bnotranslate\b""",
    re.VERBOSE | re.IGNORECASE,
)


def markup(text: str) -> Document:
    """HTML, whole or in part."""
    return Document(list(_pieces(text)), lambda translation: escape(translation, quote=False))


def _pieces(text: str) -> Iterator[Piece]:
    end, lines, kept, depth = 0, 0, "", 0
    for found, stop in _markup(text):
        yield from _text_pieces(text[end : found.start()], by_lines=lines > 0, keep=depth > 0)
        yield Piece(text[found.start() : stop])
        end = stop
        name, step = (found["name"] or "").lower(), -1 if found["close"] else 1
        if name in BY_LINES:
            lines = max(0, lines + step)
        if depth:
            depth += step if name == kept else 0
        elif step > 0 and name and name not in VOID | RAW and KEEP.search(found["attributes"]):
            kept, depth = name, 1
    yield from _text_pieces(text[end:], by_lines=lines > 0, keep=depth > 0)


def _markup(text: str) -> Iterator[tuple[re.Match[str], int]]:
    """What is not text, one after the other, and where it ends: a tag of a raw element together with its content."""
    end = 0
    while (found := MARKUP.search(text, end)) is not None:
        end = found.end()
        if (name := (found["name"] or "").lower()) in RAW and not found["close"]:
            end = _end_of_script(text, end) if name == "script" else _end_of_raw(text, end, name)
        yield found, end


def _end_of_raw(text: str, start: int, name: str) -> int:
    """Where the end tag of an element stands that ends nowhere else."""
    found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII).search(text, start)
    return len(text) if found is None or name == "plaintext" else found.start()


def _end_of_script(text: str, start: int) -> int:
    """The same of a script: in a comment in it, a script may begin and end without ending it."""
    comment = inner = False
    for found in SCRIPT.finditer(text, start):
        what = found.lastgroup
        if what == "end" and not inner:
            return found.start()
        if what == "opened":
            comment = True
        elif what == "closed":
            comment = inner = False
        elif what == "begin":
            inner = comment
        elif what == "end":
            inner = False
    return len(text)


def _text_pieces(written: str, *, by_lines: bool, keep: bool) -> Iterator[Piece]:
    """The sentences of a text between tags: as they are written, and as they read."""
    if keep:
        yield Piece(written)
        return
    read, places = _read(written)
    parts = [line.span() for line in LINE.finditer(read)] if by_lines else [(0, len(read))]
    end = 0
    for part in parts:
        for start, stop in sentence_spans(read, *part):
            first, last = places[start], places[stop]
            if first < end or last <= first:  # within a reference that stands for several characters
                continue
            if end < first:
                yield Piece(written[end:first])
            yield Piece(written[first:last], " ".join(read[start:stop].split()))
            end = last
    if end < len(written):
        yield Piece(written[end:])


def _read(written: str) -> tuple[str, list[int]]:
    """A text without character references, and where in the written one each character, and the end, stands."""
    read: list[str] = []
    places: list[int] = []
    end = 0
    for found in REFERENCE.finditer(written):
        read.append(written[end : found.start()])
        places += range(end, found.start())
        character = unescape(found[0])
        read.append(character)
        places += [found.start()] * len(character)
        end = found.end()
    return "".join([*read, written[end:]]), [*places, *range(end, len(written) + 1)]
