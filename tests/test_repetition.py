"""A run of tokens four times in a row is a repetition."""

from hypothesis import given
from hypothesis import strategies as st

from transduce.decode.repetition import LONGEST, TIMES, repeated_run

ids = st.lists(st.integers(0, 3), max_size=30)


@given(before=ids, run=st.lists(st.integers(0, 3), min_size=1, max_size=LONGEST), after=ids)
def test_a_run_that_is_repeated_is_found(before: list[int], run: list[int], after: list[int]) -> None:
    assert repeated_run([*before, *run * TIMES, *after]) is not None


@given(ids)
def test_what_is_found_is_repeated(ids: list[int]) -> None:
    found = repeated_run(ids)
    runs = [
        tuple(ids[start : start + size])
        for size in range(1, len(ids) // TIMES + 1)
        for start in range(len(ids) - size * TIMES + 1)
        if ids[start : start + size * TIMES] == ids[start : start + size] * TIMES
    ]
    assert (found is None) == (not runs)
    assert found is None or found in runs
