"""From text files to token ids: choose pairs, learn the codecs, encode, and keep it all for the next start."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from transduce.config import Config, DataConfig
from transduce.data.corpus import Corpus, Pair, fingerprint, languages, training_corpus, validation_corpus
from transduce.data.pace import Notes, Progress, Tick, stage
from transduce.data.resampling import as_subwords
from transduce.data.selection import held_out, held_out_share, survey, usable_pairs
from transduce.data.store import Store, open_store, write_store
from transduce.errors import CorpusError, RunError
from transduce.files import write_directory, write_json
from transduce.text import Codec, learn_codec, load_codecs, save_codecs

MAX_VALIDATION = 5000  # pairs: validation decodes them all, again and again
RECORD = "data.json"  # in the run: which codec and stores are its own


@dataclass(frozen=True)
class Prepared:
    """All that training needs to know of the text."""

    source_codec: Codec
    target_codec: Codec
    train: Store
    valid_source: list[str]
    valid_target: list[str]
    source_lang: str | None
    target_lang: str | None


def prepare(
    config: Config,
    run: Path,
    note: Callable[[str], None],
    progress: Progress | None = None,
    *,
    given: tuple[Codec, Codec] | None = None,
) -> Prepared:
    """Look at the pairs, learn codecs, unless they are `given`, and encode; `recall` then needs no text files.

    Each of the three stages leaves its result whole, named by what it came from, or not at all: after a kill the next
    start does again only what was not done. Without `progress`, what takes long is told in notes.
    """
    progress = progress or Notes(note)
    corpus, valid = training_corpus(config.data), validation_corpus(config.data)
    directory = Path(config.data.store) if config.data.store else run / "data"
    directory.mkdir(parents=True, exist_ok=True)
    if not config.data.store:  # another run may be at work in a store that is shared
        _remove_unfinished(directory)
    limits = [config.data.max_ratio, config.data.max_characters, config.data.max_length]
    whole = fingerprint(corpus)
    beside = ["beside others"] if _own_files(config.data, corpus) is not None else []
    looked = [whole, valid and fingerprint(valid), *limits, config.data.strict, *beside]
    surveyed = directory / f"survey-{_key(looked)}.json"
    if not surveyed.is_file():
        write_json(surveyed, asdict(_survey(config.data, corpus, valid, progress)))
    survey = Survey(**json.loads(surveyed.read_text(encoding="utf-8")))
    for line in survey.notes:
        note(line)
    facts = [whole, survey.share, *limits, *beside]
    codecs = directory / f"codec-{_key(facts, config.text.model_dump(mode='json'), config.train.seed)}"
    if given is not None:
        codecs = _keep(given, directory, note)
    elif not codecs.is_dir():
        _learn(config, corpus, survey, codecs, note, stage(progress, "learning the vocabulary"))
    source, target = load_codecs(codecs)
    if config.train.bpe_dropout:
        as_subwords((source, target), config.train.bpe_dropout)
    train = directory / f"train-{_key(facts, source.fingerprint(), target.fingerprint())}"
    pairs = _training_pairs(config, corpus, survey, stage(progress, "encoding"))
    _encode(train, pairs, source, target, config.data.max_length, note)
    record = {
        "directory": str(directory.absolute()) if config.data.store else directory.name,
        "codec": codecs.name,
        "train": train.name,
        "languages": languages(corpus, config.data),
        "corpora": [[line, part.weight] for line, part in zip(survey.first_lines, corpus.parts, strict=True)],
        "validation": survey.validation,
    }
    write_json(run / RECORD, record)
    return recall(run)


def recall(run: Path) -> Prepared:
    """What `prepare` made for this run."""
    try:
        record = json.loads((run / RECORD).read_text(encoding="utf-8"))
        source_lang, target_lang = record["languages"]
        directory = run / record["directory"]
        source, target = load_codecs(directory / record["codec"])
        train = open_store(directory / record["train"]).weighted(record.get("corpora", []))
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{run}: its data is damaged or gone ({error}): start again with another --out") from None
    return Prepared(
        source_codec=source,
        target_codec=target,
        train=train,
        valid_source=[pair[0] for pair in record["validation"]],
        valid_target=[pair[1] for pair in record["validation"]],
        source_lang=source_lang,
        target_lang=target_lang,
    )


@dataclass(frozen=True)
class Survey:
    """What must be known of the pairs before anything is learned from them."""

    share: float
    """Of the pairs that is held out."""
    first_lines: list[int]
    """Of each corpus, over all files."""
    validation: list[list[str]]
    notes: list[str]


def _survey(data: DataConfig, corpus: Corpus, valid: Corpus | None, progress: Progress) -> Survey:
    tally = survey(corpus, data, stage(progress, "counting"))
    notes = [f"{tally.usable:,} usable pairs of {tally.pairs:,}"]
    if tally.unusable:
        notes.append(f"left out: {tally.reasons()}")
    if tally.boms or tally.crs:
        notes.append(f"mended: {tally.boms:,} byte order marks, {tally.crs:,} carriage returns before a newline")
    own = tally.usable if _own_files(data, corpus) is None else min(tally.usable, tally.parts[0])
    share = 0.0 if valid else held_out_share(own)
    if valid:
        pairs, more = _validation_pairs(data, valid)
    else:
        pairs, more = _held_out_pairs(data, corpus, share, stage(progress, "holding out"))
    sizes = [tally.parts[number] for number in range(len(corpus.parts))]
    return Survey(
        share=share,
        first_lines=[1 + before for before in accumulate(sizes[:-1], initial=0)],
        validation=[[pair.source, pair.target] for pair in pairs],
        notes=notes + more,
    )


def _training_pairs(config: Config, corpus: Corpus, survey: Survey, tick: Tick) -> Iterator[Pair]:
    own = _own_files(config.data, corpus)
    sources = {source for source, _ in survey.validation if held_out(source, survey.share)}
    for pair in usable_pairs(corpus, config.data, tick=tick):
        hidden = held_out(pair.source, survey.share) if own is None or pair.file < own else pair.source in sources
        if not hidden:
            yield pair


def _own_files(data: DataConfig, corpus: Corpus) -> int | None:
    """How many files of pairs are plain ones with weighted corpora beside them, if any are: what a model made, or an
    older corpus that is mixed in, is nothing to validate on.
    """
    return len(corpus.parts[0].inputs) if data.corpora and (data.source or data.pairs) else None


def _validation_pairs(data: DataConfig, valid: Corpus) -> tuple[list[Pair], list[str]]:
    pairs = list(islice(usable_pairs(valid, data), MAX_VALIDATION + 1))
    notes = [f"validation uses the first {MAX_VALIDATION:,} pairs"] if len(pairs) > MAX_VALIDATION else []
    return pairs[:MAX_VALIDATION], notes


def _held_out_pairs(data: DataConfig, corpus: Corpus, share: float, tick: Tick) -> tuple[list[Pair], list[str]]:
    own, pairs, sources, same = _own_files(data, corpus), list[Pair](), set[str](), 0
    for pair in usable_pairs(corpus, data, tick=tick):
        if not held_out(pair.source, share):
            continue
        if own is None or pair.file < own:
            pairs.append(pair)
            sources.add(pair.source)
        else:
            same += pair.source in sources
    if pairs:
        number = f"{len(pairs):,} pairs are held out of training, by a hash of their source"
        others = "" if own is None else f"; of data.corpora only those {same:,} that have such a source, unvalidated"
        return pairs, [f"no validation files: {number}{others}"]
    # a handful of pairs, and chance held none of them out
    note = "no validation files, and too few pairs to hold any out: validation looks at the first one"
    return list(islice(usable_pairs(corpus, data), 1)), [note]


def _learn(
    config: Config, corpus: Corpus, survey: Survey, codecs: Path, note: Callable[[str], None], tick: Tick
) -> None:
    text, seed = config.text, config.train.seed

    def lines(*sides: int) -> Iterator[str]:
        for pair in _training_pairs(config, corpus, survey, tick):
            yield from ((pair.source, pair.target)[side] for side in sides)

    if text.joint:
        learned = [learn_codec(text.source_codec, lines(0, 1), text, seed=seed)]
    else:
        kinds = (text.source_codec, text.target_codec)
        learned = [learn_codec(kind, lines(side), text, seed=seed) for side, kind in enumerate(kinds)]
    for each in learned:
        left_out = each.empty + each.too_long
        dropped = f"; {left_out:,} lines were empty or too long to learn from" if left_out else ""
        note(f"vocabulary: {each.codec.size:,}, learned from {each.used:,} of {each.lines:,} lines{dropped}")
    write_directory(codecs, lambda directory: save_codecs(directory, learned[0].codec, learned[-1].codec))


def _keep(given: tuple[Codec, Codec], directory: Path, note: Callable[[str], None]) -> Path:
    """Codecs that were learned elsewhere, in a place of their own."""
    path = directory / f"codec-{_key([codec.fingerprint() for codec in given])}"
    if not path.is_dir():
        write_directory(path, lambda directory: save_codecs(directory, *given))
    note(f"vocabulary: {' and '.join(f'{size:,}' for size in sorted({codec.size for codec in given}))}, as given")
    return path


def _encode(
    path: Path,
    pairs: Iterator[Pair],
    source: Codec,
    target: Codec,
    max_length: int,
    note: Callable[[str], None],
) -> None:
    triples = ((pair.line, pair.source, pair.target) for pair in pairs)
    found = path.is_dir()
    store = open_store(path) if found else write_store(path, triples, source, target, max_length=max_length)
    if store.too_long:
        note(f"{store.too_long:,} pairs with more than data.max_length = {max_length} tokens are left out")
    if not len(store):
        raise CorpusError(f"no pair has at most data.max_length = {max_length} tokens: raise it")


def _remove_unfinished(directory: Path) -> None:
    """Remove what a start that was killed had begun to write."""
    for path in directory.glob(".*.tmp"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _key(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
