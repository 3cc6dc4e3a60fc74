"""The protocol between strings and token ids. Every codec keeps the same four special ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from transduce.config import Section, Step

PAD, UNK, BOS, EOS = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
DESCRIPTION = "codec.json"

Kind = Literal["subwords", "symbols", "words", "marian"]


class Codec(Protocol):
    """One side's vocabulary: strings <-> ids, without BOS and EOS, which belong to the model's input."""

    @property
    def size(self) -> int:
        """How many ids there are, the four specials included."""
        ...

    def encode(self, text: str) -> list[int]:
        """The ids of a line of text, which is normalised first."""
        ...

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each of many lines."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without a newline; specials are left out."""
        ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each id as a person would read it, one string per id; no two ids read the same."""
        ...

    def files(self) -> Mapping[str, bytes]:
        """What `text.load_codec` needs to build this codec again: file name -> bytes."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 over the files: equal fingerprints, equal ids for every string."""
        digest = hashlib.sha256()
        for name, data in sorted(self.files().items()):
            digest.update(f"{name} {len(data)}\n".encode())
            digest.update(data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Learned:
    """A codec and what became of the lines it was given: used + unsampled + empty + too_long = lines."""

    codec: Codec
    lines: int
    used: int
    unsampled: int = 0
    empty: int = 0
    too_long: int = 0


class Description(Section):
    """`codec.json`: what the file beside it does not say, so that the two determine string -> ids."""

    kind: Kind
    normalize: tuple[Step, ...]
    sha256: str
    """Of the vocabulary file beside it."""


def describe_vocabulary(*, kind: Kind, steps: Sequence[Step], name: str, data: bytes) -> dict[str, bytes]:
    """The files of a codec: its vocabulary, and the description that ties it to a kind and to its steps."""
    description = Description(kind=kind, normalize=tuple(steps), sha256=hashlib.sha256(data).hexdigest())
    return {DESCRIPTION: (description.model_dump_json(indent=2) + "\n").encode(), name: data}
