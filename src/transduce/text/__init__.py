"""Strings <-> token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from transduce.config import TextConfig
from transduce.errors import CodecError
from transduce.files import write_file
from transduce.text.codec import DESCRIPTION, Codec, Description, Kind, Learned
from transduce.text.marian import Marian
from transduce.text.subwords import Subwords
from transduce.text.symbols import LETTERS, Symbols
from transduce.text.words import Words

__all__ = [
    "Codec",
    "Learned",
    "Marian",
    "Subwords",
    "Symbols",
    "Words",
    "learn_codec",
    "load_codec",
    "load_codecs",
    "save_codecs",
]

_KINDS: dict[Kind, type[Subwords] | type[Symbols] | type[Marian]] = {
    "subwords": Subwords,
    "symbols": Symbols,
    "words": Words,
    "marian": Marian,
}


def learn_codec(
    kind: Literal["subwords", "symbols", "letters", "words"], lines: Iterable[str], text: TextConfig, *, seed: int
) -> Learned:
    """A codec of this kind for these lines; for a joint one, chain both sides."""
    if kind == "symbols":
        return Symbols.learn(lines, steps=text.normalize)
    if kind == "letters":
        return Symbols.learn(lines, steps=(*text.normalize, *LETTERS))
    if kind == "words":
        return Words.learn(lines, steps=text.normalize, vocabulary=text.vocabulary)
    return Subwords.learn(
        lines, vocabulary=text.vocabulary, seed=seed, sample_lines=text.sample_lines, steps=text.normalize
    )


def load_codec(directory: Path) -> Codec:
    """The codec whose `files()` lie in this directory; what is damaged is refused."""
    try:
        return _make(_read(directory))
    except CodecError as error:
        raise CodecError(f"{directory}: {error}") from None


def save_codecs(directory: Path, source: Codec, target: Codec) -> None:
    """Write the codecs of both sides: one `joint`, or `source` and `target`."""
    sides = {"joint": source} if source is target else {"source": source, "target": target}
    for side, codec in sides.items():
        (directory / side).mkdir(parents=True)
        for name, data in codec.files().items():
            write_file(directory / side / name, data)


def load_codecs(directory: Path) -> tuple[Codec, Codec]:
    """The codecs of both sides, as `save_codecs` wrote them."""
    if (directory / "joint").is_dir():
        joint = load_codec(directory / "joint")
        return joint, joint
    return load_codec(directory / "source"), load_codec(directory / "target")


def _make(files: Mapping[str, bytes]) -> Codec:
    if DESCRIPTION not in files:
        raise CodecError(f"there is no {DESCRIPTION}: not a codec")
    try:
        description = Description.model_validate_json(files[DESCRIPTION])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CodecError(f"{DESCRIPTION} is damaged or newer: {place}: {first['msg']}") from None
    codec = _KINDS[description.kind]
    data = files.get(codec.FILE)
    if data is None:
        raise CodecError(f"{DESCRIPTION} tells of {description.kind}, but there is no {codec.FILE}")
    if hashlib.sha256(data).hexdigest() != description.sha256:
        raise CodecError(f"{codec.FILE} is damaged: its SHA-256 is not the one in {DESCRIPTION}; copy the files again")
    return codec.load(data, description.normalize)


def _read(directory: Path) -> dict[str, bytes]:
    names = (DESCRIPTION, *(codec.FILE for codec in _KINDS.values()))
    try:
        return {name: (directory / name).read_bytes() for name in names if (directory / name).exists()}
    except OSError as error:
        raise CodecError(f"cannot read {error.filename}: {error.strerror}") from None
