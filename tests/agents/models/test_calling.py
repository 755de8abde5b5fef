"""How models are asked until one answers (contract E.5): agents/models/calling.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.agents.models.asking import HELLO, Asking, chain, error_of, turns
from treadle.actors.execution import current_execution
from treadle.actors.fence import ExecutionCancelled
from treadle.agents.agent import FunctionAgent, agent
from treadle.agents.models import (
    Attachment,
    Finished,
    ModelError,
    ModelMessage,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Usage,
)
from treadle.agents.models.calling import ResolvedModel, call
from treadle.agents.models.function_model import FunctionModel
from treadle.agents.testing.scripted_model import Pause, ScriptedModel
from treadle.protocol.errors import InvalidInput
from treadle.protocol.limits import RETRY_AFTER_MAX_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from treadle.actors.fake_clock import FakeClock
    from treadle.actors.testing import Probe, Runtimes
    from treadle.agents.thread_state import ThreadState


def failing(*, status: int = 500, retryable: bool = True, retry_after: float | None = None) -> ModelError:
    return ModelError("no", model="m", status=status, retryable=retryable, retry_after=retry_after)


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_error_that_cannot_say_what_it_is_has_the_next_model_asked() -> None:
    def broken(_request: object) -> str:
        raise Speechless

    response = Asking().run(chain(FunctionModel(broken), ScriptedModel("fallback")))

    assert (response.text, response.model_name) == ("fallback", "m1")


def test_an_answer_comes_as_deltas_and_as_a_response() -> None:
    asking = Asking()
    model = ScriptedModel(
        [ReasoningDelta("hm"), "Hel", "lo", ToolCall("c1", "look", "{}"), Finished(Usage(3, 2), "tool_calls")]
    )

    response = asking.run(chain(model))

    assert (response.text, response.reasoning, response.usage) == ("Hello", "hm", Usage(3, 2))
    assert response.tool_calls == (ToolCall("c1", "look", "{}"),)
    assert (response.model_name, response.attempts, response.finish_reason) == ("m0", 1, "tool_calls")
    assert asking.log[:3] == ["model request", ReasoningDelta("hm"), TextDelta("Hel")]
    assert asking.clock.pending() == 0


def test_a_model_that_answers_at_once_costs_no_timer() -> None:
    asking = Asking()
    set_before: list[int] = []
    asking.clock.after = lambda *_: set_before.append(1)  # type: ignore[assignment,method-assign]

    assert asking.run(chain(FunctionModel(lambda _: ["a", "b"]))).text == "ab"
    assert set_before == []


@pytest.mark.parametrize("turn", [None, "", [], [TextDelta("")], [Finished()]])
def test_a_model_that_returns_nothing_gives_an_empty_response(turn: object) -> None:
    asking = Asking()

    response = asking.run(chain(ScriptedModel(turn)))  # type: ignore[arg-type]

    assert response.is_empty
    assert [delta for delta in asking.deltas if not isinstance(delta, Finished)] == []


def test_e5_a_model_is_asked_twice_and_waited_for_in_between() -> None:
    """Contract E.5 attempts; E.5 wait: twice, with a second between, unless the model says otherwise."""
    asking = Asking()

    response = asking.run(chain(ScriptedModel(failing(), "there")))

    assert (response.text, response.attempts) == ("there", 2)
    assert asking.log[:3] == ["model request", 1.0, "model request"]


def test_e5_the_wait_doubles_with_every_attempt() -> None:
    """Contract E.5 wait: 1000 ms x 2^(n-1)."""
    asking = Asking()

    error = error_of(lambda: asking.run(chain(ScriptedModel(otherwise=failing()), attempts=4)))

    assert [entry for entry in asking.log if entry != "model request"] == [1.0, 2.0, 4.0]
    assert error.details["attempts"] == 4


def test_e5_the_first_delay_is_the_models_own() -> None:
    asking = Asking()

    error_of(lambda: asking.run([ResolvedModel(ScriptedModel(otherwise=failing()), "m", attempts=3, first_delay=0.25)]))

    assert [entry for entry in asking.log if entry != "model request"] == [0.25, 0.5]


def test_e5_a_provider_that_says_how_long_to_wait_is_waited_for_so_long() -> None:
    """Contract E.5 wait: the provider's own time goes before ours."""
    asking = Asking()

    asking.run(chain(ScriptedModel(failing(status=429, retry_after=7.5), "there")))

    assert asking.log[1] == 7.5


