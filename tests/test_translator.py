"""Text in, text out, with a model that has learned something."""

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from short_phrases import short_phrases
from transduce import Translator
from transduce.bundle import open_bundle
from transduce.config import SearchConfig
from transduce.decode.engine import batches, go_on
from transduce.decode.glossary import Glossary, Term
from transduce.decode.hypothesis import Hypothesis, Request
from transduce.decode.splitting import split_long
from transduce.errors import ConfigError, UserError
from transduce.evaluate.bleu import bleu


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return [phrase.source for phrase in short_phrases("test", 1500)]


def test_it_has_learned_to_translate(translator: Translator) -> None:
    unseen = short_phrases("test", 1000)
    texts = [t.text for t in translator.translate([phrase.source for phrase in unseen])]
    assert bleu(texts, [phrase.target for phrase in unseen]).value > 30


@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_a_batch_does_not_change_a_sentence(translator: Translator, sources: list[str], beam: int) -> None:
    together = translator.translate(sources, beam=beam)
    search = translator.search.model_copy(update={"batch_tokens": 1})  # each sentence alone
    alone = Translator(translator.engine, translator.source_codec, translator.target_codec, search)
    apart = alone.translate(sources, beam=beam)
    same = sum(a.text == b.text for a, b in zip(together, apart, strict=True))
    assert same >= 0.999 * len(sources)


def test_order_is_kept_and_blank_lines_stay_empty(translator: Translator, sources: list[str]) -> None:
    lines = ["", sources[0], "   ", sources[1], "\t", ""]
    texts = [t.text for t in translator.translate(lines)]
    alone = [translator.translate([line])[0].text for line in sources[:2]]
    assert texts == ["", alone[0], "", alone[1], "", ""]


def test_no_lines_give_no_lines(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_n_best_begins_with_the_best(translator: Translator, sources: list[str]) -> None:
    for best, many in zip(translator.translate(sources[:9]), translator.translate(sources[:9], n_best=3), strict=True):
        assert len(many.alternatives) == 3
        assert many.alternatives[0].text == many.text == best.text
        assert [a.score for a in many.alternatives] == sorted((a.score for a in many.alternatives), reverse=True)


def test_the_likelihood_of_its_own_output_is_the_searchs(translator: Translator, sources: list[str]) -> None:
    found = translator.translate(sources[:20], beam=1)
    nll, tokens = translator.likelihood(sources[:20], [t.text for t in found])
    same_pieces = all(translator.target_codec.decode(translator.target_codec.encode(t.text)) == t.text for t in found)
    assert same_pieces
    assert tokens >= 20
    assert nll == pytest.approx(-sum(t.log_probability for t in found), rel=0.02)


def test_a_long_line_is_translated_in_parts_with_a_warning(bundle: Path, sources: list[str]) -> None:
    heard: list[str] = []
    translator = Translator.load(bundle, engine="pytorch", warn=heard.append)
    translator.search = translator.search.model_copy(update={"max_input": 40})
    long = " ".join(sources[:12])
    found = translator.translate([sources[0], long])
    assert len(heard) == 1
    assert heard[0].startswith("line 2: ")
    assert len(found) == 2
    assert found[1].text


@given(st.text(alphabet=st.sampled_from("ab .,!?é\u3000"), max_size=200), st.integers(1, 30))
def test_parts_fit_and_lose_nothing_but_white_space(translator: Translator, text: str, limit: int) -> None:
    codec = translator.source_codec
    parts = split_long(text, codec, limit)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(len(codec.encode(part)) <= limit or len(part.strip()) <= 1 for part in parts)
    assert all(part.strip() for part in parts) or parts == [text]


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 200))
def test_batches_hold_every_sentence_once_within_the_budget(lengths: list[int], budget: int) -> None:
    found = list(batches(lengths, budget, 7))
    assert sorted(place for batch in found for place in batch) == list(range(len(lengths)))
    for batch in found:
        padded = (max(lengths[place] for place in batch) + 1) * len(batch)
        assert padded <= budget or len(batch) == 1
        assert len(batch) <= 7


def test_a_prefix_is_how_the_output_begins(translator: Translator, sources: list[str]) -> None:
    for start, found in zip(
        ["Ein Hund", "", "Wir haben "], translator.translate(sources[:3], prefix="Nein,"), strict=True
    ):
        assert found.text.startswith("Nein,"), start
    each = translator.translate(sources[:3], prefix=["Ein Hund", "", "Wir haben "])
    assert each[0].text.startswith("Ein Hund")
    assert each[1] == translator.translate(sources[1:2])[0]
    assert each[2].text.startswith("Wir haben")
    with pytest.raises(UserError, match="2 prefixes for 3 lines"):
        translator.translate(sources[:3], prefix=["a", "b"])


def test_a_translation_begun_as_it_would_be_ends_as_it_would(translator: Translator, sources: list[str]) -> None:
    for source, found in zip(sources[:20], translator.translate(sources[:20], beam=1), strict=True):
        begun = " ".join(found.text.split()[:3])
        assert translator.translate([source], beam=1, prefix=begun)[0].text == found.text


@pytest.mark.parametrize("beam", [1, 4])
def test_tokens_are_the_text_and_their_probabilities_the_whole(
    translator: Translator, sources: list[str], beam: int
) -> None:
    for found in translator.translate(sources[:20], beam=beam, tokens=True):
        pieces = [token.piece for token in found.tokens]
        assert pieces[-1] == "</s>"
        assert "".join(pieces[:-1]).replace("▁", " ").strip() == found.text
        assert sum(token.log_probability for token in found.tokens) == pytest.approx(found.log_probability, abs=1e-4)
    assert translator.translate(sources[:1])[0].tokens == ()


