"""Owns the routes of what runs: state, executions, explanation, answers to requests, stop and resume. Decides nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from ..protocol.limits import PAGE_BYTES
from .envelopes import RequestAnswer
from .long_polls import WaitQuery, long_polled
from .paging import ExecutionsQuery, answered
from .parameters import ExecutionId, ThreadHere, Who
from .problems import problems
from .strict_route import StrictRoute
from .wire import (
    ControlReceiptAnswer,
    ExecutionAnswer,
    ExecutionsAnswer,
    ExplanationAnswer,
    ReceiptAnswer,
    RespondAnswer,
    StateAnswer,
    execution_json,
    executions_json,
    explanation_json,
    receipt_json,
    state_json,
)

__all__ = ["router"]

router = APIRouter(tags=["executions"], route_class=StrictRoute)


@router.get("/threads/{thread_id:id}/state", responses={200: {"model": StateAnswer}, **problems(404)})
async def get_state(thread: ThreadHere) -> Response:
    """Return who owns the thread now, what is pending, and the cursor up to which history is published."""
    return await answered(lambda: state_json(thread.state().result()))


@router.get("/threads/{thread_id:id}/explain", responses={200: {"model": ExplanationAnswer}, **problems(404)})
async def explain(thread: ThreadHere) -> Response:
    """Say who holds the thread, where, what waits behind, and what will happen next."""
    return await answered(lambda: explanation_json(thread.explain().result()))


@router.get("/threads/{thread_id:id}/executions", responses={200: {"model": ExecutionsAnswer}, **problems(404)})
async def list_executions(thread: ThreadHere, query: Annotated[ExecutionsQuery, Query()]) -> Response:
    """List executions, newest first."""
    options = query.given()
    return await answered(lambda: executions_json(thread.executions(**options, bytes_max=PAGE_BYTES).result()))


@router.get(
    "/threads/{thread_id:id}/executions/{execution_id:id}",
    responses={200: {"model": ExecutionAnswer}, **problems(404, 429)},
)
async def get_execution(
    request: Request, thread: ThreadHere, who: Who, execution_id: ExecutionId, query: Annotated[WaitQuery, Query()]
) -> Response:
    """Return one execution as history tells it; with `wait`, at its end, if that comes in this time."""
    record = await long_polled(
        request, who, query, lambda: thread.execution(execution_id).result(), lambda: thread.wait(execution_id)
    )
    assert record is not None, "what is read by its id has begun"
    return JSONResponse(execution_json(record))


@router.post(
    "/threads/{thread_id:id}/responses",
    responses={200: {"model": RespondAnswer}, **problems(404, 408, 413, 415, 423, 429, 507)},
)
async def respond(thread: ThreadHere, body: RequestAnswer) -> Response:
    """Answer a request of the live execution; the first answer is the one (contract A.12)."""
    return JSONResponse({"status": await thread.respond(body.request_id, body.value)})


@router.post(
    "/threads/{thread_id:id}/stop",
    status_code=202,
    responses={202: {"model": ControlReceiptAnswer}, **problems(404, 408, 413, 415, 423, 429, 507)},
)
async def stop(thread: ThreadHere) -> Response:
    """Interrupt whatever is active, and hold the thread."""
    return JSONResponse(receipt_json(await thread.stop()), 202)


@router.post(
    "/threads/{thread_id:id}/resume",
    status_code=202,
    responses={202: {"model": ReceiptAnswer}, **problems(404, 408, 409, 413, 415, 423, 429, 507)},
)
async def resume(thread: ThreadHere) -> Response:
    """Lift the hold, and start what waits or, with nothing waiting, run on the history there is."""
    return JSONResponse(receipt_json(await thread.resume()), 202)
