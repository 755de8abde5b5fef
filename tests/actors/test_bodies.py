"""What a runtime asks of its agents beside running them: a form, a look at each other, a word on new threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Execution, Runtime, Thread
from treadle.actors.bodies import bind, by_name
from treadle.actors.execution import current_execution
from treadle.actors.testing import Stage
from treadle.protocol.errors import InvalidDefinitions, InvalidInput, NoWorker
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    Enter = Callable[..., Stage]


class Looking:
    """A body that looks at all bodies, hears of its threads, and returns at once."""

    runs_on = "loop"

    def __init__(self, name: str = "looking", problems: list[str] | BaseException | None = None) -> None:
        self.name = name
        self.problems = problems or []
        self.seen: list[list[str]] = []
        self.heard: list[Thread] = []

    def bind(self, bodies: Mapping[str, Any]) -> list[str]:
        self.seen.append(sorted(bodies))
        if isinstance(self.problems, BaseException):
            raise self.problems
        return self.problems

    def created(self, thread: Thread) -> None:
        assert current_execution.get() is None
        self.heard.append(thread)

    async def run(self, execution: Execution) -> None:
        """Return at once."""


def test_every_body_looks_at_all_of_them_before_the_store_is_opened() -> None:
    bodies = [Looking("a"), Looking("b")]
    with Runtime(MemoryStore(), agents=bodies):
        assert [body.seen for body in bodies] == [[["a", "b"]], [["a", "b"]]]


def test_all_problems_are_told_at_once_each_of_them_once(tmp_path: Path) -> None:
    bodies = [Looking("a", ["one", "two"]), Looking("b", ["two", "three"]), Looking("c", ValueError("broken"))]
    store = LmdbStore(tmp_path / "store")
    with pytest.raises(InvalidDefinitions) as raised, Runtime(store, agents=bodies):
        pass

    assert raised.value.code == "invalid_definitions"
    assert raised.value.details["problems"] == [
        "one", "two", "three", "agent 'c' could not be bound: ValueError: 'broken'",
    ]  # fmt: skip
    assert not (tmp_path / "store").exists()


def test_a_runtime_that_was_not_opened_opens_once_its_agents_fit(tmp_path: Path) -> None:
    body = Looking("a", ["one"])
    store = LmdbStore(tmp_path / "store")
    runtime = Runtime(store, agents=[body])
    with pytest.raises(InvalidDefinitions):
        runtime.open()
    runtime.close()
    body.problems = []
    with runtime:
        assert runtime.create_thread("a").result(60).id


def test_bodies_without_the_optional_members_are_left_alone() -> None:
    class Plain:
        name, runs_on = "plain", "worker"

        def run(self, execution: Execution) -> None: ...

    bind({"plain": Plain()})  # type: ignore[dict-item]


@pytest.mark.parametrize("wrong", [None, "x", object(), type("NoRun", (), {"name": "x", "runs_on": "loop"})()])
def test_what_is_no_body_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        by_name([wrong])
    assert raised.value.code == "invalid_agent"


class Fields(Looking):
    """A body that gives something where it is iterated over, as a declared agent does."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        yield "name", self.name


@pytest.mark.parametrize("wrong", [None, 5, Looking("alone"), Fields("alone")], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_list_of_bodies_is_refused_with_a_word_on_that(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"agents is a list, agents=\[\.\.\.\]") as raised:
        by_name(wrong)
    assert raised.value.code == "invalid_agent"


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two agents"):
        by_name([Looking("a"), Looking("a")])  # type: ignore[list-item]


def test_an_agent_hears_of_its_new_thread_once_it_is_durable(stage: Enter) -> None:
    body, other = Looking(), Looking("other")
    on = stage(body, other)
    reply = on.runtime.create_thread("looking", thread_id="t")
    on.act()
    assert body.heard == []
    thread = on.ask(reply)
    on.settle()

    assert (body.heard, other.heard) == ([thread], [])
    on.reopen()
    assert body.heard == [thread]


def test_what_it_does_for_the_thread_is_done_through_the_handle(stage: Enter) -> None:
    class Greeting(Looking):
        def created(self, thread: Thread) -> None:
            thread.inject_message("system", "hello").result()

    on = stage(Greeting())
    thread = on.thread()
    on.settle()
    assert [message.content for message in thread.messages().result().messages] == ["hello"]


def test_what_it_returns_to_wait_for_runs_on_the_loop(stage: Enter) -> None:
    class Greeting(Looking):
        def created(self, thread: Thread) -> Any:
            async def greet() -> None:
                await thread.inject_message("system", "hello")

            return greet()

    on = stage(Greeting())
    thread = on.thread()
    on.settle()
    assert [message.content for message in thread.messages().result().messages] == ["hello"]


@pytest.mark.parametrize("kind", ["plain", "awaited"])
def test_an_error_of_it_is_reported_and_the_thread_is_there(stage: Enter, kind: str) -> None:
    class Failing(Looking):
        def created(self, thread: Thread) -> Any:
            async def fail() -> None:
                raise ValueError("no greeting")

            if kind == "awaited":
                return fail()
            raise ValueError("no greeting")

    on = stage(Failing())
    thread = on.thread(thread_id="t")
    on.settle()
    on.ask(thread.inject_message("user", "still here"))
    assert [(name, details["thread_id"]) for name, details in on.reports] == [("created_failed", "t")]
    on.reports.clear()


def test_a_pool_that_refuses_is_reported_and_the_thread_is_there(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NoWorker("none is left (on purpose)")

    on = stage(Looking())
    monkeypatch.setattr(on.pool, "submit", refuse)
    assert on.thread(thread_id="t").id == "t"
    assert [name for name, _ in on.reports] == ["created_failed"]
    on.reports.clear()


def test_a_thread_that_was_not_created_is_not_told(stage: Enter) -> None:
    body = Looking()
    on = stage(body)
    reply = on.runtime.create_thread("looking")
    on.act()
    on.refuse()
    on.settle()
    assert reply.error() is not None
    assert body.heard == []
