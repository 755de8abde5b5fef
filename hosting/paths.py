"""Owns how a path becomes segments: decoded once, strictly, so that one thing has one path. Knows no route.

An id may hold a slash, which its sender encodes. A server hands paths on decoded, and there `%2F` and `/` are one, and
broken UTF-8 becomes another name. So paths are read anew from the bytes that came; routes take an id as
`{thread_id:id}`, and the last one of a path, which may hold anything, as `{key:rest}`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor

from .problems import problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Paths"]

_SLASH = "\udc2f"  # stands for an encoded slash until the routes were told apart; no decoded text can hold it


class _Id(Convertor[str]):
    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(_SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", _SLASH)


class _Rest(_Id):
    regex = "(?s:.+)"  # a key may hold line ends, also as its last character


register_url_convertor("id", _Id())
register_url_convertor("rest", _Rest())


class Paths:
    """Read the path of every request anew, and refuse one that is no UTF-8."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] in ("http", "websocket") and scope.get("raw_path") is not None:
            path = _decoded(scope["raw_path"], scope.get("root_path", ""))
            if path is None:
                refusal = problem_of(400, "invalid_path", "the path is no UTF-8 once it is decoded")
                await refusal(scope, receive, send)
                return
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def _decoded(raw: bytes, root: str) -> str | None:
    """Return a path in which encoded slashes are marked, None where it is no text.

    Args:
        raw: as it came.
        root: where the app is mounted; its own slashes are none of ours.
    """
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw.partition(b"?")[0].split(b"/")]
    except UnicodeDecodeError:
        return None
    for depth in range(1, len(segments) + 1 if root else 1):
        if "/".join(segments[:depth]) == root:
            return root + "".join(f"/{segment}" for segment in _marked(segments[depth:]))
    return "/".join(_marked(segments))


def _marked(segments: list[str]) -> list[str]:
    return [segment.replace("/", _SLASH) for segment in segments]
