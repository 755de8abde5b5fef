"""Tests agents/at_rest.py: a thread's state without an execution, for every verb, beside one that runs and after the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.stage import PATIENCE_S
from treadle.actors import Reply
from treadle.agents import ThreadState
from treadle.protocol.errors import InvalidInput, RuntimeClosed, ThreadNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.agents.declared import Declared
    from tests.agents.stage import Replies, Stage

READS: list[Callable[[ThreadState], Reply[Any]]] = [
    lambda state: state.get_messages(),
    lambda state: state.get_message("m"),
    lambda state: state.get_value("k"),
    lambda state: state.list_values(),
    lambda state: state.env_type("X"),
    lambda state: state.get_logs(),
    lambda state: state.status(),
]
WRITES: list[Callable[[ThreadState], Reply[Any]]] = [
    lambda state: state.inject_message("user", "x"),
    lambda state: state.queue_message("x"),
    lambda state: state.update_message("m", content="x"),
    lambda state: state.delete_message("m"),
    lambda state: state.set_value("k", 1),
    lambda state: state.set_env("X", "1"),
    lambda state: state.log("info", "x"),
    lambda state: state.emit("x"),
    lambda state: state.terminate(),
]


def nothing(state: ThreadState) -> Replies:
    yield state.status()


def test_every_verb_that_needs_an_execution_says_so(declared: Declared) -> None:
    """Contract B at rest: the rest of the surface is there."""
    rest = declared(nothing).rest()

    for verb in (rest.checkpoint, lambda: rest.sleep(1), lambda: rest.request("approval"), rest.stop_session):
        with pytest.raises(InvalidInput) as refused:
            verb().result(PATIENCE_S)  # type: ignore[operator]
        assert refused.value.code == "no_active_execution"
    for read in READS:
        read(rest).result(PATIENCE_S)
    assert "at rest" in repr(rest)
    assert declared.thread.id in repr(rest._access)


def test_what_is_written_at_rest_belongs_to_no_execution(stage: Stage) -> None:
    """Contract D.3 inject_message: also while an execution runs, and for a plain callable's thread."""
    begun: Reply[None] = Reply()
    written: Reply[None] = Reply()

    def script(state: ThreadState) -> Replies:
        assert state.execution is not None
        begun.set(None)
        yield written
        assert [one.content for one in state.execution.message_history] == ["go", "from outside"]

    receipt = stage(script).thread.submit("go").result(PATIENCE_S)
    begun.result(PATIENCE_S)
    rest = ThreadState.at_rest(stage.thread)
    said = rest.inject_message("system", "from inside").result(PATIENCE_S)
    rest.update_message(said.id, content="from outside").result(PATIENCE_S)
    rest.set_value("k", 1).result(PATIENCE_S)
    written.set(None)

    assert stage.thread.wait(receipt).result(PATIENCE_S).error is None
    added = [
        event.to_wire() for event in _events(stage) if event.to_wire()["type"] in ("MESSAGE_ADDED", "MESSAGE_UPDATED")
    ]
    assert [one["execution_id"] for one in added] == [None, None]


def _events(stage: Stage) -> list[Any]:
    found: list[Any] = []
    with stage.thread.events("1:0") as events:
        for event in events:
            found.append(event)
            if event.to_wire()["type"] == "THREAD_EXECUTION_FINISHED":
                break
    return found


@pytest.mark.parametrize("gone", ["deleted", "closed"])
def test_every_verb_of_a_thread_that_is_gone_fails_through_its_reply(declared: Declared, gone: str) -> None:
    declared(nothing)
    rest = declared.rest()
    if gone == "deleted":
        declared.runtime.delete_thread(declared.thread.id).result(PATIENCE_S)
    else:
        declared.close()

    for verb in (*READS, *WRITES):
        with pytest.raises((ThreadNotFound, RuntimeClosed)):
            verb(rest).result(PATIENCE_S)
