"""Rows are stored under the role of their side, one deeper in a sub-prompt, and never larger than a message may be."""

from __future__ import annotations

from itertools import count
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.actors.execution import Execution
from treadle.agents.agent_definition import Agent
from treadle.agents.flow import Flow
from treadle.agents.model_calls import StepCalls
from treadle.agents.models.seam import ToolCall
from treadle.agents.prompt import Prompt
from treadle.agents.rows import assistant_row, author, fitting, reader, tool_row
from treadle.agents.side import Side
from treadle.protocol.limits import MESSAGE_BYTES_MAX

AGENT = Agent(name="a", side_a=Side(prompt="p"), side_b=Side(prompt="q"))


class Numbered:
    """An execution that makes ids."""

    def __init__(self) -> None:
        self._numbers = count()
        self.history: list[object] = []

    def new_id(self) -> str:
        return f"id{next(self._numbers)}"


def flow() -> Flow:
    return Flow(cast(Execution, Numbered()), AGENT)


def test_a_side_writes_under_its_role_and_is_written_to_under_the_other() -> None:
    assert [author("a"), reader("b"), author("b"), reader("a")] == ["assistant", "assistant", "user", "user"]


@pytest.mark.parametrize("side", ["a", "b"])
def test_calls_are_open_from_the_row_on(side: str) -> None:
    made = flow()
    made.side = side  # type: ignore[assignment]
    calls = StepCalls((ToolCall("c1", "add"),))
    row = assistant_row(made, "m1", "", calls, calls_text=calls.text())

    assert (row["role"], row["content"], row["calls"]) == (author(made.side), None, ["c1"])


def test_rows_of_a_sub_prompt_stand_under_the_row_that_called_it() -> None:
    root = flow()
    root.message_id = "m1"
    child = root.child(Prompt(name="sub", prompt="x", model="m"), {})

    for row in (assistant_row(child, "m2", "text"), tool_row(child, "c1", "add", "3", failed=False)):
        assert (row["depth"], row["parent_id"]) == (1, "m1")


def test_a_result_closes_its_call_and_bears_its_name() -> None:
    row = tool_row(flow(), "c1", "ad\0d", "no", failed=True, metadata={"error_code": "x"})

    assert (row["closes"], row["tool_call_id"], row["tool_status"], row["name"]) == (True, "c1", "error", "add")
    assert "name" not in tool_row(flow(), "c1", "", "3", failed=False)


@pytest.mark.slow
@given(st.text(st.characters(), max_size=30), st.sampled_from([1, MESSAGE_BYTES_MAX // 3, MESSAGE_BYTES_MAX]))
def test_text_that_is_fitted_can_be_stored(text: str, times: int) -> None:
    fitted = fitting(text * (times // max(1, len(text)) + 1))

    assert len(fitted.encode()) <= MESSAGE_BYTES_MAX


def test_text_that_fits_stays_as_it_is() -> None:
    assert fitting("größe") == "größe"
    assert fitting("x" * MESSAGE_BYTES_MAX) == "x" * MESSAGE_BYTES_MAX
    assert fitting("x" * (MESSAGE_BYTES_MAX + 1)).endswith("may be]")
