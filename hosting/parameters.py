"""Owns what routes ask for by their parameters: who calls, the thread, the id that a call is repeated by. Stores nothing."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends, Header, Path
from pydantic import WithJsonSchema

from ..actors import Thread
from . import paths  # noqa: F401 - what a route takes an id as
from .auth import Principal, principal, visible
from .envelopes import ID_SCHEMA
from .problems import Refused

__all__ = ["ExecutionId", "GivenKey", "InputId", "MessageId", "ThreadHere", "ValueKey", "Who", "one_id"]

Who: TypeAlias = Annotated[Principal, Depends(principal)]
# Described alone, and judged by the handle: what is no id is `invalid_id`, as in process.
_PathId: TypeAlias = Annotated[
    str, Path(description="1 to 128 printable ASCII characters; a slash is sent as %2F."), WithJsonSchema(ID_SCHEMA)
]
ExecutionId: TypeAlias = _PathId
InputId: TypeAlias = _PathId
MessageId: TypeAlias = _PathId
ThreadId: TypeAlias = _PathId
ValueKey: TypeAlias = Annotated[
    str,
    Path(description="Any text but one that begins with `treadle:`."),
    WithJsonSchema({"type": "string", "minLength": 1, "pattern": r"^(?!treadle:)[^\u0000]+$"}),
]


async def _found(who: Who, thread_id: ThreadId) -> Thread:
    return visible(who, thread_id)


ThreadHere: TypeAlias = Annotated[Thread, Depends(_found)]


async def _key(
    idempotency_key: Annotated[
        str | None, Header(description="The same as `input_id` or `control_id`."), WithJsonSchema(ID_SCHEMA)
    ] = None,
) -> str | None:
    return idempotency_key


GivenKey: TypeAlias = Annotated[str | None, Depends(_key)]


def one_id(key: str | None, given: object) -> str | None:
    """Return the id that a call is repeated by, from the header or the body.

    Args:
        key: of the header.
        given: of the body; judged by the call itself.

    Raises:
        Refused: 400, `idempotency_key_mismatch`: both were given, and they differ.
    """
    if key is None or given is None:
        return key if given is None else given  # type: ignore[return-value]
    if key != given:
        raise Refused(400, "idempotency_key_mismatch", "Idempotency-Key and the id in the body are not the same")
    return key
