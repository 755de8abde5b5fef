"""Values come back as they went in, from inside and outside, across restarts; what is no JSON data never gets in."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.scene import PATIENCE_S, Scene, ended, journal, quiet
from treadle.protocol.events import ValueChanged

if TYPE_CHECKING:
    from tests.scenarios.scene import Replies
    from treadle.agents import ThreadState


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


VALUES: dict[str, Any] = {
    "true": True,
    "false": False,
    "zero": 0,
    "largest integer": 2**63 - 1,
    "smallest integer": -(2**63),
    "minus zero": -0.0,
    "largest number": 1.7976931348623157e308,
    "smallest number": 5e-324,
    "a third": 1 / 3,
    "empty string": "",
    "string": "Grüße 🧵 \u0000 \u2028 \x7f",
    "empty list": [],
    "empty dict": {},
    "list": [None, True, 1, 1.5, "x", [], {}],
    "dict": {"": 1, "é": [{"🧵": None}], "nested": {"a": {"b": {"c": [1, 2, 3]}}}},
    "deepest": nested(64),
    "long": "x" * ((1 << 20) - 16),
    "many": list(range(10_000)),
}


def same(left: Any, right: Any) -> bool:
    """Say whether two values are equal with their types: 1 is not True and 0.0 is not -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def test_every_kind_of_value_comes_back_as_it_went_in_and_after_a_restart(scene: Scene) -> None:
    thread = scene.start(quiet)
    for name, value in VALUES.items():
        thread.set_value(name, value).result(PATIENCE_S)
        assert same(thread.get_value(name).result(PATIENCE_S), value), name

    scene.reopen()

    thread = scene.runtime.thread(thread.id)
    for name, value in VALUES.items():
        assert same(thread.get_value(name).result(PATIENCE_S), value), name


def test_a_body_sees_values_from_outside_and_the_outside_those_of_a_body(either: Scene) -> None:
    def swaps(state: ThreadState) -> Replies:
        for name, value in VALUES.items():
            assert same((yield state.get_value(name)), value), name
            yield state.set_value(name, [value] if name != "deepest" and len(str(value)) < 1_000 else None)
            either.seen.append((yield state.get_value(name)))

    thread = either.start(swaps)
    for name, value in VALUES.items():
        thread.set_value(name, value).result(PATIENCE_S)

    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None

    for name, seen in zip(VALUES, either.seen, strict=True):
        assert same(thread.get_value(name).result(PATIENCE_S), seen)
    assert either.seen.count(None) == 3


def test_tuples_are_taken_as_lists_and_nothing_else_is_converted(scene: Scene) -> None:
    thread = scene.start(quiet)

    thread.set_value("k", (1, (2, {"t": (3,)}))).result(PATIENCE_S)

    assert thread.get_value("k").result(PATIENCE_S) == [1, [2, {"t": [3]}]]


def test_none_deletes_a_value_and_an_absent_one_is_none(scene: Scene) -> None:
    thread = scene.start(quiet)
    thread.set_value("k", "v").result(PATIENCE_S)

    thread.set_value("k", None).result(PATIENCE_S)
    thread.set_value("never set", None).result(PATIENCE_S)

    assert thread.get_value("k").result(PATIENCE_S) is None
    assert thread.get_value("never set").result(PATIENCE_S) is None
    changes = [entry.event for entry in journal(thread) if isinstance(entry.event, ValueChanged)]
    assert [(event.key, event.deleted) for event in changes] == [("k", False), ("k", True), ("never set", True)]


@pytest.mark.parametrize("key", ["k", " ", "a b", "é", "🧵" * 60, "x" * 256, "x" * 257, "x" * 100_000, "a/b:c.d[0]"])
def test_any_text_may_be_a_key_however_long(scene: Scene, key: str) -> None:
    thread = scene.start(quiet)
    other = key[:-1] + "?"

    thread.set_value(key, "mine").result(PATIENCE_S)
    thread.set_value(other, "another's").result(PATIENCE_S)

    assert thread.get_value(key).result(PATIENCE_S) == "mine"
    assert thread.get_value(other).result(PATIENCE_S) == "another's"
    thread.set_value(other, None).result(PATIENCE_S)
    assert thread.get_value(key).result(PATIENCE_S) == "mine"


def test_what_a_caller_does_to_its_object_afterwards_changes_nothing(either: Scene) -> None:
    given: Any = {"list": [1]}

    def changes_its_mind(state: ThreadState) -> Replies:
        mine: Any = {"list": [1]}
        sent = state.set_value("inside", mine)
        mine["list"].append(2)
        yield sent
        first = yield state.get_value("inside")
        first["list"].append(3)

    thread = either.start(changes_its_mind)
    sent = thread.set_value("outside", given)
    given["list"].append(2)
    sent.result(PATIENCE_S)
    thread.get_value("outside").result(PATIENCE_S)["list"].append(3)  # type: ignore[index, call-overload, union-attr]
    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None

    assert thread.get_value("outside").result(PATIENCE_S) == {"list": [1]}
    assert thread.get_value("inside").result(PATIENCE_S) == {"list": [1]}


def test_values_belong_to_their_thread(scene: Scene) -> None:
    scene.open(scene.body(quiet, name="actor"))
    one, two = scene.thread(), scene.thread()

    one.set_value("k", 1).result(PATIENCE_S)
    two.set_value("k", 2).result(PATIENCE_S)

    assert (one.get_value("k").result(PATIENCE_S), two.get_value("k").result(PATIENCE_S)) == (1, 2)


def test_the_journal_says_that_a_value_changed_and_never_what_it_is(scene: Scene) -> None:
    thread = scene.start(quiet)
    thread.set_value("secret", "do not tell").result(PATIENCE_S)

    events = [entry.to_wire() for entry in journal(thread)]

    assert events[-1]["type"] == "VALUE_CHANGED"
    assert "do not tell" not in json.dumps(events)


def test_values_set_at_once_are_set_in_the_order_of_the_calls(scene: Scene) -> None:
    thread = scene.start(quiet)

    sent = [thread.set_value("k", n) for n in range(300)]

    for reply in sent:
        reply.result(PATIENCE_S)
    assert thread.get_value("k").result(PATIENCE_S) == 299


def test_what_a_thread_was_created_with_reaches_its_body_unchanged(either: Scene) -> None:
    arguments = {"small": [1, {"a": None}], "text": "🧵", "number": 0.1}

    def reads(state: ThreadState) -> Replies:
        either.seen.append(dict(state.arguments))
        yield state.get_value("k")

    either.open(either.body(reads, name="actor"))
    given = copy.deepcopy(arguments)
    thread = either.thread(arguments=given, user_id="u1", tags=["t", "t", "u"], env={"K": "v"})
    given["small"].append("changed")  # type: ignore[attr-defined]
    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None
    either.reopen()
    thread = either.runtime.thread(thread.id)
    assert ended(thread, thread.submit("go").result(PATIENCE_S)).error is None

    assert either.seen == [arguments, arguments]
    (summary,) = either.runtime.threads(user_id="u1").result(PATIENCE_S).threads
    assert summary.id == thread.id
