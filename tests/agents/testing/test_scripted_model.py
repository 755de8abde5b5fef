"""A model that answers what a test says: agents/testing/scripted_model.py."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.agents.models.asking import HELLO, Asking, chain, error_of, turns
from treadle.agents.models import Finished, ModelError, ModelRequest, ModelResponse, TextDelta, ToolCall
from treadle.agents.testing.scripted_model import Pause, ScriptedModel


async def from_request(request: ModelRequest) -> list[str]:
    return ["you said ", request.messages[0].content or ""]


def test_each_request_gets_the_next_turn_whatever_its_kind() -> None:
    call = ToolCall("c1", "look")
    model = ScriptedModel("a", call, ModelResponse("b"), ["c", call], None, from_request, lambda _: ["d", Finished()])

    answers = [Asking().run(chain(model)) for _ in range(7)]

    assert [(answer.text, answer.tool_calls) for answer in answers] == [
        ("a", ()), ("", (call,)), ("b", ()), ("c", (call,)), ("", ()), ("you said hello", ()), ("d", ()),
    ]  # fmt: skip
    assert (len(model.requests), model.finished, model.closed) == (7, 7, 0)
    assert model.requests[0].messages == HELLO.messages


def test_an_error_is_raised_where_the_script_has_it() -> None:
    model = ScriptedModel(["a", ModelError("no", model="scripted", retryable=True)], "b")
    asking = Asking()

    assert asking.run(chain(model)).text == "b"
    assert asking.deltas[0] == TextDelta("a")
    assert (model.finished, model.closed) == (2, 0)


def test_a_script_that_is_over_fails_and_is_not_repeated() -> None:
    model = ScriptedModel("a")
    Asking().run(chain(model))

    error = error_of(lambda: Asking().run(chain(model)))

    assert str(error) == "the script has 1 turns; this is request 2"
    assert error.details["attempts"] == 1


def test_a_turn_for_all_other_requests_may_be_named_and_turns_added() -> None:
    model = ScriptedModel(otherwise="again")
    model.add("first")

    assert [Asking().run(chain(model)).text for _ in range(3)] == ["first", "again", "again"]


def test_requests_are_waited_for_one_by_one() -> None:
    model = ScriptedModel("a", "b")
    asked = threading.Thread(target=lambda: [Asking().run(chain(model)) for _ in range(2)])
    asked.start()

    first, second = model.next(), model.next()
    asked.join()

    assert [first, second] == model.requests


def test_a_wait_that_is_not_met_fails() -> None:
    model, pause = ScriptedModel(), Pause()

    with pytest.raises(AssertionError, match="no request beyond the 0 seen"):
        model.next(timeout=0)
    with pytest.raises(AssertionError, match="0 streams were closed"):
        model.wait_closed(timeout=0)
    with pytest.raises(AssertionError, match="did not reach its pause"):
        pause.reached(timeout=0)


def test_a_pause_holds_the_model_until_it_is_released_by_any_worker() -> None:
    pause, seen = Pause(), []
    model = ScriptedModel(["a", pause, "b", pause, "c"])
    asked = threading.Thread(target=lambda: seen.append(asyncio.run(Asking().ask(chain(model)))))
    asked.start()

    pause.reached()
    assert seen == []
    pause.release()
    asked.join()

    assert seen[0].text == "abc"


def test_a_stream_that_is_closed_before_its_end_is_counted() -> None:
    model = ScriptedModel([Pause()])

    async def play() -> None:
        task = asyncio.ensure_future(Asking().ask(chain(model)))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    model.wait_closed()

    assert (model.finished, model.closed) == (0, 1)
