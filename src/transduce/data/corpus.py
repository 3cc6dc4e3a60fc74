"""Parallel text: line i of one file belongs to line i of another, or both stand in one TSV, JSONL or treebank file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from transduce.config import DataConfig
from transduce.data import treebank
from transduce.data.lines import Block, check_file, read_blocks
from transduce.data.pace import Tick, unheard
from transduce.data.problems import Problem
from transduce.data.rows import is_text, splitter
from transduce.data.shift import LengthLog, describe_shift
from transduce.errors import CorpusError
from transduce.files import sha256

_LANGUAGE = re.compile(r"[a-z]{2,3}([-_]([A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))*")
_DIRECTION = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")
_FILE_WORD = re.compile("gz|xz|txt|tsv|csv|dat|tok|bpe|spm|raw|src|tgt|trg|ref|hyp|out|low|lc|tc|dev|new|old|all|seg")


@dataclass(frozen=True)
class Corpus:
    """Where some pairs come from: source and target files, or files of pairs; several are read in turn.

    What is trained on may be several corpora: the first knows the `others`, which are read after it.
    """

    source: tuple[Path, ...] = ()
    target: tuple[Path, ...] = ()
    pairs: tuple[Path, ...] = ()
    columns: tuple[str, str] = ("source", "target")
    weight: float = 1.0
    """How often an epoch sees each of its pairs."""
    others: tuple[Corpus, ...] = ()

    def __post_init__(self) -> None:
        if self.pairs and (self.source or self.target):
            raise CorpusError(f"{self.pairs[0]}: give either pairs or source and target files, not both")
        if len(self.source) != len(self.target):
            counts = f"{len(self.source)} source files, {len(self.target)} target files"
            raise CorpusError(f"{counts}: give as many of one as of the other, in the same order")
        if not (self.pairs or self.source):
            raise CorpusError("no files: give source and target files, or pairs in a .tsv or .jsonl file")
        for path in self.pairs:
            splitter(path)

    @property
    def parts(self) -> tuple[Corpus, ...]:
        """Each corpus by itself."""
        return (replace(self, others=()), *self.others) if self.others else (self,)

    @property
    def inputs(self) -> tuple[tuple[Path, ...], ...]:
        """What is read in turn: a source file and its target file, or a file of pairs."""
        own = [(path,) for path in self.pairs] or zip(self.source, self.target, strict=True)
        return (*own, *(files for other in self.others for files in other.inputs))

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file, in reading order."""
        return tuple(path for files in self.inputs for path in files)

    @property
    def first_files(self) -> tuple[Path, ...]:
        """The files that places are named after: the source's, or those of pairs."""
        return tuple(files[0] for files in self.inputs)


class Pair(NamedTuple):
    """Two lines that belong together."""

    line: int
    """From 1, over all files."""
    source: str
    target: str
    problem: Problem | None
    """What reading alone could tell; `usable_pairs` looks further."""
    file: int
    """Index into `Corpus.first_files`."""
    file_line: int
    """From 1, in that file."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some consecutive pairs of one file; past the end of the shorter of two files one side is empty."""

    file: int
    file_line: int
    """Of the first pair, from 1."""
    line: int
    """Of the first pair, over all files, from 1."""
    sources: list[str]
    targets: list[str]
    problems: dict[int, Problem] = field(default_factory=dict)
    """By index: what reading alone can tell."""
    boms: int = 0
    crs: int = 0
    part: int = 0
    """Index into `Corpus.parts`."""

    @property
    def surplus(self) -> bool:
        """Whether these lines have no counterpart."""
        return len(self.sources) != len(self.targets)


