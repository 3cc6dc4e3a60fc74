"""Word alignments from attention, and their error against alignments that are known."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from command import transduce
from random_weights import randomized
from short_phrases import short_phrases
from transduce import Translator
from transduce.config import ModelConfig
from transduce.data.phrasebook import Phrase
from transduce.decode.alignment import Alignment, align, align_lines, align_pairs, cross_attention, words
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import UserError
from transduce.evaluate.alignment import AlignmentScore, Reference, alignment_error, diagonal, parse_links
from transduce.model import AttentionRecord, Transformer
from transduce.text import Symbols
from transduce.text.codec import BOS, EOS

SIZE = 20
Links = list[tuple[int, int]]
links = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)))


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle)


@pytest.fixture(scope="module")
def unseen() -> list[Phrase]:
    return short_phrases("test", 1500)


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    shape = ModelConfig(encoder_layers=1, decoder_layers=3, d_model=16, d_ff=32, num_heads=2)
    return TorchEngine(randomized(Transformer(shape, SIZE, SIZE)).requires_grad_(False))


def error(found: list[Links], phrases: list[Phrase]) -> float:
    return alignment_error(found, [Reference.of(phrase.alignment) for phrase in phrases]).aer


# Of links by hand


def test_the_error_rate_by_hand() -> None:
    # A = 3 links; of them 2 sure, 2 possible; S = 2
    score = alignment_error([[(0, 0), (1, 1), (2, 1)]], [Reference.of([(0, 0), (1, 1)], [(2, 2)])])
    assert (score.precision, score.recall) == pytest.approx((2 / 3, 1.0))
    assert score.aer == pytest.approx(1 - (2 + 2) / (3 + 2))


def test_finding_what_is_merely_possible_is_no_error_and_missing_it_neither() -> None:
    reference = Reference.of([(0, 0)], [(1, 2)])
    assert alignment_error([[(0, 0), (1, 2)]], [reference]).aer == 0.0
    assert alignment_error([[(0, 0)]], [reference]).aer == 0.0
    assert alignment_error([[(1, 2)]], [reference]).aer == pytest.approx(0.5)


def test_sentences_are_summed_not_averaged() -> None:
    many, none = [(i, i) for i in range(9)], [(0, 1)]
    score = alignment_error([many, none], [Reference.of(many), Reference.of([(1, 0)])])
    assert score == AlignmentScore(links=10, sure=10, found_sure=9, found_possible=9, sentences=2)
    assert str(score) == "AER 10.0% (precision 90.0%, recall 90.0%, 10 links; 2 sentences)"


@given(links, links.filter(bool))
def test_without_merely_possible_links_it_is_one_minus_f1(found: Links, sure: Links) -> None:
    score = alignment_error([found], [Reference.of(sure)])
    p, r = score.precision if found else 0.0, score.recall
    assert score.aer == pytest.approx(1 - (2 * p * r / (p + r) if p + r else 0.0))


@given(links, links.filter(bool), links)
def test_one_more_sure_link_is_never_worse(found: Links, sure: Links, possible: Links) -> None:
    reference = Reference.of(sure, possible)
    before, after = (alignment_error([each], [reference]).aer for each in (found, [*found, sure[0]]))
    assert 0 <= after <= before <= 1


def test_links_are_read_as_they_are_written() -> None:
    assert parse_links("0-0 2p1 10-3") == Reference.of([(0, 0), (10, 3)], [(2, 1)])
    assert parse_links("") == Reference.of([])
    for wrong in ("0", "0-", "a-b", "0-1-2", "-1-0"):
        with pytest.raises(UserError, match="word numbers from 0"):
            parse_links(wrong)


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(UserError, match="1 alignments, but 0 references"):
        alignment_error([[]], [])
    with pytest.raises(UserError, match="nothing to score"):
        alignment_error([[]], [Reference.of([])])


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_diagonal_goes_from_end_to_end(source: int, target: int) -> None:
    found = diagonal(source, target)
    assert found == sorted(found)
    assert all(0 <= i < source and 0 <= j < target for i, j in found)
    assert [j for _, j in found] == list(range(target) if source else [])
    if source == target:
        assert found == [(i, i) for i in range(source)]


# Of attention


def test_each_target_takes_the_source_it_looked_at_most() -> None:
    soft = np.array([[0.1, 0.6, 0.2], [0.7, 0.1, 0.1], [0.2, 0.3, 0.4]], np.float32)
    assert Alignment(soft).links == [(0, 1), (1, 0), (2, 2)]
    assert Alignment(soft).pharaoh() == "0-1 1-0 2-2"
    assert Alignment(soft[:, :0]).pharaoh() == Alignment(soft[:0]).pharaoh() == ""


def test_a_words_first_token_looks_at_any_token_of_another() -> None:
    soft = np.array([[0.1, 0.6, 0.2], [0.7, 0.1, 0.1], [0.2, 0.3, 0.4]], np.float32)
    merged = Alignment(soft).merge([[0, 1], [2]], [[0], [1, 2]])
    assert merged.soft.tolist() == [pytest.approx([0.6, 0.2]), pytest.approx([0.7, 0.1])]
    assert Alignment(soft).merge([], [[0], [1, 2]]).soft.shape == (2, 0)
    assert Alignment(soft).merge([[0, 1], [2]], []).soft.shape == (0, 2)


def test_attention_is_that_of_decoding_step_by_step(engine: TorchEngine) -> None:
    source, target = [5, 6, 7, 8, 9], [10, 11, 4, 12]
    record = AttentionRecord()
    memory, may_attend = engine.model.encode(torch.tensor([[*source, EOS]]))
    cache = engine.model.start(memory)
    for token in (BOS, *target):
        engine.model.decode(torch.tensor([[token]]), None, may_attend, cache=cache, record=record)
    found = align(engine, source, target)
    for step in range(len(target)):  # step 0 reads BOS and produces the first token
        last = record.cross[step * 3 + 2][0, :, 0].mean(dim=0)
        assert found.soft[step] == pytest.approx(last[:5].numpy(), abs=1e-6)
        assert (int(last[:5].argmax()), step) in found.links


def test_a_batch_does_not_change_an_alignment(engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(list(range(4, 4 + s)), list(range(19, 19 - t, -1))) for s, t in product((0, 1, 5, 9), (0, 2, 7))]
    alone = [align(engine, *pair) for pair in pairs]
    monkeypatch.setattr("transduce.decode.alignment.TOKENS", 40)
    for (source, target), one, other in zip(pairs, align_pairs(engine, pairs), alone, strict=True):
        assert one.soft.shape == (len(target), len(source))
        assert one.soft == pytest.approx(other.soft, abs=1e-6)


def test_it_knows_which_words_translate_which(translator: Translator, unseen: list[Phrase]) -> None:
    found = align_lines(translator, [p.source for p in unseen], [p.target for p in unseen])
    by_place = [diagonal(p.source.count(" ") + 1, p.target.count(" ") + 1) for p in unseen]
    assert error([a.links for a in found], unseen) < 0.7 * error(by_place, unseen)


def test_the_last_layer_of_the_step_that_produces_a_token_knows_most(
    translator: Translator, unseen: list[Phrase]
) -> None:
    codecs = translator.source_codec, translator.target_codec
    found: dict[tuple[int, str], list[Links]] = {place: [] for place in product((0, 1), ("produces", "reads"))}
    for phrase in unseen[:150]:
        source, target = codecs[0].encode(phrase.source), codecs[1].encode(phrase.target)
        groups = words(codecs[0], source), words(codecs[1], target)
        layers = cross_attention(translator.reference, [(source, target)])
        for (layer, step), links in found.items():
            steps = layers[layer][0, :, : len(source)]
            links.append(Alignment(steps[:-1] if step == "produces" else steps[1:]).merge(*groups).links)
    errors = {place: error(links, unseen[:150]) for place, links in found.items()}
    assert min(errors, key=lambda place: errors[place]) == (1, "produces")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=30))
def test_words_are_what_spaces_separate(translator: Translator, text: str) -> None:
    codec = translator.source_codec
    ids = codec.encode(text)
    found = [codec.decode([ids[place] for place in group]).strip(" ") for group in words(codec, ids)]
    assert found == [word for word in text.split(" ") if word]


def test_a_symbol_is_a_word_even_one_that_is_not_known() -> None:
    codec = Symbols(["B", "AH", "▁T"])
    assert words(codec, codec.encode("B ▁T ?? AH")) == [[0], [1], [2], [3]]


def test_the_command_writes_a_row_a_pair(bundle: Path, translator: Translator, tmp_path: Path) -> None:
    sources, targets = ["The dog sleeps.", "", "A house."], ["Der Hund schläft.", "", ""]
    for name, side in (("a.en", sources), ("a.de", targets)):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    ran = transduce("score", bundle, "--source", tmp_path / "a.en", "--target", tmp_path / "a.de", "--alignments")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [alignment.pharaoh() for alignment in align_lines(translator, sources, targets)]
    assert ran.lines[1:] == ["", ""]
    assert [target for _, target in sorted(parse_links(ran.lines[0]).sure, key=lambda link: link[1])] == [0, 1, 2]
