"""Owns a handler's turn: its calls, one per inbound message, at most once each (contract E.6). Decides no turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from ..actors.fence import ExecutionFenced
from .queued_tools import run_queued
from .rows import reader
from .tool_result import failed_result
from .tool_run import uncancel

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ..protocol.messages import Message
    from ..protocol.values import JsonObject
    from .flow import Flow
    from .handler import Handler
    from .session import Session
    from .thread_state import ThreadState

__all__ = ["handler_turn", "inbound"]


def inbound(flow: Flow, session: Session) -> list[Message]:
    """Return what was said to the acting side and its handler was not called with, oldest first; blocks for reads."""
    last, role = session.handled[flow.side], reader(flow.side)
    found: list[Message] = []
    for message in reversed(flow.execution.history):
        if message.id == last.message_id:
            break
        if message.created_at < last.at:
            # That message was deleted: of those of the same moment none is handed over twice.
            found = [one for one in found if one.created_at > last.at]
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
        flow.message_id = message.id
        session.handle(flow.side, message)
        await session.save()
        await _deliver(flow, state, handler, message)
        await uncancel(state)
        if flow.execution.abort_signal.aborted:
            return
        await run_queued(flow, state)  # no step follows that would: beside a human the loop parks
        if flow.stopped or flow.course.session_end is not None:
            return  # the rest stays undelivered


async def _deliver(flow: Flow, state: ThreadState, handler: Handler, message: Message) -> None:
    about = {"kind": "handler_execution", "handler": handler.name, "message_id": message.id}
    try:
        if handler.runs_on == "loop":
            await cast("Awaitable[object]", handler.function(state, message))
        else:
            await flow.execution.call(handler.function, state, message)
    except ExecutionFenced as error:
        if flow.execution.fenced:
            raise
        _log_failure(state, about, error)  # it used the state of an execution that is over
    except asyncio.CancelledError as error:
        if flow.execution.abort_signal.aborted:
            raise
        _log_failure(state, about, error)
    except BaseException as error:  # noqa: BLE001 - fatal to this delivery only
        _log_failure(state, about, error)
    else:
        await uncancel(state)
        await state.log("info", f"handler {handler.name} was called", about)


def _log_failure(state: ThreadState, about: JsonObject, error: BaseException) -> None:
    failed = failed_result(error)
    told = {"error_type": "handler_execution_error", "error": failed.error, "stack": failed.stack}
    # For the runtime: this part of a state has nobody to wait for it.
    state._note(f"handler {about['handler']} failed", {**about, **told})  # noqa: SLF001
