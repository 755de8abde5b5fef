"""Tests hosting/wire.py: the models describe what the functions make, member by member."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import (
    ActiveExecution,
    Blocked,
    ControlReceipt,
    ExecutionRecord,
    Explanation,
    Receipt,
    Runtime,
    ThreadLiveState,
    ThreadStatus,
    ThreadSummary,
    ValueEntry,
)
from treadle.agents import ThreadState, agent
from treadle.hosting import wire
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel


ACTIVE = ActiveExecution("e", "a", 1, "running")


@agent
async def fails(state: ThreadState) -> None:
    raise ValueError("no")


@agent
async def asks(state: ThreadState) -> None:
    await state.request("approval", {"order": 1})


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[fails, asks], drain_timeout=0) as opened:
        yield opened


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (wire.Status, ThreadStatus),
        (wire.Active, ActiveExecution),
        (wire.ReceiptAnswer, Receipt),
        (wire.ControlReceiptAnswer, ControlReceipt),
        (wire.ThreadAnswer, ThreadSummary),
        (wire.StateAnswer, ThreadLiveState),
        (wire.ExecutionAnswer, ExecutionRecord),
        (wire.ExplanationAnswer, Explanation),
        (wire.BlockedAnswer, Blocked),
        (wire.ValueAnswer, ValueEntry),
    ],
)
def test_an_answer_has_the_members_of_what_it_is_made_of(model: type[BaseModel], kind: Any) -> None:
    assert tuple(model.model_fields) == kind._fields


def same(model: type[BaseModel], made: dict[str, Any]) -> None:
    """Compare what was made, once it went over the wire, with what its model reads of it."""
    sent = json.loads(json.dumps(made))
    assert model.model_validate(sent).model_dump(mode="json") == sent


def test_every_answer_fits_its_model(runtime: Runtime) -> None:
    thread = runtime.create_thread("fails", thread_id="t", user_id="u").result()
    receipt = thread.submit("go", input_id="i").result()
    thread.wait(receipt).result(60)
    thread.set_value("k", {"a": [1, None]}).result()

    same(wire.ReceiptAnswer, wire.receipt_json(receipt))
    same(wire.ThreadAnswer, wire.thread_json(thread.summary().result()))
    same(wire.ThreadsAnswer, wire.threads_json(runtime.threads().result(), unreadable=True))
    same(wire.StateAnswer, wire.state_json(thread.state().result()))
    same(wire.MessagesAnswer, wire.messages_json(thread.messages().result()))
    same(wire.ExecutionsAnswer, wire.executions_json(thread.executions().result()))
    same(wire.ExecutionAnswer, wire.execution_json(thread.executions().result().executions[0]))
    same(wire.ValuesAnswer, wire.values_json(thread.list_values().result()))
    same(wire.ExplanationAnswer, wire.explanation_json(thread.explain().result()))


def test_every_answer_of_a_thread_at_work_fits_its_model(runtime: Runtime) -> None:
    thread = runtime.create_thread("asks", thread_id="t").result()
    active = thread.submit("go").result().execution_id
    assert active is not None
    with thread.stream(after="1:0") as frames:
        while (frame := frames.next(20)) is not None and frame["type"] != "REQUEST_OPENED":
            continue

    same(wire.StateAnswer, wire.state_json(thread.state().result()))
    same(wire.ExplanationAnswer, wire.explanation_json(thread.explain().result()))
    same(wire.ReceiptAnswer, wire.receipt_json(thread.submit("me, too").result()))
    same(wire.ControlReceiptAnswer, wire.receipt_json(thread.interrupt(active).result()))


def test_what_the_store_refuses_is_explained(runtime: Runtime) -> None:
    thread = runtime.create_thread("asks", thread_id="t").result()
    said = thread.explain().result()._replace(blocked=Blocked("FINISH", 3, "no room", 5), held_by=ACTIVE)

    same(wire.ExplanationAnswer, wire.explanation_json(said))


def test_threads_that_do_not_decode_are_named_to_who_may_know(runtime: Runtime) -> None:
    page = runtime.threads().result()._replace(unreadable={7: "corrupt"})

    assert wire.threads_json(page, unreadable=True)["unreadable"] == {"7": "corrupt"}
    assert wire.threads_json(page, unreadable=False)["unreadable"] == {}
