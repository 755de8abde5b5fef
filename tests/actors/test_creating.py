"""Tests actors/creating.py: one id once, everything checked first, one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Thread
from treadle.actors.reads import read_created
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput, RuntimeClosed, StorageFull, ThreadExists, TreadleError
from treadle.protocol.limits import TAG_LENGTH_MAX, TAGS_MAX, VALUE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


def test_a_thread_is_at_rest_and_keeps_what_it_was_created_with(stage: Enter) -> None:
    on = stage(Puppet())
    arguments: dict[str, Any] = {"depth": 3, "names": ("a", "b")}
    given = {"thread_id": "t 1", "user_id": "u1", "arguments": arguments, "tags": ["x", "y", "x"], "env": {"K": "v"}}
    thread = on.thread(**given)
    arguments["depth"] = 4
    created = read_created(on.services, on.services.directory.entry("t 1"))

    assert thread == on.runtime.thread("t 1")
    assert (created.thread_id, created.agent_id, created.user_id) == ("t 1", "puppet", "u1")
    assert (created.arguments, created.tags, created.env) == (
        {"depth": 3, "names": ["a", "b"]}, ["x", "y"], {"K": "v"},
    )  # fmt: skip
    state = thread.state().result()
    assert (tuple(state.status), state.active_execution, state.waiting) == (("idle", state.status.since, None), None, 0)
    assert str(state.cursor) == "1:1"


def test_an_agent_is_given_by_itself_or_by_name(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)

    assert isinstance(on.ask(on.runtime.create_thread(puppet)), Thread)
    assert isinstance(on.ask(on.runtime.create_thread("puppet")), Thread)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"agent": "nobody"}, "agent_not_found"), ({"agent": None}, "agent_not_found"), ({"agent": ["puppet"]}, "agent_not_found"),
        ({"agent": Puppet("other")}, "agent_not_found"),
        ({"thread_id": ""}, "invalid_id"), ({"thread_id": "x" * 129}, "invalid_id"), ({"thread_id": "é"}, "invalid_id"),
        ({"thread_id": 7}, "invalid_id"), ({"thread_id": "a\0"}, "invalid_id"),
        ({"user_id": ""}, "invalid_id"), ({"user_id": b"u"}, "invalid_id"),
        ({"arguments": []}, "invalid_value"), ({"arguments": {1: 2}}, "invalid_value"), ({"arguments": {"a": object()}}, "invalid_value"),
        ({"arguments": {"a": float("nan")}}, "invalid_value"), ({"arguments": {"a": "x" * VALUE_BYTES_MAX}}, "limit_exceeded"),
        ({"tags": "name"}, "invalid_name"), ({"tags": 7}, "invalid_name"), ({"tags": [""]}, "invalid_name"),
        ({"tags": [None]}, "invalid_name"),
        ({"tags": [str(n) for n in range(TAGS_MAX + 1)]}, "limit_exceeded"), ({"tags": ["x" * (TAG_LENGTH_MAX + 1)]}, "limit_exceeded"),
        ({"env": []}, "invalid_value"), ({"env": {"K": 1}}, "invalid_value"), ({"env": {1: "v"}}, "invalid_value"),
        ({"env": {"K": None}}, "invalid_value"), ({"env": {"A=": "v"}}, "invalid_value"), ({"env": {"=A": "v"}}, "invalid_value"),
        ({"env": {"A\0": "v"}}, "invalid_value"), ({"env": {"": "v"}}, "invalid_value"), ({"env": {"A": "v\0"}}, "invalid_value"),
        ({"env": {"A\ud800": "v"}}, "invalid_value"), ({"env": {"A": "\ud800"}}, "invalid_value"),
        ({"env": {"A": "x" * VALUE_BYTES_MAX}}, "limit_exceeded"),
    ],
    ids=lambda given: str(given)[:40],
)  # fmt: skip
def test_bad_input_comes_through_the_reply_and_writes_nothing(stage: Enter, options: dict[str, Any], code: str) -> None:
    on = stage(Puppet())
    before = on.services.directory.take_number()
    reply = on.runtime.create_thread(options.pop("agent", "puppet"), **options)
    error = reply.error()

    assert isinstance(error, TreadleError)
    assert error.code == code
    assert on.store.pending() == 0
    assert on.services.directory.take_number() == before + 1  # not even a number was spent


@pytest.mark.parametrize(
    ("env", "path", "value"),
    [
        ({"fine": "v", "A=": "v"}, "$.env", "'A='"),
        ({"A\0B": "v"}, "$.env", r"'A\x00B'"),
        ({"A": "v\0"}, "$.env.'A'", "'str'"),  # a value may be a secret: its type is told
        ({"A": 7}, "$.env.'A'", "'int'"),
        ({"A": "v\ud800"}, "$.env.'A'", "'str'"),
        ("A=v", "$.env", "'str'"),
    ],
    ids=str,
)
def test_a_variable_that_no_process_can_have_is_named(stage: Enter, env: object, path: str, value: str) -> None:
    error = stage(Puppet()).runtime.create_thread("puppet", env=env).error()  # type: ignore[arg-type]

    assert isinstance(error, InvalidInput)
    assert error.details == {"path": path, "value": value}
    assert value in str(error)


def test_an_id_is_used_once(stage: Enter) -> None:
    on = stage(Puppet())
    first = on.runtime.create_thread("puppet", thread_id="t")
    while_on_its_way = on.runtime.create_thread("puppet", thread_id="t")
    assert isinstance(while_on_its_way.error(), ThreadExists)
    on.ask(first)
    afterwards = on.runtime.create_thread("puppet", thread_id="t")
    assert isinstance(afterwards.error(), ThreadExists)
    assert afterwards.error().details == {"thread_id": "t"}  # type: ignore[union-attr]
    on.ask(on.runtime.delete_thread("t"))
    assert isinstance(on.runtime.create_thread("puppet", thread_id="t").error(), ThreadExists)
    on.kill()
    on.reopen()
    assert isinstance(on.runtime.create_thread("puppet", thread_id="t").error(), ThreadExists)


def test_an_id_whose_creation_was_refused_is_free_again(stage: Enter) -> None:
    on = stage(Puppet())
    refused = on.runtime.create_thread("puppet", thread_id="t")
    on.refuse()
    on.settle()
    assert isinstance(refused.error(), StorageFull)
    assert on.runtime.thread("t").status().error() is not None

    on.ask(on.runtime.create_thread("puppet", thread_id="t"))
    assert on.runtime.thread("t").status().result().state == "idle"


def test_a_thread_is_nobody_s_before_it_is_durable(stage: Enter) -> None:
    on = stage(Puppet())
    reply = on.runtime.create_thread("puppet", thread_id="t")
    assert not reply.done()
    assert on.runtime.thread("t").status().error() is not None
    with on.runtime.events() as events:
        on.settle()
        assert reply.result().id == "t"
        change = events.next(0)
        assert change is not None
        assert change["thread_id"] == "t"


def test_a_runtime_that_closes_creates_nothing(stage: Enter) -> None:
    on = stage(Puppet())
    on.services.closing = True

    assert isinstance(on.runtime.create_thread("puppet").error(), RuntimeClosed)


def test_ids_of_ours_are_unlike_and_sort_by_time(stage: Enter) -> None:
    on = stage(Puppet())
    ids = []
    for _ in range(20):
        ids.append(on.thread().id)
        on.advance(0.001)

    assert sorted(set(ids)) == ids
    assert {len(one) for one in ids} == {32}


def test_an_argument_that_no_call_has_is_a_type_error_at_the_call(stage: Enter) -> None:
    on = stage(Puppet())
    with pytest.raises(TypeError):
        on.runtime.create_thread("puppet", colour="red")  # type: ignore[call-arg]
    assert issubclass(InvalidInput, TreadleError)
