"""storage/edit_rules.py: edits that keep the promises pass; each way of breaking one is named."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol.events import Event, InputQueued, InputWithdrawn, MessageAdded, MessageDeleted, MessagesJoined
from treadle.protocol.events import MessageUpdated as Updated
from treadle.storage.journal_rules import JournalRules

from .test_journal_rules import CREATED, added, finished, queued, said, started


def updated(draft: dict[str, Any], place: list[Any], row: list[Any] | None = None, grown: int = 0) -> Updated:
    return Updated(execution_id=None, message=draft, place=place, row=row, grown=grown)


def deleted(
    name: str, place: list[Any], row: list[Any] | None = None, grown: int = 0, message_class: int = 0
) -> MessageDeleted:
    return MessageDeleted(
        execution_id=None, message_id=name, message_class=message_class, place=place, row=row, grown=grown
    )


def pair(given: str = "p") -> InputQueued:
    return queued(given).model_copy(update={"messages": [said("a"), said("b")], "size": 50})


def joins(row: list[Any]) -> MessagesJoined:
    return MessagesJoined(execution_id="e1", rows=[row], consumed=True, reason=None)


CALL = added("m1", calls=["c1"])
RESULT = added("m2", tool_call_id="c1", closes=True)
SAID = [3, 0, 3, 1]  # where `added` after `started` stands
HEARD = [2, 0, 2, 0]  # where the input of `started` stands
WAITS = [4, 1, 0, None]  # where the second of `pair` after two others stands

WHOLE: dict[str, list[Event]] = {
    "an update": [started(), added("m"), updated({**said("m"), "content": "x"}, SAID)],
    "twice, then a deletion": [
        started(), added("m"), updated({**said("m"), "metadata": {"a": 1}}, SAID), updated(said("m"), SAID), deleted("m", SAID),
    ],
    "the input of an execution": [started(), deleted("i1-m", HEARD), finished()],
    "of one that waits": [
        started(), added("m"), pair(), updated({**said("b"), "content": "xy"}, WAITS, [4, "message", 2, 0, 51, [[1, 5]]], 1),
        joins([4, "message", 2, 0, 51, [[1, 5]]]), deleted("b", [4, 1, 6, 3]),
    ],
    "one of two": [
        started(), added("m"), pair(), deleted("b", WAITS, [4, "message", 1, 0, 40, [[1, 0]]], -10),
        joins([4, "message", 1, 0, 40, [[1, 0]]]), deleted("a", [4, 0, 6, 2]),
    ],
    "both": [
        started(), added("m"), pair(), deleted("b", WAITS, [4, "message", 1, 0, 40, [[1, 0]]], -10),
        InputWithdrawn(input_id="p", row=[4, "message", 1, 0, 40, [[1, 0]]]),
    ],
    "a call with its result": [started(), CALL, RESULT, deleted("m1", SAID), deleted("m2", [4, 0, 4, 2]), finished()],
    "a silent one": [started(), added("m", silent=True), deleted("m", SAID, message_class=1)],
    "a call that was deleted is called again": [
        started(), CALL, RESULT, deleted("m1", SAID), deleted("m2", [4, 0, 4, 2]), added("m3", calls=["c1"]),
        added("m4", tool_call_id="c1", closes=True), deleted("m3", [7, 0, 7, 3]), deleted("m4", [8, 0, 8, 4]),
    ],
}  # fmt: skip

BROKEN: dict[str, tuple[list[Event], str]] = {
    "nothing there": ([started(), deleted("m", SAID)], "message m is edited and is not there"),
    "twice": ([started(), added("m"), deleted("m", SAID), deleted("m", SAID)], "message m is edited and is not there"),
    "elsewhere": ([started(), added("m"), deleted("m", HEARD)], "message m is at [2, 0, 2, 0], not [3, 0, 3, 1]"),
    "waits not": ([started(), added("m"), deleted("m", SAID, [3, "message", 1, 0, 5, [[0, 0]]])], "message m waits, or it does not"),
    "joined": ([started(), added("m"), pair(), deleted("b", WAITS)], "message b waits, or it does not"),
    "another message": ([started(), added("m"), updated({**said("m"), "role": "tool"}, SAID)], "message m is updated into another"),
    "another class": ([started(), added("m"), deleted("m", SAID, message_class=1)], "message m of class 0 is deleted from another"),
    "an open call": ([started(), CALL, deleted("m1", SAID)], "message m1 is deleted while its calls ['c1'] are open"),
    "a result left": ([started(), CALL, RESULT, deleted("m1", SAID), added("x")], "results ['m2'] stay while their call is deleted"),
    "a result alone": ([started(), CALL, RESULT, deleted("m2", [4, 0, 4, 2])], "result m2 is deleted and its call in m1 is not"),
    "a row untold": (
        [started(), added("m"), pair(), deleted("b", WAITS, [4, "message", 2, 0, 50, [[1, 0]]])],
        "row 4 is told as [2, 0, 50, [[1, 0]]], it is [1, 0, 50], [[1, 0]]",
    ),
    "another row": (
        [started(), added("m"), pair(), deleted("b", WAITS, [9, "message", 1, 0, 50, [[1, 0]]])],
        "a message of row 4 is edited in row 9",
    ),
    "joined untold": (
        [started(), added("m"), pair(), deleted("b", WAITS, [4, "message", 1, 0, 50, [[1, 0]]]), joins([4, "message", 2, 0, 50])],
        "row 4 is told as ['message', 2, 0, 50], it was accepted as ['message', 1, 0, 50, [[1, 0]]]",
    ),
    "the last of a row": (
        [started(), added("m"), queued("q"), deleted("q-m", [4, 0, 0, None], [4, "message", 0, 0, 50, [[0, 0]]])],
        "row 4 is left without a message",
    ),
    "an id again": ([started(), added("m"), deleted("m", SAID), added("m")], "message m appears twice"),
    "another owner": (
        [started(), added("m"), deleted("m", SAID).model_copy(update={"execution_id": "e9"})],
        "MESSAGE_DELETED is about execution e9, the owner is e1",
    ),
}  # fmt: skip


def follow(events: list[Event]) -> JournalRules:
    rules = JournalRules()
    for at, event in enumerate([CREATED, *events], 1):
        rules.take(event, at)
    return rules


@pytest.mark.parametrize("name", WHOLE)
def test_edits_that_keep_the_promises_pass(name: str) -> None:
    rules = follow(WHOLE[name])

    rules.messages.settled()
    assert rules.found == []


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_promise_is_named(name: str) -> None:
    events, why = BROKEN[name]

    assert why in [found for _, found in follow(events).found]


def test_what_is_there_and_what_ever_joined_are_counted_apart() -> None:
    silent = MessageAdded(execution_id=None, message={**said("x"), "silent": True})

    messages = follow([started(), added("m"), silent, deleted("m", SAID)]).messages

    assert (messages.joined, messages.positions) == ({0: 1, 1: 1}, 3)
