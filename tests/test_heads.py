"""The head finder on hand-made attention, whose scores one knows, and on a trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from transduce import Translator
from transduce.data.phrasebook import Phrase, Pronoun, phrases
from transduce.errors import UserError
from transduce.explain.ablation import switched_off
from transduce.explain.attend import attend
from transduce.explain.even import even_weights
from transduce.explain.head import Head, all_heads
from transduce.explain.head_picture import heads_svg
from transduce.explain.head_scores import alignment, clauses, dependencies, turned
from transduce.explain.heads import SCORES, Found, Scores, find_heads, plain, score_heads, without
from transduce.explain.reading import Reading, read_pair
from transduce.explain.record import Attention, Kind

Weights = NDArray[np.float64]

PHRASE = Phrase(
    source="The dog saw the old lamp. It barked.",
    target="Der Hund sah die alte Lampe. Er bellte.",
    phenomenon="pronoun",
    constructions=frozenset({"pronoun"}),
    alignment=tuple((place, place) for place in range(8)),
    pronoun=Pronoun(source=6, target=6, antecedent=1, distractor=5),
)
MADE = Phrase(
    source="The noise did not make the climb more difficult.",
    target="Der Lärm machte den Aufstieg nicht schwieriger.",
    phenomenon="comparative",
    constructions=frozenset(),
    alignment=((0, 0), (1, 1), (2, 2), (3, 5), (4, 2), (5, 3), (6, 4), (7, 6), (8, 6)),
    pronoun=None,
)


def looking(size: int, at: Callable[[int], Sequence[int]]) -> Weights:
    """Attention in which every query looks at the same few keys alike."""
    weights = np.zeros((size, size))
    for query in range(size):
        weights[query, list(at(query))] = 1 / len(at(query))
    return weights


def reading(phrase: Phrase, *heads: Weights, cross: Weights | None = None) -> Reading:
    """A model of one layer whose tokens are words; these are its encoder's heads."""
    source, target = [*phrase.source.split(), "</s>"], [*phrase.target.split(), "</s>"]
    causal = looking(len(target), lambda query: range(query + 1))[None, None]
    across = np.full((len(target), len(source)), 1 / len(source)) if cross is None else cross
    attention: dict[Kind, Attention] = {
        "encoder": Attention("encoder", np.stack(heads)[None], source, source),
        "decoder": Attention("decoder", causal, target, ["<s>", *target[:-1]]),
        "cross": Attention("cross", across[None, None], target, source),
    }
    alone = [[place] for place in range(len(source))], [[place] for place in range(len(target))]
    return Reading(
        attention, {"encoder": (alone[0], alone[0]), "decoder": (alone[1], alone[1]), "cross": (alone[1], alone[0])}
    )


def encoder_scores(phrase: Phrase, head: Weights) -> Scores:
    return score_heads([reading(phrase, head)], [phrase]).heads[Head("encoder", 0, 0)]


def values(scores: Scores) -> dict[str, float]:
    return {name: getattr(scores, name) for name in SCORES if not math.isnan(getattr(scores, name))}


def test_a_head_that_looks_at_the_token_before_does_nothing_else() -> None:
    end = len(PHRASE.source.split())
    found = values(encoder_scores(PHRASE, looking(end + 1, lambda query: [query - 1 if query else end])))
    assert found.pop("previous") == 1
    assert set(found) == {"same", "next", "far", "anaphora", "resolution", "structure"}
    assert list(found.values()) == pytest.approx([0] * len(found))


def test_a_head_that_looks_at_the_token_behind_does_nothing_else() -> None:
    end = len(PHRASE.source.split())
    found = values(encoder_scores(PHRASE, looking(end + 1, lambda query: [(query + 1) % (end + 1)])))
    assert found.pop("next") == 1
    assert list(found.values()) == pytest.approx([0] * len(found))


def test_a_head_that_keeps_to_the_clause_has_structure() -> None:
    clause = [*clauses(PHRASE.source.split()), 9]
    own = looking(len(clause), lambda query: [key for key, each in enumerate(clause) if each == clause[query]])
    assert encoder_scores(PHRASE, own).structure == pytest.approx(1)


def test_uniform_attention_scores_what_chance_does() -> None:
    for phrase in (PHRASE, MADE):
        size = len(phrase.source.split()) + 1
        uniform = looking(size, lambda query, size=size: range(size))
        found = score_heads([reading(phrase, uniform)], [phrase])
        for head, scores in found.heads.items():
            known = values(scores)
            known.pop("resolution", None)  # neither noun outweighs the other
            assert known == pytest.approx({name: getattr(found.chance[head.kind], name) for name in known})


def test_a_causal_query_cannot_look_ahead_by_chance() -> None:
    assert even_weights(2, 2, causal=True).tolist() == [[1, 0], [0.5, 0.5]]
    chance = score_heads([reading(PHRASE, looking(9, lambda query: [query]))], [PHRASE]).chance
    steps = len(PHRASE.target.split()) + 1
    assert chance["decoder"].same == pytest.approx(sum(1 / step for step in range(1, steps + 1)) / steps)
    assert chance["decoder"].previous == pytest.approx(sum(1 / step for step in range(2, steps + 1)) / (steps - 1))
    assert chance["decoder"].anaphora == pytest.approx(1 / 7)  # six words and the start were read
    assert chance["encoder"].same == pytest.approx(1 / 9)


def test_a_word_of_more_pieces_gets_more_by_chance() -> None:
    pieces = ["▁The", "▁do", "g", "</s>"]
    attention = Attention("encoder", np.full((1, 1, 4, 4), 0.25), pieces, pieces)
    read = Reading({"encoder": attention}, {"encoder": ([[0], [1, 2], [3]],) * 2})
    assert read.even.words["encoder"].weights[0, 0, 0].tolist() == [0.25, 0.5, 0.25]


