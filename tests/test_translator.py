"""Text in, text out, with a model that has learned something."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from short_phrases import short_phrases
from transduce import Translator
from transduce.decode.engine import batches
from transduce.decode.splitting import split_long
from transduce.evaluate.bleu import bleu


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle)


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return [phrase.source for phrase in short_phrases("test", 1500)]


def test_it_has_learned_to_translate(translator: Translator) -> None:
    unseen = short_phrases("test", 1000)
    texts = [t.text for t in translator.translate([phrase.source for phrase in unseen])]
    assert bleu(texts, [phrase.target for phrase in unseen]).value > 30


@pytest.mark.parametrize("beam", [1, 4])
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
    translator = Translator.load(bundle, warn=heard.append)
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