@pytest.mark.parametrize("absurd", [0.0, -3.0, float("nan"), float("inf")])
def test_a_wait_that_is_no_time_is_replaced_by_our_own(absurd: float) -> None:
    asking = Asking()

    asking.run(chain(ScriptedModel(failing(retry_after=absurd), "there")))

    assert asking.log[1] == 1.0


def test_a_provider_that_asks_for_hours_is_not_asked_again() -> None:
    asking = Asking()

    response = asking.run(chain(ScriptedModel(failing(retry_after=RETRY_AFTER_MAX_S + 1)), ScriptedModel("fallback")))

    assert (response.text, response.model_name) == ("fallback", "m1")
    assert asking.log[:2] == ["model request", "model request"]


def test_e5_fallbacks_are_asked_in_order_each_with_its_own_attempts() -> None:
    """Contract E.5 fallbacks: in order."""
    asking = Asking()
    first, second, third = (
        ScriptedModel(otherwise=failing()),
        ScriptedModel(otherwise=failing()),
        ScriptedModel("three"),
    )

    response = asking.run(chain(first, second, third))

    assert (response.text, response.model_name, response.attempts) == ("three", "m2", 5)
    assert [(r.model_name, r.attempt) for m in (first, second, third) for r in m.requests] == [
        ("m0", 1), ("m0", 2), ("m1", 1), ("m1", 2), ("m2", 1),
    ]  # fmt: skip


def test_an_error_that_would_come_again_goes_straight_to_the_next_model() -> None:
    asking = Asking()

    response = asking.run(chain(ScriptedModel(failing(status=400, retryable=False)), ScriptedModel("fallback")))

    assert response.text == "fallback"
    assert 1.0 not in asking.log


def test_when_no_model_answers_the_last_error_says_how_often_they_were_asked() -> None:
    asking = Asking()

    error = error_of(
        lambda: asking.run(chain(ScriptedModel(otherwise=failing()), ScriptedModel(failing(retryable=False))))
    )

    assert (error.code, error.details["attempts"], error.retryable) == ("model_error", 3, False)
    assert len(asking.failures) == 3


def test_an_error_goes_by_the_name_of_the_definition_and_keeps_the_models_own_as_its_cause() -> None:
    asking = Asking()
    own = failing(retryable=False)

    error = error_of(lambda: asking.run(chain(ScriptedModel(own))))

    assert (error.model, asking.failures[0].model, error.__cause__) == ("m0", "m0", own)


def test_an_exception_of_a_function_is_an_error_of_its_model_and_retried() -> None:
    asking = Asking()
    answers = iter([OSError("gone"), "there"])

    def flaky(request: ModelRequest) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asking.run(chain(FunctionModel(flaky))).text == "there"
    assert asking.failures[0].details["error_type"] == "OSError"


def test_a_stream_that_cannot_even_be_opened_is_an_error_of_its_model() -> None:
    class Broken:
        name = "broken"

        def stream(self, request: ModelRequest) -> object:
            raise OSError("no network")

    asking = Asking()

    assert asking.run([*chain(Broken(), attempts=1), *chain(ScriptedModel("there"))]).text == "there"  # type: ignore[arg-type]


def test_a_model_that_sends_what_is_no_delta_is_not_asked_again() -> None:
    class Odd:
        name = "odd"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            yield {"text": "hello"}

    asking = Asking()

    error = error_of(lambda: asking.run(chain(Odd())))

    assert (error.details["attempts"], error.retryable) == (1, False)


def test_a_stream_that_was_cut_is_retried_and_its_deltas_withdrawn() -> None:
    class Cut:
        name = "cut"
        times = 0

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            self.times += 1
            yield TextDelta("half")
            if self.times == 2:
                yield Finished()

    asking = Asking()

    response = asking.run(chain(Cut()))

    assert (response.text, response.attempts) == ("half", 2)
    assert asking.log == [
        "model request", TextDelta("half"), "restart", 1.0, "model request", TextDelta("half"), Finished(),
    ]  # fmt: skip


def test_nothing_is_withdrawn_where_nothing_was_handed_out_or_nothing_follows() -> None:
    asking = Asking()

    error_of(lambda: asking.run(chain(ScriptedModel(failing(), ["half", failing()]))))

    assert "restart" not in asking.log


def test_e5_a_model_that_sends_nothing_is_given_two_minutes_then_the_next_one_is_asked() -> None:
    """Contract E.5 stalled: 120 s for the first piece."""
    asking = Asking()
    silent = ScriptedModel(Pause())

    response = asking.run(chain(silent, ScriptedModel("fallback")))

    assert (response.text, asking.clock.monotonic()) == ("fallback", 120.0)
    assert (silent.closed, len(silent.requests)) == (1, 1)
    assert asking.failures[0].stalled


