"""From text files to token ids: choose pairs, learn the codecs, encode, and keep it all for the next start."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.config import Config
from transduce.data.corpus import Corpus, Pair, fingerprint, languages, training_corpus, validation_corpus
from transduce.data.problems import Tally
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


def prepare(config: Config, run: Path, note: Callable[[str], None]) -> Prepared:
    """Learn codecs and encode both parts, or find what an earlier start left; `recall` then needs no text files."""
    corpus, valid_corpus = training_corpus(config.data), validation_corpus(config.data)
    directory = Path(config.data.store) if config.data.store else run / "data"
    directory.mkdir(parents=True, exist_ok=True)
    tally = survey(corpus, config.data)
    _tell(tally, note)
    share = 0.0 if valid_corpus else held_out_share(tally.usable)
    valid = _validation_pairs(config, corpus, valid_corpus, share, note)
    limits = [config.data.max_ratio, config.data.max_characters, config.data.max_length]
    facts = [fingerprint(corpus), share, *limits]
    codecs = directory / f"codec-{_key(facts, config.text.model_dump(mode='json'), config.train.seed)}"
    if not codecs.is_dir():
        _learn(config, corpus, share, codecs, note)
    source, target = load_codecs(codecs)
    train = directory / f"train-{_key(facts, source.fingerprint(), target.fingerprint())}"
    _encode(train, _training_pairs(config, corpus, share), source, target, config.data.max_length, note)
    record = {
        "directory": str(directory.absolute()) if config.data.store else directory.name,
        "codec": codecs.name,
        "train": train.name,
        "languages": languages(corpus, config.data),
        "validation": [[pair.source, pair.target] for pair in valid],
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
        train = open_store(directory / record["train"])
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


def _tell(tally: Tally, note: Callable[[str], None]) -> None:
    note(f"{tally.usable:,} usable pairs of {tally.pairs:,}")
    if tally.unusable:
        note(f"left out: {tally.reasons()}")
    if tally.boms or tally.crs:
        note(f"mended: {tally.boms:,} byte order marks, {tally.crs:,} carriage returns before a newline")


def _training_pairs(config: Config, corpus: Corpus, share: float) -> Iterator[Pair]:
    return (pair for pair in usable_pairs(corpus, config.data) if not held_out(pair.source, share))


def _validation_pairs(
    config: Config, corpus: Corpus, valid: Corpus | None, share: float, note: Callable[[str], None]
) -> list[Pair]:
    if valid is not None:
        pairs = list(islice(usable_pairs(valid, config.data), MAX_VALIDATION + 1))
        if len(pairs) > MAX_VALIDATION:
            note(f"validation uses the first {MAX_VALIDATION:,} pairs")
        return pairs[:MAX_VALIDATION]
    pairs = [pair for pair in usable_pairs(corpus, config.data) if held_out(pair.source, share)]
    if not pairs:  # a handful of pairs, and chance held none of them out
        note("no validation files, and too few pairs to hold any out: validation looks at the first one")
        return list(islice(usable_pairs(corpus, config.data), 1))
    note(f"no validation files: {len(pairs):,} pairs are held out of training, by a hash of their source")
    return pairs


def _learn(config: Config, corpus: Corpus, share: float, codecs: Path, note: Callable[[str], None]) -> None:
    text, seed = config.text, config.train.seed

    def lines(*sides: int) -> Iterator[str]:
        for pair in _training_pairs(config, corpus, share):
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


def _key(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
