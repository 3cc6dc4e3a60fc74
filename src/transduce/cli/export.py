"""`transduce export`: a model in the formats of others."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.display import Display
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.bundle import Bundle


class Format(StrEnum):
    """What a model can be exported to."""

    CTRANSLATE2 = "ctranslate2"
    ONNX = "onnx"
    MARIAN = "marian"


class ComputeType(StrEnum):
    """What CTranslate2 can keep matrices in."""

    INT8 = "int8"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


def export(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="A run or a bundle.")],
    to: Annotated[Format, typer.Option("--to", help="marian is Hugging Face's MarianMT.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new directory.")],
    compute_type: Annotated[
        ComputeType | None, typer.Option("--compute-type", help="Of CTranslate2's matrices; unset: int8.")
    ] = None,
) -> None:
    """Write a model for CTranslate2, ONNX Runtime or Hugging Face's transformers.

    What a format cannot hold is refused before anything is written. docs/interop.md says what is equal to what.
    """
    display: Display = context.obj
    if compute_type is not None and to is not Format.CTRANSLATE2:
        raise UserError(f"--compute-type belongs to --to ctranslate2, not to {to}")
    refuse_existing(output)
    from transduce.bundle import open_bundle

    write(open_bundle(model), to, output, compute_type or ComputeType.INT8)
    display.note(f"{output}: {sum(file.stat().st_size for file in output.rglob('*') if file.is_file()):,} bytes")
    typer.echo(str(output))


def write(bundle: Bundle, to: Format, output: Path, compute_type: ComputeType) -> None:
    """Write the directory, whole or not at all."""
    from transduce.files import write_directory

    if to is Format.CTRANSLATE2:
        from transduce.errors import require
        from transduce.interop.ctranslate2 import EXTRA, convert, refusal
        from transduce.text import save_codecs

        if reason := refusal(bundle.config.model):
            raise UserError(f"{bundle.path}: CTranslate2 has no {reason}: export --to onnx, or train without it")
        require("ctranslate2", extra=EXTRA)

        def fill(directory: Path) -> None:
            convert(bundle, directory, compute_type)
            save_codecs(directory / "codec", bundle.source_codec, bundle.target_codec)

        write_directory(output, fill)
    elif to is Format.ONNX:
        from transduce.interop.onnx import check_onnx, export_onnx

        check_onnx(bundle)
        write_directory(output, lambda directory: export_onnx(bundle, directory))
    else:
        from transduce.interop.marian_export import check_marian, export_marian

        check_marian(bundle)
        write_directory(output, lambda directory: export_marian(bundle, directory))


def refuse_existing(path: Path) -> None:
    """An output is a new directory."""
    if path.exists() or path.is_symlink():
        raise UserError(f"{path}: exists: choose another --output")
