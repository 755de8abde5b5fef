"""What happens to a loop from outside: losses, holds, approvals, a thread beside it that blocks."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.agents.looping import PATIENCE_S, Play, beside_a_human, call, prompt
from treadle.actors.testing.crash_points import crash_after
from treadle.agents.agent_definition import Agent
from treadle.agents.model_definition import Model
from treadle.agents.models import FunctionModel, ModelRequest, ModelResponse
from treadle.agents.prompt import Prompt
from treadle.agents.side import Side
from treadle.agents.testing.resting import run_to_rest
from treadle.agents.testing.scripted_model import Pause
from treadle.agents.thread_state import ThreadState
from treadle.agents.tool import Tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime, Thread


@tool
async def die(state: ThreadState) -> str:
    """Take the thread's actor down."""
    crash_after("VALUE_CHANGED committed")
    await state.set_value("reached", True)
    return "never"


@tool
async def add(state: ThreadState, a: int, b: int) -> int:
    """Add."""
    return a + b


def until(play: Play, state: str, reason: str) -> None:
    """Wait until the thread has settled so."""
    with play.thread.stream() as stream:
        while True:
            frame = stream.next(PATIENCE_S)
            if frame["type"] == "thread_status" and (frame["status"]["state"], frame["status"]["reason"]) == (
                state,
                reason,
            ):
                return


def test_a_lost_execution_settles_and_its_open_calls_are_closed() -> None:
    """Contract C.1 execution_lost; F.3 orphans: nothing goes on unless the agent says so; the thread takes work at once."""
    agent, model = beside_a_human([call("die", "c1"), call("add", "c2", a=1, b=1)], "Here again.", tools=[die, add])
    with Play(agent) as play:
        record = play.say()

        assert (record.status, play.state()) == ("interrupted", ("failed", "execution_lost"))
        assert [status for found in play.results().values() for status, _ in found] == ["error", "error"]
        assert play.say("again").reason == "stop_on_response"
        told = [one.role for one in model.requests[1].messages]
        assert told == ["system", "user", "user"]  # past calls are not read


def test_a_lost_execution_goes_on_from_its_history_where_the_agent_resumes() -> None:
    """Contract F.3 orphans: the calls that were open have results, and the next step reads on."""
    agent, model = beside_a_human(call("die", "c1"), "Where was I?", tools=[die], on_lost="resume")
    with Play(agent) as play:
        assert play.say().status == "interrupted"
        until(play, "idle", "stop_on_response")
        assert play.told() == [
            ("user", "go"), ("assistant", None),
            ("tool", "The outcome of this call is unknown: its execution was lost."), ("assistant", "Where was I?"),
        ]  # fmt: skip
        # The model reads what it called, and that nobody knows what came of it: it must not do it again unawares.
        assert [one.role for one in model.requests[1].messages] == ["system", "user", "assistant", "tool"]


def test_an_execution_that_was_lost_twice_still_reads_what_its_first_life_called() -> None:
    """Contract F.3 orphans: and the one after that does not any more."""
    agent, model = beside_a_human(
        call("die", "c1"), call("die", "c2"), "Where was I?", "And now?", tools=[die], on_lost="resume"
    )
    with Play(agent) as play:
        assert play.say().status == "interrupted"
        until(play, "idle", "stop_on_response")
        roles = [one.role for one in model.requests[2].messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]

        play.say("next")
        assert [one.role for one in model.requests[3].messages] == ["system", "user", "assistant", "user"]


def test_two_sides_go_on_with_the_one_whose_turn_it_was() -> None:
    """Contract E.2 turn counters: whose turn it was is durable."""
    first, _model_a = prompt("first", "a1", "a2")
    second, _model_b = prompt("second", call("die"), "b1", "b2", tools=[die])
    agent = Agent(
        name="two", side_a=Side(prompt=first), side_b=Side(prompt=second), max_session_turns=2, on_lost="resume"
    )
    with Play(agent) as play:
        play.say("begin")
        until(play, "idle", "max_session_turns")

        said = [(role, content) for role, content in play.told() if content and role != "tool"]
        assert said == [("user", "begin"), ("assistant", "a1"), ("user", "b1"), ("assistant", "a2"), ("user", "b2")]


def test_messages_that_a_limit_left_start_the_next_execution() -> None:
    """Contract D.4 left over: what was queued and not read is read by an execution of its own."""

    @tool
    async def queue(state: ThreadState) -> str:
        """Queue a message."""
        await state.queue_message("later")
        return "queued"

    agent, model = beside_a_human(call("queue"), "Yes?", tools=[queue], side={"max_steps": 1})
    with Play(agent) as play:
        assert play.say().reason == "max_side_steps"
        until(play, "idle", "stop_on_response")
        assert model.requests[1].messages[-1].content == "later"


