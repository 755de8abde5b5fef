"""Holds treadle.hosting.client_answers: what wire.py makes JSON of comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from treadle.actors import (
    ActiveExecution,
    Blocked,
    ControlReceipt,
    Cursor,
    Disposition,
    ExecutionError,
    ExecutionPage,
    ExecutionRecord,
    Explanation,
    Message,
    MessagePage,
    Receipt,
    RespondStatus,
    ThreadLiveState,
    ThreadPage,
    ThreadStatus,
    ThreadSummary,
    ValueEntry,
    ValuePage,
    Withdrawal,
)
from treadle.hosting import client_answers as answers
from treadle.hosting import wire

ACTIVE = ActiveExecution("e", "clerk", 5, "running")
STATUS = ThreadStatus("running", 7, None)
RECEIPT = Receipt(Disposition.QUEUED, "i", ("m", "n"), "e", 5, ACTIVE, "steer", "f", held=True)
CONTROL = ControlReceipt(Disposition.EXECUTION_FINISHING, "c", "e", ACTIVE, held=True)
SUMMARY = ThreadSummary("t", "clerk", "mia", 1, STATUS, held=True, terminated_at=9, messages=3)
STATE = ThreadLiveState(STATUS, Cursor(2, 8), ACTIVE, ({"request_id": "r", "kind": "k"},), True, "why", 9, 4, "boot")
MESSAGE = Message(id="m", role="assistant", content="é", created_at=3, metadata={"a": [1]}, attachments=[{"name": "x"}])
RUN = ExecutionRecord(
    "e", "clerk", "failed", 1, 2, "failed", ExecutionError("T", "m"), "step_error", "i", "submit", True, ("file",), {"boot_id": "b"}
)  # fmt: skip
SAID = Explanation(
    "t", STATUS, ACTIVE, ("a", "b"), True, "user: why", ("call",), ("u",), ("r",), 1, 2, "FINISH", True, "why",
    Blocked("FINISH", 3, "full", 5), ("problem",), "next",
)  # fmt: skip
PAIRS = [
    (wire.receipt_json, answers.receipt_of, RECEIPT),
    (wire.receipt_json, answers.receipt_of, Receipt(Disposition.BUSY, None)),
    (wire.receipt_json, answers.control_receipt_of, CONTROL),
    (wire.thread_json, answers.thread_of, SUMMARY),
    (
        lambda page: wire.threads_json(page, unreadable=True),
        answers.threads_of,
        ThreadPage([SUMMARY], "5", {7: "torn"}),
    ),
    (wire.state_json, answers.state_of, STATE),
    (wire.state_json, answers.state_of, STATE._replace(active_execution=None, pending_requests=())),
    (wire.messages_json, answers.messages_of, MessagePage([MESSAGE], 1, has_more=False)),
    (wire.executions_json, answers.executions_of, ExecutionPage([RUN, RUN._replace(error=None)], 2, has_more=True)),
    (wire.values_json, answers.values_of, ValuePage([ValueEntry("k", None)], has_more=True)),
    (wire.explanation_json, answers.explanation_of, SAID),
    (wire.explanation_json, answers.explanation_of, SAID._replace(blocked=None, held_by=None)),
    (lambda status: {"status": status}, answers.withdrawal_of, Withdrawal.ALREADY_DELIVERED),
    (lambda status: {"status": status}, answers.respond_of, RespondStatus.TIMED_OUT),
]


@pytest.mark.parametrize(("say", "read", "what"), PAIRS, ids=lambda one: type(one).__name__)
def test_an_answer_comes_back_as_what_was_said(
    say: Callable[[Any], Any], read: Callable[[Any], Any], what: object
) -> None:
    sent = json.loads(json.dumps(say(what)))

    found = read(sent)

    assert found == what
    assert repr(found) == repr(what)  # tuples are equal to named ones, and enums to their text
    assert read({**sent, "of_tomorrow": 1}) == what
