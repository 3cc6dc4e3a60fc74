"""Search that keeps to trees: whatever the weights, and against brute force; and the parser on top of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command import Ran, transduce
from random_search import log_probability, random_model, random_requests
from toy_treebank import SETTINGS, write_treebank
from transduce.config import SearchConfig
from transduce.data.treebank import read_treebank
from transduce.decode.hypothesis import Hypothesis, Request, length_penalty
from transduce.decode.parser import Parser, split_words
from transduce.decode.torch_engine import TorchEngine
from transduce.decode.well_formed import LEAVES, MAX_OPENINGS, Grammar
from transduce.errors import ConfigError, UserError
from transduce.model import Transformer
from transduce.text import Symbols, Words
from transduce.text.codec import EOS
from transduce.text.trees import ORDINARY, PUNCTUATION, linearise, read_tree, well_formed, words, write_tree
from transduce.trainer import Trainer

TREES = Symbols(["NN", "VB", "(S", ")S", "(NP", ")NP", "(VP", ")VP", ",", ".", ":", "``", "''"])
GRAMMAR = Grammar(TREES)
WORDS = ("rain", "falls", ",", ".", "?", "-", "'", "-LRB-", "``", "2009")
MODES: list[dict[str, object]] = [
    {"beam": 1},
    {"beam": 4},
    {"beam": 4, "groups": 2},
    {"beam": 3, "sampling": True},
    {"beam": 2, "sampling": True, "temperature": 4.0},
    {"beam": 3, "coverage": 0.3},
]
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40)


def request_for(sentence: list[str], grammar: Grammar = GRAMMAR, size: int = TREES.size) -> Request:
    (asked,) = random_requests(len(sentence), [len(sentence)], size=size)
    return replace(asked, trees=grammar.over(sentence))


def openings_in_a_row(tokens: list[str]) -> int:
    runs = "".join("(" if token[0] == "(" else " " for token in tokens).split()
    return max(map(len, runs), default=0)


def assert_tree(hypothesis: Hypothesis, sentence: list[str], codec: Symbols = TREES) -> None:
    tokens = codec.pieces(hypothesis.ids)
    assert well_formed(tokens, len(sentence)) is None
    assert openings_in_a_row(tokens) <= MAX_OPENINGS
    found = [token for token in tokens if token[0] not in "()"]
    for leaf, word in zip(found, sentence, strict=True):
        known = codec.pieces(range(codec.size))
        marks = [mark for mark in LEAVES.get(word, ()) if mark in known]
        ordinary = not marks or ORDINARY in LEAVES[word]
        assert leaf in [*marks, *(("NN", "VB") if ordinary else ())]


@pytest.mark.parametrize("mode", MODES, ids=str)
@given(
    some=st.lists(sentences, min_size=1, max_size=2),
    extra=st.integers(2, 40),
    seed=st.integers(0, 4),
    brackets=st.sampled_from([-8.0, 0.0, 8.0]),
)
@settings(max_examples=8)
def test_whatever_the_weights_every_output_is_a_tree(
    mode: dict[str, object], some: list[list[str]], extra: int, seed: int, brackets: float
) -> None:
    model = random_model(seed, size=TREES.size, output_bias=True)
    model.projection.bias[list(GRAMMAR.closing)] = brackets  # a model that loves to open, or hates to
    search = SearchConfig.model_validate({"extra_length": extra, **mode})
    found = TorchEngine(model).search([request_for(sentence) for sentence in some], search)
    for sentence, hypotheses in zip(some, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert_tree(hypothesis, sentence)
            assert len(hypothesis.ids) <= len(sentence) + extra


def test_trees_and_other_outputs_share_a_batch() -> None:
    model = random_model(3, size=TREES.size)
    sentence = ["rain", "falls", "."]
    free = replace(request_for(sentence), trees=None)
    for beam in (1, 3):
        search = SearchConfig(beam=beam, extra_length=9)
        alone = [TorchEngine(model).search([asked], search)[0] for asked in (free, request_for(sentence))]
        mixed = TorchEngine(model).search([free, request_for(sentence)], search)
        assert [[h.ids for h in some] for some in mixed] == [[h.ids for h in some] for some in alone]


def test_where_no_tree_has_room_there_is_none() -> None:
    model = random_model(0, size=TREES.size)
    asked = request_for(["rain", "falls"])
    for mode in MODES:
        for room, number in ((3, 0), (4, 1)):
            search = SearchConfig.model_validate({**mode, "max_length": room})
            (found,) = TorchEngine(model).search([asked], search)
            assert {len(h.ids) for h in found} == ({4} if number else set())


SMALL = Symbols(["NN", "VB", "(S", ")S", "(N", ")N"])
LIMIT = 7
OUTPUTS = [
    ids
    for length in range(LIMIT)
    for ids in product(range(4, SMALL.size), repeat=length)
    if well_formed(SMALL.pieces(ids), 2) is None
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.0, 0.3, 2.0])
def test_a_wide_beam_finds_the_best_of_all_trees(seed: int, alpha: float) -> None:
    model: Transformer = random_model(seed, size=SMALL.size)
    asked = request_for(["rain", "falls"], Grammar(SMALL), SMALL.size)
    scored = [(ids, log_probability(model, asked.source, ids)) for ids in OUTPUTS]
    ranked = sorted(scored, key=lambda pair: -pair[1] / length_penalty(len(pair[0]) + 1, alpha))
    search = SearchConfig(beam=200, alpha=alpha, extra_length=LIMIT - len(asked.source) - 1)
    (found,) = TorchEngine(model).search([asked], search)
    assert [h.ids for h in found] == [ids for ids, _ in ranked]
    assert [h.log_probability for h in found] == pytest.approx([total for _, total in ranked], abs=1e-9)


def test_there_is_always_a_way_on_and_it_leads_to_every_tree() -> None:
    trees = Grammar(SMALL).over(["rain", "falls"])
    reached = set()

    def follow(growth_ids: tuple[int, ...]) -> None:
        growth = trees.start()
        for token in growth_ids:
            growth = growth.advance(token)
        possible = growth.possible(LIMIT - len(growth_ids)).nonzero()[0].tolist()
        assert possible
        for token in possible:
            if token == EOS:
                reached.add(growth_ids)
            else:
                follow((*growth_ids, token))

    follow(())
    assert reached == set(OUTPUTS)


@pytest.mark.parametrize(
    "symbols",
    [["a", "b"], ["(S", ")S", ","], ["NN", "(S", ")NP"], ["NN"]],
    ids=["words", "no leaf", "unlike", "no bracket"],
)
def test_other_vocabularies_are_not_of_trees(symbols: list[str]) -> None:
    with pytest.raises(ValueError, match="not trees"):
        Grammar(Symbols(symbols))


def test_words_stand_between_spaces_and_brackets_are_spelled_out() -> None:
    assert split_words("  a\tb (c) f(x)\x00d\x0b.\x7f  ") == ["a", "b", "-LRB-c-RRB-", "f-LRB-x-RRB-", "d", "."]
    assert split_words("no\u00a0break") == ["no\u00a0break"]
    assert split_words(" \u2003\x1f ") == []


def test_every_punctuation_leaf_has_a_word_and_every_leaf_is_one_of_the_treebanks() -> None:
    known = {leaf for leaves in LEAVES.values() for leaf in leaves}
    assert known - {ORDINARY} == PUNCTUATION


@pytest.fixture(scope="module")
def parser_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = write_treebank(tmp_path_factory.mktemp("toy"), train=600, dev=40)
    files = [f"data.pairs=['{directory / 'train.trees'}']", f"data.valid_pairs=['{directory / 'dev.trees'}']"]
    changes = [*files, *SETTINGS, "train.steps=200", "search.beam=3"]
    Trainer(directory / "run", preset="parsing-tiny", settings=changes).run()
    return directory / "run"


@pytest.fixture(scope="module")
def dev(parser_run: Path) -> list[str]:
    return [" ".join(words(tree)) for tree in read_treebank(parser_run.parent / "dev.trees")]


def test_where_plain_search_finds_a_tree_the_guided_one_finds_the_same(parser_run: Path, dev: list[str]) -> None:
    parser = Parser.load(parser_run)
    greedy = parser.search.model_copy(update={"beam": 1})
    same = 0
    for line, tokens, parse in zip(
        dev, parser.unguided(dev, search=greedy), parser.parse(dev, search=greedy), strict=True
    ):
        found, own = [leaf for leaf in tokens if leaf[0] not in "()"], split_words(line)
        known = parser.target_codec.pieces(range(parser.target_codec.size))
        possible = [[known[id] for id in parser.grammar.leaf(word)] for word in own]
        if well_formed(tokens, len(own)) is None and all(map(list.__contains__, possible, found)):
            assert parse.tree is not None
            assert linearise(parse.tree) == tokens
            same += 1
    assert same > len(dev) // 8


def test_it_learned_the_trees_and_alone_a_sentence_has_the_same_one(parser_run: Path, dev: list[str]) -> None:
    parser = Parser.load(parser_run)
    together = [parse.tree for parse in parser.parse(dev)]
    gold = list(read_treebank(parser_run.parent / "dev.trees"))
    right = sum(
        tree is not None and linearise(tree) == linearise(other) for tree, other in zip(together, gold, strict=True)
    )
    assert right > len(dev) // 8
    for line, tree in zip(dev[:6], together, strict=False):
        assert parser.parse([line])[0].tree == tree


def test_what_cannot_be_parsed_has_a_reason(parser_run: Path) -> None:
    parser = Parser.load(parser_run)
    blank, good = parser.parse(["", "the dog sees the cat ."])
    assert (blank.tree, blank.error, blank.words) == (None, None, ())
    assert good.tree is not None
    short = parser.search.model_copy(update={"max_length": 5})
    assert "raise search.max_length" in (parser.parse(["the dog sees the cat ."], search=short)[0].error or "")
    narrow = parser.search.model_copy(update={"max_input": 3})
    assert "cut the sentence" in (parser.parse(["the dog sees the cat ."], search=narrow)[0].error or "")
    for change in ({"no_repeat": 3}, {"min_length": 40}):
        with pytest.raises(ConfigError, match="may leave no tree"):
            parser.parse(["the dog ."], search=parser.search.model_copy(update=change))


def run_parse(*arguments: str | Path, stdin: str = "") -> Ran:
    return transduce("parse", *arguments, stdin=stdin.encode())


def test_the_command_writes_a_tree_a_line(parser_run: Path, tmp_path: Path) -> None:
    text = "the dog sees the cat .\n\n\x00 \t\nzebras ( sic ) \x07 like\u2028dogs ?\n"
    ran = run_parse(parser_run, "--svg", tmp_path / "pictures", stdin=text)
    assert ran.code == 0
    first, blank, control, last = ran.lines
    assert (blank, control) == ("", "")
    assert words(read_tree(first, where="line 1")) == ["the", "dog", "sees", "the", "cat", "."]
    assert words(read_tree(last, where="line 4")) == ["zebras", "-LRB-", "sic", "-RRB-", "like\u2028dogs", "?"]
    assert "line 2: no words" in ran.err
    assert "line 3: no words" in ran.err
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["1.svg", "4.svg"]
    assert "zebras" in (tmp_path / "pictures" / "4.svg").read_text(encoding="utf-8")
    again = run_parse(parser_run, "--svg", tmp_path / "pictures", stdin=text)
    assert again.code == 2
    assert "new or empty" in again.err


def test_indented_trees_are_the_same_trees(parser_run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the dog near the ship sees the cat .\nthe song .\n", encoding="utf-8")
    plain = run_parse(parser_run, tmp_path / "in.txt").lines
    pretty = run_parse(parser_run, tmp_path / "in.txt", "--pretty", "-o", tmp_path / "out.txt")
    assert (pretty.code, pretty.out) == (0, "")
    blocks = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n\n")
    assert [write_tree(read_tree(block, where="here")) for block in blocks[:-1]] == plain
    assert blocks[-1] == ""


def test_a_parser_of_words_goes_to_ctranslate2_and_not_to_onnx(parser_run: Path, tmp_path: Path) -> None:
    assert isinstance(Parser.load(parser_run).source_codec, Words)
    ran = transduce("export", parser_run, "--to", "ctranslate2", "-o", tmp_path / "exported")
    assert ran.code == 0, ran.err
    assert (tmp_path / "exported" / "codec" / "source" / Words.FILE).is_file()
    refused = transduce("export", parser_run, "--to", "onnx", "-o", tmp_path / "other")
    assert refused.code == 2
    assert "--to ctranslate2" in refused.err


def test_a_translator_is_not_a_parser(small_run: Path) -> None:
    ran = run_parse(small_run, stdin="the dog .\n")
    assert (ran.code, ran.out) == (2, "")
    assert f"{small_run}: not a parser" in ran.err
    assert "--trees" in ran.err
    with pytest.raises(UserError, match="not a parser"):
        Parser.load(small_run)


def test_bad_settings_are_told_by_name(parser_run: Path) -> None:
    assert "search.no_repeat" in run_parse(parser_run, "--set", "search.no_repeat=2", stdin="the dog .\n").err
    assert "search.beam" in run_parse(parser_run, "--set", "search.beam=0", stdin="the dog .\n").err
    assert "--svg" in run_parse(parser_run, "-o", "tree.svg", stdin="the dog .\n").err
