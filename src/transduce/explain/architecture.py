"""Figure 1 of the paper, drawn from a model's own modules: encoder on the left, decoder on the right.

Everything is laid out from the bottom up; y grows downwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from transduce.explain.diagram import (
    COLOURS,
    EDGE,
    RADIUS,
    add_arrow,
    add_box,
    add_caption,
    add_line,
    add_sum,
    add_table,
    add_wave,
    add_word,
    box_height,
    box_width,
)
from transduce.explain.drawing import Box, Label, Sheet, text_width
from transduce.explain.parts import Part, Parts, Stack, Sublayer, read_parts, short
from transduce.model import Transformer

MARGIN, GAP = 18.0, 16.0  # around the sheet; below a box
FORK, ENTRY = 14.0, 40.0  # from a sub-layer's entrance up to where its residual leaves, and to its box
DETOUR, NARROW, WIDE = 18.0, 14.0, 36.0  # from boxes to a residual's path; of a stack's edges on either side
BETWEEN = 74.0  # from one stack to the other
COUNT = 34.0  # for the N of a stack


@dataclass(frozen=True)
class Column:
    """Where a stack stands: its middle, the width of its boxes, and on which side residuals go round them."""

    x: float
    width: float
    side: int

    @property
    def outwards(self) -> Literal["start", "end"]:
        """The anchor of words on the side of the residuals."""
        return "start" if self.side > 0 else "end"

    def edge(self, distance: float) -> float:
        """So far from the boxes on the side of the residuals; below 0: on the other side."""
        return self.x + (self.side if distance >= 0 else -self.side) * (self.width / 2 + abs(distance))


def draw_architecture(model: Transformer) -> Sheet:
    """The model as the paper's Figure 1, with the shapes of its weights in the boxes."""
    parts = read_parts(model)
    width = max(box_width(part.title, _lines(part)) for part in _boxes(parts))
    reach = max(width / 2 + WIDE + COUNT, *(_beside(part) for part in (parts.source_positions, parts.target_positions)))
    right = reach + (26.0 if parts.linear_tied else 0.0)
    encoder = Column(MARGIN + reach, width, -1)
    decoder = Column(encoder.x + width + 2 * NARROW + BETWEEN, width, 1)
    bottom = _height(parts)
    sheet = Sheet(decoder.x + right + MARGIN, bottom + 50 + MARGIN)

    start = _embed(sheet, encoder, bottom, parts.source, parts.source_positions, "Inputs")
    top, _ = _draw_stack(sheet, encoder, start, parts.encoder)
    start = _embed(sheet, decoder, bottom, parts.target, parts.target_positions, "Outputs (shifted right)")
    done, entries = _draw_stack(sheet, decoder, start, parts.decoder)
    for entry in entries:
        _draw_memory(sheet, encoder, decoder, top, entry)
    linear = _draw_output(sheet, decoder, done, parts)
    _draw_ties(sheet, encoder, decoder, parts, bottom=bottom, linear=linear, right=decoder.x + right)
    _draw_totals(sheet, parts, bottom + 50)
    return sheet


def _boxes(parts: Parts) -> list[Part]:
    stacks = [sublayer for stack in (parts.encoder, parts.decoder) for sublayer in stack.sublayers]
    norms = [_with_dropout(sublayer) for sublayer in stacks]
    return [parts.source, parts.target, parts.linear, *(sublayer.part for sublayer in stacks), *norms]


def _lines(part: Part) -> tuple[str, ...]:
    """What stands below a title: shapes, and how many weights that makes."""
    if part.kind in ("norm", "softmax"):
        return part.details
    return (*part.details, f"{short(part.weights)} weights" if part.weights else "the same matrix")


def _with_dropout(sublayer: Sublayer) -> Part:
    """The norm as drawn: after the sum it also tells of the dropout before it."""
    if sublayer.norm_first or not sublayer.dropout:
        return sublayer.norm
    details = (f"dropout {sublayer.dropout:.2g}; {sublayer.norm.details[0]}",)
    return Part("norm", sublayer.norm.title, details, sublayer.norm.weights)


def _height(parts: Parts) -> float:
    """From the upper margin down to where the embeddings stand."""
    tallest = max(_stack_height(parts.encoder) + GAP, _stack_height(parts.decoder) + _output_height(parts))
    return MARGIN + tallest + box_height(_lines(parts.source)) + GAP + 2 * RADIUS


