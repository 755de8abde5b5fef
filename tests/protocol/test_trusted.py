"""Events made without a check are what the check would have made of the same fields, and can be read back."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from treadle.actors.checks import check_seconds
from treadle.protocol.decision import Decision, Phase
from treadle.protocol.errors import InvalidInput, LimitExceeded
from treadle.protocol.events import Event, ExecutionFinished, ExecutionStarted, MessageAdded
from treadle.protocol.ids import check_id, format_id
from treadle.protocol.messages import draft_message, draft_messages, draft_text
from treadle.protocol.recorded import receipt_of
from treadle.protocol.starting import start_events
from treadle.protocol.status import check_stop
from treadle.protocol.triggers import BodyEnded, Released, Submit
from treadle.protocol.trusted import added, finished, started
from treadle.storage.codec import decode_event, encode_event

from .states import Pure, in_phase


class Text(str):
    """A string of somebody's own type, which the checks let pass."""

    __slots__ = ()


def accepted(check: Any, *given: Any, **more: Any) -> Any:
    """Return what a check at an entry lets in; the example is dropped where it lets nothing in."""
    try:
        return check(*given, **more)
    except (InvalidInput, LimitExceeded):
        assume(False)


plain = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
texts = plain | plain.map(Text) | st.text(st.characters(), max_size=5)
printable = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
names = printable | printable.map(Text) | st.text(st.characters(max_codepoint=0x7F), max_size=130)
ids = st.builds(format_id, st.integers(0, 1 << 60), st.text("0123456789abcdef", min_size=18, max_size=18))
data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
messages = st.fixed_dictionaries(
    {"content": texts},
    optional={
        "silent": st.booleans(), "metadata": st.dictionaries(texts, data, max_size=2),
        "attachments": st.lists(st.dictionaries(texts, data, max_size=2), max_size=2),
    },
)  # fmt: skip
seconds = st.none() | st.integers(1, 10**5) | st.floats(0.1, 10**5) | st.integers(-1, 10**7) | st.floats()
usual = settings(suppress_health_check=[HealthCheck.filter_too_much], deadline=None)  # refused inputs are given as well


def same_as_checked(event: Event, at: int) -> None:
    """Compare an event with what checking its fields makes of them, and with what is read back."""
    kind = type(event)
    checked = kind(**{name: getattr(event, name) for name in kind.model_fields})
    assert event == checked
    assert repr(event) == repr(checked)
    assert list(event.__dict__) == list(checked.__dict__) == list(kind.model_fields)
    assert event.model_fields_set == checked.model_fields_set
    assert event.to_wire() == checked.to_wire()
    assert encode_event(event, at) == encode_event(checked, at)
    read = decode_event(encode_event(event, at), b"key")
    assert read == (at, event)
    assert [type(value) for value in event.__dict__.values()] == [type(value) for value in read[1].__dict__.values()]


@usual
@given(
    content=texts | st.lists(texts | messages, max_size=3), agent=names, given_id=st.none() | names,
    on_busy=st.sampled_from(["reject", "queue"]), steerable=st.booleans(), timeout=seconds, agents_own=seconds,
    new=st.lists(ids, min_size=8, max_size=8, unique=True), now=st.integers(2, 1 << 52),
)  # fmt: skip
def test_the_start_of_whatever_submit_takes_is_the_checked_one(
    content: Any, agent: str, given_id: str | None, on_busy: Any, steerable: bool, timeout: Any, agents_own: Any,
    new: list[str], now: int,
) -> None:  # fmt: skip
    execution_id, made, *rest = new
    drafts, size = accepted(draft_messages, content, rest.pop, role="user", roles=frozenset({"user"}))
    short = draft_text(made, "user", content, frozenset({"user"}))
    if short is not None:  # as `submit` has it of nearly every text
        drafts = [short]
    digest = None if given_id is None else hashlib.sha256(repr(drafts).encode(errors="replace")).digest()
    input_id = made if given_id is None else accepted(check_id, "input_id", given_id)
    trigger = Submit(input_id, drafts, size, digest, on_busy, accepted(check_seconds, "timeout", timeout))
    thread = Pure()
    thread.facts.agent_id = accepted(check_id, "agent name", agent)
    thread.state.agent_steerable = steerable
    thread.state.agent_timeout = accepted(check_seconds, "timeout", agents_own)
    decision = thread.judge(trigger, now=now, new_id=execution_id)

    (event,) = decision.events
    assert isinstance(event, ExecutionStarted)
    same_as_checked(event, now)
    general = start_events(
        thread.state, execution_id, cause="submit", input_id=input_id, messages=drafts, digest=digest, timeout=trigger.timeout
    )  # fmt: skip
    assert decision.events == general
    assert decision.reply == receipt_of(general[0], now)


