"""Owns the routes of inputs: submit, steer, interrupt, look one up, take one back. Decides nothing."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from ..protocol.receipts import Disposition
from .envelopes import InputEnvelope, Steering, UserMessages
from .paging import answered
from .parameters import GivenKey, InputId, ThreadHere, one_id
from .problems import problems
from .strict_route import StrictRoute
from .wire import ControlReceiptAnswer, ReceiptAnswer, WithdrawalAnswer, receipt_json

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
        **problems(404, 408, 413, 415, 423, 429, 507),
        409: {**problems(409)[409], **_CONFLICT},
    },
)
async def submit(thread: ThreadHere, body: InputEnvelope, key: GivenKey) -> Response:
    """Hand in an input, a steer or an interruption (contract A.4, A.5); repeatable under its id or Idempotency-Key."""
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
