"""The text of imported MarianMT models: SentencePiece cuts a line, and a list of its own numbers the pieces."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import ValidationError
from sentencepiece import SentencePieceProcessor

from transduce.config import Section, Step
from transduce.errors import CodecError
from transduce.text.codec import SPECIALS, UNK, Codec, Kind, describe_vocabulary
from transduce.text.normalize import normalize

SPACE_MARK = "▁"
_LIKE_A_SPECIAL = re.compile(rf"\\*(?:{'|'.join(map(re.escape, SPECIALS))})")


class Marian(Codec):
    """One side of a MarianMT model. A piece that is not in the list is UNK.

    A line may begin with ">>xx<<", the language to translate into, if the model knows several: it is one piece.
    """

    KIND: Final[Kind] = "marian"
    FILE: Final = "marian.json"

    def __init__(self, sentencepiece: bytes, vocabulary: Sequence[str], steps: Sequence[Step] = ()) -> None:
        """The list begins with the piece of the first id after the specials."""
        self.sentencepiece = sentencepiece
        self._vocabulary, self._steps = tuple(vocabulary), tuple(steps)
        self._ids = {piece: id for id, piece in enumerate(vocabulary, start=len(SPECIALS))}
        if len(self._ids) < len(self._vocabulary):
            raise CodecError(f"{self.FILE}: a piece is listed twice: import the model again")
        self._model = SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(sentencepiece)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"not a SentencePiece model: {error}") from None

    @classmethod
    def load(cls, data: bytes, steps: Sequence[Step]) -> Marian:
        """The codec that `files` wrote."""
        try:
            stored = _Stored.model_validate_json(data)
            return cls(base64.b64decode(stored.sentencepiece, validate=True), stored.vocabulary, steps)
        except (ValidationError, binascii.Error):
            raise CodecError(f"{cls.FILE} is damaged: import the model again") from None

    @property
    def size(self) -> int:
        """Pieces and specials."""
        return len(SPECIALS) + len(self._vocabulary)

    def encode(self, text: str) -> list[int]:
        """The ids of a line; never a special but UNK, whatever the line says."""
        line = normalize(text, self._steps)
        end = line.find("<<") + 2 if line.startswith(">>") and "<<" in line else 0
        try:
            pieces = self._model.encode(line[end:], out_type=str)
        except (RuntimeError, ValueError):
            raise CodecError("a line holds a lone surrogate: it is not Unicode text; decode it as UTF-8") from None
        return [self._ids.get(piece, UNK) for piece in ([line[:end], *pieces] if end else pieces)]

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each line."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids, without white space around it; a newline gives a space."""
        pieces = [self._vocabulary[id - len(SPECIALS)] for id in ids if id >= len(SPECIALS)]
        text: str = self._model.decode(pieces)
        return text.replace(SPACE_MARK, " ").replace("\n", " ").strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """SentencePiece's pieces; a backslash sets apart one that is written like a special."""
        return [self._readable(id - len(SPECIALS)) if id >= len(SPECIALS) else SPECIALS[id] for id in ids]

    def files(self) -> Mapping[str, bytes]:
        """`marian.json`, with the pieces in the order of ids and the SentencePiece model, and its description."""
        encoded = base64.b64encode(self.sentencepiece).decode("ascii")
        stored = _Stored(vocabulary=self._vocabulary, sentencepiece=encoded)
        data = (stored.model_dump_json(indent=0) + "\n").encode()
        return describe_vocabulary(kind=self.KIND, steps=self._steps, name=self.FILE, data=data)

    def _readable(self, place: int) -> str:
        piece = self._vocabulary[place]
        return f"\\{piece}" if _LIKE_A_SPECIAL.fullmatch(piece) else piece


class _Stored(Section):
    """`marian.json`."""

    vocabulary: tuple[str, ...]
    """Pieces in the order of ids, without the specials."""
    sentencepiece: str
    """The SentencePiece model in base64."""