def _stack_height(stack: Stack) -> float:
    total = 2 * GAP
    for sublayer in stack.sublayers:
        norm = box_height(_with_dropout(sublayer).details)
        total += ENTRY + box_height(_lines(sublayer.part)) + GAP + norm
        total += GAP + FORK + 2 * RADIUS if sublayer.norm_first else 0.0
    return total + (GAP + box_height(stack.final_norm.details) if stack.final_norm else 0.0)


def _output_height(parts: Parts) -> float:
    return box_height(_lines(parts.linear)) + box_height(parts.softmax.details) + 2 * GAP + 44


def _embed(sheet: Sheet, column: Column, bottom: float, tokens: Part, positions: Part, name: str) -> float:
    """Tokens and positions, added; returns where the sum leaves."""
    x = column.x
    add_word(sheet, x, bottom + 34, name)
    add_arrow(sheet, (x, bottom + 24), (x, bottom))
    top = add_box(sheet, x, bottom, column.width, kind=tokens.kind, title=tokens.title, details=_lines(tokens))
    y = top - GAP - RADIUS
    add_arrow(sheet, (x, top), (x, y + RADIUS))
    glyph = x + column.side * 56
    (add_table if positions.weights else add_wave)(sheet, glyph, y)
    add_arrow(sheet, (glyph - column.side * RADIUS, y), (x + column.side * RADIUS, y))
    add_sum(sheet, x, y)
    lines = [positions.title, *_position_lines(positions)]
    for number, line in enumerate(lines):
        at = y + (number - (len(lines) - 1) / 2) * 14
        size = 13.0 if number == 0 else 10.5
        sheet.marks.append(Label(glyph + column.side * 16, at, line, column.outwards, size=size))
    return y - RADIUS


def _position_lines(positions: Part) -> tuple[str, ...]:
    """What stands below the title of a position encoding."""
    if not positions.weights:
        return positions.details
    return (f"{', '.join(positions.details)}", f"{short(positions.weights)} weights")


def _beside(positions: Part) -> float:
    """How far the words beside a position encoding reach from the middle of their column."""
    widest = max(text_width(positions.title), *(text_width(line, 10.5) for line in _position_lines(positions)))
    return 56 + 16 + widest


def _draw_stack(sheet: Sheet, column: Column, start: float, stack: Stack) -> tuple[float, list[float]]:
    """The layer that is repeated; returns where its output leaves, and where the memory comes in."""
    ground = len(sheet.marks)  # the grey box lies below the rest, and its height is known last
    foot = start - GAP
    add_line(sheet, (column.x, start), (column.x, foot))
    y, entries = foot, []
    for sublayer in stack.sublayers:
        if sublayer.reads_memory:
            entries.append(_box_bottom(sublayer, y))
        y = _draw_sublayer(sheet, column, y, sublayer)
    edge, other = column.edge(WIDE), column.edge(-NARROW)
    left, right = sorted((edge, other))
    head = y - GAP
    grey = Box(left, head, right - left, foot - head, COLOURS["stack"], radius=10, stroke="#BBBBBB")
    sheet.marks.insert(ground, grey)
    sheet.marks.append(Label(edge + column.side * 8, (head + foot) / 2, f"{stack.count}×", column.outwards, size=17.0))
    if stack.final_norm is None:
        add_line(sheet, (column.x, y), (column.x, head))
        return head, entries
    bottom = head - GAP
    add_arrow(sheet, (column.x, y), (column.x, bottom))
    norm = stack.final_norm
    return add_box(sheet, column.x, bottom, column.width, kind="norm", title=norm.title, details=norm.details), entries


def _norm_height(sublayer: Sublayer) -> float:
    return box_height(_with_dropout(sublayer).details)


def _box_bottom(sublayer: Sublayer, y: float) -> float:
    """Where the box of a sub-layer stands that is entered at `y`."""
    return y - ENTRY - (FORK + GAP + _norm_height(sublayer) if sublayer.norm_first else 0.0)


