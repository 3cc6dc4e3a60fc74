"""Figure 1: the architecture, drawn from the modules of the base model and of bundles given."""

from __future__ import annotations

from pathlib import Path

from transduce.bundle import open_bundle
from transduce.config import Config
from transduce.explain.architecture import draw_architecture
from transduce.explain.drawing import to_matplotlib, to_svg
from transduce.explain.parts import Parts, read_parts, short
from transduce.files import write_file
from transduce.model import Transformer
from transduce.model.transformer import shape_only
from transduce.paper.result import Picture, Result, Table
from transduce.paper.study import Study

PAPER = {
    "encoder layers N": "6",
    "decoder layers N": "6",
    "d_model": "512",
    "d_ff": "2048",
    "heads h": "8",
    "d_k": "64",
    "d_v": "64",
    "P_drop": "0.1",
    "weights": "65 M",
}


def figure1(study: Study) -> Result:
    """The base model as Figure 1, then each bundle given; the same as PDF lies in `study.work`."""
    study.work.mkdir(parents=True, exist_ok=True)
    parts: list[str | Table | Picture] = []
    for name, title, model in drawn_models(study.bundles, "figure1"):
        study.listener.note(f"figure1: {title}")
        sheet = draw_architecture(model)
        write_file(study.work / f"{name}.pdf", to_matplotlib(sheet, "pdf"))
        parts += [f"## {title}", Picture(name, f"The architecture of {title}", to_svg(sheet))]
        parts.append(facts_table(name, read_parts(model)))
    return Result("figure1", "Figure 1: the model architecture", SCOPE, [*parts, AS_PDF])


SCOPE = """\
Drawn from the modules that compute, not from the configuration: a model with other norms, layers, positions or ties is
drawn so. All of Figure 1 is there at any scale. The paper prints 65 M weights for its base model; with one matrix for
37,000 subwords there are fewer (Table 3)."""


AS_PDF = "Each drawing is written as PDF, too, under the same name, into the directory of trainings (`--work`)."


def drawn_models(bundles: tuple[Path, ...], name: str) -> list[tuple[str, str, Transformer]]:
    """The paper's base model and those of the bundles, without their numbers: a file name, a title and the modules."""
    config = Config()
    size = config.text.vocabulary
    models = [(name, "the base model", shape_only(config.model, size, size))]
    for number, path in enumerate(bundles, 1):
        bundle = open_bundle(path)
        sizes = bundle.source_codec.size, bundle.target_codec.size
        models.append((f"{name}-{number}", path.resolve().name, shape_only(bundle.config.model, *sizes)))
    return models


def facts_table(name: str, parts: Parts) -> Table:
    """What was read from the modules, beside the paper's base model."""
    head = parts.head
    found = {
        "encoder layers N": str(parts.encoder.count),
        "decoder layers N": str(parts.decoder.count),
        "d_model": str(head.d_model),
        "d_ff": str(parts.d_ff),
        "heads h": str(head.num_heads),
        "d_k": str(head.d_k),
        "d_v": str(head.d_v),
        "P_drop": f"{parts.encoder.sublayers[0].dropout:.2g}",
        "weights": short(parts.weights),
    }
    rows = [[what, value, PAPER[what]] for what, value in found.items()]
    return Table(name, ["", "this model", "paper's base model"], rows)