def training_corpus(data: DataConfig) -> Corpus:
    """The training part of a configuration: the plain files, if any, and then the weighted corpora."""
    parts: list[Corpus] = []
    if data.source or data.target or data.pairs:
        parts.append(Corpus(_paths(data.source), _paths(data.target), _paths(data.pairs), data.columns))
    for number, each in enumerate(data.corpora, 1):
        files = _paths(each.source), _paths(each.target), _paths(each.pairs)
        try:
            parts.append(Corpus(*files, data.columns, each.weight))
        except CorpusError as error:
            raise CorpusError(f"[[data.corpora]] number {number}: {error}") from None
    if not parts:
        raise CorpusError("no training data: give data.source and data.target, or data.pairs, or data.corpora")
    return replace(parts[0], others=tuple(parts[1:]))


def validation_corpus(data: DataConfig) -> Corpus | None:
    """The validation part of a configuration; none: hold pairs out of the training data."""
    if not (data.valid_source or data.valid_target or data.valid_pairs):
        return None
    return Corpus(_paths(data.valid_source), _paths(data.valid_target), _paths(data.valid_pairs), data.columns)


def read_pairs(corpus: Corpus) -> Iterator[Pair]:
    """Every pair in order, damaged ones too; differing line counts are an error where the shorter ends."""
    for batch in aligned_batches(corpus):
        for index, (source, target) in enumerate(zip(batch.sources, batch.targets, strict=True)):
            problem = batch.problems.get(index)
            yield Pair(batch.line + index, source, target, problem, batch.file, batch.file_line + index)


def aligned_batches(corpus: Corpus, tick: Tick = unheard) -> Iterator[Batch]:
    """As `read_batches`, but lines without a counterpart are an error."""
    for batch in read_batches(corpus, tick):
        if batch.surplus:
            raise _misaligned(*corpus.inputs[batch.file])
        yield batch


def read_batches(corpus: Corpus, tick: Tick = unheard) -> Iterator[Batch]:
    """Every line of every file, some thousands at a time; `tick` hears of each batch that has been dealt with."""
    for path in corpus.files:
        check_file(path)
    done, total = 0, sum(path.stat().st_size for path in corpus.files)
    inputs = [(number, part, files) for number, part in enumerate(corpus.parts) for files in part.inputs]
    line = 1
    for file, (number, part, files) in enumerate(inputs):
        file_line = 1
        for columns in _read_table(files[0], part.columns) if part.pairs else _read_two(*files):
            sources, targets, problems, boms, crs, read = columns
            yield Batch(file, file_line, line, sources, targets, problems, boms, crs, number)
            size = max(len(sources), len(targets))
            line, file_line, done = line + size, file_line + size, done + read
            tick(done, total)
        if file_line == 1:
            raise CorpusError(f"{files[0]}: holds no line: it should hold one sentence a line")


def languages(corpus: Corpus, data: DataConfig) -> tuple[str | None, str | None]:
    """The two codes: as set, else from the JSONL keys or the file names (train.en.gz, x.en-de.tsv)."""
    found = {_languages(part) for part in corpus.parts} - {(None, None)}
    source, target = found.pop() if len(found) == 1 else (None, None)
    return data.source_lang or source, data.target_lang or target


def fingerprint(corpus: Corpus) -> str:
    """SHA-256 over every file's bytes and how they are read: the same fingerprint, the same pairs."""
    if corpus.others:
        return hashlib.sha256(json.dumps([fingerprint(part) for part in corpus.parts]).encode()).hexdigest()
    kind = ["pairs", *corpus.columns] if corpus.pairs else ["two"]
    for path in corpus.files:
        check_file(path)
    formats = [_format(path) if corpus.pairs else "lines" for path in corpus.files]
    digests = [sha256(path) for path in corpus.files]
    return hashlib.sha256(json.dumps([kind, formats, digests]).encode()).hexdigest()


def _format(path: Path) -> str:
    kinds = {".jsonl": "jsonl", treebank.SUFFIX: treebank.TARGETS}
    return next((kinds[suffix] for suffix in path.suffixes if suffix in kinds), "lines")


