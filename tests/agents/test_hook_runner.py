"""Tests agents/hook_runner.py: order, failures, hangs on a clock that stands still, and what goes further."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from treadle.actors.fake_clock import FakeClock
from treadle.actors.fence import ExecutionCancelled, ExecutionFenced
from treadle.actors.reply import Reply
from treadle.actors.workers import WorkerPool
from treadle.agents.hook_runner import HookRunner, in_hook
from treadle.agents.hooks import HOOKS, BlockRun, HookBlocked, HookTimedOut, markdown
from treadle.agents.models.seam import ModelMessage
from treadle.protocol.messages import Message

PATIENCE_S = 60.0


class Given(NamedTuple):
    """A hook as a definition has it."""

    hook: str
    function: Callable[..., Any]
    id: str = "h1"


class Scene:
    """A runner on a fake clock, and what it logged."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pool = WorkerPool()
        self.logged: list[dict[str, object]] = []

    def runner(self, *hooks: Given, prompt: tuple[Given, ...] = ()) -> HookRunner:
        return HookRunner(
            hooks, prompt, timers=self.clock.timers(), pool=self.pool, log=lambda _text, data: self.logged.append(data)
        )

    def run(self, runner: HookRunner, kind: str, *args: object, refusing: bool = False) -> object:
        async def body() -> object:
            return await asyncio.wait_for(runner.run(kind, "the state", *args, refusing=refusing), PATIENCE_S)

        return asyncio.run(body())

    def run_late(self, runner: HookRunner, kind: str, *args: object, seconds: float, refusing: bool = False) -> object:
        """Run while another worker moves the clock once the time limit is set."""

        def advance() -> None:
            self.clock.wait_for_timers()
            self.clock.advance(seconds)

        worker = threading.Thread(target=advance)
        worker.start()
        try:
            return self.run(runner, kind, *args, refusing=refusing)
        finally:
            worker.join()


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.pool.close()


def message(content: str, **more: Any) -> Message:
    return Message(id="m1", role="user", content=content, created_at=1, **more)


# Every kind with something to hand in, something to hand back, and garbage.
SAMPLES: dict[str, tuple[tuple[object, ...], object]] = {
    "after_thread_created": ((), None),
    "after_system_message": (("be kind",), "be brief"),
    "filter_messages": (([message("a")],), [message("b")]),
    "prefilter_llm_history": (([ModelMessage("user", "a")],), [ModelMessage("user", "b")]),
    "before_create_message": (({"id": "m1", "content": "a"},), {"id": "m1", "content": "b"}),
    "after_create_message": ((message("a"),), None),
    "before_update_message": (("m1", {"content": "a"}), {"content": "b"}),
    "after_update_message": (("m1", {"content": "a"}), None),
    "before_store_tool_result": (({"id": "c1"}, "old"), "new"),
    "after_tool_call_success": (({"id": "c1"}, "old"), "new"),
    "after_tool_call_failure": (({"id": "c1"}, "old"), "new"),
    "tool_call_started": (({"id": "c1"},), None),
    "tool_call_done": (({"id": "c1"}, "old"), None),
}
CHANGING = [name for name, kind in HOOKS.items() if kind.changes]


def original(kind: str) -> object:
    place = HOOKS[kind].place
    assert place is not None
    return SAMPLES[kind][0][place]


def test_every_kind_of_the_table_has_a_sample_and_a_line_in_the_page() -> None:
    assert set(SAMPLES) == set(HOOKS)
    assert all(f"| `{name}` |" in markdown() for name in HOOKS)


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("world", ["coroutine", "function"])
def test_a_hook_gets_the_state_and_what_its_kind_takes(scene: Scene, kind: str, world: str) -> None:
    args, back = SAMPLES[kind]
    got: list[tuple[object, ...]] = []

    async def coroutine(*given: object) -> object:
        got.append(given)
        return back

    def function(*given: object) -> object:
        got.append(given)
        return back

    runner = scene.runner(Given(kind, coroutine if world == "coroutine" else function))
    result = scene.run(runner, kind, *args)

    assert got == [("the state", *args)]
    assert result == (back if kind in CHANGING else None)
    assert scene.logged == []


