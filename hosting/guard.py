"""Owns the gate before every route: host, origin, sizes, form and pace of a request. Knows no route and stores nothing.

A page elsewhere can make a browser send requests to a server on this machine. What stops it: a `Host` that is none of ours
(a name that was rebound to our address), a foreign `Origin`, and a body that is not JSON, which no form can send.

A body is read here, whole and in its time, before the app is entered: a slow client then holds a connection and nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from .auth import Unauthenticated, authenticate, is_loopback
from .bodies import Bodies, Gone, header_values
from .problems import Refused, problem
from .targets import in_origin_form

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from .hosted import Limits

__all__ = ["Guard", "is_host_allowed"]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_JSON: Final = re.compile(r'application/(json|[\w.+-]+\+json)\s*(;\s*charset="?utf-8"?\s*)?', re.ASCII | re.IGNORECASE)
_HOST: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?", re.ASCII)
_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_LINE_BYTES: Final = 4  # of a header line beside its name and value: colon, blank, line end


class Guard:
    """Pure ASGI middleware: refuses a request with a problem document, or passes it on with its whole body at hand.

    Args:
        app: what is guarded.
        limits: of what one request may cost, and all of them together.
        allowed_hosts: names in `Host`, `*.example.org` with all below, `*` for all. By default the names of this machine
            for itself, and the address at which a connection arrived: no rebound name is an address.
        admits: called before a body is read, so that nobody unknown makes the server keep one; raises `Unauthenticated`.
    """

    def __init__(
        self, app: ASGIApp, *, limits: Limits, allowed_hosts: Sequence[str] | None = None,
        admits: Callable[[HTTPConnection], object] = authenticate,
    ) -> None:  # fmt: skip
        self._app = app
        self._limits = limits
        self._allowed = None if allowed_hosts is None else [host.lower() for host in allowed_hosts]
        self._admits = admits
        self._bodies = Bodies(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        body = None
        try:
            try:
                scope = in_origin_form(scope)
                self._check_head(scope)
                if scope["type"] == "http" and _has_body(scope):
                    # First who, then what: the body of somebody unknown is not read.
                    body = self._bodies.hold(self._admits(HTTPConnection(scope)))
                    receive = await body.read(scope, receive)
            except (Refused, Unauthenticated) as error:
                await _refuse(scope, receive, send, error)
                return
            except Gone:
                return
            await self._app(scope, receive, send)
        finally:
            if body is not None:
                body.release()

    def _check_head(self, scope: Scope) -> None:
        headers = scope["headers"]
        size = sum(len(name) + len(value) + _LINE_BYTES for name, value in headers)
        if size > self._limits.header_bytes:
            raise Refused(
                431, "limit_exceeded", f"the headers have {size} bytes; the limit header_bytes is {self._limits.header_bytes}",
                limit="header_bytes", maximum=self._limits.header_bytes, met=size,
            )  # fmt: skip
        if "\0" in scope["path"]:
            raise Refused(400, "invalid_request", "a path has no NUL")
        host = self._host(scope)
        is_unsafe = scope["type"] == "websocket" or scope["method"] not in _SAFE
        origins = header_values(scope, b"origin")
        if is_unsafe and origins and (len(origins) > 1 or not _is_same(origins[0], host)):
            raise Refused(403, "origin_not_allowed", "this request comes from a page of another origin")
        if scope["type"] == "http" and is_unsafe:
            _check_form(scope)
        elif _has_body(scope):
            # It would mean nothing here, and another thing elsewhere; and a stream would keep it for as long as it lasts.
            raise Refused(400, "invalid_request", "a request that reads has no body")

    def _host(self, scope: Scope) -> str:
        given = header_values(scope, b"host")
        found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if found is None:
            raise Refused(400, "invalid_request", "a request has one Host header: a name or an address, and a port")
        if not is_host_allowed(found["name"].lower(), self._allowed, scope.get("server")):
            raise Refused(421, "host_not_allowed", "this server has another name; its keeper can allow this one")
        return given[0]


def is_host_allowed(name: str, allowed: Sequence[str] | None, server: tuple[str, int | None] | None) -> bool:
    """Say whether a server answers to a name, in lower case.

    Args:
        name: from `Host`, without its port.
        allowed: as `Guard` says.
        server: the address at which the connection arrived.
    """
    if allowed is None:
        return is_loopback(name) or (server is not None and name.strip("[]") == server[0].lower())
    return any(
        host in ("*", name) or (host.startswith("*.") and name.endswith(host[1:]) and name != host[1:])
        for host in allowed
    )


def _has_body(scope: Scope) -> bool:
    lengths = header_values(scope, b"content-length")
    if lengths and not (len(lengths) == 1 and lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 20):
        raise Refused(400, "invalid_request", "Content-Length is one whole number")
    if not header_values(scope, b"transfer-encoding"):
        return bool(lengths and int(lengths[0]))
    if lengths or scope.get("http_version") == "1.0":
        # Whoever stands between may believe the other one, and take the rest of the body for a request (RFC 9112, 6.1).
        raise Refused(400, "invalid_request", "a body has a Content-Length or, in HTTP/1.1, a Transfer-Encoding")
    return True


def _check_form(scope: Scope) -> None:
    kinds = header_values(scope, b"content-type")
    if not kinds and not _has_body(scope):
        return
    if len(kinds) != 1 or not _JSON.fullmatch(kinds[0].strip()):
        raise Refused(415, "not_json", "the body is JSON in UTF-8: Content-Type: application/json")
    if header_values(scope, b"content-encoding"):
        raise Refused(415, "not_json", "the body is sent as it is, without Content-Encoding")


def _is_same(origin: str, host: str) -> bool:
    """Say whether a page's origin is this host; what ends TLS before us may have changed the scheme, so it counts not."""
    try:
        parts, own = urlsplit(origin), urlsplit(f"//{host}")
        ports = parts.port, own.port
    except ValueError:
        return False
    default = _PORTS.get(parts.scheme)
    same_name = parts.hostname is not None and parts.hostname == own.hostname
    return default is not None and same_name and (ports[0] or default) == (ports[1] or default)


async def _refuse(scope: Scope, receive: Receive, send: Send, error: Refused | Unauthenticated) -> None:
    response = problem(error)
    # What is left of the request is not read, so the connection cannot be used again.
    response.headers["connection"] = "close"
    if scope["type"] == "http":
        await response(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await receive()
        await response(scope, receive, send)
    else:
        await receive()
        await send({"type": "websocket.close", "code": 1008})
