"""Owns the table of hooks: when each is called, what it may change, what its failure means. Calls none.

A hook is called with the `ThreadState` and what `takes` names. Where `changes` names one of these, what it returns takes
that one's place and is handed to the next hook of the kind; anything that fails `accepts` is a failure like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from pydantic import ValidationError

from ..protocol.errors import CallerError, TreadleError, Unavailable
from ..protocol.messages import Message
from ..protocol.values import check_value
from .tool_calls import check_tool_calls
from .tool_result import ToolResult, is_storable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .models.seam import ToolCall

__all__ = ["HOOKS", "HOOK_SECONDS_MAX", "BlockRun", "HookBlocked", "HookKind", "HookLike", "HookTimedOut", "markdown"]

OnFailure: TypeAlias = Literal["log", "refuse", "block"]

FIXED_FIELDS: Final = ("id", "tool_calls", "tool_call_id", "tool_status", "parent_id", "depth")
HOOK_SECONDS_MAX: Final = 10.0  # of one hook, on the runtime's clock; an execution must not hang on an observer


class HookLike(Protocol):
    """A hook as the runner knows it: its kind, its id and the function; `Hook` is one."""

    @property
    def hook(self) -> str: ...  # noqa: D102 - as in the class's own words
    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def function(self) -> Callable[..., object]: ...  # noqa: D102


class BlockRun(Exception):
    """Raised by a `prefilter_llm_history` hook: the run ends before the model is asked, as `hook_blocked`.

    Any other exception with a true `block` does the same. Its text is what the thread's last message says.
    """

    block = True


class HookBlocked(CallerError):
    """A hook stopped the run; `details` has the `hook` and its `kind`, the message is the hook's own text."""

    code = "hook_blocked"


class HookTimedOut(Unavailable):
    """A hook did not end in its time; `details` has the `hook`, its `kind` and the `seconds`."""

    code = "hook_timed_out"


class HookKind(NamedTuple):
    """One row of the table.

    Attributes:
        when: the moment, in words.
        takes: what it is called with after the state.
        changes: which of these its result replaces; None for a hook that only observes.
        on_failure: `log` keeps the original and goes on; `refuse` also lets an `inject_message` fail with the hook's
            error; `block` also ends the run, if the error asks for it.
        accepts: says whether a result may replace the original, given as the second.
    """

    when: str
    takes: tuple[str, ...] = ()
    changes: str | None = None
    on_failure: OnFailure = "log"
    accepts: Callable[[object, object], bool] = lambda _new, _old: True

    @property
    def place(self) -> int | None:
        """The index of what it changes among what it takes."""
        return None if self.changes is None else self.takes.index(self.changes)


def _text(new: object, _old: object) -> bool:
    return isinstance(new, str)


def _messages(new: object, old: object) -> bool:
    return _each(new, old, _is_message)


def _llm_messages(new: object, old: object) -> bool:
    return _each(new, old, _is_llm_message)


def _each(new: object, old: object, is_one: Callable[[object], bool]) -> bool:
    # What was handed in is not looked at again: most hooks leave most of a long history as it is.
    known = {id(one) for one in old} if isinstance(old, list | tuple) else set()
    return isinstance(new, list | tuple) and all(id(one) in known or is_one(one) for one in new)


def _is_message(one: object) -> bool:
    """Say whether it is a message also in what it holds: `model_copy` and `model_construct` check nothing."""
    if not isinstance(one, Message):
        return False
    try:
        Message.model_validate(dict(one.__dict__))
        if one.tool_calls:
            check_tool_calls(one.tool_calls)
    except (ValidationError, TreadleError):
        return False
    return True


def _is_llm_message(one: object) -> bool:
    from .models.seam import Attachment, ModelMessage, ToolCall

    return (
        isinstance(one, ModelMessage)
        and one.role in ("system", "user", "assistant", "tool")
        and all(
            text is None or isinstance(text, str) for text in (one.content, one.tool_call_id, one.name, one.reasoning)
        )
        and isinstance(one.attachments, tuple)
        and all(isinstance(held, Attachment) for held in one.attachments)
        and isinstance(one.tool_calls, tuple)
        and all(isinstance(call, ToolCall) and _is_call(call) for call in one.tool_calls)
    )


def _is_call(call: ToolCall) -> bool:
    return all(isinstance(text, str) for text in (call.id, call.name, call.arguments))


def _fields(new: object, _old: object) -> bool:
    try:
        return isinstance(new, dict) and isinstance(check_value(new), dict)
    except TreadleError:
        return False


def _draft(new: object, old: object) -> bool:
    # Its id is promised to callers, and each call has exactly one result: those are not a hook's to change.
    if not (isinstance(new, dict) and isinstance(old, dict) and _fields(new, old)):
        return False
    return all(new.get(key) == old.get(key) for key in FIXED_FIELDS)


def _result(new: object, old: object) -> bool:
    return isinstance(new, type(old)) and (not isinstance(new, ToolResult) or new is old or is_storable(new))


def _result_or_none(new: object, old: object) -> bool:
    return new is None or _result(new, old)


HOOKS: Final[Mapping[str, HookKind]] = MappingProxyType(
    {
        "after_thread_created": HookKind("once, after a thread was created; at rest"),
        "after_system_message": HookKind(
            "before each model step, once the system message is rendered", ("text",), "text", accepts=_text
        ),
        "filter_messages": HookKind(
            "before each model step, on the history that the request is made of", ("messages",), "messages", accepts=_messages
        ),
        "prefilter_llm_history": HookKind(
            "before each model step, on the messages as the model gets them", ("messages",), "messages", "block", _llm_messages
        ),
        "before_create_message": HookKind(
            "before a message is stored; for one that waited, when it joins", ("message",), "message", "refuse", _draft
        ),
        "after_create_message": HookKind("after a message was stored, or joined", ("message",)),
        "before_update_message": HookKind(
            "before a message is changed", ("message_id", "updates"), "updates", accepts=_fields
        ),
        "after_update_message": HookKind("after a message was changed", ("message_id", "updates")),
        "before_store_tool_result": HookKind(
            "after a tool has run, before its result is stored", ("call", "result"), "result", accepts=_result
        ),
        "after_tool_call_success": HookKind(
            "after a call succeeded; None drops call and result from what the model reads", ("call", "result"), "result",
            accepts=_result_or_none,
        ),
        "after_tool_call_failure": HookKind(
            "after a call failed; None drops call and result from what the model reads", ("call", "result"), "result",
            accepts=_result_or_none,
        ),
        "tool_call_started": HookKind("before a tool runs", ("call",)),
        "tool_call_done": HookKind("after a call's result is stored", ("call", "result")),
    }
)  # fmt: skip


def markdown() -> str:
    """Return the table for people."""
    said = {"log": "logged, the original stays", "refuse": "as above; an `inject_message` fails with it",
            "block": "as above; an error with `block = True` ends the run as `hook_blocked`"}  # fmt: skip
    lines = ["| Hook | When | Takes, after the state | May change | Its failure |", "|---|---|---|---|---|"]
    for name, kind in HOOKS.items():
        takes = ", ".join(f"`{one}`" for one in kind.takes) or "-"
        changes = f"`{kind.changes}`" if kind.changes else "-"
        lines.append(f"| `{name}` | {kind.when} | {takes} | {changes} | {said[kind.on_failure]} |")
    return "\n".join(lines) + "\n"
