"""Owns the queries of pages, and how a page is answered: read and encoded on a worker, so that the loop stays free.

A query is text; what it says is judged by the read itself, as in process. A parameter that no page has is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, WithJsonSchema
from starlette.responses import JSONResponse

from ..protocol.limits import PAGE_DEFAULT, PAGE_MAX, VALUES_PAGE_MAX
from ..protocol.values import JsonObject
from .envelopes import ID_SCHEMA

__all__ = ["ExecutionsQuery", "MessagesQuery", "Query", "ThreadsQuery", "ValuesQuery", "answered"]

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def _whole(low: int, high: int, default: int | None) -> JsonObject:
    return {"type": "integer", "minimum": low, "maximum": high} | ({} if default is None else {"default": default})


Count: TypeAlias = Annotated[str | None, WithJsonSchema(_whole(0, PAGE_MAX, PAGE_DEFAULT))]
CountOfOne: TypeAlias = Annotated[str | None, WithJsonSchema(_whole(1, PAGE_MAX, PAGE_DEFAULT))]
CountOfValues: TypeAlias = Annotated[str | None, WithJsonSchema(_whole(0, VALUES_PAGE_MAX, PAGE_DEFAULT))]
Offset: TypeAlias = Annotated[str | None, WithJsonSchema(_whole(0, 2**53, 0))]
Order: TypeAlias = Annotated[str | None, WithJsonSchema({"enum": ["asc", "desc"]})]
Flag: TypeAlias = Annotated[str | None, WithJsonSchema({"type": "boolean", "default": False})]
Id: TypeAlias = Annotated[str | None, WithJsonSchema(ID_SCHEMA)]

_FLAGS = {"true": True, "false": False}
_NUMBERS = frozenset({"limit", "offset", "max_depth"})


class Query(BaseModel):
    """What the query of a page may hold."""

    model_config = ConfigDict(extra="forbid")

    def given(self) -> dict[str, Any]:
        """Return what was given, as the read takes it; what is no number or flag stays text, for the read to refuse."""
        found: dict[str, Any] = {}
        for name in self.model_fields_set:
            text = getattr(self, name)
            if name in _NUMBERS and _WHOLE.fullmatch(text):
                found[name] = int(text)
            elif name == "include_silent":
                found[name] = _FLAGS.get(text, text)
            else:
                found[name] = text
        return found


class ThreadsQuery(Query):
    """Which threads, and how many; `after` is `next` of the page before."""

    user_id: Id = None
    agent_id: str | None = None
    state: Annotated[str | None, WithJsonSchema({"enum": ["idle", "running", "failed"]})] = None
    order: Annotated[str | None, WithJsonSchema({"enum": ["created", "activity"], "default": "created"})] = None
    limit: CountOfOne = None
    after: Annotated[str | None, WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,19}$"})] = None


class MessagesQuery(Query):
    """Which messages (contract D.3); `before` or `after` is a message id, and gives those next to it."""

    limit: Count = None
    offset: Offset = None
    order: Order = None
    include_silent: Flag = None
    max_depth: Annotated[str | None, WithJsonSchema(_whole(0, 64, 0))] = None
    before: Id = None
    after: Id = None


class ExecutionsQuery(Query):
    """Which executions, newest first."""

    limit: Count = None
    offset: Offset = None
    order: Order = None


class ValuesQuery(Query):
    """Which values, in the order of their keys; `search` is what a key contains."""

    search: Annotated[str | None, WithJsonSchema({"type": "string", "minLength": 1, "pattern": r"^[^\u0000]+$"})] = None
    limit: CountOfValues = None
    offset: Offset = None


async def answered(make: Callable[[], JsonObject], status: int = 200) -> JSONResponse:
    """Return the answer that `make` reads; it is called, and what it returns encoded, on a worker."""
    return await to_thread.run_sync(lambda: JSONResponse(make(), status))
