"""Figure 2 of the paper, drawn from a model's own modules: the attention function, and all heads of it.

n queries meet m keys. Everything is laid out from the bottom up; y grows downwards.
"""

from __future__ import annotations

from transduce.explain.diagram import (
    COLOURS,
    EDGE,
    FAINT,
    SMALL,
    add_arrow,
    add_box,
    add_line,
    add_word,
    box_height,
    box_width,
)
from transduce.explain.drawing import Box, Label, Sheet
from transduce.explain.parts import Head, read_parts
from transduce.model import Transformer

MARGIN, GAP = 20.0, 18.0
SHADOWS = (10.0, 5.0)  # how far the boxes of further heads stand out behind the first
Step = tuple[str, str, tuple[str, ...]]
"""A box: the kind that gives its colour, its title, and the lines below."""


def draw_attention(model: Transformer) -> Sheet:
    """Scaled dot-product attention, or what the model has instead, beside multi-head attention."""
    head = read_parts(model).head
    steps = function_steps(head)
    left_width = max(box_width(title, details) for _, title, details in steps)
    each = max(box_width("Linear", (width,)) for width in _widths(head))
    right_width = 3 * each + 60
    left = MARGIN + left_width / 2
    right = left + left_width / 2 + 150 + right_width / 2
    height = max(_function_height(steps), _heads_height(head))
    sheet = Sheet(right + right_width / 2 + 84 + MARGIN, MARGIN + 28 + height + 40 + MARGIN)
    bottom = sheet.height - MARGIN - 40
    stretch = (height - _heads_height(head)) / 3  # the right half is as high as the left
    _draw_function(sheet, left, bottom, left_width, steps, head)
    _draw_heads(sheet, right, bottom, right_width, each, head, gap=GAP + stretch)
    return sheet


def function_name(head: Head) -> str:
    """The attention function in the paper's words."""
    names = {"scaled": "Scaled Dot-Product", "unscaled": "Dot-Product", "additive": "Additive"}
    return f"{names[head.compatibility]} Attention"


def function_steps(head: Head) -> list[Step]:
    """What the attention function does to queries and keys, the first step first, up to where the values come in."""
    product: Step = ("linear", "MatMul", (f"Q Kᵀ: (n × {head.d_k}) (m × {head.d_k})ᵀ",))
    joined: Step = ("feed-forward", "Feed Forward", ("w · tanh(q + k)", f"one hidden layer of {head.d_k}"))
    scale: Step = ("norm", "Scale", (f"by 1 / √{head.d_k}",))
    compare = {"scaled": [product, scale], "unscaled": [product], "additive": [joined]}[head.compatibility]
    mask: Step = ("embedding", "Mask (opt.)", ("padding; in the decoder what is to come",))
    if head.window is not None:
        mask = ("embedding", "Mask", (f"keys more than {head.window // 2} away (r = {head.window})", *mask[2]))
    dropout: Step = ("positions", "Dropout", (f"{head.dropout:.2g} of the weights",))
    last: Step = ("linear", "MatMul", (f"(n × m) (m × {head.d_v})",))
    after = [dropout] if head.dropout else []
    return [*compare, mask, ("softmax", "SoftMax", ("of each row, over m keys",)), *after, last]


def _function_height(steps: list[Step]) -> float:
    return sum(box_height(details) + GAP for _, _, details in steps) + 6


def _draw_function(sheet: Sheet, x: float, bottom: float, width: float, steps: list[Step], head: Head) -> None:
    """The left half."""
    _title(sheet, x, function_name(head))
    apart, y = 0.25 * width, bottom
    values = x + width / 2 + 36
    for name, at in (("Q", x - apart), ("K", x + apart)):
        add_word(sheet, at, bottom + 26, name)
        add_arrow(sheet, (at, bottom + 16), (at, bottom))
    add_word(sheet, values, bottom + 26, "V")
    for number, (kind, title, details) in enumerate(steps):
        if number:
            below, y = y, y - GAP
            add_arrow(sheet, (x, below), (x, y))
        if number == len(steps) - 1:
            level = y + GAP / 2 + 2
            add_arrow(sheet, (values, bottom + 16), (values, level), (x + apart, level), (x + apart, y))
        y = add_box(sheet, x, y, width, kind=kind, title=title, details=details)
    add_arrow(sheet, (x, y), (x, y - GAP - 6))


def _widths(head: Head) -> tuple[str, str, str]:
    """The shapes of one head's projections of values, keys and queries."""
    values, keys = (f"{head.d_model:,} × {width:,}" for width in (head.d_v, head.d_k))
    return values, keys, keys


def _tops(head: Head) -> list[Step]:
    """The boxes above the heads."""
    joined = head.num_heads * head.d_v
    return [
        ("norm", "Concat", (f"{head.num_heads} × {head.d_v:,} = {joined:,}",)),
        ("linear", "Linear", (f"{joined:,} × {head.d_model:,}",)),
    ]


def _heads_height(head: Head) -> float:
    tops = sum(box_height(details) + GAP for _, _, details in _tops(head))
    return 3 * GAP + 2 * box_height(("",)) + tops + 6


def _draw_heads(sheet: Sheet, x: float, bottom: float, width: float, each: float, head: Head, *, gap: float) -> None:
    """The right half; `gap` is what lies between one row of boxes and the next."""
    _title(sheet, x, "Multi-Head Attention")
    apart = each + 30
    places = [x - apart, x, x + apart]
    linear = bottom - GAP
    top = linear
    for name, at, size in zip("VKQ", places, _widths(head), strict=True):
        add_word(sheet, at, bottom + 26, name)
        add_arrow(sheet, (at, bottom + 16), (at, linear))
        _shadows(sheet, at, linear, each, "linear", head.num_heads)
        top = add_box(sheet, at, linear, each, kind="linear", title="Linear", details=(size,))
    y = top - gap
    for at in places:
        add_arrow(sheet, (at, top), (at, y))
    widths = (f"d_k = {head.d_k:,}, d_v = {head.d_v:,}",)
    _shadows(sheet, x, y, width, "attention", head.num_heads)
    middle = y - box_height(widths) / 2
    top = add_box(sheet, x, y, width, kind="attention", title=function_name(head), details=widths)
    _bracket(sheet, x + width / 2 + SHADOWS[0] + 8, middle, f"h = {head.num_heads}")
    y = top
    for kind, title, details in _tops(head):
        add_arrow(sheet, (x, y), (x, y - gap))
        y -= gap
        y = add_box(sheet, x, y, width, kind=kind, title=title, details=details)
    add_arrow(sheet, (x, y), (x, y - GAP - 6))


def _title(sheet: Sheet, x: float, text: str) -> None:
    sheet.marks.append(Label(x, MARGIN + 8, text, "middle", bold=True))


def _shadows(sheet: Sheet, x: float, bottom: float, width: float, kind: str, count: int) -> None:
    """Further heads behind a box, as many as can be shown."""
    height = box_height(("",))
    for shift in SHADOWS[len(SHADOWS) - min(len(SHADOWS), count - 1) :]:
        left, top = x - width / 2 + shift, bottom - height - shift
        sheet.marks.append(Box(left, top, width, height, COLOURS[kind], 0.6, radius=6, stroke=EDGE))


def _bracket(sheet: Sheet, x: float, y: float, text: str) -> None:
    add_line(sheet, (x, y - 26), (x + 8, y - 26), (x + 8, y + 16), (x, y + 16))
    sheet.marks.append(Label(x + 16, y - 5, text, size=SMALL, colour=FAINT))