def test_e5_a_stream_that_stalls_is_given_45_seconds_then_the_next_model_is_asked() -> None:
    """Contract E.5 stalled: straight to the next fallback."""
    asking = Asking()
    stalling = ScriptedModel(["half", Pause()])

    response = asking.run(chain(stalling, ScriptedModel("fallback")))

    assert (response.text, asking.clock.monotonic()) == ("fallback", 45.0)
    assert asking.log == [
        "model request",
        TextDelta("half"),
        "restart",
        "model request",
        TextDelta("fallback"),
        Finished(None, "stop"),
    ]


def test_e5_a_stalled_last_model_is_not_asked_again() -> None:
    """Contract E.5 stalled: never the same model again."""
    asking = Asking()

    error = error_of(lambda: asking.run(chain(ScriptedModel(Pause()))))

    assert (error.stalled, error.retryable, error.details["attempts"]) == (True, False, 1)


def test_every_delta_begins_the_time_anew_also_one_that_says_nothing() -> None:
    asking = Asking()

    async def slowly(request: ModelRequest):  # type: ignore[no-untyped-def]
        for text in ("a", "", "b", ""):
            await asking._sleep(40)
            yield text

    response = asking.run(chain(FunctionModel(slowly)))

    assert (response.text, asking.clock.monotonic()) == ("ab", 160.0)


def test_a_stalled_model_that_ignores_its_cancellation_is_still_stalled() -> None:
    async def deaf(request: ModelRequest):  # type: ignore[no-untyped-def]
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            yield "what?"

    asking = Asking()

    assert error_of(lambda: asking.run(chain(FunctionModel(deaf)))).stalled


def test_a_model_that_breaks_while_it_is_told_to_stop_is_still_stalled() -> None:
    async def brittle(request: ModelRequest) -> str:
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            raise OSError("reset") from None

    asking = Asking()

    assert error_of(lambda: asking.run(chain(FunctionModel(brittle)))).stalled


@pytest.mark.parametrize("limit", [120.0, 10.0])
def test_a_clean_up_that_hangs_is_given_up(limit: float, caplog: pytest.LogCaptureFixture) -> None:
    class Clinging:
        name = "clinging"

        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
            try:
                yield TextDelta("done")
                yield Finished()
            finally:
                await asyncio.get_running_loop().create_future()

    asking = Asking(first_chunk_timeout=limit)

    assert asking.run(chain(Clinging())).text == "done"
    assert "Overdue" in caplog.text


def test_a_cancelled_call_closes_the_stream_and_asks_nobody_else() -> None:
    """Contract E.5 stopped: a user's stop is never retried."""
    asking = Asking()
    hanging, fallback = ScriptedModel(["half", Pause()]), ScriptedModel("fallback")

    async def play() -> None:
        task = asyncio.ensure_future(asking.ask(chain(hanging, fallback)))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())

    assert (hanging.closed, fallback.requests, asking.failures) == (1, [], [])
    assert asking.clock.pending() == 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("said", [0, 2])
def test_who_wants_the_process_to_end_is_not_asked_again_and_nobody_else_is(error: BaseException, said: int) -> None:
    closed: list[str] = []

    def leaves(_request: object) -> Iterator[str]:
        try:
            yield from ["a", "b"][:said]
            raise error
        finally:
            closed.append("closed")

    asking, fallback = Asking(), ScriptedModel("fallback")
    asked = asking.ask(chain(FunctionModel(leaves), fallback))

    with pytest.raises(type(error)) as caught:
        asked.send(None)  # on no loop, which the error would end
    assert caught.value is error
    assert (asking.log.count("model request"), len(asking.deltas), closed) == (1, said, ["closed"])
    assert (fallback.requests, asking.failures) == ([], [])


def test_a_cancellation_wins_over_a_stall_at_the_same_time() -> None:
    asking = Asking()
    hanging, fallback = ScriptedModel(Pause()), ScriptedModel("fallback")

    async def play() -> None:
        task = asyncio.ensure_future(asking.ask(chain(hanging, fallback)))
        await turns()
        asking.clock.advance(120)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())

    assert fallback.requests == []


