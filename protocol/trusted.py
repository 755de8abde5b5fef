"""Owns the making of the three events of a usual execution out of fields that were checked where they came in. Checks none.

Nearly every execution is an input, what its body says to it, and a success. Checking each of their fields once more takes
three times as long as all else that is decided about them. An event that cannot be read back must never be written all the
same: so there is a function for each, it takes only what is not always so, and says of that which check made it right.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from .events import ExecutionFinished, ExecutionStarted, MessageAdded
from .messages import Draft

__all__ = ["added", "finished", "started"]

_new: Final = object.__new__
# What a model is made of, in pydantic's own slots: set as its validator sets them, in two thirds of the time of `setattr`.
_SLOTS: Final[Any] = BaseModel.__dict__
_fields: Final = _SLOTS["__dict__"].__set__
_named: Final = _SLOTS["__pydantic_fields_set__"].__set__
_extra: Final = _SLOTS["__pydantic_extra__"].__set__
_private: Final = _SLOTS["__pydantic_private__"].__set__
# One set for all events of a kind: they are frozen, and a copy of one copies its set.
_STARTED: Final = set(ExecutionStarted.model_fields)
_ADDED: Final = set(MessageAdded.model_fields)
_FINISHED: Final = set(ExecutionFinished.model_fields)


def started(
    execution_id: str, agent_id: str, input_id: str | None, messages: list[Draft], digest: bytes | None, steerable: bool,
    timeout: float | None,
) -> ExecutionStarted:  # fmt: skip
    """Return the START of a submit.

    Args:
        execution_id: made by `format_id`.
        agent_id: of a registered agent, whose name `check_id` passed.
        input_id: made by `format_id`, or passed by `check_id`.
        messages: what `draft_messages` or `draft_text` returned.
        digest: made by a hash, or None.
        steerable: made by `bool`.
        timeout: seconds, made by `float`, or None.
    """
    event = _new(ExecutionStarted)
    # The stored form is the values in this order, which is that of the class.
    fields = {
        "execution_id": execution_id, "agent_id": agent_id, "cause": "submit", "input_id": input_id, "messages": messages,
        "digest": digest, "steerable": steerable, "timeout": timeout,
    }  # fmt: skip
    _fields(event, fields)
    _named(event, _STARTED)
    _extra(event, None)
    _private(event, None)
    return event


def added(execution_id: str | None, message: Draft) -> MessageAdded:
    """Return the event of a message that joins history at once.

    Args:
        execution_id: that of an execution whose START was written, or None for a message from outside.
        message: what `draft_message` or `draft_text` returned.
    """
    event = _new(MessageAdded)
    _fields(event, {"execution_id": execution_id, "message": message})
    _named(event, _ADDED)
    _extra(event, None)
    _private(event, None)
    return event


def finished(execution_id: str, agent_id: str, finished_at: int, reason: str | None) -> ExecutionFinished:
    """Return the FINISH of a success that leaves nothing behind: no other has no error, whatever it is given.

    Args:
        execution_id, agent_id: those of a START that was written.
        finished_at: microseconds, a trigger's own time.
        reason: a code of ours, or passed by `check_stop`.
    """
    event = _new(ExecutionFinished)
    fields = {
        "execution_id": execution_id, "agent_id": agent_id, "outcome": "succeeded", "finished_at": finished_at,
        "error_type": None, "error_message": None, "reason": reason, "abandoned": False, "leftovers": [],
    }  # fmt: skip
    _fields(event, fields)
    _named(event, _FINISHED)
    _extra(event, None)
    _private(event, None)
    return event