def _draw_sublayer(sheet: Sheet, column: Column, y: float, sublayer: Sublayer) -> float:
    """A sub-layer entered at `y`, its residual connection and its norm; returns where it is left."""
    x, norm, bottom = column.x, _with_dropout(sublayer), _box_bottom(sublayer, y)
    fork = y - FORK
    entrance = y
    if sublayer.norm_first:
        under = fork - GAP
        add_arrow(sheet, (x, y), (x, under))
        entrance = add_box(sheet, x, under, column.width, kind="norm", title=norm.title, details=norm.details)
    _draw_entrance(sheet, column, entrance, bottom, sublayer)
    part = sublayer.part
    top = add_box(sheet, x, bottom, column.width, kind=part.kind, title=part.title, details=_lines(part))
    path = column.edge(DETOUR)
    if sublayer.norm_first:
        middle = top - GAP - RADIUS
        add_arrow(sheet, (x, top), (x, middle + RADIUS))
        add_sum(sheet, x, middle)
        add_arrow(sheet, (x, fork), (path, fork), (path, middle), (x + column.side * RADIUS, middle))
        if sublayer.dropout:
            add_caption(sheet, x - column.side * 52, middle, f"dropout {sublayer.dropout:.2g}")
        return middle - RADIUS
    under = top - GAP
    add_arrow(sheet, (x, top), (x, under))
    middle = under - _norm_height(sublayer) / 2
    add_arrow(sheet, (x, fork), (path, fork), (path, middle), (column.edge(0), middle))
    return add_box(sheet, x, under, column.width, kind="norm", title=norm.title, details=norm.details)


def _draw_entrance(sheet: Sheet, column: Column, y: float, bottom: float, sublayer: Sublayer) -> None:
    """The arrows into a sub-layer: one, or three into attention; two of them come from the memory."""
    x, apart = column.x, 0.3 * column.width
    if sublayer.part.kind != "attention":
        add_arrow(sheet, (x, y), (x, bottom))
        return
    split = y - FORK
    for name, at in zip("VKQ", (-apart, 0.0, apart), strict=True):
        sheet.marks.append(Label(x + at + 5, bottom + 10, name, size=9.0, colour=EDGE))
    add_arrow(sheet, (x, y), (x, split), (x + apart, split), (x + apart, bottom))
    if not sublayer.reads_memory:
        add_arrow(sheet, (x, y), (x, bottom))
        add_arrow(sheet, (x, y), (x, split), (x - apart, split), (x - apart, bottom))


def _draw_memory(sheet: Sheet, encoder: Column, decoder: Column, top: float, bottom: float) -> None:
    """The encoder's output on its way to be keys and values of an attention that stands on `bottom`."""
    middle = (encoder.edge(-NARROW) + decoder.edge(-NARROW)) / 2
    level = bottom + 17
    apart = 0.3 * decoder.width
    start = [(encoder.x, top), (encoder.x, top - GAP), (middle, top - GAP), (middle, level)]
    add_arrow(sheet, *start, (decoder.x - apart, level), (decoder.x - apart, bottom))
    add_arrow(sheet, (decoder.x - apart - 8, level), (decoder.x, level), (decoder.x, bottom))


def _draw_output(sheet: Sheet, column: Column, done: float, parts: Parts) -> float:
    """From the decoder to probabilities; returns the height at which the linear layer's middle is."""
    x, y = column.x, done
    middle = 0.0
    for part in (parts.linear, parts.softmax):
        add_arrow(sheet, (x, y), (x, y - GAP))
        y = add_box(sheet, x, y - GAP, column.width, kind=part.kind, title=part.title, details=_lines(part))
        middle = y + box_height(_lines(part)) / 2 if part is parts.linear else middle
    add_arrow(sheet, (x, y), (x, y - 24))
    add_word(sheet, x, y - 34, "Output Probabilities")
    return middle


def _draw_ties(
    sheet: Sheet, encoder: Column, decoder: Column, parts: Parts, *, bottom: float, linear: float, right: float
) -> None:
    """Matrices that are one are joined by a broken line."""
    level = bottom - box_height(_lines(parts.target)) / 2
    if parts.source_tied:
        left, end = encoder.edge(0) + encoder.width, decoder.edge(0) - decoder.width
        add_line(sheet, (left, level), (end, level), dashed=True)
        add_caption(sheet, (left + end) / 2, level - 9, "one matrix")
    if parts.linear_tied:
        edge = decoder.edge(0)
        add_line(sheet, (edge, level), (right, level), (right, linear), (edge, linear), dashed=True)
        add_caption(sheet, right - 9, (level + linear) / 2, "one matrix", slant=90)


def _draw_totals(sheet: Sheet, parts: Parts, y: float) -> None:
    """How many weights there are, and where."""
    stacks = f"encoder {short(parts.encoder.weights)}, decoder {short(parts.decoder.weights)}"
    rest = parts.weights - parts.encoder.weights - parts.decoder.weights
    text = f"{short(parts.weights)} weights: {stacks}, embeddings and output {short(rest)}"
    add_caption(sheet, sheet.width / 2, y + 4, text)
