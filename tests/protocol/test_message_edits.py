"""Updates and deletions of messages by themselves: what is checked, what is merged, what is refused, what a row becomes."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.protocol.decision import Phase, Refusal, Verdict
from treadle.protocol.errors import InvalidInput, LimitExceeded, MessageNotFound, TreadleError
from treadle.protocol.events import InputQueued, InputWithdrawn, MessageDeleted, MessageUpdated
from treadle.protocol.inbox import Row
from treadle.protocol.limits import INPUT_BYTES_MAX, MESSAGE_BYTES_MAX, UNREAD_BYTES_MAX, VALUE_BYTES_MAX
from treadle.protocol.message_edits import (
    UNCHANGED,
    Changes,
    DeleteMessage,
    Found,
    UpdateMessage,
    check_changes,
    edited_content,
)
from treadle.protocol.messages import Draft
from treadle.protocol.receipts import Disposition
from treadle.protocol.triggers import Resume

from .states import Pure, in_phase, text

PLACE = [3, 0, 3, 0]


def shown(draft: Draft) -> Any:
    """Stand in for the record of a message."""
    return ("shown", draft)


def found(draft: Draft, **more: Any) -> Found:
    return Found(draft, more.pop("place", PLACE), shown, **more)


def row(messages: int = 2, *, kind: Any = "message", size: int = 200, edits: Any = ()) -> Row:
    return Row(5, kind, "q", None, messages, 0, size, False, None, edits)


def update(thread: Pure, standing: Found | None, execution_id: str | None = None, **changes: Any) -> Any:
    checked, _ = check_changes(changes)
    return thread.judge(UpdateMessage("m", checked, execution_id), found=standing)


def delete(thread: Pure, standing: Found | None, execution_id: str | None = None) -> Any:
    return thread.judge(DeleteMessage("m", execution_id), found=standing)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ("x", "invalid_content"),
        ({}, "empty_content"),
        ({"content": UNCHANGED}, "empty_content"),
        ({"role": "user"}, "invalid_content"),
        ({"content": 5}, "invalid_content"),
        ({"content": "\ud800"}, "invalid_content"),
        ({"metadata": "x"}, "invalid_value"),
        ({"metadata": {"a": {1, 2}}}, "invalid_value"),
        ({"metadata": {"a": float("nan")}}, "invalid_value"),
        ({"content": "x" * (MESSAGE_BYTES_MAX + 1)}, "limit_exceeded"),
        ({"metadata": {"a": "x" * VALUE_BYTES_MAX}}, "limit_exceeded"),
    ],
)
def test_what_no_message_may_have_is_refused_before_any_message_is_looked_at(changes: Any, code: str) -> None:
    with pytest.raises(TreadleError) as refused:
        check_changes(changes)

    assert refused.value.code == code


def test_the_checked_changes_are_a_copy_with_their_size() -> None:
    metadata = {"a": [1]}

    checked, size = check_changes({"content": "abc", "metadata": metadata})
    metadata["a"].append(2)

    assert checked == Changes("abc", {"a": [1]})
    assert 3 < size < 200
    assert check_changes({"metadata": None})[0] == Changes(UNCHANGED, None)


@pytest.mark.parametrize(
    ("stored", "patch", "merged"),
    [
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": 1}, {"a": None}, None),
        ({"a": 1}, None, None),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"y": 2}}),
        ({"a": None, "b": 1}, {"b": 2}, {"a": None, "b": 2}),
        ({"a": 1}, {"a": True}, {"a": True}),
        ({"a": 1}, {"a": 1.0}, {"a": 1.0}),
    ],
)
def test_metadata_is_merged_key_by_key_and_none_deletes(stored: Any, patch: Any, merged: Any) -> None:
    draft = text("i") if stored is None else text("i", metadata=stored)

    decision = update(in_phase(Phase.IDLE), found(draft), metadata=patch)

    (event,) = decision.events
    assert isinstance(event, MessageUpdated)
    # As text: 1 and True are equal.
    assert repr(event.message.get("metadata")) == repr(merged)
    assert decision.reply == ("shown", event.message)


@pytest.mark.parametrize(
    ("draft", "changes"),
    [
        (text("i"), {"content": "i"}),
        (text("i"), {"metadata": {"a": None}}),
        (text("i"), {"metadata": None}),
        (text("i", metadata={}), {"metadata": {}}),
        (text("i", metadata={"a": 1}), {"content": "i", "metadata": {"a": 1}}),
    ],
)
def test_an_update_that_changes_nothing_writes_nothing_and_shows_the_message(draft: Draft, changes: Any) -> None:
    decision = update(in_phase(Phase.RUNNING), found(draft), **changes)

    assert (decision.verdict, decision.events, decision.reply) == (Verdict.REFUSE, [], ("shown", draft))


def test_an_update_keeps_all_else_of_a_message() -> None:
    draft = text("i", silent=True, depth=2, attachments=[{"id": "a"}], calls=["c"], tool_calls="[]")

    (event,) = update(in_phase(Phase.RUNNING), found(draft), content=None).events

    assert event.message == {**draft, "content": None}
    assert (event.place, event.row, event.grown, event.execution_id) == (PLACE, None, 0, None)


@pytest.mark.parametrize(
    ("more", "taken"),
    [({}, False), ({"attachments": [{"id": "a"}]}, True), ({"tool_calls": "[]"}, True), ({"role": "tool"}, True)],
)
@pytest.mark.parametrize("content", [None, ""])
def test_a_message_is_emptied_only_where_a_new_one_may_be_empty(more: Any, taken: bool, content: Any) -> None:
    decision = update(in_phase(Phase.IDLE), found({**text("i"), **more}), content=content)

    assert bool(decision.events) is taken
    assert taken or (isinstance(decision.reply, InvalidInput) and decision.reply.code == "empty_content")


def test_metadata_that_outgrows_a_value_when_merged_is_refused() -> None:
    half = "x" * (VALUE_BYTES_MAX // 2)

    decision = update(in_phase(Phase.IDLE), found(text("i", metadata={"a": half})), metadata={"b": half})

    assert isinstance(decision.reply, LimitExceeded)
    assert decision.events == []


def test_a_message_that_is_not_there_is_an_error_to_update_and_false_to_delete() -> None:
    thread = in_phase(Phase.IDLE)

    assert isinstance(update(thread, None, content="x").reply, MessageNotFound)
    assert (delete(thread, None).reply, delete(thread, None).events) == (False, [])


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STOPPING])
def test_a_body_edits_until_its_acceptance_closes(phase: Phase) -> None:
    thread = in_phase(phase)

    assert update(thread, found(text("i")), "e1", content="x").events[0].execution_id == "e1"
    assert delete(thread, found(text("i")), "e1").events[0].execution_id == "e1"


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.FINISHING])
def test_a_late_body_edits_nothing(phase: Phase) -> None:
    thread = in_phase(phase)

    for decision in (
        update(thread, found(text("i")), "e1", content="x"), delete(thread, found(text("i")), "e1"),
        update(in_phase(Phase.RUNNING), found(text("i")), "e0", content="x"),
    ):  # fmt: skip
        assert (decision.verdict, decision.reply, decision.events) == (Verdict.REFUSE, Refusal.FENCED, [])


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
def test_edits_from_outside_do_not_move_the_phase_and_are_taken_on_a_terminated_thread(phase: Phase) -> None:
    thread = in_phase(phase)
    thread.state.facts.terminated_at = 1

    for decision in (update(thread, found(text("i")), content="x"), delete(thread, found(text("i")))):
        assert (decision.verdict, decision.phase, decision.actions, decision.at_once) == (Verdict.DECIDE, phase, (), ())
        assert not decision.closes


def test_deleting_a_message_counts_it_out_of_its_class_and_leaves_no_zero() -> None:
    thread = in_phase(Phase.IDLE)
    facts = thread.facts.copy()
    facts.counts, facts.messages = {0: 2, 3: 1}, 3

    for draft in (text("i"), text("j", silent=True, depth=1)):
        (event,) = delete(thread, found(draft)).events
        facts.fold(event, facts.last_time + 1)

    assert (facts.counts, facts.messages, facts.edited) == ({0: 1}, 3, facts.sequence)


def test_a_thread_whose_messages_are_all_deleted_has_nothing_to_resume() -> None:
    thread = in_phase(Phase.IDLE)
    thread.state.facts.counts, thread.state.facts.messages = {}, 7

    assert thread.judge(Resume()).reply.disposition is Disposition.NOTHING_TO_RESUME


def test_the_last_message_of_a_row_takes_the_row_with_it() -> None:
    alone = row(1, edits=((0, 0),))

    decision = delete(in_phase(Phase.IDLE), found(text("i"), place=[5, 1, 0, None], row=alone))

    assert decision.events == [InputWithdrawn(input_id="q", row=alone.stored())]
    assert decision.reply is True


@pytest.mark.parametrize("kind", ["message", "submit", "steer"])
def test_one_of_several_leaves_a_row_that_says_so(kind: Any) -> None:
    thread = in_phase(Phase.RUNNING)
    facts = thread.state.facts
    facts.queued_plain, facts.steer_bytes = 2, 200

    (event,) = delete(thread, found(text("i"), place=[5, 1, 0, None], row=row(kind=kind))).events

    assert isinstance(event, MessageDeleted)
    assert event.row == [5, kind, 1, 0, 200 + event.grown, [[1, 0]]]
    assert event.grown < 0
    facts.fold(event, facts.last_time + 1)
    assert (facts.queued_plain, facts.queued_silent) == (1, 0)
    assert facts.steer_bytes == (200 + event.grown if kind == "steer" else 200)


def test_a_silent_message_is_counted_out_among_the_silent() -> None:
    thread = in_phase(Phase.IDLE)
    facts = thread.state.facts
    facts.queued_plain = facts.queued_silent = 1

    waits = row()._replace(silent=1)
    (event,) = delete(thread, found(text("i", silent=True), place=[5, 0, 0, None], row=waits)).events

    assert event.row is not None
    assert event.row[3] == 0
    facts.fold(event, facts.last_time + 1)
    assert (facts.queued_plain, facts.queued_silent) == (1, 0)


def test_an_update_of_a_message_that_waits_names_its_own_event_in_the_row() -> None:
    thread = in_phase(Phase.RUNNING)
    facts = thread.state.facts
    facts.steer_bytes = 200

    standing = found(text("i"), place=[5, 0, 0, None], row=row(kind="steer", edits=((1, 0),)))
    (event,) = update(thread, standing, content="i" * 50).events

    assert event.row == [5, "steer", 2, 0, 249, [[0, facts.sequence + 1], [1, 0]]]
    assert event.grown == 49
    facts.fold(event, facts.last_time + 1)
    assert facts.steer_bytes == 249


def test_a_row_does_not_outgrow_an_input_nor_steers_a_batch() -> None:
    thread = in_phase(Phase.RUNNING)
    for kind, size, limit in (("submit", INPUT_BYTES_MAX, "input_bytes"), ("steer", UNREAD_BYTES_MAX, "unread")):
        thread.state.facts.steer_bytes = size if kind == "steer" else 0
        standing = found(text("i"), place=[5, 0, 0, None], row=row(kind=kind, size=size))

        decision = update(thread, standing, content="longer")

        assert isinstance(decision.reply, LimitExceeded)
        assert (decision.reply.details["limit"], decision.events) == (limit, [])
        assert update(thread, standing, content="j").events  # as large as before


def test_a_message_with_calls_goes_with_their_results_and_not_before_it_has_all() -> None:
    thread = in_phase(Phase.RUNNING)
    made = text("i", calls=["c", "d"])
    results = [(text("r", closes=True, tool_call_id="c"), [6, 0, 6, 1]), (text("s", closes=True), [7, 0, 7, 2])]

    events = delete(thread, found(made, results=results)).events

    assert [(event.message_id, event.place) for event in events] == [
        ("i-m", PLACE),
        ("r-m", [6, 0, 6, 1]),
        ("s-m", [7, 0, 7, 2]),
    ]
    refused = delete(thread, found(made, results=results[:1], unanswered="d"))
    assert isinstance(refused.reply, InvalidInput)
    assert (refused.reply.code, refused.reply.details["tool_call_id"], refused.events) == ("call_open", "d", [])
    alone = delete(thread, found(results[0][0]))
    assert (alone.reply.code, alone.reply.details["tool_call_id"], alone.events) == ("call_needs_result", "c", [])


def test_a_message_with_an_open_call_may_be_updated() -> None:
    decision = update(in_phase(Phase.RUNNING), found(text("i", calls=["c"]), unanswered="c"), content="other")

    assert decision.events[0].message == text("i", calls=["c"], content="other")


def test_an_edited_input_has_the_other_message_and_leaves_the_first_as_it_was() -> None:
    content = InputQueued(
        input_id="q", kind="message", verb="queue", execution_id=None, messages=[text("a"), text("b")], digest=None, first=False,
        interrupted=None, active=None, held=False, originating_execution_id=None, timeout=None, size=9,
    )  # fmt: skip

    assert edited_content(content, 1, {}).messages == [text("a"), {}]
    assert content.messages == [text("a"), text("b")]
