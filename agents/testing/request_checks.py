"""Owns what a test asks of a request that a model got: who was told what, with which tools, and whether it is well formed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..models.seam import ModelMessage, ModelRequest

__all__ = ["assert_not_told", "assert_offered", "assert_told", "assert_well_formed", "conversation", "system_text"]


def conversation(request: ModelRequest) -> list[tuple[str, str]]:
    """Return role and text of each message but the system's, calls and results included."""
    return [(one.role, _text(one)) for one in request.messages if one.role != "system"]


def system_text(request: ModelRequest) -> str:
    """Return the system message; empty where there is none."""
    return "\n".join(one.content or "" for one in request.messages if one.role == "system")


def assert_told(request: ModelRequest, text: str, *, role: str | None = None) -> None:
    """Raises: AssertionError: no message, or none of that role, has the text."""
    if not any(text in _text(one) for one in request.messages if role in (None, one.role)):
        raise AssertionError(f"no {role or 'message'} says {text!r}:\n{_shown(request)}")


def assert_not_told(request: ModelRequest, text: str) -> None:
    """Raises: AssertionError: a message, a call, or the description of a tool has the text."""
    told = [*map(_text, request.messages), *(f"{one.name} {one.description} {one.schema}" for one in request.tools)]
    if any(text in one for one in told):
        raise AssertionError(f"{text!r} was told:\n{_shown(request)}")


def assert_offered(request: ModelRequest, *names: str) -> None:
    """Raises: AssertionError: the tools on offer are not exactly these, in this order."""
    offered = tuple(tool.name for tool in request.tools)
    if offered != names:
        raise AssertionError(f"offered are {', '.join(offered) or 'no tools'}, not {', '.join(names) or 'none'}")


def assert_well_formed(request: ModelRequest) -> None:
    """Check what every provider asks of a request.

    Raises:
        AssertionError: a system message stands behind another, a call is not followed at once by its one result, a
            result answers no call of the message before, or a message says nothing.
    """
    open_calls: list[str] = []
    wrong: list[str] = []
    for rank, one in enumerate(request.messages):
        if one.role == "tool":
            if one.tool_call_id in open_calls:
                open_calls.remove(one.tool_call_id)
            else:
                wrong.append(f"message {rank} answers {one.tool_call_id!r}, which is not open")
            continue
        if open_calls:
            wrong.append(f"message {rank} stands between calls and the results of {open_calls}")
            open_calls = []
        if one.role == "system" and rank:
            before = request.messages[rank - 1].role
            if before != "system":
                wrong.append(f"message {rank} is the system's, and stands behind {before}")
        if not (one.content or one.tool_calls or one.attachments):
            wrong.append(f"message {rank} says nothing")
        open_calls = [call.id for call in one.tool_calls]
    if open_calls:
        wrong.append(f"calls without a result at the end: {open_calls}")
    if wrong:
        raise AssertionError("\n".join([*wrong, _shown(request)]))


def _text(message: ModelMessage) -> str:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    files = [f"[{one.name}]" for one in message.attachments]
    return " ".join(part for part in [message.content or "", *calls, *files] if part)


def _shown(request: ModelRequest) -> str:
    return "\n".join(f"  {one.role}: {_text(one)}" for one in request.messages) or "  (no messages)"
