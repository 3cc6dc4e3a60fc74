"""A treebank as a corpus: what is read, refused and left out."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import pytest

from command import transduce
from shared_data import shared_data
from toy_treebank import SETTINGS, write_treebank
from transduce.config import DataConfig
from transduce.data.corpus import Corpus, fingerprint, read_pairs
from transduce.data.selection import survey
from transduce.data.treebank import read_treebank
from transduce.errors import ConfigError, CorpusError
from transduce.settings import load_config, presets
from transduce.text.trees import leaves, restore, well_formed, words, write_tree

TREES = """\
((S (NP-SBJ-1 (DT The) (NN bridge)) (VP (VBZ holds) (NP (-NONE- *-1))) (. .)))

( (FRAG (-LRB- -LRB-) (ADVP (RB not) (RB here)) (-RRB- -RRB-)) )
((S (NP-SBJ (-NONE- *)) (VP (-NONE- *))))
"""


def written(directory: Path, text: str, name: str = "some.trees") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_words_are_the_source_and_the_linearised_tree_is_the_target(tmp_path: Path) -> None:
    pairs = list(read_pairs(Corpus(pairs=(written(tmp_path, TREES),))))
    assert [(pair.source, pair.target) for pair in pairs] == [
        ("The bridge holds .", "(S (NP DT NN )NP (VP VBZ )VP . )S"),
        ("", ""),
        ("-LRB- not here -RRB-", "(FRAG -LRB- (ADVP RB RB )ADVP -RRB- )FRAG"),
        ("", ""),
    ]


def test_lines_without_a_word_are_counted_and_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, TREES * 20 + "((S (NP (NN Rain))))\n" * 1000)
    tally = survey(Corpus(pairs=(path,)), DataConfig(max_ratio=50.0))
    assert (tally.pairs, tally.usable) == (1080, 1040)
    assert len(list(read_treebank(path))) == 1040


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("(S (NN Rain)", "not closed"),
        ("(S (NN Rain)))", "closes nothing"),
        ("Rain falls", "outside"),
        ("(S )", "no word"),
    ],
)
def test_a_line_that_is_no_tree_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = written(tmp_path, f"(S (NN Rain))\n{line}\n")
    with pytest.raises(CorpusError, match=f"some.trees: line 2: the tree.*{problem}"):
        list(read_pairs(Corpus(pairs=(path,))))
    with pytest.raises(CorpusError, match=f"some.trees: line 2.*{problem}"):
        list(read_treebank(path))


def test_a_damaged_line_is_an_error_to_those_who_score(tmp_path: Path) -> None:
    path = tmp_path / "some.trees"
    path.write_bytes(b"(S (NN Rain))\n(S (NN \xff))\n")
    with pytest.raises(CorpusError, match="line 2: bad UTF-8"):
        list(read_treebank(path))


def test_the_same_bytes_under_another_name_are_another_corpus(tmp_path: Path) -> None:
    line = "(S (NN Rain))\t(S (NN Snow))\n"
    files = [written(tmp_path, line, name) for name in ("a.trees", "a.tsv", "b.trees")]
    trees, table, again = (fingerprint(Corpus(pairs=(path,))) for path in files)
    assert trees == again != table


def test_a_compressed_treebank_is_the_same_treebank(tmp_path: Path) -> None:
    plain = written(tmp_path, TREES)
    packed = tmp_path / "some.trees.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [write_tree(tree) for tree in read_treebank(plain)] == [write_tree(tree) for tree in read_treebank(packed)]
    assert list(read_pairs(Corpus(pairs=(plain,)))) == list(read_pairs(Corpus(pairs=(packed,))))


@pytest.mark.parametrize("name", ["some.trees", "some.trees.gz"])
def test_trees_need_symbols_and_the_message_names_the_presets(name: str) -> None:
    with pytest.raises(ConfigError, match=r'some.trees.*target_codec = "symbols".*parsing-tiny'):
        load_config(preset="tiny", settings=[f"data.pairs=['{name}']"])
    with pytest.raises(ConfigError, match="symbols"):
        load_config(preset="tiny", settings=[f"data.corpora=[{{pairs=['{name}']}}]"])
    for preset in ("parsing", "parsing-small", "parsing-tiny"):
        assert preset in presets()
        load_config(preset=preset, settings=[f"data.pairs=['{name}']"])


def test_the_papers_search_is_in_the_papers_preset() -> None:
    config = load_config(preset="parsing")
    assert (config.search.beam, config.search.alpha, config.search.extra_length) == (21, 0.3, 300)
    assert (config.model.encoder_layers, config.model.d_model, config.text.vocabulary) == (4, 1024, 16000)
    assert config.model.attention_dropout > 0


def test_train_takes_trees_from_the_command_line(tmp_path: Path) -> None:
    write_treebank(tmp_path, train=60, dev=5)
    files = ["--trees", tmp_path / "train.trees", "--valid-trees", tmp_path / "dev.trees"]
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    ran = transduce("train", *files, "--preset", "parsing-tiny", "--steps", "2", *settings, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    config = (tmp_path / "run" / "model" / "config.toml").read_text(encoding="utf-8")
    assert '"train.trees"' in config
    assert '"dev.trees"' in config
    assert str(tmp_path) not in config
    ran = transduce("train", *files, "--steps", "2", "--out", tmp_path / "other")
    assert (ran.code, ran.out) == (2, "")
    assert "choose the preset" in ran.err


@pytest.mark.parametrize("name", ["treebank", "craft-treebank"])
def test_trees_of_the_public_treebanks_come_back_from_their_pairs(name: str) -> None:
    path = shared_data(name) / "dev.trees.gz"
    pairs = (pair for pair in read_pairs(Corpus(pairs=(path,))) if pair.source)
    for pair, tree in islice(zip(pairs, read_treebank(path), strict=True), 250):
        source, target = pair.source.split(" "), pair.target.split(" ")
        assert source == words(tree)
        assert well_formed(target, len(leaves(tree))) is None
        assert restore(target, source) == tree
