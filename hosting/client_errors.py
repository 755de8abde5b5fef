"""Owns how an answer that is no success becomes an error: by its code, of the class that the runtime itself raises.

A program that speaks to a server catches what it would catch in process. Sends nothing, repeats nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from ..protocol import errors as known
from ..protocol.errors import (
    CallerError,
    InternalError,
    InvalidInput,
    OutcomeUnknown,
    TreadleError,
    Unavailable,
    shorten,
)

__all__ = ["error_of", "lost", "retry_after"]

# What problem documents say of themselves; everything else in them is detail of the error.
_OF_THE_DOCUMENT: Final = frozenset({"type", "title", "status", "detail", "code", "instance"})
_PASSING: Final = frozenset({429, 502, 503, 504})  # what proxies say, too, of a server that is away for now
_RETRY_AFTER_MAX_S: Final = 60.0


def _kinds(kind: type[TreadleError]) -> Iterator[type[TreadleError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


# Of protocol/errors.py alone: what other layers derive says more than a code, and goes by its fault.
_BY_CODE: Final[Mapping[str, type[TreadleError]]] = {
    kind.code: kind for kind in _kinds(TreadleError) if kind.__module__ == known.__name__
}


def error_of(status: int, body: bytes) -> TreadleError:
    """Return the error that an answer stands for.

    Args:
        status: the HTTP status; it says whose fault an unknown code is.
        body: of the answer; a problem document, or whatever a proxy wrote.

    Returns:
        An error of the class that has this code; else `InvalidInput` or another `CallerError` with the code for 4xx,
        `Unavailable` where repeating may help, `InternalError` for the rest.
    """
    problem = _problem(body)
    code = problem.get("code")
    if not isinstance(code, str) or not code:
        code = None
    said = problem.get("detail") or problem.get("title")
    message = (
        said
        if isinstance(said, str)
        else f"the server answered {status}, not as Treadle does: {shorten(_text(body), 120)}"
    )
    details = {key: value for key, value in problem.items() if key not in _OF_THE_DOCUMENT}
    return _made(status, code, message, details)


def _made(status: int, code: str | None, message: str, details: dict[str, object]) -> TreadleError:
    error: TreadleError
    kind = _kind(code)
    if kind is not None:
        error = kind(message)
    elif status in {400, 413, 422}:
        error = InvalidInput(message, code=code or InvalidInput.code)
    elif status < 500 and status not in _PASSING:
        error = CallerError(message)
    elif status in _PASSING:
        error = Unavailable(message)
    else:
        error = InternalError(message)
    if kind is None and code is not None:
        error.__dict__["code"] = code
    # Set behind the constructor, whose own names a detail may bear.
    error.details = details if code is not None else {**details, "status": status}
    return error


def _kind(code: str | None) -> type[TreadleError] | None:
    if code == "unauthenticated":
        # Local, since it brings the server's packages, which a client else does not load.
        from .auth import Unauthenticated

        return Unauthenticated
    return None if code is None else _BY_CODE.get(code)


def _problem(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(body: bytes) -> str:
    # Of a page what people read.
    return " ".join(re.sub(r"<[^>]*>", " ", body[:2_000].decode(errors="replace")).split())


def lost(cause: Exception, url: str, *, sent: bool, **details: object) -> Unavailable:
    """Return the error of a call without an answer.

    Args:
        cause: what the connection died of.
        url: whom it was for.
        sent: whether the server may have got it and may have written something.
        details: what a repeat needs, such as the id.
    """
    why = str(cause) or type(cause).__name__
    if sent:
        return OutcomeUnknown(f"no answer from {url} ({why}): whether it was written is unknown", url=url, **details)
    return Unavailable(f"cannot reach {url} ({why})", url=url, **details)


def retry_after(value: str | None) -> float:
    """Return the seconds that a `retry-after` header asks for, 0.0 where it has none that we read, at most a minute."""
    if value is None or not value.isascii() or not value.isdigit():
        return 0.0
    return min(float(value[:9]), _RETRY_AFTER_MAX_S)
