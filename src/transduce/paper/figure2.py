"""Figure 2: the attention function and multi-head attention, drawn from the modules of a model."""

from __future__ import annotations

from transduce.explain.attention_diagram import draw_attention, function_name
from transduce.explain.drawing import to_matplotlib, to_svg
from transduce.explain.parts import read_parts
from transduce.files import write_file
from transduce.paper.figure1 import AS_PDF, drawn_models, facts_table
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study


def figure2(study: Study) -> Result:
    """The base model's attention as Figure 2, then that of each bundle given; the same as PDF lies in `study.work`."""
    study.work.mkdir(parents=True, exist_ok=True)
    parts: list[str | Table | Picture] = []
    for name, title, model in drawn_models(study.bundles, "figure2"):
        study.listener.note(f"figure2: {title}")
        sheet, read = draw_attention(model), read_parts(model)
        write_file(study.work / f"{name}.pdf", to_matplotlib(sheet, "pdf"))
        alt = f"{function_name(read.head)} and multi-head attention of {title}"
        parts += [f"## {title}", Picture(name, alt, to_svg(sheet)), facts_table(name, read)]
    return Result("figure2", "Figure 2: scaled dot-product attention and multi-head attention", SCOPE, [*parts, AS_PDF])


SCOPE = """\
Drawn from the modules that compute: the widths of the model's own heads are in the boxes, and a model without scaling,
with additive attention or with a neighbourhood is drawn so. Nothing of Figure 2 depends on scale. The projections of
all heads are computed as one matrix; the heads are its blocks."""
