"""What a handle shows and reads without the thread's actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput, LimitExceeded, RuntimeClosed, ThreadNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


def test_an_event_is_emitted_at_rest_too(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="t")

    assert thread.emit("moved", {"to": 1}) is False
    with thread.stream() as stream:
        stream.next(0)
        assert thread.emit("moved", {"to": 1}) is True
        assert thread.emit("done") is True
        assert stream.next(0) == {"type": "event", "event": "moved", "data": {"to": 1}}
        assert stream.next(0) == {"type": "event", "event": "done", "data": None}


def test_an_event_is_emitted_while_an_execution_runs(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="t")
    on.ask(thread.submit("go"))
    with thread.stream() as stream:
        stream.next(0)
        assert thread.emit("x", None)
        frame = stream.next(0)
        assert frame is not None
        assert frame["event"] == "x"


def test_nobody_watches_a_thread_that_is_not(stage: Enter) -> None:
    on = stage(Puppet())
    with pytest.raises(ThreadNotFound):
        on.runtime.thread("nobody").emit("x")


def test_what_is_no_event_is_refused_at_the_call(stage: Enter) -> None:
    thread = stage(Puppet()).thread(thread_id="t")
    with pytest.raises(InvalidInput):
        thread.emit("")
    with pytest.raises(LimitExceeded):
        thread.emit("x", "y" * (1 << 20))


def test_nothing_is_emitted_once_the_runtime_closes(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="t")
    on.services.closing = True
    with pytest.raises(RuntimeClosed):
        thread.emit("x")


def test_a_handle_reads_and_sets_no_value_of_the_runtimes_own(stage: Enter) -> None:
    thread = stage(Puppet()).thread(thread_id="t")
    for reply in (thread.get_value("treadle:x"), thread.set_value("treadle:x", 1)):
        error = reply.error()
        assert isinstance(error, InvalidInput)
        assert error.code == "reserved_name"


def test_values_are_listed_by_pages_and_searched(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="t")
    for key in ("b", "a", "ab", "k" * 300):
        on.ask(thread.set_value(key, {"of": key[:2]}))
    on.ask(thread.set_value("b", None))

    first = thread.list_values(limit=1).result()
    assert ([entry.key for entry in first.values], first.has_more) == (["a"], True)
    rest = thread.list_values(offset=1).result()
    assert ([entry.key for entry in rest.values], rest.has_more) == (["ab", "k" * 300], False)
    assert [entry.key for entry in thread.list_values(search="b").result().values] == ["ab"]
    assert rest.values[0].value == {"of": "ab"}


@pytest.mark.parametrize("options", [{"limit": 201}, {"limit": -1}, {"offset": -1}, {"search": ""}, {"search": 5}])
def test_a_page_of_values_is_refused_beyond_its_bounds(stage: Enter, options: dict[str, object]) -> None:
    thread = stage(Puppet()).thread(thread_id="t")
    assert isinstance(thread.list_values(**options).error(), InvalidInput)  # type: ignore[arg-type]


def test_the_variables_of_a_thread_are_read_by_those_who_run_it_and_shown_to_nobody(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread(thread_id="t", env={"TOKEN": "hunter2", "A": "b"})
    on.ask(thread.submit("go"))
    on.settle()

    assert thread.environment().result() == puppet.execution.environment() == {"TOKEN": "hunter2", "A": "b"}
    with thread.stream(after="1:0") as stream:
        frames = [stream.next(0), stream.next(0)]
    assert frames[1] is not None
    assert (frames[1]["type"], frames[1]["env"]) == ("THREAD_CREATED", ["A", "TOKEN"])
    assert not any("hunter2" in frame.text for frame in frames if frame is not None)


def test_a_thread_without_variables_has_none(stage: Enter) -> None:
    assert stage(Puppet()).thread(thread_id="t").environment().result() == {}


def test_a_handle_says_whom_a_thread_belongs_to(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="annas", user_id="anna")

    assert thread.user_id().result(0) == "anna"
    assert on.thread(thread_id="nobodys").user_id().result(0) is None


def test_tags_are_those_of_creation_until_they_are_replaced(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread(thread_id="t", tags=["one"])

    assert thread.tags().result(0) == ["one"]
    on.ask(thread.set_tags(["two", "two", "three"]))
    assert thread.tags().result(0) == ["two", "three"]
    on.ask(thread.set_tags([]))
    assert thread.tags().result(0) == []
    assert isinstance(thread.set_tags("two").error(), InvalidInput)
    assert isinstance(thread.set_tags(["x" * 129]).error(), LimitExceeded)