@pytest.mark.parametrize("total", [False, True], ids=["the side's", "the total"])
def test_what_arrives_while_the_last_step_that_a_limit_allows_answers_is_not_lost(
    total: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract D.4 left over; F.2 row 6: nobody could read it in this execution, though its turn was parked."""
    pause = Pause()
    if total:
        monkeypatch.setattr("treadle.agents.step_loop.TOTAL_STEPS_MAX", 1)
    agent, model = beside_a_human([pause, "One."], "Two.", side={} if total else {"max_steps": 1})
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.steer(execution_id, "hurry").result(PATIENCE_S)
        play.thread.queue_message("and?").result(PATIENCE_S)
        pause.release()
        record = play.end(execution_id)
        assert (record.outcome, record.reason) == ("succeeded", "stop_on_response")
        run_to_rest(play.thread)

        told = [("user", "go"), ("assistant", "One."), ("user", "hurry"), ("user", "and?"), ("assistant", "Two.")]
        assert play.told() == told
        metadata = play.messages()[2].metadata or {}
        limit = "max_total_steps" if total else "max_side_steps"
        assert (metadata["consumed"], metadata["reason"]) == (False, limit)
        assert model.requests[1].messages[-1].content == "and?"


def test_after_a_stop_the_queue_waits_until_somebody_speaks() -> None:
    """Contract D.4 hold: a stop holds; a submit lifts it, and what waited is read with it."""
    pause = Pause()
    agent, model = beside_a_human([pause], "Yes?")
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        play.thread.queue_message("waits").result(PATIENCE_S)
        play.thread.stop().result(PATIENCE_S)
        assert play.end(execution_id).reason == "aborted_by_user"
        assert play.thread.state().result(PATIENCE_S).held
        assert [one.content for one in play.messages() if one.status == "pending"] == ["waits"]
        assert play.say("now").reason == "stop_on_response"
        assert [one.content for one in model.requests[1].messages][-2:] == ["now", "waits"]


def test_a_second_execution_never_begins_beside_the_first() -> None:
    """Contract F.3 overlap: a submit is refused, a queued message joins, `resume` finds it busy."""
    pause = Pause()
    agent, model = beside_a_human([pause, "One."], "Two.")
    with Play(agent) as play:
        execution_id = play.submit()
        pause.reached()
        assert play.thread.submit("me too").result(PATIENCE_S).disposition == "busy"
        assert play.thread.resume().result(PATIENCE_S).disposition == "busy"
        pause.release()
        assert play.end(execution_id).reason == "stop_on_response"
        assert len(model.requests) == 1


def test_resume_runs_on_the_history_that_is_there() -> None:
    """Contract F.1 triggers: nothing new is said; the model reads what stands there."""
    agent, model = beside_a_human("Hello.", "And again.")
    with Play(agent) as play:
        play.say("hi")
        receipt = play.thread.resume().result(PATIENCE_S)
        assert play.end(str(receipt.execution_id)).reason == "stop_on_response"
        assert [one.content for one in model.requests[1].messages] == ["This is p.", "hi", "Hello."]


def test_an_approval_that_is_answered_lets_its_tool_go_on_once() -> None:
    """Contract F.1 one step: scenario 36 where the process lived: the answer resolves the request exactly once."""

    @tool
    async def refund(state: ThreadState, order: int) -> str:
        """Refund an order, if somebody approves."""
        return "refunded" if await state.request("approval", {"order": order}, request_id="r1") else "refused"

    agent, _ = beside_a_human(call("refund", order=7), "Done.", tools=[refund])
    with Play(agent) as play, play.thread.stream() as stream:
        execution_id = play.submit()
        while not play.thread.state().result(PATIENCE_S).pending_requests:
            stream.next(PATIENCE_S)
        assert play.thread.respond("r1", True).result(PATIENCE_S) == "accepted"
        assert play.end(execution_id).reason == "stop_on_response"
        assert play.thread.respond("r1", False).result(PATIENCE_S) == "already_resolved"
        assert play.results() == {"c1": [("success", "refunded")]}


def test_an_approval_of_a_lost_execution_is_abandoned_and_its_answer_refused() -> None:
    """Contract F.3 orphans: scenario 36: listed as abandoned with its execution, and never actionable again."""

    @tool
    async def refund(state: ThreadState) -> str:
        """Ask, and lose the actor while the question is open."""
        asked = state.request("approval", {"order": 7}, request_id="r1")
        crash_after("VALUE_CHANGED committed")
        await state.set_value("reached", True)
        return str(await asked)

    agent, _ = beside_a_human(call("refund"), tools=[refund])
    with Play(agent) as play:
        assert play.say().status == "interrupted"
        assert play.thread.state().result(PATIENCE_S).pending_requests == ()
        assert play.thread.respond("r1", True).result(PATIENCE_S) == "cancelled"
        assert [status for found in play.results().values() for status, _ in found] == ["error"]


def test_a_plain_tool_that_blocks_holds_no_other_thread_up() -> None:
    """Contract F.1 one step: scenario 35: while it blocks, other threads run whole executions."""
    inside, leave = threading.Event(), threading.Event()

    @tool
    def block(state: ThreadState) -> str:
        """Block like I/O."""
        inside.set()
        assert leave.wait(PATIENCE_S)
        return "unblocked"

    agent, _ = beside_a_human(call("block"), "Done.", tools=[block])
    other, _model = beside_a_human(*["Quick."] * 50, name="other")
    renamed = other.model_copy(update={"side_a": Side(prompt=prompt("q", *["Quick."] * 50)[0])})
    with Play(agent, renamed) as play:
        execution_id = play.submit()
        assert inside.wait(PATIENCE_S)
        beside = play.runtime.create_thread("other").result(PATIENCE_S)
        for _ in range(50):
            done = beside.submit("go").result(PATIENCE_S).execution_id
            assert beside.wait(str(done)).result(PATIENCE_S).reason == "stop_on_response"
        assert play.state()[0] == "running"
        leave.set()
        assert play.end(execution_id).reason == "stop_on_response"


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [1, 8])
def test_beside_plain_tools_that_block_others_answer_as_fast_as_before(
    blocked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract F.1 one step: scenario 35: their p99, and that of the state of health, in rounds with and without."""
    # A loop of a busy machine may have no turn for a second.
    monkeypatch.setattr("treadle.actors.health.LOOP_SILENT_S", 3_600.0)
    inside, leave = threading.Semaphore(0), threading.Event()

    @tool
    def block(state: ThreadState) -> str:
        """Block like I/O."""
        inside.release()
        assert leave.wait(PATIENCE_S)
        return "unblocked"

    def blocking(request: ModelRequest) -> str | ModelResponse:
        done = request.messages[-1].role == "tool"
        return "Done." if done else ModelResponse("", tool_calls=(call("block"),))

    rounds, each = 5, 100
    alone, beside = [], []
    with Play(answering("agent", blocking, block), answering("other", lambda _request: "Quick.")) as play:
        thread = play.runtime.create_thread("other").result(PATIENCE_S)
        for _ in range(rounds):
            alone.append(p99_of_executions(play.runtime, thread, each))
            leave.clear()
            held = [play.runtime.create_thread("agent").result(PATIENCE_S) for _ in range(blocked)]
            receipts = [one.submit("go").result(PATIENCE_S) for one in held]
            assert all(inside.acquire(timeout=PATIENCE_S) for _ in held)
            beside.append(p99_of_executions(play.runtime, thread, each))
            leave.set()
            for one, receipt in zip(held, receipts, strict=True):
                assert one.wait(receipt).result(PATIENCE_S).reason == "stop_on_response"

    # By rounds in turn, and of each kind the best: the machine's other work adds to many of them, what is looked for to all.
    assert min(beside) <= 2 * min(alone) + 5e-3


def answering(name: str, function: Callable[[ModelRequest], str | ModelResponse], *tools: Tool) -> Agent:
    model = Model(name=name, model=FunctionModel(function))
    return Agent(
        name=name, side_a=Side(prompt=Prompt(name=name, prompt="Go.", model=model, tools=tools, history_limit=10))
    )


def p99_of_executions(runtime: Runtime, thread: Thread, count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        thread.wait(thread.submit("go").result(PATIENCE_S)).result(PATIENCE_S)
        assert runtime.ready() == (True, [])
        times.append(time.perf_counter() - began)
    return sorted(times)[int(count * 0.99) - 1]


@pytest.mark.parametrize("kind", ["running", "waiting"])
def test_who_is_refused_by_a_thread_that_runs_or_waits_is_told_which_by_a_code(kind: str) -> None:
    """Contract F.3 overlap: scenario 7: two codes, not two texts."""
    inside = threading.Event()

    @tool
    async def hold(state: ThreadState) -> str:
        """Run, or wait for an approval."""
        if kind == "waiting":
            asked = state.request("approval", request_id="r1")
            await state.set_value("asked", True)
            inside.set()
            return str(await asked)
        inside.set()
        await state.sleep(3_600)
        return "slept"

    agent, _ = beside_a_human(call("hold"), "Done.", tools=[hold])
    with Play(agent) as play:
        execution_id = play.submit()
        assert inside.wait(PATIENCE_S)
        receipt = play.thread.submit("me too").result(PATIENCE_S)
        play.thread.interrupt(execution_id).result(PATIENCE_S)
        play.end(execution_id)

        assert receipt.disposition == "busy"
        assert receipt.active_execution is not None
        assert receipt.active_execution.phase == kind
