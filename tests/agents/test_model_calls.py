"""Whatever calls a model writes, those that are kept can be stored and told apart."""

from __future__ import annotations

import json
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.model_calls import (
    CALL_BYTES_MAX,
    CALLS_PER_STEP_MAX,
    SURPLUS,
    StepCalls,
    bounded_calls,
    clean,
)
from treadle.agents.models.seam import ToolCall
from treadle.agents.tool_calls import check_tool_calls

ANY = st.text(st.characters(), max_size=12)  # halves of characters too


def ids() -> object:
    numbers = count()
    return lambda: f"made{next(numbers)}"


@pytest.mark.slow
@given(st.lists(st.builds(ToolCall, ANY, ANY, ANY), max_size=12))
def test_every_call_that_is_kept_can_be_stored_under_an_id_of_its_own(calls: list[ToolCall]) -> None:
    made = bounded_calls(calls, ids())  # type: ignore[arg-type]

    _, known = check_tool_calls(made.text() or "[]")
    assert known == made.ids
    assert len(set(made.ids)) == len(calls)
    assert made.surplus == 0


@given(st.integers(0, 400))
def test_what_is_beyond_the_limit_is_one_call_that_stands_for_the_rest(number: int) -> None:
    made = bounded_calls([ToolCall(f"c{rank}", "add", "{}") for rank in range(number)], ids())  # type: ignore[arg-type]

    assert len(made.calls) == min(number, CALLS_PER_STEP_MAX)
    if number > CALLS_PER_STEP_MAX:
        assert made.calls[-1].name == SURPLUS
        assert made.surplus == number - CALLS_PER_STEP_MAX + 1


def test_large_arguments_count_by_their_size() -> None:
    large = '"' * (CALL_BYTES_MAX // 5)
    made = bounded_calls([ToolCall(f"c{rank}", "add", large) for rank in range(4)], ids())  # type: ignore[arg-type]

    assert made.surplus == 2
    assert len(str(made.text()).encode()) <= CALL_BYTES_MAX


def test_one_call_that_is_too_large_is_not_kept_itself() -> None:
    made = bounded_calls([ToolCall("c1", "add", "x" * CALL_BYTES_MAX)], ids())  # type: ignore[arg-type]

    assert [one.name for one in made.calls] == [SURPLUS]


def test_no_calls_have_no_text() -> None:
    assert StepCalls(()).text() is None
    assert json.loads(str(StepCalls((ToolCall("c", "n", "a"),)).text())) == [
        {"id": "c", "type": "function", "function": {"name": "n", "arguments": "a"}}
    ]


@given(ANY)
def test_cleaned_text_can_be_encoded(text: str) -> None:
    assert clean(text).encode().decode() == clean(text)