def test_a_task_is_as_uncancelled_after_a_stall_as_before() -> None:
    asking = Asking()

    async def play() -> int:
        response = await asking.ask(chain(ScriptedModel(Pause()), ScriptedModel("fallback")))
        assert response.text == "fallback"
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(asking.until_done(play())) == 0  # type: ignore[arg-type,comparison-overlap]


def test_a_cancellation_while_waiting_for_the_next_attempt_ends_the_call() -> None:
    asking = Asking()
    model = ScriptedModel(failing(), "there")

    async def play() -> None:
        task = asyncio.ensure_future(asking.ask(chain(model)))
        await turns()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())

    assert len(model.requests) == 1


def test_an_interrupted_execution_begins_no_further_attempt() -> None:
    """Contract E.5 stopped: nor is a further attempt begun."""
    asking = Asking()
    asking.refuse = ExecutionCancelled("x")
    model = ScriptedModel("never")

    with pytest.raises(ExecutionCancelled):
        asking.run(chain(model))

    assert model.requests == []


def test_an_error_of_who_takes_the_deltas_is_not_the_models() -> None:
    asking = Asking()
    asking.on_delta = lambda _delta: 1 // 0  # type: ignore[method-assign,return-value,assignment]
    model = ScriptedModel("a", "b")

    with pytest.raises(ZeroDivisionError):
        asking.run(chain(model))

    assert (len(model.requests), model.closed) == (1, 1)


def test_a_call_without_models_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        Asking().run([])

    assert refused.value.code == "invalid_model"


def test_settings_of_the_request_win_over_those_of_the_model() -> None:
    model = ScriptedModel("a")
    request = ModelRequest(HELLO.messages, settings={"temperature": 0.5})

    Asking().run([ResolvedModel(model, "m", settings={"temperature": 0.1, "max_tokens": 9})], request)

    assert model.requests[0].settings == {"temperature": 0.5, "max_tokens": 9}


def test_f1_a_model_without_vision_gets_the_names_of_pictures_only() -> None:
    """Contract F.1 without eyes: pictures are named; the request of another model keeps them."""
    picture, text = Attachment("a.png", "image/png", b"1", path="/a.png"), Attachment("a.txt", "text/plain", b"2")
    request = ModelRequest((ModelMessage("user", "look", attachments=(picture, text)),))
    blind, seeing = ScriptedModel(failing(retryable=False)), ScriptedModel("a")

    Asking().run([ResolvedModel(blind, "blind", vision=False), ResolvedModel(seeing, "seeing")], request)

    assert blind.requests[0].messages[0].attachments == (Attachment("a.png", "image/png", path="/a.png"), text)
    assert seeing.requests[0].messages == request.messages


def in_body(models: list[ResolvedModel], seen: list[object]) -> FunctionAgent[Coroutine[object, object, None]]:
    """Make an agent that asks models as the step loop does."""

    async def asker(state: ThreadState) -> None:
        execution = current_execution.get()
        assert execution is not None
        response = await call(
            models, HELLO, begin=execution.begin, sleep=execution.sleep, clock=execution.services.timers,
            on_delta=seen.append,
        )  # fmt: skip
        await state.inject_message("assistant", response.text)

    return agent(asker, name="asker")


def test_in_an_execution_time_limits_and_waits_go_by_the_runtimes_clock(
    runtime: Runtimes, probe: Callable[..., Probe], fake_clock: FakeClock
) -> None:
    pause = Pause()
    models = chain(ScriptedModel(failing(), ["half", pause]), ScriptedModel("fallback"))
    thread = runtime(in_body(models, [])).create_thread("asker").result()

    with probe(thread) as seen:
        thread.submit("hello").result()
        fake_clock.wait_for_timers(2)  # the runtime's own, and the wait for the second attempt
        fake_clock.advance(1.0)
        pause.reached()
        fake_clock.wait_for_timers(2)
        fake_clock.advance(45)
        seen.until_status("idle")

    assert thread.messages().result().messages[-1].content == "fallback"


def test_an_interrupted_execution_closes_the_stream_of_its_model(
    runtime: Runtimes, probe: Callable[..., Probe]
) -> None:
    pause, deltas = Pause(), []
    model, fallback = ScriptedModel(["half", pause]), ScriptedModel("never")
    thread = runtime(in_body(chain(model, fallback), deltas)).create_thread("asker").result()

    with probe(thread) as seen:
        receipt = thread.submit("hello").result()
        pause.reached()
        thread.interrupt(receipt.execution_id).result()
        seen.until_status("idle")
    model.wait_closed()

    assert (deltas, fallback.requests) == ([TextDelta("half")], [])