def test_alternatives_begin_with_what_greedy_search_takes(translator: Translator, sources: list[str]) -> None:
    for source in sources[:8]:
        (greedy,) = translator.translate([source], beam=1, tokens=True)
        first, second = (token.piece for token in greedy.tokens[:2])
        found = translator.alternatives(source, n=4)
        assert found[0].piece == first
        assert found[0].log_probability == pytest.approx(greedy.tokens[0].log_probability, abs=1e-4)
        assert [a.log_probability for a in found] == sorted((a.log_probability for a in found), reverse=True)
        assert len({a.text for a in found}) == 4
        assert translator.alternatives(source, [found[0].token], n=2)[0].piece == second


def test_all_that_may_come_next_has_a_probability_of_one(translator: Translator, sources: list[str]) -> None:
    prefix = translator.translate(sources[:1])[0].text
    found = translator.reference.next_tokens(
        Request(tuple(translator.source_codec.encode(sources[0]))), translator.search, translator.target_codec.size
    )
    assert sum(math.exp(p) for _, p in found) == pytest.approx(1, abs=1e-3)  # but for PAD and BOS
    ended = translator.alternatives(sources[0], prefix, n=1)
    assert (ended[0].piece, ended[0].text) == ("</s>", prefix)


def test_the_tree_has_the_pieces_of_the_translation(translator: Translator, sources: list[str]) -> None:
    tree = translator.tree(sources[0])
    (best,) = translator.translate(sources[:1], tokens=True)
    paths = {tree.ids(place) for place, node in enumerate(tree.nodes) if node.fate == "finished"}
    assert tuple(translator.target_codec.encode(best.text)) in {ids[:-1] for ids in paths}
    assert {token.piece for token in best.tokens} <= {node.piece for node in tree.nodes}


def test_settings_are_checked(translator: Translator, sources: list[str]) -> None:
    for settings, message in (
        ({"beam": 3, "groups": 2}, "search: groups 2 cannot share a beam of 3"),
        ({"temperature": 0}, "search.temperature: "),
        ({"top_q": 1}, "search.top_q: "),
        ({"max_length": 3, "min_length": 4}, "search: max_length 3 is below min_length 4"),
    ):
        with pytest.raises(ConfigError, match=message):
            translator.translate(sources[:1], settings=settings)
    with pytest.raises(UserError, match="need plain beam search"):
        translator.translate(["a"], glossary=Glossary([Term("a", "b", 1)]), settings={"sampling": True})


def test_samples_are_as_many_as_are_asked_for(translator: Translator, sources: list[str]) -> None:
    settings = {"sampling": True, "temperature": 1.5}
    drawn = translator.translate(sources[:5], settings=settings, n_best=3)
    assert [len(t.alternatives) for t in drawn] == [3] * 5
    once = translator.translate(sources[:5], settings=settings)
    assert [t.text for t in once] == [t.text for t in drawn]


class Repeating:
    """An engine that says one thing over and over, and lacks prefixes."""

    name = "repeating"
    part = None
    max_positions = None

    def __init__(self, ids: tuple[int, ...]) -> None:
        self.ids, self.asked = ids, 0

    def lacks(self, requests: Sequence[Request], search: SearchConfig) -> str | None:
        return "prefix" if any(request.prefix for request in requests) else None

    def search(
        self, requests: Sequence[Request], search: SearchConfig, *, between: Callable[[], None] = go_on
    ) -> list[list[Hypothesis]]:
        assert self.lacks(requests, search) is None
        self.asked += len(requests)
        return [[Hypothesis(self.ids, -1.0, -1.0)] for _ in requests]


def test_an_output_that_repeats_itself_is_flagged_unless_its_source_does(translator: Translator) -> None:
    codec = translator.target_codec
    loop = Translator(Repeating(tuple(codec.encode("oh " * 9))), translator.source_codec, codec)
    plain, again = loop.translate(["A dog.", "oh " * 9])
    assert (plain.warning or "").startswith("repeats itself: 'oh")
    assert again.warning is None
    assert [t.warning for t in translator.translate(["A dog sees the cat."])] == [None]


def test_what_an_engine_lacks_goes_to_the_reference_and_is_said_once(bundle: Path, sources: list[str]) -> None:
    said: list[str] = []
    opened = open_bundle(bundle)
    engine = Repeating((7, 8))
    codecs = opened.source_codec, opened.target_codec
    translator = Translator(engine, *codecs, opened.config.search, bundle=opened, say=said.append)
    prefixes = ["", "Nein,", "", "Ja,"]
    found = [translator.translate(sources[:4], prefix=prefixes) for _ in range(2)]
    expected = Translator.load(bundle, engine="pytorch").translate(sources[:4], prefix=prefixes)
    assert found[0] == found[1]
    assert engine.asked == 4
    assert [found[0][1], found[0][3]] == [expected[1], expected[3]]
    assert said == ["prefix: PyTorch does it, repeating does not"]


def test_importing_the_translator_and_its_results_imports_no_torch() -> None:
    modules = (
        "translator",
        "translation",
        "hypothesis",
        "glossary",
        "plan",
        "tree",
        "constraints",
        "repetition",
        "stream",
    )
    code = f"import sys\nfor name in {modules}: __import__('transduce.decode.' + name)\nprint('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
