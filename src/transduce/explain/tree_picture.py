"""A constituency tree as a picture, its words in one row at the bottom, and as indented text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from transduce.errors import UserError
from transduce.explain.drawing import Label, Sheet, Stroke, text_width, to_svg, write_sheet
from transduce.text.trees import ORDINARY, Leaf, Tree, walk, write_tree

LEVEL, WORDS, MARGIN, GAP = 40.0, 20.0, 16.0, 10.0  # CSS pixels
CLEAR = 11.0  # between the middle of a label and the end of a line
BOLD = 1.1  # times as wide
TAG_SIZE = 11.0
BRANCH, TAG = "#888888", "#666666"
PNG_WIDTH = 1 << 15
"""Pixels on a sheet from which a PNG, which has two for each, cannot be made."""
COLUMNS = 100
"""Of indented text."""


def tree_svg(tree: Tree) -> str:
    """The picture as an SVG document."""
    return to_svg(tree_sheet(tree))


def write_picture(path: Path, tree: Tree) -> None:
    """Write the picture as the path's suffix says: .svg, .pdf or .png."""
    sheet = tree_sheet(tree)
    if path.suffix.lower() == ".png" and sheet.width >= PNG_WIDTH:
        raise UserError(f"{path}: {sheet.width:,.0f} pixels are too wide for a PNG: let the name end in .svg or .pdf")
    write_sheet(path, sheet)


def tree_sheet(tree: Tree) -> Sheet:
    """Constituents above what they hold, as low as that allows; words in one row with their tags above them.

    A branch goes down from its constituent, along, and down to the child, in a column where nothing else stands: so
    branches cross no labels, however long the sentence. Tags that say nothing are left out: XX, and that of a comma.
    """
    top = _measured(tree)
    tags = WORDS if any(node.tag for node in _nodes(top)) else 0.0
    words = MARGIN + CLEAR + top.level * LEVEL + tags
    sheet = Sheet(top.width + 2 * MARGIN, words + CLEAR + MARGIN)
    _place(top)
    for node in _nodes(top):
        y = words - tags - node.level * LEVEL
        for child in node.children:
            end = words - (tags if child.children or child.tag else 0.0) - child.level * LEVEL
            bend = y + LEVEL / 2
            points = ((node.x, y + CLEAR), (node.x, bend), (child.x, bend), (child.x, end - CLEAR))
            straight = abs(node.x - child.x) < 0.5
            sheet.marks.append(Stroke((points[0], points[-1]) if straight else points, colour=BRANCH))
        if node.children:
            sheet.marks.append(Label(node.x, y, node.text, "middle", bold=True))
            continue
        sheet.marks.append(Label(node.x, words, node.text, "middle"))
        if node.tag:
            sheet.marks.append(Label(node.x, words - tags, node.tag, "middle", size=TAG_SIZE, colour=TAG))
    return sheet


@dataclass
class _Node:
    """A constituent or a word, with the room that it and all it holds need."""

    text: str
    tag: str = ""
    """Shown above a word."""
    children: list[_Node] = field(default_factory=list)
    level: int = 0
    """Above the words."""
    width: float = 0.0
    own: float = 0.0
    """Width of its label alone."""
    left: float = 0.0
    x: float = 0.0
    """The middle of its label."""


def _measured(tree: Tree) -> _Node:
    """Widths and levels, from the words upwards."""
    opened = [_Node("")]
    for node, opens in walk(tree):
        if isinstance(node, Leaf):
            tag = "" if node.tag in (ORDINARY, node.word) else node.tag
            own = max(text_width(node.word), text_width(tag, TAG_SIZE))
            opened[-1].children.append(_Node(node.word, tag, own=own, width=own + GAP))
        elif opens:
            opened.append(_Node(node.label, own=BOLD * text_width(node.label)))
        else:
            done = opened.pop()
            done.level = 1 + max(child.level for child in done.children)
            done.width = max(done.own + GAP, sum(child.width for child in done.children))
            opened[-1].children.append(done)
    return opened[0].children[0]


def _place(top: _Node) -> None:
    """Lefts from the top down, then middles from the words up."""
    top.left = MARGIN
    nodes = _nodes(top)
    for node in nodes:
        left = node.left + (node.width - sum(child.width for child in node.children)) / 2
        for child in node.children:
            child.left = left
            left += child.width
    for node in reversed(nodes):
        node.x = node.left + node.width / 2
        if node.children:
            over = (node.children[0].x + node.children[-1].x) / 2
            room = (node.width - node.own) / 2
            node.x = min(max(over, node.x - room), node.x + room)


def _nodes(top: _Node) -> list[_Node]:
    """Each before what it holds."""
    nodes = [top]
    for node in nodes:
        nodes.extend(node.children)
    return nodes


def tree_text(tree: Tree) -> str:
    """Lines that `read_tree` reads as the same tree: what fits in a line is in one, else each child has its own."""
    lengths = _lengths(tree)
    lines: list[str] = []
    ahead: list[tuple[Tree | Leaf, int] | None] = [(tree, 0)]
    while ahead:
        item = ahead.pop()
        if item is None:  # all that the constituent holds is written
            lines[-1] += ")"
            continue
        node, depth = item
        indent = "  " * depth
        if isinstance(node, Leaf):
            lines.append(f"{indent}({node.tag} {node.word})")
        elif len(indent) + lengths[id(node)] <= COLUMNS:
            lines.append(indent + write_tree(node))
        else:
            lines.append(f"{indent}({node.label}")
            ahead.append(None)
            ahead.extend((child, depth + 1) for child in reversed(node.children))
    return "\n".join(lines) + "\n"


def _lengths(tree: Tree) -> dict[int, int]:
    """How long a line each constituent would be, by its identity."""
    lengths: dict[int, int] = {}
    for node, opens in walk(tree):
        if isinstance(node, Leaf):
            lengths[id(node)] = len(node.tag) + len(node.word) + len("( )")
        elif not opens:
            inside = [lengths[id(child)] for child in node.children]
            lengths[id(node)] = len(node.label) + sum(inside) + len(inside) + len("()") - (not node.label)
    return lengths
