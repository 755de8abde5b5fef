"""Owns the forms in which a request names its target: a path, or a URL as proxies send it (RFC 9112, 3.2). Judges no host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from .problems import Refused

if TYPE_CHECKING:
    from starlette.types import Scope

__all__ = ["in_origin_form"]

_URL: Final = re.compile(rb"(?:https?|wss?)://(?P<host>[^/?#]+)(?P<path>/.*)?", re.IGNORECASE | re.DOTALL)


def in_origin_form(scope: Scope) -> Scope:
    """Return a request or WebSocket with a path for its target; the host of a URL replaces what `Host` says.

    Raises:
        Refused: 400: its target is neither, as those of proxies' own methods are.
    """
    raw = scope.get("raw_path")
    if raw is None or raw.startswith(b"/"):
        return scope
    found = _URL.fullmatch(raw)
    if found is None:
        raise Refused(400, "invalid_request", "the target of a request is a path, or a URL with a host")
    path = found["path"] or b"/"
    # One that is not there, or stands there twice, still is: what reads the headers refuses that.
    headers = [(name, found["host"] if name == b"host" else value) for name, value in scope["headers"]]
    return {**scope, "raw_path": path, "path": unquote(path.decode("ascii", "replace")), "headers": headers}
