"""Owns the making of the three events of a usual execution out of fields that were checked where they came in. Checks none.

Nearly every execution is an input, what its body says to it, and a success. Checking each of their fields once more takes
three times as long as all else that is decided about them. An event that cannot be read back must never be written all the
same: so there is a function for each, it takes only what is not always so, and says of that which check made it right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel

from .events import ExecutionFinished, ExecutionStarted, MessageAdded

if TYPE_CHECKING:
    from .messages import Draft

__all__ = ["added", "filled", "finished", "started"]

M = TypeVar("M", bound=BaseModel)

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


def filled(model: type[M], fields: dict[str, Any], named: set[str]) -> M:
    """Return a frozen model of fields that were checked before.

    Args:
        model: its class.
        fields: all of them, in the order of the class: the stored form is their values in this order.
        named: those that were given; shared, so never changed.
    """
    made = _new(model)
    _fields(made, fields)
    _named(made, named)
    _extra(made, None)
    _private(made, None)
    return made


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
    fields = {
        "execution_id": execution_id, "agent_id": agent_id, "cause": "submit", "input_id": input_id, "messages": messages,
        "digest": digest, "steerable": steerable, "timeout": timeout,
    }  # fmt: skip
    return filled(ExecutionStarted, fields, _STARTED)


def added(execution_id: str | None, message: Draft) -> MessageAdded:
    """Return the event of a message that joins history at once.

    Args:
        execution_id: that of an execution whose START was written, or None for a message from outside.
        message: what `draft_message` or `draft_text` returned.
    """
    return filled(MessageAdded, {"execution_id": execution_id, "message": message}, _ADDED)


def finished(execution_id: str, agent_id: str, finished_at: int, reason: str | None) -> ExecutionFinished:
    """Return the FINISH of a success that leaves nothing behind: no other has no error, whatever it is given.

    Args:
        execution_id, agent_id: those of a START that was written.
        finished_at: microseconds, a trigger's own time.
        reason: a code of ours, or passed by `check_stop`.
    """
    fields = {
        "execution_id": execution_id, "agent_id": agent_id, "outcome": "succeeded", "finished_at": finished_at,
        "error_type": None, "error_message": None, "reason": reason, "abandoned": False, "leftovers": [],
    }  # fmt: skip
    return filled(ExecutionFinished, fields, _FINISHED)
