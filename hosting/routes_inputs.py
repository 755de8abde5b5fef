"""Owns the routes of inputs: submit, steer, interrupt, call a tool, look one up, take one back. Decides nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from ..actors import Reply, Thread
from ..protocol.executions import ExecutionRecord
from ..protocol.receipts import Disposition, Receipt
from .envelopes import InputEnvelope, QueuedTool, Steering, UserMessages
from .long_polls import WaitQuery, long_polled
from .paging import answered
from .parameters import GivenKey, InputId, ThreadHere, Who, one_id
from .problems import Refused, problems
from .strict_route import StrictRoute
from .wire import (
    ControlReceiptAnswer,
    ExecutionAnswer,
    ReceiptAnswer,
    WithdrawalAnswer,
    execution_json,
    receipt_json,
)

__all__ = ["router"]

router = APIRouter(tags=["inputs"], route_class=StrictRoute)

_RECEIPT = ReceiptAnswer | ControlReceiptAnswer
_CONFLICT = {
    "model": ReceiptAnswer,
    "description": "Busy: a receipt with the active execution, and nothing was stored. Or a conflict: a problem.",
}


@router.post(
    "/threads/{thread_id:id}/inputs",
    status_code=202,
    responses={
        202: {"model": _RECEIPT, "description": "What became of it; what was accepted or queued is durable."},
        **problems(403, 404, 408, 413, 415, 423, 429, 507),
        409: {**problems(409)[409], **_CONFLICT},
    },
)
async def submit(thread: ThreadHere, who: Who, body: InputEnvelope, key: GivenKey) -> Response:
    """Hand in an input, a steer or an interruption (contract A.4, A.5); repeatable under its id or Idempotency-Key.

    An admin can have a tool called, too: by its name, whatever the agent's prompt lets a model call.
    """
    if isinstance(body, QueuedTool):
        if who.kind != "admin":
            raise Refused(
                403, "forbidden", "what an agent's tools may do is not its user's to do; an admin calls tools"
            )
        queued = await thread.queue_tool(body.name, body.args, input_id=one_id(key, body.input_id))
        return JSONResponse(receipt_json(queued), 202)
    if isinstance(body, UserMessages):
        given = one_id(key, body.input_id)
        receipt = await thread.submit(body.messages, input_id=given, on_busy=body.on_busy, timeout=body.timeout)
        return JSONResponse(receipt_json(receipt), 409 if receipt.disposition is Disposition.BUSY else 202)
    given = one_id(key, body.control_id)
    if isinstance(body, Steering):
        control = await thread.steer(body.execution_id, body.messages, control_id=given)
    else:
        control = await thread.interrupt(
            body.execution_id, reason=body.reason, source=body.source, hold=body.hold, control_id=given
        )
    return JSONResponse(receipt_json(control), 202)


@router.get(
    "/threads/{thread_id:id}/inputs/{input_id:rest}",
    responses={
        200: {"model": ExecutionAnswer},
        204: {"description": "It waits, and nothing has begun."},
        **problems(404, 409, 429),
    },
)
async def get_execution_of_input(
    request: Request, thread: ThreadHere, who: Who, input_id: InputId, query: Annotated[WaitQuery, Query()]
) -> Response:
    """Return the execution that an input came to; with `wait`, its end, if that comes in this time."""
    record = await long_polled(
        request, who, query, lambda: thread.execution_of(input_id).result(), lambda: _waited(thread, input_id)
    )
    return Response(status_code=204) if record is None else JSONResponse(execution_json(record))


def _waited(thread: Thread, input_id: str) -> Reply[ExecutionRecord]:
    # By the input and not by its execution: a termination or a withdrawal ends this wait, too.
    return thread.wait(Receipt(Disposition.QUEUED, input_id))


@router.get("/threads/{thread_id:id}/inbox/{input_id:rest}", responses={200: {"model": _RECEIPT}, **problems(404)})
async def get_receipt(thread: ThreadHere, input_id: InputId) -> Response:
    """Return the first receipt under an input or control id."""
    return await answered(lambda: receipt_json(thread.receipt(input_id).result()))


@router.delete(
    "/threads/{thread_id:id}/inbox/{input_id:rest}",
    responses={200: {"model": WithdrawalAnswer}, **problems(404, 423, 429, 507)},
)
async def withdraw(thread: ThreadHere, input_id: InputId) -> Response:
    """Take a waiting input back as a whole."""
    return JSONResponse({"status": await thread.withdraw(input_id)})