@pytest.mark.parametrize("kind", HOOKS)
def test_without_a_hook_the_original_comes_back(scene: Scene, kind: str) -> None:
    result = scene.run(scene.runner(), kind, *SAMPLES[kind][0])

    assert result == (original(kind) if kind in CHANGING else None)


def test_hooks_of_a_kind_run_in_the_order_of_their_declaration(scene: Scene) -> None:
    """Contract E.7 composition: each gets what the one before it returned."""
    hooks = [Given("after_system_message", lambda _state, text, n=n: f"{text}{n}", f"h{n}") for n in range(3)]

    assert scene.run(scene.runner(*hooks), "after_system_message", "-") == "-012"


def test_the_hooks_of_a_prompt_stand_in_for_the_agents_of_the_same_kind(scene: Scene) -> None:
    """Contract E.7 override: by kind; others stay the agent's."""
    agents = (
        Given("after_system_message", lambda _state, _text: "agent"),
        Given("filter_messages", lambda _state, _messages: []),
    )
    prompts = (Given("after_system_message", lambda _state, _text: "prompt"),)
    runner = scene.runner(*agents, prompt=prompts)

    assert scene.run(runner, "after_system_message", "-") == "prompt"
    assert scene.run(runner, "filter_messages", [message("a")]) == []


