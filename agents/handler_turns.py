"""Owns a handler's turn: its calls, one per inbound message, at most once each (contract E.6). Decides no turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from ..actors.fence import ExecutionFenced
from .rows import reader
from .tool_result import failed_result

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..protocol.messages import Message
    from .flow import Flow
    from .handler import Handler
    from .session import Session
    from .thread_state import ThreadState

__all__ = ["handler_turn", "inbound"]


def inbound(flow: Flow, session: Session) -> list[Message]:
    """Return what was said to the acting side and its handler was not called with, oldest first; blocks for reads."""
    since, role = session.handled[flow.side], reader(flow.side)
    found: list[Message] = []
    for message in reversed(flow.execution.history):
        if message.created_at <= since:
            break
        if message.depth == 0 and message.role == role and (message.content or message.attachments):
            found.append(message)
    found.reverse()
    return found


async def handler_turn(flow: Flow, state: ThreadState, session: Session, messages: list[Message]) -> None:
    """Call the acting side's handler with each message in order; what it raises ends only that delivery.

    That a message was handed over is durable before the call: after a crash it is not handed over again.

    Raises:
        ExecutionCancelled, ExecutionFenced: the execution is over.
    """
    flow.prompt = None
    given = flow.acting.handler
    assert given is not None
    handler = flow.agent.definitions.handler(given) if isinstance(given, str) else given
    for message in messages:
        flow.execution.begin("handler")
        session.handle(flow.side, message.created_at)
        await session.save()
        await _deliver(flow, state, handler, message)
        if flow.stopped or flow.course.session_end is not None or flow.execution.abort_signal.aborted:
            return  # the rest stays undelivered


async def _deliver(flow: Flow, state: ThreadState, handler: Handler, message: Message) -> None:
    try:
        if handler.runs_on == "loop":
            await cast("Awaitable[object]", handler.function(state, message))
        else:
            await flow.execution.call(handler.function, state, message)
    except ExecutionFenced:
        raise
    except asyncio.CancelledError as error:
        if flow.execution.abort_signal.aborted:
            raise
        _log(state, handler, message, error)
    except BaseException as error:  # noqa: BLE001 - fatal to this delivery only
        _log(state, handler, message, error)


def _log(state: ThreadState, handler: Handler, message: Message, error: BaseException) -> None:
    failed = failed_result(error)
    state._note(  # noqa: SLF001 - for the runtime: the part of a state that has nobody to wait for it
        f"handler {handler.name} failed",
        {
            "error_type": "handler_execution_error",
            "handler": handler.name,
            "message_id": message.id,
            "error": failed.error,
            "stack": failed.stack,
        },
    )
