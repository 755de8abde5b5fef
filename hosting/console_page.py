"""Owns the console as it is served: one page at the root, its files, and what a browser may do with them. Knows no thread.

All that the page shows it asks of the same routes as every client, with the same token; the files themselves are public.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from .auth import Principal, principal
from .hosted import hosted
from .problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["POLICY", "router"]

# Nothing but what this server sends, no frame around it, no markup made of text: what threads say is not ours.
_RULES: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
POLICY: Final = "; ".join(f"{name} {value}" for name, value in _RULES.items())
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    # Asked about each time, answered without a body where nothing changed: no old page meets a new server.
    "cache-control": "no-cache",
}
# Said here, since what a machine's own table says of .js differs, and browsers run no script of another kind.
_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
_INDEX: Final = "index.html"


class _File(NamedTuple):
    body: bytes
    kind: str
    tag: str


def _read() -> Mapping[str, _File]:
    """Read the files of the package once, so that serving one opens nothing and no path can lead elsewhere."""
    found = {}
    for item in resources.files(__package__).joinpath("console").iterdir():
        kind = _KINDS.get(item.name.rpartition(".")[2])
        if kind is not None:
            body = item.read_bytes()
            found[item.name] = _File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


_FILES: Final = _read()

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Return the page; it needs no token, and shows nothing without one."""
    return _answer(request, _FILES[_INDEX])


@router.get("/console/agents")
async def agents(request: Request, _who: Annotated[Principal, Depends(principal)]) -> Response:
    """Return the names of the agents that a new thread can have, for the page's own choice."""
    return JSONResponse({"agents": hosted(request).runtime.agents}, headers={"cache-control": "no-store"})


@router.api_route("/console/{name}", methods=["GET", "HEAD"])
async def part(request: Request, name: str) -> Response:
    """Return one of the page's files."""
    found = _FILES.get(name)
    if found is None or name == _INDEX:
        return problem_of(404, "route_not_found", "the console has no such file")
    return _answer(request, found)


def _answer(request: Request, found: _File) -> Response:
    headers = {**_HEADERS, "etag": found.tag}
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type=found.kind)
