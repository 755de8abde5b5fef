"""Tests agents/agent.py: what may be an agent, what it is called, where it runs, and what it may return."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
from typing import TYPE_CHECKING, TypeAlias

import pytest

from treadle.actors import Reply, Runtime
from treadle.agents import FunctionAgent, InvalidReturn, ThreadState, agent
from treadle.protocol.errors import CallerError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from tests.agents.stage import Replies, Stage
    from treadle.actors import Execution
    from treadle.storage import Store


Made: TypeAlias = "FunctionAgent[Awaitable[None] | None]"


class Bare:
    """All of an execution that a pass needs when the agent does nothing with its state."""

    id = "e1"
    thread_id = "t1"

    def __init__(self) -> None:
        self.body_state: object | None = None


def bare() -> Execution:
    return Bare()  # type: ignore[return-value]


def run(made: Made, execution: Execution | None = None) -> None:
    """Run one pass the way the runtime does."""
    running = made.run(execution or bare())
    if made.runs_on == "loop":
        assert running is not None

        async def follow() -> None:
            await running

        asyncio.run(follow())
    else:
        assert running is None


async def greet(state: ThreadState) -> None:
    """Say hello."""
    state.context["greeted"] = state.context.get("greeted", 0) + 1


def count(state: ThreadState) -> None:
    state.context["counted"] = True


class Clerk:
    """A callable object, and one with methods to bind."""

    name = "not the agent's name"
    timeout = "nor its timeout"

    def __init__(self) -> None:
        self.seen: list[ThreadState] = []
        self.timeout = "nor this"

    async def __call__(self, state: ThreadState) -> None:
        self.seen.append(state)

    async def serve(self, state: ThreadState) -> None:
        self.seen.append(state)

    def file(self, state: ThreadState, drawer: str = "a") -> None:
        self.seen.append(state)


def test_a_bare_decorator_takes_the_functions_name_and_defaults() -> None:
    made = agent(greet)

    assert (made.name, made.timeout, made.steerable, made.on_lost) == ("greet", None, True, "settle")
    assert made.__doc__ == "Say hello."
    assert repr(made) == "<agent 'greet' on a loop>"


def test_options_are_kept() -> None:
    @agent(name="front-desk", timeout=90, steerable=False, on_lost="resume")
    async def anything(state: ThreadState) -> None: ...

    assert (anything.name, anything.timeout, anything.steerable, anything.on_lost) == (
        "front-desk",
        90.0,
        False,
        "resume",
    )
    assert type(anything.timeout) is float


@pytest.mark.parametrize(
    ("function", "runs_on", "name"),
    [
        (greet, "loop", "greet"),
        (count, "worker", "count"),
        (Clerk(), "loop", "Clerk"),
        (Clerk().serve, "loop", "serve"),
        (Clerk().file, "worker", "file"),
        (functools.partial(Clerk.serve, Clerk()), "loop", "serve"),
        (functools.partial(functools.partial(Clerk().file, drawer="b")), "worker", "file"),
        (functools.partial(Clerk()), "loop", "Clerk"),
        (agent(greet, name="other"), "loop", "greet"),
    ],
)
def test_coroutine_functions_run_on_the_loop_and_plain_ones_on_a_worker(
    function: Callable[[ThreadState], None], runs_on: str, name: str
) -> None:
    made = agent(function)

    assert (made.runs_on, made.name) == (runs_on, name)
    assert isinstance(made.timeout, float | None)
    run(made)


def test_an_agent_is_still_its_function_for_its_own_tests() -> None:
    state = ThreadState(bare())

    asyncio.run(agent(greet)(state))
    agent(count)(state)

    assert state.context == {"greeted": 1, "counted": True}


def test_all_passes_of_an_execution_get_the_same_state() -> None:
    execution, made = bare(), agent(greet)

    run(made, execution)
    run(made, execution)

    assert ThreadState.of(execution).context == {"greeted": 2}


def test_each_execution_gets_a_state_of_its_own() -> None:
    clerk = Clerk()
    made = agent(clerk.serve)

    run(made)
    run(made)

    assert clerk.seen[0] is not clerk.seen[1]


def generator(state: ThreadState) -> Iterator[None]:
    yield


async def async_generator(state: ThreadState) -> AsyncIterator[None]:
    yield


class GeneratorClerk:
    def __call__(self, state: ThreadState) -> Iterator[None]:
        yield


class SpoiltRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "bad",
    [
        7, None.__class__, "support", Clerk, Clerk.serve, generator, async_generator, GeneratorClerk(), SpoiltRepr(),
        lambda: None, lambda state, more: None, lambda *, state: None, functools.partial(count, object()),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_cannot_take_one_state_and_return_nothing_is_refused_when_decorated(bad: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        agent(bad, name="bad")  # type: ignore[call-overload]

    assert refused.value.code == "invalid_agent"
    assert refused.value.details["value"]


def test_a_callable_without_a_readable_signature_is_taken() -> None:
    assert agent(dict.fromkeys, name="c").runs_on == "worker"  # type: ignore[type-var, arg-type]


@pytest.mark.parametrize("name", ["", " a", "größe", "x" * 129, 5, b"a"])
def test_a_name_must_be_an_id(name: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        agent(count, name=name)  # type: ignore[call-overload]

    assert refused.value.code == "invalid_id"


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidInput, match="lambda"):
        agent(lambda state: None)

    assert agent(lambda state: None, name="short").name == "short"


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan, True, "5", 10**400])
def test_a_timeout_is_a_finite_number_above_zero(timeout: object) -> None:
    with pytest.raises(InvalidInput, match="timeout") as refused:
        agent(timeout=timeout)(count)  # type: ignore[call-overload]

    assert refused.value.code == "invalid_agent"


@pytest.mark.parametrize(
    "option", [{"steerable": 1}, {"steerable": None}, {"on_lost": "retry"}, {"on_lost": None}, {"on_lost": []}]
)
def test_an_unknown_option_value_is_refused(option: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(option))) as refused:
        agent(count, **option)  # type: ignore[call-overload]

    assert refused.value.code == "invalid_agent"


def returning(value: object) -> FunctionAgent[None]:
    return agent(lambda state: value, name="odd")  # type: ignore[arg-type]


def awaited(value: object) -> FunctionAgent[None]:
    async def odd(state: ThreadState) -> object:
        return value

    return agent(odd)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [returning, awaited])
@pytest.mark.parametrize("value", [0, False, "", "text", [], "x" * 10_000, SpoiltRepr(), Exception("in a return")])
def test_an_agent_that_returns_something_fails_naming_the_shortened_value(
    make: Callable[[object], Made], value: object
) -> None:
    with pytest.raises(InvalidReturn, match="agent 'odd' must return None") as failed:
        run(make(value))

    assert isinstance(failed.value, CallerError)
    assert failed.value.code == "invalid_return"
    assert failed.value.details["agent"] == "odd"
    assert len(str(failed.value)) < 300


@pytest.mark.parametrize("make", [returning, awaited])
def test_a_returned_coroutine_is_named_and_leaves_no_warning(make: Callable[[object], Made]) -> None:
    state = ThreadState(bare())

    with pytest.raises(InvalidReturn, match="async def"):
        run(make(greet(state)))


def test_a_returned_coroutine_that_runs_already_is_left_alone() -> None:
    @agent
    def odd(state: ThreadState) -> None:
        return running  # type: ignore[return-value]

    async def waits() -> None:
        await asyncio.sleep(0)

    running = waits()
    running.send(None)

    with pytest.raises(InvalidReturn):
        run(odd)
    with pytest.raises(StopIteration):
        running.send(None)


@pytest.mark.parametrize("make", [returning, awaited])
@pytest.mark.parametrize("value", [generator, async_generator])
def test_a_returned_generator_is_named(make: Callable[[object], Made], value: Callable[[object], object]) -> None:
    with pytest.raises(InvalidReturn, match="nothing runs a generator"):
        run(make(value(None)))


def test_an_error_of_the_function_passes_as_it_is() -> None:
    @agent
    def breaks(state: ThreadState) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run(breaks)


# On a real runtime


def test_an_agent_that_returns_something_fails_its_execution_by_that_name(store: Store) -> None:
    with Runtime(store, agents=[returning("text"), agent(awaits_nothing)]) as runtime:
        for name in ("odd", "awaits_nothing"):
            thread = runtime.create_thread(name).result(60)
            record = thread.wait(thread.submit("go").result(60)).result(60)

            assert (record.status, record.reason) == ("failed", "step_error")
            assert record.error is not None
            assert record.error.type == "InvalidReturn"
            assert "'text'" in record.error.message


async def awaits_nothing(state: ThreadState) -> None:
    return "text"  # type: ignore[return-value]


def test_an_agent_declared_unsteerable_takes_no_steer(stage: Stage) -> None:
    begun: Reply[None] = Reply()
    steered: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        yield steered

    execution_id = stage(script, steerable=False).thread.submit("go").result(60).execution_id
    assert execution_id is not None
    begun.result(60)
    receipt = stage.thread.steer(execution_id, "shorter").result(60)
    steered.set(None)

    assert receipt.disposition == "active_input_not_steerable"
    assert stage.end(execution_id).status == "succeeded"


def test_an_agent_past_its_timeout_fails_with_that_reason(stage: Stage) -> None:
    begun: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        begun.set(None)
        yield state.sleep(3600)

    execution_id = stage(script, timeout=5).thread.submit("go").result(60).execution_id
    begun.result(60)
    stage.clock.advance(5)
    record = stage.end(execution_id)

    assert (record.status, record.reason) == ("failed", "timeout")
    assert record.error is not None
    assert record.error.type == "ExecutionTimeout"


def test_agents_run_where_they_say(store: Store) -> None:
    where: dict[str, str] = {}

    @agent
    async def on_loop(state: ThreadState) -> None:
        where["loop"] = threading.current_thread().name
        asyncio.get_running_loop()

    @agent
    def on_worker(state: ThreadState) -> None:
        where["worker"] = threading.current_thread().name

    with Runtime(store, agents=[on_loop, on_worker], loop="own") as runtime:
        for name in ("on_loop", "on_worker"):
            thread = runtime.create_thread(name).result(60)
            assert thread.wait(thread.submit("go").result(60)).result(60).status == "succeeded"

    assert where["loop"].startswith("treadle-loop")
    assert where["worker"].startswith("treadle-body")
