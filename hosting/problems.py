"""Owns how what went wrong is said over HTTP: one table from an error to its status, one form. Raises nothing itself."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ..protocol import errors
from ..protocol.errors import TreadleError, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

__all__ = [
    "PROBLEM_TYPE", "Problem", "Refused", "handle_errors", "problem", "problem_of", "problems", "status_of",
]  # fmt: skip

logger = logging.getLogger("treadle")

PROBLEM_TYPE = "application/problem+json"

# By class, the most special first: what is not named goes by its parent.
_STATUSES: tuple[tuple[type[TreadleError], int], ...] = (
    (errors.LimitExceeded, 413),
    (errors.ThreadNotFound, 404),
    (errors.ExecutionNotFound, 404),
    (errors.AgentNotFound, 404),
    (errors.InputNotFound, 404),
    (errors.MessageNotFound, 404),
    (errors.ThreadExists, 409),
    (errors.ThreadTerminated, 409),
    (errors.IdempotencyConflict, 409),
    (errors.InputWithdrawn, 409),
    (errors.CursorConflict, 409),
    (errors.WaitCycle, 409),
    (errors.InvalidDefinitions, 500),
    (errors.CallerError, 400),
    (errors.StorageFull, 507),
    (errors.ThreadOverloaded, 429),
    (errors.ThreadQuarantined, 423),
    (errors.Unavailable, 503),
    (TreadleError, 500),
)
# Of what only HTTP knows.
_BY_CODE = {"unauthenticated": 401}
_OF_HTTP = {404: "route_not_found", 405: "method_not_allowed", 413: "limit_exceeded"}
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_RETRY_AFTER_S = "1"
_ENVELOPES = frozenset({"USER_MESSAGES_INPUT", "STEERING_INPUT", "INTERRUPTION_REQUEST", "QUEUED_TOOL_INPUT"})
_OURS = frozenset({"type", "title", "status", "detail", "code"})


class Problem(BaseModel):
    """What went wrong (RFC 9457); further members are the ids and values needed to act.

    Attributes:
        code: stable; what programs compare. The same as that of the error in process.
    """

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str


class Refused(Exception):
    """A request that HTTP's own rules refuse, before it became a call; nothing was stored.

    Args:
        status: of the answer.
        code: of the problem.
        detail: one sentence.
        headers: of the answer.
        more: further members.
    """

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers
        self.more = more


def status_of(error: TreadleError) -> int:
    """Return the HTTP status of an error."""
    return _BY_CODE.get(error.code) or next(status for kind, status in _STATUSES if isinstance(error, kind))


def problem(error: TreadleError | Refused) -> Response:
    """Return the answer that says what went wrong; its code and ids are those of the error in process."""
    if isinstance(error, Refused):
        return _document(error.status, error.code, error.detail, error.headers, error.more)
    status = status_of(error)
    headers = {}
    if status in (429, 503):
        headers["retry-after"] = _RETRY_AFTER_S
    elif status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 500:
        # What is wrong with the store or with us is for its keeper to read, and no client can act on it.
        logger.error("A call failed: %s", error, exc_info=error, extra={"code": error.code})
        return problem_of(status, error.code, "the server met an error of its own; its log says more")
    return _document(status, error.code, error.message, headers, error.details)


def problem_of(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """Return a problem document.

    Args:
        status: of the answer.
        code: stable, snake_case.
        detail: one sentence.
        headers: of the answer.
        more: further members; JSON data.
    """
    return _document(status, code, detail, headers, more)


def _document(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None, more: Mapping[str, object]
) -> Response:
    body = {
        "type": f"about:blank#{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "detail": detail,
        "code": code,
        **{key: value for key, value in more.items() if key not in _OURS},
    }
    # ASCII, since a detail may show a caller's broken Unicode; `default`, since an error must be told whatever it holds.
    return Response(json.dumps(body, default=shorten), status, dict(headers or {}), PROBLEM_TYPE)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that may answer problems of these statuses, beside those that any route may."""
    schema = {"content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {status: {"description": _SAYS[status], **schema} for status in sorted({*_ANY, *statuses})}


_SAYS = {
    400: "The request is malformed; nothing was stored.",
    401: "No token, or an unknown one.",
    403: "This principal may not do that.",
    404: "There is no such thing, or it is somebody else's.",
    408: "The body did not come in time.",
    409: "It conflicts with what is stored; repeating it changes nothing.",
    413: "A limit was met; it is named.",
    415: "The body is not JSON.",
    421: "The host is none of this server's.",
    423: "The thread rests until the store is opened again.",
    429: "Too much at once, of the thread or of this caller; nothing was stored.",
    431: "The headers are too large.",
    500: "The server's own error; its log says more.",
    503: "Not now; repeat with the same id.",
    507: "The store is full; nothing was stored.",
}
_ANY = (400, 401, 403, 421, 431, 500, 503)


def _allowed(request: Request) -> list[str]:
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        # HEAD is answered as GET is, wherever that is.
        if any(
            route.matches({**request.scope, "method": "GET" if method == "HEAD" else method})[0] is Match.FULL
            for route in routes
        )
    ]


def handle_errors(app: FastAPI) -> None:
    """Make an app answer every error with a problem document."""

    async def treadle(_request: Request, error: Exception) -> Response:
        assert isinstance(error, TreadleError | Refused)
        return problem(error)

    async def invalid(_request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return problem_of(400, "invalid_request", "the body is no JSON", position=first["loc"][-1])
        where, *parts = first["loc"] or ("request",)
        # What tells envelopes apart is a place for pydantic, and none in the JSON.
        inside = [part for part in parts if part not in _ENVELOPES]
        path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inside)
        return problem_of(400, "invalid_request", f"{first['msg']} at {where} {path}"[:500], path=path[:200])

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = _OF_HTTP.get(error.status_code, "invalid_request")
        # Starlette names the methods of the first route that has this path, and there are more of them.
        headers = {"allow": ", ".join(_allowed(request))} if error.status_code == 405 else error.headers
        return problem_of(error.status_code, code, str(error.detail), headers)

    async def unforeseen(_request: Request, error: Exception) -> Response:
        # Starlette raises it again after this, for the server's log.
        return problem_of(500, "internal_error", f"the server met a {type(error).__name__}; its log says more")

    app.add_exception_handler(TreadleError, treadle)
    app.add_exception_handler(Refused, treadle)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, unforeseen)
