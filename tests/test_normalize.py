from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.config import Step, TextConfig
from transduce.text.normalize import normalize


def test_the_steps_are_those_of_the_configuration() -> None:
    assert TextConfig.model_fields["normalize"].annotation == tuple[Step, ...]


@given(st.text())
def test_without_steps_text_stays_as_it_is(text: str) -> None:
    assert normalize(text, ()) == text


@pytest.mark.parametrize(
    ("step", "text", "expected"),
    [
        ("nfc", "u\u0308ber ﬁn", "über ﬁn"),
        ("nfkc", "u\u0308ber ﬁn\u00a0①", "über fin 1"),
        ("lower", "ÜBER Straße", "über straße"),
        ("squeeze", " \ta\u00a0 b\u2028c\r", "a b c"),
    ],
)
def test_what_each_step_does(step: Step, text: str, expected: str) -> None:
    assert normalize(text, [step]) == expected


def test_steps_are_applied_in_order() -> None:
    megabyte_sign = "㎆"
    assert normalize(megabyte_sign, ["lower", "nfkc"]) == "MB"
    assert normalize(megabyte_sign, ["nfkc", "lower"]) == "mb"


@pytest.mark.parametrize("step", get_args(Step))
@given(text=st.text())
def test_a_second_time_changes_nothing(step: Step, text: str) -> None:
    once = normalize(text, [step])
    assert normalize(once, [step]) == once


@given(st.text(alphabet=st.characters(exclude_characters="\n")), st.lists(st.sampled_from(get_args(Step))))
def test_no_step_makes_a_newline(text: str, steps: list[Step]) -> None:
    assert "\n" not in normalize(text, steps)