class _Columns(NamedTuple):
    """A batch before its place is known."""

    sources: list[str]
    targets: list[str]
    problems: dict[int, Problem]
    boms: int
    crs: int
    read: int
    """Bytes of the files since the batch before."""


def _read_two(source_path: Path, target_path: Path) -> Iterator[_Columns]:
    """Two files side by side; their blocks end at different lines, so each is used up in steps."""
    left, right = read_blocks(source_path), read_blocks(target_path)
    nothing = Block([])
    source, target = next(left, nothing), next(right, nothing)
    while source.texts or target.texts:
        size = min(len(source.texts), len(target.texts)) or max(len(source.texts), len(target.texts))
        problems = _first(target.problems, size) | _first(source.problems, size)
        boms, crs, read = source.boms + target.boms, source.crs + target.crs, source.read + target.read
        yield _Columns(source.texts[:size], target.texts[:size], problems, boms, crs, read)
        source = _rest(source, size) or next(left, nothing)
        target = _rest(target, size) or next(right, nothing)


def _first(problems: dict[int, Problem], size: int) -> dict[int, Problem]:
    return {index: problem for index, problem in problems.items() if index < size}


def _rest(block: Block, size: int) -> Block | None:
    """What is left of a block; what was read and mended for it has been counted with its first part."""
    if len(block.texts) <= size:
        return None
    problems = {index - size: problem for index, problem in block.problems.items() if index >= size}
    return Block(block.texts[size:], problems)


def _read_table(path: Path, columns: tuple[str, str]) -> Iterator[_Columns]:
    split = splitter(path)
    line = 0
    for block in read_blocks(path):
        sources, targets, problems = [], [], dict(block.problems)
        for index, text in enumerate(block.texts):
            line += 1
            try:
                source, target = split(text, columns) if text else ("", "")
            except ValueError as error:
                if index not in block.problems:
                    raise CorpusError(f"{path}: line {line}: {error}") from None
                source = target = ""  # a damaged line is counted as such, whatever its columns
            sources.append(source)
            targets.append(target)
            if not is_text(source) or not is_text(target):
                problems.setdefault(index, Problem.BAD_UTF8)
        yield _Columns(sources, targets, problems, block.boms, block.crs, block.read)


def _misaligned(source: Path, target: Path) -> CorpusError:
    """Both counts, and where the lines part: worth a second reading, as the user must find it otherwise."""
    with closing(LengthLog()) as source_lengths, closing(LengthLog()) as target_lengths:
        for path, log in ((source, source_lengths), (target, target_lengths)):
            for block in read_blocks(path):
                log.add([len(text) for text in block.texts])
        counts = f"{source}: {len(source_lengths):,} lines, {target}: {len(target_lengths):,}"
        hint = describe_shift(source_lengths.values(), target_lengths.values())
    return CorpusError(f"{counts}; {hint}: mend it or cut both")


def _paths(names: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(name) for name in names)


def _languages(corpus: Corpus) -> tuple[str | None, str | None]:
    if corpus.pairs:
        return _pair_languages(corpus)
    return _suffix_language(corpus.source), _suffix_language(corpus.target)


def _suffix_language(paths: tuple[Path, ...]) -> str | None:
    """The code that every file's name ends in, words for kinds of file aside."""
    codes = set()
    for path in paths:
        names = [suffix[1:] for suffix in path.suffixes if not _FILE_WORD.fullmatch(suffix[1:])]
        codes.add(names[-1] if names and _LANGUAGE.fullmatch(names[-1]) else None)
    return codes.pop() if len(codes) == 1 else None


def _pair_languages(corpus: Corpus) -> tuple[str | None, str | None]:
    if all(_LANGUAGE.fullmatch(name) for name in corpus.columns):
        return corpus.columns
    directions = {
        match.groups()
        for path in corpus.pairs
        for suffix in path.suffixes
        if (match := _DIRECTION.fullmatch(suffix[1:]))
    }
    if len(directions) != 1:
        return None, None
    source, target = directions.pop()
    return source, target