@usual
@given(
    role=st.sampled_from(["user", "assistant", "system", "tool"]),
    fields=messages,
    inside=st.booleans(),
    new=st.lists(ids, min_size=2, max_size=2),
)
def test_the_message_of_whatever_a_body_may_say_is_the_checked_one(
    role: str, fields: dict[str, Any], inside: bool, new: list[str]
) -> None:
    content = fields.pop("content")
    drafts = [accepted(draft_message, new[0], role, content, **fields), draft_text(new[0], role, content)]

    for draft in drafts:
        if draft is not None:
            same_as_checked(added(new[1] if inside else None, draft), 7)


@usual
@given(
    reason=st.none() | texts | st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True),
    stopped=st.booleans(),
    now=st.integers(0, 1 << 52),
)
def test_the_finish_of_whatever_success_a_body_may_name_is_the_checked_one(
    reason: str | None, stopped: bool, now: int
) -> None:
    thread = in_phase(Phase.RUNNING)
    code = None if reason is None else accepted(check_stop, reason)
    ended = BodyEnded("e1", "returned", code, stopped)
    ended_at = thread.facts.last_time + 1 + now
    thread.take(ended, rows=[])
    assert thread.state.ending is not None
    thread.state.ending = thread.state.ending._replace(finished_at=ended_at)

    (event,) = thread.judge(Released("e1")).events

    assert isinstance(event, ExecutionFinished)
    same_as_checked(event, ended_at)
    assert (event.outcome, event.reason) == ("succeeded", code or ("stopped" if stopped else "awaiting_human"))


def test_only_a_success_that_leaves_nothing_behind_is_made_without_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Event] = []
    monkeypatch.setattr("treadle.protocol.ending.finished", lambda *fields: made.append(finished(*fields)) or made[-1])

    def finish(thread: Pure, ended: BodyEnded, leftovers: tuple[str, ...]) -> Decision:
        thread.take(ended, rows=[])
        return thread.take(Released("e1", leftovers))

    for ended, leftovers in (
        (BodyEnded("e1", "raised", error_type="E", error_message="m"), ()),
        (BodyEnded("e1", "cancelled"), ()),
        (BodyEnded("e1"), ("a file",)),
    ):
        (event,) = finish(in_phase(Phase.RUNNING), ended, leftovers).events
        assert isinstance(event, ExecutionFinished)
        assert (event.error_type is not None) == (event.outcome == "failed")
        assert not made
    finish(in_phase(Phase.STOPPING), BodyEnded("e1"), ())
    assert not made
    finish(in_phase(Phase.RUNNING), BodyEnded("e1"), ())
    assert len(made) == 1


@pytest.mark.parametrize(
    "event",
    [
        started("e", "a", "i", [], b"d", True, 1.0),
        added(None, {"id": "m", "role": "user", "content": "x"}),
        finished("e", "a", 1, None),
    ],
)
def test_an_event_that_was_not_checked_is_as_frozen_and_as_copyable_as_any(event: Event) -> None:
    before = event.model_copy()

    with pytest.raises(ValidationError):
        event.execution_id = "other"  # type: ignore[attr-defined]
    changed = event.model_copy(update={"execution_id": "other"})

    assert event == before == event.model_copy(deep=True)
    assert event.model_fields_set == set(type(event).model_fields)
    assert changed != event
    assert type(event).model_validate(event.model_dump()) == event
    assert isinstance(event, ExecutionStarted | MessageAdded | ExecutionFinished)
