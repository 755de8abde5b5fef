"""What a stream comes to: agents/models/collecting.py."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.agents.models import Finished, ModelError, ReasoningDelta, TextDelta, ToolCall, ToolCallDelta, Usage
from treadle.agents.models import collecting as module
from treadle.agents.models.collecting import Collector, collect
from treadle.protocol.limits import RESPONSE_CALLS_MAX


def test_calls_come_piece_by_piece_and_stay_in_the_order_in_which_they_began() -> None:
    response = collect(
        ToolCallDelta(7, "b", "se"), ToolCallDelta(0, "a", "look", '{"x":'), ToolCallDelta(7, name="nd", arguments="{"),
        ToolCallDelta(0, arguments="1}"), ToolCallDelta(7, "late", arguments="}"), Finished(),
    )  # fmt: skip

    assert response.tool_calls == (ToolCall("b", "send", "{}"), ToolCall("a", "look", '{"x":1}'))


def test_a_character_that_is_cut_in_halves_between_deltas_is_whole_in_the_response() -> None:
    half, other = "\ud83d", "\udd11"
    response = collect(
        TextDelta(f"a{half}"), ReasoningDelta(half), TextDelta(f"{other}b"), ReasoningDelta(other),
        ToolCallDelta(0, "c", "look", f'{{"x":"{half}'), ToolCallDelta(0, arguments=f'{other}"}}'), Finished(),
    )  # fmt: skip

    assert (response.text, response.reasoning) == ("a🔑b", "🔑")
    assert response.tool_calls == (ToolCall("c", "look", '{"x":"🔑"}'),)


def test_duplicate_and_missing_call_ids_come_through_unharmed() -> None:
    response = collect(ToolCallDelta(0, "a", "x"), ToolCallDelta(1, "a", "y"), ToolCallDelta(2, None, "z"))

    assert [(call.id, call.name) for call in response.tool_calls] == [("a", "x"), ("a", "y"), ("", "z")]


def test_ten_thousand_calls_come_through_unharmed() -> None:
    response = collect(*(ToolCallDelta(n, f"c{n}", "t", "{}") for n in range(10_000)))

    assert len(response.tool_calls) == 10_000
    assert response.tool_calls[-1] == ToolCall("c9999", "t", "{}")


def test_more_calls_than_any_model_makes_are_refused() -> None:
    collector = Collector("m")
    for number in range(RESPONSE_CALLS_MAX):
        collector.add(ToolCallDelta(number))

    with pytest.raises(ModelError, match="tool calls") as refused:
        collector.add(ToolCallDelta(RESPONSE_CALLS_MAX))

    assert not refused.value.retryable


@pytest.mark.parametrize("delta", [TextDelta("x" * 6), ToolCallDelta(0, "x" * 6), ToolCallDelta(0, None, "x", "x" * 5)])
def test_a_response_that_grows_without_end_is_refused(
    delta: TextDelta | ToolCallDelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESPONSE_CHARS_MAX", 10)
    collector = Collector("m")
    collector.add(TextDelta("12345"))

    with pytest.raises(ModelError, match="characters"):
        collector.add(delta)


def test_an_empty_delta_says_nothing() -> None:
    assert not Collector("m").add(TextDelta(""))
    assert collect(TextDelta("")).is_empty


@pytest.mark.parametrize(
    "garbage",
    [
        TextDelta(5), TextDelta(b"x"), TextDelta(["x"]), ReasoningDelta(5), ToolCallDelta([0], "a", "t"), ToolCallDelta(None),
        ToolCallDelta(0, 5, "t"), ToolCallDelta(0, "a", 5), ToolCallDelta(0, "a", "t", {"x": 1}), ToolCallDelta(0, "a", "t", b"{}"),
        Finished("usage"), Finished(Usage("many", None)), "text", 5, None,
    ],
)  # fmt: skip
def test_a_delta_of_garbage_is_an_error_of_its_model(garbage: Any) -> None:
    with pytest.raises(ModelError, match="which is no delta"):
        collect(garbage)


def test_a_delta_whose_text_is_none_says_nothing() -> None:
    response = collect(TextDelta(None), ToolCallDelta(0, "a", None, None), Finished())  # type: ignore[arg-type]

    assert (response.text, response.tool_calls) == ("", (ToolCall("a", "", ""),))
