"""What a body reaches of its own thread: answers come through replies, and nothing passes the fence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import ExecutionFenced
from treadle.actors.own_thread import answer
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread

    Enter = Callable[..., Stage]


def begun(stage: Enter) -> tuple[Stage, Puppet, Thread]:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread(thread_id="t")
    on.ask(thread.submit("go"))
    on.settle()
    return on, puppet, thread


def test_an_error_of_a_read_comes_through_its_reply() -> None:
    def refuse() -> None:
        raise InvalidInput("no", code="invalid_page")

    reply = answer(refuse)

    assert reply.done()
    with pytest.raises(InvalidInput):
        reply.result()


def test_an_error_that_is_a_bug_comes_at_the_call() -> None:
    with pytest.raises(ZeroDivisionError):
        answer(lambda: 1 / 0)


def test_a_body_that_is_over_writes_nothing_to_the_thread_that_it_owned(stage: Enter) -> None:
    on, puppet, _ = begun(stage)
    execution = puppet.execution
    puppet.returns()
    on.settle()

    for reply in (execution.append({"id": "m", "role": "assistant", "content": "late"}), execution.set_value("k", 1)):
        assert isinstance(reply.error(), ExecutionFenced)


def test_a_frame_of_a_body_is_shown_to_those_who_watch_and_stored_nowhere(stage: Enter) -> None:
    on, puppet, thread = begun(stage)
    execution = puppet.execution
    chunk = {"type": "message_chunk", "message_id": "m", "depth": 0, "chunk": "a"}

    assert execution.emit(chunk) is False
    with thread.stream() as stream:
        stream.next(0)
        assert execution.emit(chunk) is True
        assert stream.next(0) == chunk
        assert on.settle() == 0
        assert thread.state().result().cursor == stream.cursor


def test_nothing_is_shown_of_an_execution_that_is_over(stage: Enter) -> None:
    on, puppet, thread = begun(stage)
    execution = puppet.execution
    with thread.stream() as stream:
        stream.next(0)
        puppet.returns()
        on.settle()
        assert execution.emit({"type": "late"}) is False


def test_a_frame_that_is_none_is_refused_whether_or_not_anybody_watches(stage: Enter) -> None:
    _, puppet, _ = begun(stage)
    with pytest.raises(InvalidInput):
        puppet.execution.emit({"type": "thread_status"})
