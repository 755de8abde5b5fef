"""What a provider's events and errors mean: agents/models/provider_reply.py; over a socket, in test_provider.py."""

from __future__ import annotations

import pytest
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelConnectionError,
    ModelHTTPError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    FinalResultEvent,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from treadle.agents.models import Finished, ModelError, ReasoningDelta, TextDelta, ToolCallDelta, Usage
from treadle.agents.models.provider_reply import Listener, error_of, finished_of

ALIVE = TextDelta("")


def heard(*events: ModelResponseStreamEvent, thoughts: bool = True) -> list[object]:
    listener = Listener(thoughts=thoughts)
    return [listener.heard(event) for event in events]


def test_text_and_thoughts_come_as_they_begin_and_go_on() -> None:
    assert heard(
        PartStartEvent(index=0, part=ThinkingPart("h")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(content_delta="m")),
        PartDeltaEvent(index=0, delta=ThinkingPartDelta(signature_delta="sig")),
        PartStartEvent(index=1, part=TextPart("a")),
        PartDeltaEvent(index=1, delta=TextPartDelta("b")),
    ) == [ReasoningDelta("h"), ReasoningDelta("m"), ALIVE, TextDelta("a"), TextDelta("b")]


def test_thoughts_that_nobody_wants_only_say_that_the_stream_is_alive() -> None:
    event = PartDeltaEvent(index=0, delta=ThinkingPartDelta(content_delta="m"))

    assert heard(PartStartEvent(index=0, part=ThinkingPart("h")), event, thoughts=False) == [ALIVE, ALIVE]


def test_arguments_in_pieces_of_text_come_piece_by_piece() -> None:
    call = ToolCallPart("look", '{"x":', "c1")

    assert heard(
        PartStartEvent(index=2, part=call),
        PartDeltaEvent(index=2, delta=ToolCallPartDelta(args_delta="1}", tool_call_id="c1")),
        PartEndEvent(index=2, part=ToolCallPart("look", '{"x":1}', "c1")),
    ) == [ToolCallDelta(2, "c1", "look", '{"x":'), ToolCallDelta(2, "c1", None, "1}"), ALIVE]


def test_arguments_that_come_as_data_come_whole_at_their_end() -> None:
    assert heard(
        PartStartEvent(index=0, part=ToolCallPart("look", {"x": 1}, "c1")),
        PartDeltaEvent(index=0, delta=ToolCallPartDelta(args_delta={"y": 2})),
        PartEndEvent(index=0, part=ToolCallPart("look", {"x": 1, "y": 2}, "c1")),
    ) == [ToolCallDelta(0, "c1", "look"), ToolCallDelta(0), ToolCallDelta(0, arguments='{"x": 1, "y": 2}')]


def test_what_means_nothing_here_says_that_the_stream_is_alive() -> None:
    assert heard(FinalResultEvent(tool_name=None, tool_call_id=None)) == [ALIVE]


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (ModelHTTPError(500, "m"), True),
        (ModelHTTPError(529, "m"), True),
        (ModelHTTPError(408, "m"), True),
        (ModelHTTPError(409, "m"), True),
        (ModelHTTPError(429, "m"), True),
        (ModelHTTPError(400, "m"), False),
        (ModelHTTPError(404, "m"), False),
        (ModelConnectionError("m", "reset"), True),
        (UnexpectedModelBehavior("what?"), True),
        (ContentFilterError("no"), False),
        (UserError("no such setting"), False),
        (OSError(), True),
    ],
)
def test_an_error_says_whether_it_may_pass(error: Exception, retryable: bool) -> None:
    made = error_of("m", error, None)

    assert (made.retryable, made.stalled, made.model) == (retryable, False, "m")
    assert made.details["error_type"] == type(error).__name__


def test_an_error_without_words_is_named() -> None:
    assert str(error_of("m", OSError(), None)) == "model 'm' failed: OSError"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (ModelResponse([], finish_reason="stop"), "stop"),
        (ModelResponse([], provider_details={"finish_reason": "eos"}), "eos"),
    ],
)
def test_an_end_has_a_reason_the_librarys_or_the_providers_own(response: ModelResponse, reason: str) -> None:
    assert finished_of(response, "m") == Finished(Usage(), reason)


@pytest.mark.parametrize(
    "response",
    [
        ModelResponse([TextPart("half")]),
        ModelResponse([], provider_details={"timestamp": 1}),
        ModelResponse([], finish_reason="stop", state="incomplete"),
        ModelResponse([], finish_reason="error"),
    ],
)
def test_what_is_no_end_is_an_error_that_may_pass(response: ModelResponse) -> None:
    with pytest.raises(ModelError) as cut:
        finished_of(response, "m")

    assert cut.value.retryable