def test_anaphora_is_weight_on_the_noun_that_is_meant() -> None:
    size = len(PHRASE.source.split()) + 1
    for noun, right in ((1, 1.0), (5, 0.0)):
        scores = encoder_scores(PHRASE, looking(size, lambda query, noun=noun: [noun]))
        assert (scores.anaphora, scores.resolution) == (right, right)


def test_alignment_is_weight_on_the_words_that_are_translated() -> None:
    source, target = MADE.source.split(), MADE.target.split()
    cross = np.zeros((len(target) + 1, len(source) + 1))
    for query, keys in alignment(MADE):
        cross[query, list(keys)] = 1 / len(keys)
    cross[-1, -1] = 1
    size = len(source) + 1
    found = score_heads([reading(MADE, looking(size, lambda query: [query]), cross=cross)], [MADE])
    assert found.heads[Head("cross", 0, 0)].alignment == pytest.approx(1)


def test_dependencies_are_far_words_that_belong_together() -> None:
    assert dependencies(MADE) == [(4, (7, 8))]  # "did" and "make" are near
    asked = Phrase("Did the boy see it?", "Sah der Junge es?", "question", frozenset(), ((0, 0), (3, 0)), None)
    assert dependencies(asked) == [(0, (3,))]
    easier = "The snow made the work easier because the way is more dangerous."
    assert dependencies(plain(easier, "")) == []


def test_a_dependency_has_a_direction() -> None:
    size = len(MADE.source.split()) + 1
    for links, expected in ((dependencies(MADE), (1, 0)), (turned(dependencies(MADE)), (0, 1))):
        head = looking(size, lambda query, wanted=dict(links): wanted.get(query, (query,)))
        scores = encoder_scores(MADE, head)
        assert (scores.dependency, scores.governor) == pytest.approx(expected)


def test_dependencies_of_the_phrasebook_are_far_apart_and_inside_the_sentence() -> None:
    found = [(phrase, link) for phrase in phrases("test", 300) for link in dependencies(phrase)]
    assert len(found) > 5
    for phrase, (query, keys) in found:
        assert min(keys) - query >= 3
        assert max(keys) < len(phrase.source.split())


def test_what_a_plain_pair_does_not_tell_is_not_a_number() -> None:
    pair = plain("A big dog barks", "Ein großer Hund bellt")
    found = encoder_scores(pair, looking(5, lambda query: [query]))
    assert set(values(found)) == {"previous", "same", "next", "far"}
    assert found.same == 1


def test_scores_are_means_over_the_corpus_and_heads_stand_in_order() -> None:
    size = len(PHRASE.source.split()) + 1
    right, wrong = looking(size, lambda query: [1]), looking(size, lambda query: [5])
    found = score_heads([reading(PHRASE, right, wrong), reading(PHRASE, right, right)], [PHRASE, PHRASE])
    first, second = Head("encoder", 0, 0), Head("encoder", 0, 1)
    assert [found.heads[head].anaphora for head in (first, second)] == [1, 0.5]
    assert found.best("anaphora") == [first, second]
    assert found.best("anaphora", layer=1) == found.best("dependency") == []


def test_no_sentences_are_refused(bundle: Path) -> None:
    with pytest.raises(UserError, match="give one or more"):
        find_heads(Translator.load(bundle, engine="pytorch"), [])


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


@pytest.fixture(scope="module")
def found(translator: Translator) -> Found:
    return find_heads(translator, phrases("test", 40))


def test_a_pair_is_read_as_the_model_translates_it(translator: Translator) -> None:
    text = "The dog sees a bird."
    expected = attend(translator, text)
    sides = translator.source_codec.encode(text), translator.target_codec.encode(expected.translation)
    words = read_pair(translator, *sides).words
    for kind in ("encoder", "decoder", "cross"):
        own, other = words[kind], getattr(expected, kind)  # type: ignore[index]
        assert (own.queries, own.keys) == (other.queries, other.keys)
        assert np.allclose(own.weights, other.weights, atol=1e-6)


def test_every_head_of_a_trained_model_is_scored(translator: Translator, found: Found) -> None:
    assert list(found.heads) == all_heads(translator.reference.model.config)
    for scores in found.heads.values():
        assert all(-1 <= value <= 1 for value in values(scores).values())


def test_a_trained_model_has_a_head_that_aligns(found: Found) -> None:
    best = found.best("alignment", "cross")[0]
    assert found.heads[best].alignment > 2 * found.chance["cross"].alignment


def test_the_loss_without_heads_is_that_of_the_changed_model(translator: Translator) -> None:
    corpus = phrases("test", 12)
    sides = [phrase.source for phrase in corpus], [phrase.target for phrase in corpus]
    off = [head for head in all_heads(translator.reference.model.config) if head.kind == "cross"]
    whole, less = without(translator, [], corpus), without(translator, off, corpus)
    total, tokens = translator.likelihood(*sides)
    assert whole.negative_log_likelihood == pytest.approx(total / tokens)
    with switched_off(translator.reference.model, off):
        total, tokens = translator.likelihood(*sides)
    assert less.negative_log_likelihood == pytest.approx(total / tokens)
    assert less.negative_log_likelihood > whole.negative_log_likelihood  # blind to the source


def test_the_picture_has_a_square_for_every_score_of_every_head(found: Found) -> None:
    panels = {name: {head: getattr(scores, name) for head, scores in found.heads.items()} for name in SCORES}
    root = ElementTree.fromstring(heads_svg(panels))
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == sum(len(values(scores)) for scores in found.heads.values())
    best = found.best("alignment", "cross")[0]
    assert f"{best}: alignment {found.heads[best].alignment:.4g}" in titles
