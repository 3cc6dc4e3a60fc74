"""Byte-pair encoding by SentencePiece, set up so that every line of text comes back exactly as it went in."""

from __future__ import annotations

import os
import random
import re
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Final

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from transduce.config import Step
from transduce.errors import CodecError
from transduce.text.codec import BOS, EOS, PAD, SPECIALS, UNK, Codec, Kind, Learned, describe_vocabulary
from transduce.text.normalize import normalize

if TYPE_CHECKING:
    from transduce.text.merges import Merges

BYTES = 256
SMALLEST = len(SPECIALS) + BYTES + 1
"""Ids that every vocabulary has: specials, bytes and the space."""

MAX_CHARACTERS = 16_000
"""Longer lines are not learned from: SentencePiece aborts the process at a word of 65,536 characters."""

RAREST = 3e-6
"""A character with a smaller share of the text than this has no id of its own and is spelled in bytes. It is
about the share of the last pieces of a usual vocabulary: below it, an id is better spent on a piece."""

SPACE_MARK = "▁"
"""SentencePiece's mark for a space (U+2581). A literal one is spelled in bytes, which decode to it."""

_BREAK = "\t"  # SentencePiece neither learns a tab nor merges across it
_UNLEARNABLE = frozenset("\0\t\n\r▁▅")  # it drops them, takes them for its marks or skips their line
_LIKE_A_SPECIAL = re.compile(r"<(?=(?:pad|unk|/?s|0x[0-9A-F]{2})>)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LINES_PER_THREAD = 1000


class Subwords(Codec):
    """A SentencePiece model with byte fallback, so that UNK is never needed, and the normalisation before it.

    A space is put in front of every line and taken off again, so that a word has the same pieces at the start
    of a line as elsewhere. SentencePiece's own dummy prefix is off because it would also stand before each
    part of a line that is cut at a literal "▁".
    """

    KIND: Final[Kind] = "subwords"
    FILE: Final = "subwords.model"

    def __init__(self, model: bytes, steps: Sequence[Step] = ()) -> None:
        self._bytes = model
        self._steps = tuple(steps)
        self._model = _open(model)
        self._mark_ids = [self._model.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE_MARK.encode()]

    @classmethod
    def learn(
        cls,
        lines: Iterable[str],
        *,
        vocabulary: int,
        seed: int,
        sample_lines: int,
        steps: Sequence[Step] = (),
    ) -> Learned:
        """Subwords of at most `sample_lines` lines, drawn by `seed`.

        Until SentencePiece asks for it, the sample lies in a temporary file (`TMPDIR`): memory is what
        SentencePiece takes, which is bounded by the sample.
        """
        if vocabulary < SMALLEST:
            raise CodecError(
                f"text.vocabulary = {vocabulary}: {len(SPECIALS)} specials, {BYTES} bytes and the space"
                f" need {SMALLEST} ids: --vocabulary {SMALLEST} or more"
            )
        with closing(_Sample(seed=seed, size=sample_lines)) as sample:
            for line in lines:
                sample.offer(normalize(line, steps))
            if not len(sample):
                raise CodecError(
                    f"no text to learn subwords from: {sample.lines} lines, {sample.empty} empty,"
                    f" {sample.too_long} over {MAX_CHARACTERS} characters: give lines of text"
                )
            codec = cls(_train(sample, vocabulary), steps)
        if codec.size < vocabulary:
            raise CodecError(
                f"text.vocabulary = {vocabulary}: {len(sample)} lines of text hold only {codec.size}"
                f" subwords: --vocabulary {codec.size} or less, or more text"
            )
        return Learned(
            codec,
            lines=sample.lines,
            used=len(sample),
            unsampled=sample.usable - len(sample),
            empty=sample.empty,
            too_long=sample.too_long,
        )

    @classmethod
    def load(cls, data: bytes, steps: Sequence[Step]) -> Subwords:
        """The codec that `files` wrote."""
        return cls(data, steps)

    @property
    def size(self) -> int:
        """Pieces, bytes and specials."""
        return int(self._model.piece_size())

    def encode(self, text: str) -> list[int]:
        """The ids of a line; never a special, whatever the line says."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each line, on as many threads as pay off."""
        lines = [f" {line}" if line else "" for line in (normalize(text, self._steps) for text in texts)]
        encoded = self._encode(lines)
        for row, line in enumerate(lines):
            if SPACE_MARK in line:
                encoded[row] = self._with_marks(self._encode(line.split(SPACE_MARK)))
        return encoded

    def cut_anew(self, sequences: Sequence[Sequence[int]], *, dropout: float, seed: int) -> list[list[int]]:
        """Other ids of the same texts: BPE-dropout leaves out merges, each with this probability."""
        return self._merges.cut_anew(sequences, dropout=dropout, seed=seed)

    @cached_property
    def _merges(self) -> Merges:
        from transduce.text.merges import Merges  # brings numpy, which `--help` does without

        return Merges(self.pieces(range(self.size)), whole=len(SPECIALS) + BYTES, space=SPACE_MARK)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids; bytes that are not UTF-8 give U+FFFD, and a newline gives a space."""
        text: str = self._model.decode([int(id) for id in ids if id >= len(SPECIALS)])
        return text.removeprefix(" ").replace("\n", " ")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """SentencePiece's pieces: "▁" begins a word, "<0xE2>" is a byte."""
        return [self._model.id_to_piece(int(id)) for id in ids]

    def files(self) -> Mapping[str, bytes]:
        """The SentencePiece model and its description."""
        return describe_vocabulary(kind=self.KIND, steps=self._steps, name=self.FILE, data=self._bytes)

    def _encode(self, lines: list[str]) -> list[list[int]]:
        threads = min(len(lines) // _LINES_PER_THREAD, os.cpu_count() or 1)
        try:
            if threads == 0:
                return [self._model.encode(line) for line in lines]
            return list(self._model.encode(lines, num_threads=threads))
        except Exception:
            for line in lines:
                _refuse_surrogates(line)
            raise

    def _with_marks(self, parts: list[list[int]]) -> list[int]:
        first, *others = parts
        return first + [id for part in others for id in (*self._mark_ids, *part)]


class _Sample:
    """A reservoir: every usable line has the same chance of being kept.

    The lines lie in a temporary file, in memory only where each one starts and ends: 16 bytes a line.
    """

    def __init__(self, *, seed: int, size: int) -> None:
        self.lines = self.usable = self.empty = self.too_long = 0
        self._size = size
        self._random = random.Random(seed)
        self._file = tempfile.TemporaryFile(prefix="transduce-sample-")  # noqa: SIM115 - closed by close
        self._end = 0
        self._starts, self._sizes = array("q"), array("q")

    def close(self) -> None:
        """Give the disk its room back."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[str]:
        self._file.flush()
        for start, size in zip(self._starts, self._sizes, strict=True):
            yield os.pread(self._file.fileno(), size, start).decode()

    def offer(self, line: str) -> None:
        self.lines += 1
        if not line:
            self.empty += 1
            return
        if len(line) > MAX_CHARACTERS:
            self.too_long += 1
            return
        _refuse_surrogates(line)
        self.usable += 1
        if len(self) < self._size:
            self._starts.append(0)
            self._sizes.append(0)
            self._keep(len(self) - 1, line.encode())
        elif (place := self._random.randrange(self.usable)) < self._size:
            self._keep(place, line.encode())

    def _keep(self, place: int, data: bytes) -> None:
        self._file.write(data)
        self._starts[place], self._sizes[place] = self._end, len(data)
        self._end += len(data)


def _train(lines: Iterable[str], vocabulary: int) -> bytes:
    """A SentencePiece model of at most `vocabulary` ids; one thread: the same lines, the same bytes."""
    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=_learnable(lines, room=vocabulary - len(SPECIALS) - BYTES),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocabulary,
        hard_vocab_limit=False,  # a smaller result tells how many subwords there are
        byte_fallback=True,
        character_coverage=1.0,  # `_learnable` has chosen
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        max_sentence_length=8 * MAX_CHARACTERS,  # in bytes
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        pad_piece=SPECIALS[PAD],
        unk_piece=SPECIALS[UNK],
        bos_piece=SPECIALS[BOS],
        eos_piece=SPECIALS[EOS],
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def _learnable(lines: Iterable[str], *, room: int) -> Iterator[str]:
    """The lines, read twice, as SentencePiece shall see them: a break for every character without an id of its own.

    The `room` most frequent characters have ids, the space always, but none that is too rare. So every
    vocabulary from SMALLEST up to what the text holds can be learned, whatever the script.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    enough = RAREST * counts.total()
    ranked = sorted(counts.keys() - _UNLEARNABLE - {" "}, key=lambda character: (-counts[character], character))
    kept = {character for character in ranked[: room - 1] if counts[character] >= enough} | {" "}
    breaks = {ord(character): _BREAK for character in counts if character not in kept}
    for line in lines:
        yield " " + _LIKE_A_SPECIAL.sub("<" + _BREAK, line.translate(breaks))


def _open(model: bytes) -> SentencePieceProcessor:
    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, ValueError) as error:
        raise CodecError(f"{Subwords.FILE} is not a SentencePiece model: {error}") from None
    ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    has_bytes = processor.piece_size() >= SMALLEST and all(
        processor.is_byte(id) for id in range(len(SPECIALS), len(SPECIALS) + BYTES)
    )
    if ids != (PAD, UNK, BOS, EOS) or not has_bytes:
        raise CodecError(
            f"{Subwords.FILE} was not learned by transduce: its pad, unk, bos and eos are {ids}, not"
            f" {(PAD, UNK, BOS, EOS)}, or it has no byte fallback"
        )
    return processor


def _refuse_surrogates(line: str) -> None:
    if found := _SURROGATE.search(line):
        raise CodecError(f"a line holds the lone surrogate {found[0]!r}: it is not Unicode text; decode it as UTF-8")