class Secretive(Exception):
    """One that does not let anybody look at it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is mine")


class Broken(Exception):
    block = property(lambda self: 1 / 0)

    def __str__(self) -> str:
        raise RuntimeError("no text")


ERRORS = [
    ValueError("no"),
    Broken(),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    StopIteration(),
]


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("world", ["coroutine", "function"])
def test_a_hook_that_raises_is_logged_and_the_original_goes_on(
    scene: Scene, kind: str, error: BaseException, world: str
) -> None:
    """Contract E.7 failure: whatever it raises; the next hook gets the original."""

    async def coroutine(*_given: object) -> None:
        raise error

    def function(*_given: object) -> None:
        raise error

    args, back = SAMPLES[kind]
    good = Given(kind, lambda *_given: back, "good")
    runner = scene.runner(Given(kind, coroutine if world == "coroutine" else function, "bad"), good)

    assert scene.run(runner, kind, *args) == (back if kind in CHANGING else None)
    (logged,) = scene.logged
    assert (logged["hook"], logged["kind"], logged["how"]) == ("bad", kind, "raised")


def test_a_hook_whose_error_hides_its_attributes_is_logged_too(scene: Scene) -> None:
    """Contract E.7 failure: by its type, which nothing can hide."""

    async def hide(*_given: object) -> None:
        raise Secretive

    args, _ = SAMPLES["after_system_message"]
    assert scene.run(scene.runner(Given("after_system_message", hide, "bad")), "after_system_message", *args) == args[0]
    assert scene.logged[0]["error_type"] == "Secretive"


@pytest.mark.parametrize("kind", CHANGING)
@pytest.mark.parametrize("garbage", [7, len, b"x", [7], {"id": len}, [None], ...], ids=repr)
def test_a_hook_that_returns_garbage_is_logged_and_the_original_goes_on(
    scene: Scene, kind: str, garbage: object
) -> None:
    """Contract E.7 failure: what the kind cannot take is no result."""
    runner = scene.runner(Given(kind, lambda *_given: garbage))

    assert scene.run(runner, kind, *SAMPLES[kind][0]) == original(kind)
    assert [one["how"] for one in scene.logged] == ["garbage"]


class Unseen:
    """What would end the process, once it is looked at."""

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(name)

    def __repr__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize("kind", CHANGING)
def test_garbage_that_cannot_be_looked_at_is_logged_like_any_other(scene: Scene, kind: str) -> None:
    async def hostile(*_given: object) -> object:
        return Unseen()

    assert scene.run(scene.runner(Given(kind, hostile)), kind, *SAMPLES[kind][0]) == original(kind)
    assert [one["how"] for one in scene.logged] == ["garbage"]


class Markup(str):
    __slots__ = ()

    def __add__(self, other: str) -> str:
        return Markup(super().__add__(other.upper()))


def test_a_text_of_its_own_kind_is_taken_as_its_characters(scene: Scene) -> None:
    kind = "after_system_message"
    runner = scene.runner(Given(kind, lambda _state, text: Markup(f"{text}!")))

    assert type(scene.run(runner, kind, *SAMPLES[kind][0])) is str


@pytest.mark.parametrize("kind", CHANGING)
def test_nothing_is_garbage_except_where_it_drops_a_call(scene: Scene, kind: str) -> None:
    """Contract E.7 after_tool_call_success; E.7 after_tool_call_failure: None takes the call out."""
    drops = kind.startswith("after_tool_call")
    runner = scene.runner(Given(kind, lambda *_given: None))

    assert scene.run(runner, kind, *SAMPLES[kind][0]) == (None if drops else original(kind))
    assert bool(scene.logged) is not drops


def test_after_a_drop_no_further_hook_is_asked(scene: Scene) -> None:
    asked: list[object] = []
    kind = "after_tool_call_success"
    runner = scene.runner(Given(kind, lambda *_given: None), Given(kind, lambda *given: asked.append(given)))

    assert scene.run(runner, kind, *SAMPLES[kind][0]) is None
    assert asked == []


def test_a_hook_cannot_give_a_message_another_id_or_other_calls(scene: Scene) -> None:
    draft = {"id": "m1", "content": "a", "tool_calls": "[]", "tool_call_id": None}
    for change in ({"id": "m2"}, {"tool_calls": None}, {"tool_call_id": "c"}):
        runner = scene.runner(Given("before_create_message", lambda _state, given, c=change: {**given, **c}))
        assert scene.run(runner, "before_create_message", draft) == draft
    assert len(scene.logged) == 3


@pytest.mark.parametrize("world", ["coroutine", "function", "stubborn"])
def test_a_hook_that_hangs_is_left_behind_when_its_time_is_over(scene: Scene, world: str) -> None:
    """Contract E.7 time limit: ten seconds on the runtime's clock; the original goes on."""
    release = threading.Event()
    cancelled: list[bool] = []

    async def coroutine(_state: object, _text: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            if world != "stubborn":
                raise
        return "too late"

    def function(_state: object, _text: str) -> str:
        release.wait(PATIENCE_S)
        return "too late"

    hook = Given("after_system_message", function if world == "function" else coroutine)
    try:
        assert scene.run_late(scene.runner(hook), "after_system_message", "-", seconds=10.0) == "-"
    finally:
        release.set()

    assert [one["how"] for one in scene.logged] == ["timed_out"]
    if world != "function":
        assert cancelled == [True]


def test_a_hook_within_its_time_is_waited_for(scene: Scene) -> None:
    begun: Reply[None] = Reply()

    def slow(_state: object, text: str) -> str:
        begun.result(PATIENCE_S)
        return f"{text}!"

    def advance() -> None:
        scene.clock.wait_for_timers()
        scene.clock.advance(9.9)
        begun.set(None)

    worker = threading.Thread(target=advance)
    worker.start()
    assert scene.run(scene.runner(Given("after_system_message", slow)), "after_system_message", "-") == "-!"
    worker.join()
    assert scene.logged == []


def test_the_worker_of_a_hook_that_hangs_is_replaced(scene: Scene) -> None:
    scene.pool = WorkerPool(maximum=1)
    release = threading.Event()
    hang = Given("tool_call_started", lambda *_given: release.wait(PATIENCE_S), "hang")
    good = Given("tool_call_started", lambda *_given: done.append(1), "good")
    done: list[int] = []

    try:
        scene.run_late(scene.runner(hang), "tool_call_started", {}, seconds=10.0)
        scene.run(scene.runner(good), "tool_call_started", {})
        assert done == [1]
    finally:
        release.set()


def test_what_a_hook_changes_in_place_is_not_changed_unless_it_returns_it(scene: Scene) -> None:
    """Contract B request is a snapshot: neither lists nor metadata that a hook is lent are the original."""
    kept = message("a", metadata={"n": [1]})
    given = [kept]

    def vandal(_state: object, messages: list[Message]) -> None:
        assert messages[0].metadata is not None
        messages[0].metadata["n"].append(2)
        messages.clear()

    assert scene.run(scene.runner(Given("filter_messages", vandal)), "filter_messages", given) == [kept]
    assert kept.metadata == {"n": [1]}
    assert given == [kept]


def test_the_error_of_a_before_create_hook_reaches_who_injects(scene: Scene) -> None:
    """Contract E.7 before_create_message: it is raised there, and only logged everywhere else."""

    def refuse(*_given: object) -> None:
        raise PermissionError("not here")

    runner = scene.runner(Given("before_create_message", refuse))
    args = SAMPLES["before_create_message"][0]

    with pytest.raises(PermissionError, match="not here"):
        scene.run(runner, "before_create_message", *args, refusing=True)
    assert scene.run(runner, "before_create_message", *args) == args[0]
    assert len(scene.logged) == 2


def test_a_before_create_hook_that_hangs_prevents_as_one_that_raises(scene: Scene) -> None:
    async def hang(*_given: object) -> None:
        await asyncio.Event().wait()

    runner = scene.runner(Given("before_create_message", hang))

    with pytest.raises(HookTimedOut) as refused:
        scene.run_late(runner, "before_create_message", {"id": "m1"}, seconds=10.0, refusing=True)
    assert refused.value.details == {"hook": "h1", "kind": "before_create_message", "seconds": 10.0}


class AsksToo(Exception):
    block = True


@pytest.mark.parametrize("error", [BlockRun("enough"), AsksToo("enough")])
def test_a_prefilter_error_that_asks_for_it_blocks_the_run(scene: Scene, error: Exception) -> None:
    """Contract E.7 block: by `block` on the error, whatever its class."""

    def stop(*_given: object) -> None:
        raise error

    runner = scene.runner(Given("prefilter_llm_history", stop, "guard"))
    with pytest.raises(HookBlocked, match="enough") as blocked:
        scene.run(runner, "prefilter_llm_history", [])
    assert blocked.value.details == {"hook": "guard", "kind": "prefilter_llm_history"}

    # Nowhere else does it mean anything.
    runner = scene.runner(Given("filter_messages", stop))
    assert scene.run(runner, "filter_messages", []) == []


@pytest.mark.parametrize("error", [ExecutionCancelled("e1"), ExecutionFenced("e1")])
def test_the_end_of_the_execution_passes_through_a_hook(scene: Scene, error: BaseException) -> None:
    async def waits(*_given: object) -> None:
        raise error

    with pytest.raises(type(error)):
        scene.run(scene.runner(Given("tool_call_started", waits)), "tool_call_started", {})
    assert scene.logged == []


def test_a_cancelled_run_cancels_the_hook_it_waits_for(scene: Scene) -> None:
    ended: list[str] = []

    async def hook(*_given: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hook")

    async def body() -> None:
        task = asyncio.create_task(runner.run("tool_call_started", None, {}))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ended == ["hook"]

    begun = asyncio.Event()
    runner = scene.runner(Given("tool_call_started", hook))
    asyncio.run(body())
    assert scene.logged == []


def test_inside_a_hook_there_are_no_hooks(scene: Scene) -> None:
    """Contract E.7 composition: what a hook does to the thread calls no hook again."""
    seen: list[tuple[bool, bool]] = []

    async def hook(*_given: object) -> None:
        seen.append((in_hook.get(), runner.has("tool_call_started")))
        await runner.run("tool_call_started", None, {})

    runner = scene.runner(Given("tool_call_started", hook))
    assert runner.has("tool_call_started")
    scene.run(runner, "tool_call_started", {})

    assert seen == [(True, False)]


def test_a_secret_in_an_error_reaches_the_process_log_by_no_text(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    def leak(*_given: object) -> None:
        raise ValueError("sesame")

    scene.run(scene.runner(Given("tool_call_started", leak)), "tool_call_started", {})

    assert "ValueError" in caplog.text
    assert "sesame" not in caplog.text
