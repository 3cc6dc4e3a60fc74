"""Several corpora, each with a weight, as one."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.config import CorpusConfig, DataConfig
from transduce.data.corpus import Corpus, aligned_batches, fingerprint, languages, read_pairs, training_corpus
from transduce.data.selection import survey
from transduce.errors import CorpusError
from transduce.settings import load_config, make_config, read_toml

DATA = DataConfig()


def several(folder: Path) -> Corpus:
    """Two files with three pairs and a table with two, of weight 2.5."""
    (folder / "a.en").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "a.de").write_text("eins\nzwei\ndrei\n", encoding="utf-8")
    (folder / "b.en-de.tsv").write_text("four\tvier\nfive\tf\u00fcnf\n", encoding="utf-8")
    table = """
        [[data.corpora]]
        source = ["{0}/a.en"]
        target = ["{0}/a.de"]
        [[data.corpora]]
        pairs = ["{0}/b.en-de.tsv"]
        weight = 2.5
    """
    (folder / "mix.toml").write_text(table.format(folder), encoding="utf-8")
    return training_corpus(load_config(path=folder / "mix.toml").data)


def test_several_corpora_are_read_in_turn_and_keep_their_weights(tmp_path: Path) -> None:
    mixed = several(tmp_path)
    assert [part.weight for part in mixed.parts] == [1.0, 2.5]
    read = list(read_pairs(mixed))
    assert [pair.source for pair in read] == ["one", "two", "three", "four", "five"]
    assert [pair.line for pair in read] == [1, 2, 3, 4, 5]
    places = [(mixed.first_files[pair.file].name, pair.file_line) for pair in read]
    assert places[2:4] == [("a.en", 3), ("b.en-de.tsv", 1)]
    assert survey(mixed, DATA).parts == {0: 3, 1: 2}
    assert languages(mixed, DATA) == ("en", "de")


def test_plain_files_come_before_weighted_corpora() -> None:
    more = CorpusConfig(pairs=("x.tsv",), weight=0.5)
    corpus = training_corpus(DataConfig(source=("a.en",), target=("a.de",), corpora=(more,)))
    assert [(part.files, part.weight) for part in corpus.parts] == [
        ((Path("a.en"), Path("a.de")), 1.0),
        ((Path("x.tsv"),), 0.5),
    ]


def test_a_weight_is_not_part_of_a_fingerprint_but_the_text_of_every_corpus_is(tmp_path: Path) -> None:
    mixed = several(tmp_path)
    first = fingerprint(mixed)
    assert fingerprint(replace(mixed, others=(replace(mixed.others[0], weight=7.0),))) == first
    (tmp_path / "b.en-de.tsv").write_text("four\tvier\n", encoding="utf-8")
    assert fingerprint(mixed) != first


def test_a_mistake_in_one_of_several_corpora_names_its_number() -> None:
    with pytest.raises(CorpusError, match=r"\[\[data.corpora\]\] number 2: 1 source files, 0 target files"):
        training_corpus(DataConfig(corpora=(CorpusConfig(pairs=("a.tsv",)), CorpusConfig(source=("a",)))))


def test_unaligned_files_are_refused_in_whichever_corpus_they_are(tmp_path: Path) -> None:
    mixed = several(tmp_path)
    turned = replace(mixed.others[0], others=(replace(mixed, others=()),))
    (tmp_path / "a.de").write_text("eins\nzwei\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"a\.en: 3 lines, .*a\.de: 2"):
        survey(turned, DATA)


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_ticks_rise_to_the_bytes_on_disk(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    sides = []
    for side in ("en", "de"):
        path = tmp_path / f"a.{side}{suffix}"
        path.write_bytes(pack("".join(f"{side} {number**7}\n" for number in range(60_000)).encode()))
        sides.append((path,))
    seen: list[tuple[int, int]] = []
    for _ in aligned_batches(Corpus(*sides), lambda done, total: seen.append((done, total))):
        pass
    total = sum(path.stat().st_size for side in sides for path in side)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)


def test_a_configuration_with_corpora_is_read_as_it_was_written(tmp_path: Path) -> None:
    several(tmp_path)
    config = load_config(path=tmp_path / "mix.toml")
    (tmp_path / "again.toml").write_text(config.to_toml(), encoding="utf-8")
    assert make_config(read_toml(tmp_path / "again.toml"), where="again.toml") == config
