from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agents.models.seam import Attachment, ModelMessage
from treadle.agents.request_history import in_order, in_roles, recent_images_only, stored_calls, without_images
from treadle.protocol.messages import Message


def message(number: int, role: str, content: str | None = None, **more: Any) -> Message:
    calls = more.pop("calls", None)
    if calls is not None:
        more["tool_calls"] = json.dumps(
            [{"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in calls]
        )
    return Message.model_validate({"id": f"m{number}", "role": role, "content": content, "created_at": number, **more})


def result(number: int, call: str, content: str = "found", **more: Any) -> Message:
    return message(number, "tool", content, tool_call_id=call, name="look", **more)


def shape(told: list[ModelMessage]) -> list[tuple[str, str | None]]:
    return [(one.role, one.content) for one in told]


def test_what_joined_between_a_call_and_its_result_stands_after_the_results() -> None:
    """Contract F.1 calls and results: a call is followed by its results; history itself is not changed (semantics 2)."""
    history = [
        message(1, "user", "hi"),
        message(2, "assistant", None, calls=["c1", "c2"]),
        result(3, "c1"),
        message(4, "user", "hurry"),
        result(5, "c2"),
    ]
    assert [one.id for one in in_order(history)] == ["m1", "m2", "m3", "m5", "m4"]
    assert [one.id for one in history] == ["m1", "m2", "m3", "m4", "m5"]


def test_a_result_that_no_call_is_there_for_is_dropped() -> None:
    """Contract F.2 row 9: orphan tool results are dropped."""
    history = [message(1, "user", "hi"), result(2, "gone"), message(3, "assistant", "hello")]
    assert [one.id for one in in_order(history)] == ["m1", "m3"]


def test_a_call_without_a_result_is_not_told_and_its_words_are() -> None:
    history = in_order([message(1, "assistant", "let me look", calls=["c1", "c2"]), result(2, "c2")])
    (said, found) = in_roles(history, "assistant", transform=True)
    assert (said.content, [call.id for call in said.tool_calls]) == ("let me look", ["c2"])
    assert (found.role, found.tool_call_id, found.failed) == ("tool", "c2", False)


def test_an_id_that_a_model_used_twice_takes_each_result_once_and_in_order() -> None:
    history = [
        message(1, "assistant", None, calls=["c"]), result(2, "c", "first"),
        message(3, "assistant", None, calls=["c"]), result(4, "c", "second"),
    ]  # fmt: skip
    assert [one.id for one in in_order(history)] == ["m1", "m2", "m3", "m4"]


def test_a_dropped_call_hides_no_later_one_of_the_same_id() -> None:
    history = in_order(
        [
            message(1, "assistant", None, calls=["c"]),
            result(2, "c", "first", metadata={"dropped": True}),
            message(3, "user", "again"),
            message(4, "assistant", None, calls=["c"]),
            result(5, "c", "second"),
        ]
    )
    told = in_roles(history, "assistant", transform=True)
    assert [one.id for one in told] == ["m3", "m4", "m5"]


@pytest.mark.parametrize("speaker", ["assistant", "user"])
def test_a_side_is_told_its_own_words_as_assistant_and_the_others_as_user(speaker: Any) -> None:
    """Contract F.1 sides: own side appears as `assistant`, the other as `user`."""
    history = [message(1, "user", "from b"), message(2, "assistant", "from a"), message(3, "system", "note")]
    own, other = ("from a", "from b") if speaker == "assistant" else ("from b", "from a")
    told = in_roles(history, speaker, transform=True)
    assert {(one.role, one.content) for one in told} == {("assistant", own), ("user", other), ("system", "note")}


def test_the_other_sides_tool_calls_are_not_visible() -> None:
    """Contract F.1 other side's tools: the other side's tool calls and results never reach this side's model."""
    history = in_order(
        [
            message(1, "assistant", "looking", calls=["a1"]), result(2, "a1", "secret of a"),
            message(3, "user", None, calls=["b1"]), result(4, "b1", "secret of b"),
            message(5, "user", "done"),
        ]
    )  # fmt: skip
    assert shape(in_roles(history, "user", transform=True)) == [
        ("user", "looking"), ("assistant", None), ("tool", "secret of b"), ("assistant", "done"),
    ]  # fmt: skip
    assert shape(in_roles(history, "assistant", transform=True)) == [
        ("assistant", "looking"), ("tool", "secret of a"), ("user", "done"),
    ]  # fmt: skip


def test_without_the_transform_the_stored_roles_stay() -> None:
    """Contract F.2 row 9: the transform is skipped for side A versus a human."""
    history = [message(1, "user", "hi"), message(2, "assistant", "hello")]
    assert shape(in_roles(history, "user", transform=False)) == [("user", "hi"), ("assistant", "hello")]


def test_silent_messages_are_told_and_a_failed_result_is_marked() -> None:
    history = in_order(
        [
            message(1, "user", "psst", silent=True),
            message(2, "assistant", None, calls=["c"]),
            result(3, "c", tool_status="error"),
        ]
    )
    told = in_roles(history, "assistant", transform=True)
    assert told[0].content == "psst"
    assert told[2].failed


def picture(name: str) -> Attachment:
    return Attachment(name, "image/png", data=b"x")


def test_pictures_older_than_the_newest_few_become_their_names() -> None:
    """Contract F.2 row 9; E.3 recent_image_threshold: images older than `recentImageThreshold` become text."""
    note = Attachment("note.txt", "text/plain", data=b"n")
    told = [
        ModelMessage("user", "one", attachments=(picture("1"), picture("2"), note)),
        ModelMessage("user", None, attachments=(picture("3"),)),
    ]
    first, second = recent_images_only(told, 2)
    assert (first.content, first.attachments) == ("one\n[image: 1]", (picture("2"), note))
    assert second is told[1]


def test_a_model_without_eyes_is_told_every_picture_by_name() -> None:
    """Contract F.1 without eyes: the stored rows keep what they have."""
    told = [ModelMessage("user", None, attachments=(picture("1"),))]
    (blind,) = without_images(told)
    assert (blind.content, blind.attachments) == ("[image: 1]", ())
    assert told[0].attachments


def test_an_attachment_that_does_not_decode_leaves_the_message_answerable() -> None:
    broken = message(1, "user", "look", attachments=[{"name": "x", "mimeType": "image/png", "data": "%%%"}])
    (told,) = in_roles([broken], "assistant", transform=True)
    assert (told.content, told.attachments) == ("look", ())


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    history: list[Message] = []
    waiting: list[str] = []
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["said", "called", "answered", "orphan"]))
        role = draw(st.sampled_from(["user", "assistant"]))
        if kind == "called":
            calls = [f"c{number}-{rank}" for rank in range(draw(st.integers(1, 3)))]
            waiting += calls
            history.append(message(number, role, draw(st.sampled_from([None, "words"])), calls=calls))
        elif kind == "answered" and waiting:
            history.append(result(number, waiting.pop(draw(st.integers(0, len(waiting) - 1)))))
        elif kind == "orphan":
            history.append(result(number, f"o{number}"))
        else:
            history.append(message(number, role, "words"))
    return history


@given(histories(), st.sampled_from(["assistant", "user"]))
def test_what_a_model_is_told_always_has_each_call_answered_at_once_and_by_its_own_side(
    history: list[Message], speaker: Any
) -> None:
    told = in_roles(in_order(history), speaker, transform=True)
    own = {call.id for one in history if one.role == speaker for call in stored_calls(one)}
    open_calls: list[str] = []
    for one in told:
        if one.role == "tool":
            assert one.tool_call_id in open_calls
            open_calls.remove(one.tool_call_id)
        else:
            assert not open_calls
            open_calls = [call.id for call in one.tool_calls]
            assert set(open_calls) <= own
    assert not open_calls
    assert len({one.id for one in told}) == len(told)
