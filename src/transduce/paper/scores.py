"""BLEU of bundles on the public test sets of their languages: Table 2's left half."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from transduce.bundle import MANIFEST, locate, parse_manifest
from transduce.decode.translator import Translator
from transduce.evaluate.bleu import bleu, paper_bleu
from transduce.files import sha256, write_json
from transduce.paper import corpora
from transduce.train.progress import Listener

NEWS = ("newstest2013", "newstest2014", "newstest2017")
"""Directories with a file for each side of a pair."""
OTHERS = {
    "Multi30k 2016": "multi30k/test_2016_flickr",
    "Multi30k 2017": "multi30k/test_2017_flickr",
    "Multi30k COCO": "multi30k/test_2017_mscoco",
    "Tatoeba": "tatoeba-en-de/test",
}
"""Test sets of English and German, to be translated either way, by how their files' names begin."""
WINDOW = 500  # lines between two notes


@dataclass(frozen=True)
class TestSet:
    """Lines with their translation by people."""

    name: str
    source: Path
    reference: Path


@dataclass(frozen=True)
class Scored:
    """What a bundle reached on a test set."""

    bundle: str
    languages: str
    test_set: str
    lines: int
    parameters: int
    search: str
    bleu: float
    signature: str
    paper_bleu: float
    paper_signature: str


def find_sets(data: Path, source: str | None, target: str | None) -> list[TestSet]:
    """The test sets of these languages that lie in `data`."""
    pair = f"{source}-{target}"
    sets = [
        TestSet(name, data / name / f"{pair}.src.{source}.gz", data / name / f"{pair}.ref.{target}.gz") for name in NEWS
    ]
    if {source, target} == {*corpora.LANGUAGES}:
        sets += [
            TestSet(name, data / f"{file}.{source}.gz", data / f"{file}.{target}.gz") for name, file in OTHERS.items()
        ]
    return [each for each in sets if each.source.is_file() and each.reference.is_file()]


def score_bundle(path: Path, data: Path, work: Path, listener: Listener) -> list[Scored]:
    """On every test set of its languages; what is kept in `work` for the same weights is not translated again."""
    bundle = locate(path)
    languages = parse_manifest(bundle / MANIFEST).languages
    sets = find_sets(data, languages.source, languages.target)
    if not sets:
        spoken = f"{languages.source or '?'}-{languages.target or '?'}"
        listener.warn(f"{path}: no test set for {spoken} in {data}: it has no BLEU here")
    digest = sha256(bundle / MANIFEST)[:12]
    work.mkdir(parents=True, exist_ok=True)
    found = []
    for each in sets:
        kept = work / f"{digest}-{each.name.casefold().replace(' ', '-')}.json"
        if not kept.is_file():
            write_json(kept, asdict(_score(path, each, listener)))
        found.append(Scored(**{**json.loads(kept.read_text(encoding="utf-8")), "bundle": path.name}))
    return found


def _score(path: Path, test_set: TestSet, listener: Listener) -> Scored:
    pairs = corpora.read((test_set.source, test_set.reference))
    translator = Translator.load(path, warn=listener.warn)
    assert translator.bundle is not None
    target = translator.bundle.target_lang or "en"
    texts: list[str] = []
    started = time.monotonic()
    for first in range(0, len(pairs), WINDOW):
        lines = [source for source, _ in pairs[first : first + WINDOW]]
        texts += [translation.text for translation in translator.translate(lines, first_line=first + 1)]
        left = (time.monotonic() - started) * (len(pairs) / len(texts) - 1)
        to_go = f"about {timedelta(seconds=round(left))} to go"
        listener.note(f"{path.name}, {test_set.name}: {len(texts):,} of {len(pairs):,} lines, {to_go}")
    references = [reference for _, reference in pairs]
    plain, papers = bleu(texts, references), paper_bleu(texts, references, language=target)
    return Scored(
        bundle=path.name,
        languages=f"{translator.bundle.source_lang}-{target}",
        test_set=test_set.name,
        lines=len(pairs),
        parameters=translator.reference.model.num_parameters(),
        search=f"beam {translator.search.beam}, alpha {translator.search.alpha:g}, {translator.engine.name}",
        bleu=plain.value,
        signature=plain.signature,
        paper_bleu=papers.value,
        paper_signature=papers.signature,
    )
