"""The record of a sentence says what the model did, and enough to compute it again."""

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from random_bundle import random_bundle
from transduce import Translator
from transduce.errors import UserError
from transduce.explain.ablation import switched_off
from transduce.explain.attend import attend
from transduce.explain.head import KINDS, Head
from transduce.explain.record import Kind
from transduce.explain.sentence_record import FORMAT, sentence_record

TEXT = "The dog sees a bird."


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


@pytest.fixture(scope="module")
def record(translator: Translator) -> Any:
    return json.loads(json.dumps(sentence_record(translator, TEXT), allow_nan=False))


def unpacked(packed: Any) -> NDArray[np.float32]:
    halves = np.frombuffer(base64.b64decode(packed["float16"]), dtype="<f2")
    return halves.reshape(packed["shape"]).astype(np.float32)


def test_both_texts_are_those_of_the_translator(translator: Translator, record: Any) -> None:
    (translation,) = translator.translate([TEXT], tokens=True)
    assert (record["source"]["text"], record["target"]["text"]) == (TEXT, translation.text)
    assert record["target"]["score"] == pytest.approx(translation.score, abs=1e-4)
    assert record["target"]["pieces"] == [token.piece for token in translation.tokens]
    expected = [math.exp(token.log_probability) for token in translation.tokens]
    assert record["target"]["probabilities"] == pytest.approx(expected, abs=1e-4)
    assert record["read"]["pieces"] == ["<s>", *record["target"]["pieces"][:-1]]
    assert record["format"] == FORMAT


def test_words_are_what_spaces_separate(record: Any) -> None:
    for side in ("source", "target"):
        told = record[side]
        assert told["labels"] == [*told["text"].split(), "</s>"]
        assert [at for word in told["words"] for at in word] == list(range(len(told["pieces"])))


def test_alternatives_are_likelier_first_and_hold_a_likeliest_choice(record: Any) -> None:
    steps = zip(
        record["target"]["pieces"], record["target"]["probabilities"], record["target"]["alternatives"], strict=True
    )
    for piece, probability, alternatives in steps:
        shares = [each["probability"] for each in alternatives]
        assert shares == sorted(shares, reverse=True)
        if probability > 0.5:
            assert alternatives[0] == {"piece": piece, "probability": probability}


@pytest.mark.parametrize("kind", KINDS)
def test_weights_by_words_are_those_of_the_figures(translator: Translator, record: Any, kind: Kind) -> None:
    weights = unpacked(record["attention"][kind]["weights"])
    queries = record["source" if kind == "encoder" else "target"]["words"]
    keys = record["read" if kind == "decoder" else "source"]["words"]
    onto = np.stack([weights[..., group].sum(-1) for group in keys], -1)
    words = np.stack([onto[..., group, :].mean(-2) for group in queries], -2)
    assert np.allclose(words, getattr(attend(translator, TEXT), kind).weights, atol=2e-3)


VARIANTS: list[dict[str, object]] = [
    {},
    {"norm": "pre", "positions": "learned", "max_positions": 80},
    {"attention": "unscaled", "d_k": 4},
    {"attention": "additive", "d_v": 6},
    {"window": 4},
    {"encoder_layers": 1, "decoder_layers": 3, "tying": "none"},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_weights_follow_from_queries_and_keys(tmp_path: Path, changes: dict[str, object], kind: Kind) -> None:
    random_bundle(tmp_path / "model", **changes)
    record: Any = sentence_record(Translator.load(tmp_path / "model", engine="pytorch"), "a b c d e f g h")
    facts, packed = record["model"], record["attention"][kind]
    queries, keys = unpacked(packed["queries"]), unpacked(packed["keys"])
    weights = unpacked(packed["weights"])
    assert weights.shape[:2] == (facts["encoder_layers" if kind == "encoder" else "decoder_layers"], facts["heads"])
    assert queries.shape[-1] == facts["d_k"]
    if facts["attention"] == "additive":
        scores = unpacked(packed["scores"])
    else:
        scores = queries @ keys.swapaxes(-1, -2) / (math.sqrt(facts["d_k"]) if facts["attention"] == "scaled" else 1)
    distance = np.subtract.outer(np.arange(weights.shape[2]), np.arange(weights.shape[3]))
    seen = np.ones_like(distance, dtype=bool) if kind != "decoder" else distance >= 0
    if facts["window"] is not None and kind != "cross":
        seen &= abs(distance) <= facts["window"] // 2
    exponentials = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    assert np.allclose(weights, exponentials / exponentials.sum(-1, keepdims=True), atol=0.02)
    assert np.all(unpacked(packed["value_norms"]) > 0)
    assert unpacked(record["positions"]).shape[1] == facts["d_model"]


def test_the_best_nodes_of_the_tree_spell_the_translation(record: Any) -> None:
    tree = record["tree"]
    assert [tree["pieces"][place] for place in tree["best"][1:]] == record["target"]["pieces"]
    assert tree["fates"][tree["best"][-1]] == "finished"
    assert all(tree["parents"][place] == before for before, place in zip(tree["best"], tree["best"][1:], strict=False))
    assert {"kept", "pruned", "finished"} == set(tree["fates"])
    total = sum(map(math.log, record["target"]["probabilities"]))
    assert tree["log_probabilities"][tree["best"][-1]] == pytest.approx(total, abs=1e-2)


def test_an_output_begins_as_it_must(translator: Translator) -> None:
    record: Any = sentence_record(translator, TEXT, prefix="Die Katze ")
    assert record["target"]["text"].startswith("Die Katze")
    assert record["prefix"] == "Die Katze "
    assert record["target"]["text"] == translator.translate([TEXT], prefix="Die Katze ")[0].text


def test_a_beam_of_one_has_one_branch(translator: Translator) -> None:
    record: Any = sentence_record(translator, TEXT, beam=1)
    steps = [
        step for step, fate in zip(record["tree"]["steps"], record["tree"]["fates"], strict=True) if fate == "kept"
    ]
    assert record["beam"] == 1
    assert len(steps) == len(set(steps))


def test_heads_that_are_off_are_off_and_back_again(translator: Translator, record: Any) -> None:
    heads = [Head("cross", 1, head) for head in range(4)]
    off: Any = sentence_record(translator, TEXT, off=heads)
    with switched_off(translator.reference.model, heads):
        assert off["target"]["text"] == translator.translate([TEXT])[0].text
    assert off["off"] == [["cross", 1, head] for head in range(4)]
    assert off["target"]["probabilities"] != record["target"]["probabilities"]
    assert json.loads(json.dumps(sentence_record(translator, TEXT))) == record


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "no words to look at"),
        ("a " * 2000, {}, "tokens: at most"),
        (TEXT, {"beam": 0}, "a beam of 0: give 1 or more"),
        (TEXT, {"off": [Head("encoder", 9, 0)]}, "encoder layer 10: there are 2"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(translator: Translator, text: str, options: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        sentence_record(translator, text, **options)
