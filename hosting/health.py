"""Owns `/healthz` and `/readyz`: whether the process lives, and whether it can take and finish work. Changes nothing."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from .hosted import hosted
from .strict_route import StrictRoute

__all__ = ["router"]

router = APIRouter(tags=["operations"], route_class=StrictRoute)

_FRESH = {"cache-control": "no-store"}


class Readiness(BaseModel):
    """Whether work can be taken and finished, and the codes of why not."""

    ready: bool
    reasons: list[str]


@router.get("/healthz", response_class=JSONResponse, summary="Say that the process answers")
async def healthz() -> dict[str, str]:
    """Say that the server's loop runs: for whoever would restart the process. Needs no token."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    response_class=JSONResponse,
    summary="Say whether work can be taken and finished",
    responses={200: {"model": Readiness}, 503: {"model": Readiness, "description": "It cannot; `reasons` say why."}},
)
async def readyz(request: Request) -> Response:
    """Say whether the runtime can take and finish work: for whoever sends requests here or elsewhere. Needs no token.

    Reasons are codes, and name no thread: `runtime_closed`, `loop_closed`, `loop_silent`, `dispatcher_silent`, `blocked`,
    or the code of the store's failure.
    """
    # On the loop, and not on a worker: it never blocks, and all workers may be held.
    ready, reasons = hosted(request).runtime.ready()
    # Anybody may ask, so the threads that a reason names stay here; `explain` and the metrics tell those who may know.
    codes = [reason.partition(":")[0] for reason in reasons]
    return JSONResponse({"ready": ready, "reasons": codes}, 200 if ready else 503, headers=_FRESH)
