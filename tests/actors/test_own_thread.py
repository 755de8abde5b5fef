"""What a body reaches of its own thread: answers come through replies, and nothing passes the fence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import ExecutionFenced
from treadle.actors.own_thread import answer
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput
from treadle.protocol.events import ThreadCreated

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


def test_no_body_reads_or_sets_a_value_of_the_runtimes_own(stage: Enter) -> None:
    _, puppet, _ = begun(stage)
    for reply in (puppet.execution.set_value("treadle:session", 1), puppet.execution.get_value("treadle:session")):
        error = reply.error()
        assert isinstance(error, InvalidInput)
        assert error.code == "reserved_name"


def test_an_internal_value_is_durable_and_no_user_sees_it(stage: Enter) -> None:
    on, puppet, thread = begun(stage)
    execution = puppet.execution
    on.ask(execution.set_value("mine", 1))
    on.ask(execution.set_internal("treadle:session", {"turns": 2}))

    assert execution.get_internal("treadle:session").result() == {"turns": 2}
    assert thread.get_internal("treadle:session").result() == {"turns": 2}
    assert execution.list_values().result() == thread.list_values().result() == ([("mine", 1)], False)

    on.ask(execution.set_internal("treadle:session", None))
    assert execution.get_internal("treadle:session").result() is None
    on.reopen()
    assert on.runtime.thread("t").list_values().result().values == [("mine", 1)]


def test_the_frame_of_an_internal_value_moves_the_cursor_and_shows_nothing(stage: Enter) -> None:
    on, puppet, thread = begun(stage)
    with thread.stream() as stream:
        first = stream.next(0)
        assert first is not None
        on.ask(puppet.execution.set_internal("treadle:secret", "hidden"))
        on.ask(puppet.execution.set_value("shown", 1))
        internal, shown = stream.next(0), stream.next(0)
    assert internal is not None
    assert shown is not None
    assert set(internal) == {"type", "cursor", "created_at"}
    assert internal["type"] == "internal"
    assert "secret" not in internal.text
    assert (shown["type"], shown["key"]) == ("VALUE_CHANGED", "shown")
    sequences = [int(str(frame["cursor"]).split(":")[1]) for frame in (first, internal, shown)]
    assert sequences == [sequences[0], sequences[0] + 1, sequences[0] + 2]
    with thread.stream(after=first["cursor"]) as again:  # type: ignore[arg-type]
        again.next(0)
        assert [again.next(0), again.next(0)] == [internal, shown]


def test_events_in_this_process_show_no_more_than_frames_do(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="t", env={"TOKEN": "hunter2"})
    on.ask(thread.set_internal("treadle:env", {"A": "hunter2"}))
    with thread.events() as live:
        before = [live.next(0), live.next(0)]
        on.ask(thread.set_internal("treadle:env", None))
        after = live.next(0)
    with thread.events() as replayed:
        again = [replayed.next(0) for _ in range(3)]

    assert again == [*before, after]
    assert "hunter2" not in str(again)
    assert "treadle:" not in str(again)
    created, *changed = again
    assert created is not None and isinstance(created.event, ThreadCreated)
    assert created.event.env == {"TOKEN": ""}
    assert [one is not None and one.event.type for one in changed] == ["internal", "internal"]
    assert thread.get_internal("treadle:env").result() is None


@pytest.mark.parametrize("key", ["session", "", "treadle:" + "x" * 256, 5])
def test_an_internal_key_is_short_and_marked(stage: Enter, key: str) -> None:
    _, puppet, thread = begun(stage)
    for reply in (
        puppet.execution.set_internal(key, 1), puppet.execution.get_internal(key), thread.set_internal(key, 1),
        thread.get_internal(key),
    ):  # fmt: skip
        assert isinstance(reply.error(), InvalidInput)


def test_an_internal_value_is_fenced_with_its_body_and_set_from_outside_at_rest(stage: Enter) -> None:
    on, puppet, thread = begun(stage)
    execution = puppet.execution
    puppet.returns()
    on.settle()

    assert isinstance(execution.set_internal("treadle:x", 1).error(), ExecutionFenced)
    on.ask(thread.set_internal("treadle:x", 2))
    assert thread.get_internal("treadle:x").result() == 2
