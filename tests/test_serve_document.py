"""Long texts: cut into sentences, joined again without losing a character."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving import Echo, closing, service_of
from transduce.decode.translation import Alternative
from transduce.serve.document import LINE, plain, translate_documents
from transduce.serve.errors import Unusable
from transduce.serve.model import Translated
from transduce.serve.options import Options

LIKE_TEXT = st.text(st.sampled_from("aBcDÉß漢字 .!?…。！？\"'”»)(„“\n\r\t\u2028\u00a0\ufeff139😀"), max_size=80)
TEXTS = LIKE_TEXT | st.text(max_size=80)


@given(TEXTS)
def test_sentences_that_stay_make_up_the_text(text: str) -> None:
    document = plain(text)
    assert document.joined(document.sentences) == text


@given(TEXTS)
def test_every_letter_is_in_a_sentence_and_none_spans_a_line(text: str) -> None:
    document = plain(text)
    assert not any(map(str.isalpha, "".join(piece.text for piece in document.pieces if piece.sentence is None)))
    for sentence in document.sentences:
        assert sentence == sentence.strip()
        assert any(map(str.isalpha, sentence))
        assert LINE.fullmatch(sentence)


@given(TEXTS)
def test_what_is_not_translated_stays_in_its_place(text: str) -> None:
    document = plain(text)
    translated = document.joined(["\x07。"] * len(document.sentences))
    assert translated == "".join("\x07。" if piece.sentence else piece.text for piece in document.pieces)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("No way?! Yes.", ["No way?!", "Yes."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("(It rains.) It pours.", ["(It rains.)", "It pours."]),
        ("„Halt.“ Er ging. »Warum?« Darum.", ["„Halt.“", "Er ging.", "»Warum?«", "Darum."]),
        ("Dr. No met Mrs. Smith. They left.", ["Dr. No met Mrs. Smith.", "They left."]),
        ("J. R. R. Tolkien wrote it. I read it.", ["J. R. R. Tolkien wrote it.", "I read it."]),
        ("Wir essen z.B. Brot. Gut.", ["Wir essen z.B. Brot.", "Gut."]),
        ("Am 3. Mai regnet es. Am 4. Mai nicht.", ["Am 3. Mai regnet es.", "Am 4. Mai nicht."]),
        ("It was 1990. It rained.", ["It was 1990.", "It rained."]),
        ("It costs 3.50 dollars. Buy it.", ["It costs 3.50 dollars.", "Buy it."]),
        ("See No. 5. He said no. We left.", ["See No. 5. He said no.", "We left."]),
        ('"Really?" he asked. yes.', ['"Really?" he asked. yes.']),
        ("Visit example.org today. Now.", ["Visit example.org today.", "Now."]),
        ("你好。再见！“好。”他说", ["你好。", "再见！", "“好。”", "他说"]),
        ("First line\nsecond line\r\n\r\nthird.", ["First line", "second line", "third."]),
        ("\ufeffBOM first.", ["BOM first."]),
        (" 42. 😀 !!! ", []),
        ("", []),
    ],
)
def test_where_sentences_end(text: str, sentences: list[str]) -> None:
    assert plain(text).sentences == sentences


def test_white_space_is_kept_between_translations() -> None:
    document = plain("  One.  Two.\n\n\tThree.\r\n")
    assert document.joined(["1", "2", "3"]) == "  1  2\n\n\t3\r\n"


def test_sentences_without_a_space_between_them_get_one_in_other_scripts() -> None:
    document = plain("你好。再见。")
    assert document.joined(["Hello.", "Bye."]) == "Hello. Bye."
    assert document.joined(["こんにちは。", "さようなら。"]) == "こんにちは。さようなら。"


def test_a_text_of_one_mark_is_cut_in_linear_time() -> None:
    for text in ("." * 200_000, ".)" * 100_000, "a. " * 70_000, "。" * 200_000, " " * 200_000, "a." + '"' * 200_000):
        assert plain(text).joined(plain(text).sentences) == text


class Ranking(Echo):
    """Knows several translations of each sentence."""

    def translate(self, texts: list[str], options: Options) -> list[Translated]:
        self.batches.append(texts)
        if "refuse" in texts:
            return [Translated("", 0.0, 0.0, error="too odd", engine="echo") for _ in texts]
        return [
            Translated(f"{text}0", 0.0, 0.0, tuple(Alternative(f"{text}{n}", 0.0, 0.0) for n in range(options.n_best)))
            for text in texts
        ]


def translations(*texts: str, alternatives: int = 0) -> tuple[list[list[str]], Ranking]:
    async def scene() -> list[list[str]]:
        with closing(service_of(echo)) as service:
            documents = [plain(text) for text in texts]
            models = [echo.as_model()] * len(texts)
            return await translate_documents(
                service, models, documents, alternatives=alternatives, deadline=service.deadline()
            )

    echo = Ranking()
    return asyncio.run(scene()), echo


def test_documents_are_translated_sentence_by_sentence() -> None:
    found, echo = translations("Aa. Bb.", "Cc!\nDd", "!")
    assert found == [["Aa.0 Bb.0"], ["Cc!0\nDd0"], ["!"]]
    assert sorted(text for batch in echo.batches for text in batch) == ["Aa.", "Bb.", "Cc!", "Dd"]


def test_the_nth_alternative_is_made_of_the_nth_of_each_sentence() -> None:
    found, _ = translations("Aa. Bb.", "Cc", alternatives=2)
    assert found == [["Aa.0 Bb.0", "Aa.1 Bb.1", "Aa.2 Bb.2"], ["Cc0", "Cc1", "Cc2"]]


def test_a_sentence_that_cannot_be_translated_is_told() -> None:
    with pytest.raises(Unusable, match="too odd"):
        translations("refuse")
