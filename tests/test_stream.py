"""Text as soon as it will not change, and all of it in the end."""

from dataclasses import replace
from pathlib import Path

import pytest

from random_search import random_model, random_requests
from short_phrases import short_phrases
from transduce import Translator
from transduce.config import SearchConfig
from transduce.decode.hypothesis import Phrase
from transduce.decode.stream import growing_text
from transduce.decode.torch_engine import TorchEngine
from transduce.errors import UserError


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Translator:
    return Translator.load(bundle, engine="pytorch")


SOURCES = [phrase.source for phrase in short_phrases("test", 40)][:8]


@pytest.mark.parametrize("settings", [{"beam": 1}, {"beam": 4}, {"sampling": True, "beam": 1}], ids=str)
def test_the_pieces_are_the_translation(translator: Translator, settings: dict[str, object]) -> None:
    for source, whole in zip(SOURCES, translator.translate(SOURCES, settings=settings), strict=True):
        pieces = list(translator.stream(source, settings=settings))
        assert "".join(pieces) == whole.text
        assert all(pieces)


def test_greedy_text_comes_token_by_token_and_a_beam_agrees_before_its_end(translator: Translator) -> None:
    for source in SOURCES:
        (whole,) = translator.translate([source], beam=1, tokens=True)
        assert len(list(translator.stream(source, settings={"beam": 1}))) == len(whole.tokens) - 1
    assert any(len(list(translator.stream(source))) > 1 for source in SOURCES)


@pytest.mark.parametrize("settings", [{"beam": 4}, {"beam": 4, "groups": 2}], ids=str)
def test_what_was_agreed_on_stays(settings: dict[str, object]) -> None:
    search = SearchConfig.model_validate({**settings, "extra_length": 12})
    for seed in range(4):
        engine, (request,) = TorchEngine(random_model(seed, size=20)), random_requests(seed, [6], size=20)
        agreed = list(engine.stream(request, search))
        assert agreed[-1] == engine.search([request], search)[0][0].ids
        assert all(agreed[-1][: len(ids)] == ids for ids in agreed)


def test_a_character_is_held_back_until_it_is_whole(translator: Translator) -> None:
    codec, text = translator.target_codec, "a €\U0001f600 b\ufffd"
    ids = codec.encode(text)
    assert len(ids) > len(text)  # spelled in bytes
    pieces = list(growing_text(codec, (ids[:end] for end in range(1, len(ids) + 1))))
    assert "".join(pieces) == text
    assert [piece for piece in pieces if "\ufffd" in piece] == ["\ufffd"]


def test_blank_lines_give_nothing_and_long_ones_come_in_parts(bundle: Path) -> None:
    translator = Translator.load(bundle, engine="pytorch")
    translator.search = translator.search.model_copy(update={"max_input": 30})
    assert list(translator.stream("  ")) == []
    long = " ".join(SOURCES[:5])
    assert "".join(translator.stream(long)) == translator.translate([long])[0].text


def test_a_stream_that_cannot_say_what_it_must_ends_in_an_error() -> None:
    engine, (request,) = TorchEngine(random_model(0)), random_requests(0, [2])
    asked = replace(request, phrases=(Phrase(((4,) * 9,)),))
    with pytest.raises(UserError, match="was found within the length limit"):
        list(engine.stream(asked, SearchConfig(extra_length=2)))
