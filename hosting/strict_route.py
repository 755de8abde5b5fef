"""Owns how a request is read: its query, its headers and its JSON, each thing said once and in one way. Judges no value.

What is said twice would be read one way here and another way by a proxy before us or by the next version. So nothing is:
a repeated parameter, header or JSON key is refused, and so is a parameter that a route does not have.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from anyio import to_thread
from fastapi import HTTPException
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import HTTPConnection, Request

from ..protocol.errors import InvalidInput, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from fastapi.dependencies.models import Dependant
    from starlette.responses import Response

__all__ = ["StrictRoute", "check_query"]

# While JSON is parsed its worker holds the interpreter for long stretches, and on the loop it would do so for all of them.
_ON_LOOP_BYTES: Final = 64 << 10
_MEMBERS_MAX: Final = 64


class StrictRoute(APIRoute):
    """A route that takes the parameters it declares, each at most once, and JSON in UTF-8 without repeated keys."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()
        dependants = list(_all(self.dependant))
        parameters = frozenset(name for each in dependants for name in _names(each.query_params))
        headers = frozenset(field.alias for each in dependants for field in each.header_params)

        async def read(request: Request) -> Response:
            check_query(request, parameters)
            for name in headers:
                if len(request.headers.getlist(name)) > 1:
                    raise _twice("header", name)
            return await answer(_StrictRequest(request.scope, request.receive))

        return read


class _StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def json(self) -> Any:
        """Return the body as data. Raises: HTTPException: 400; JSONDecodeError: it is no JSON."""
        body = await self.body()
        found = _parsed(body) if len(body) <= _ON_LOOP_BYTES else await to_thread.run_sync(_parsed, body)
        if isinstance(found, dict) and len(found) > _MEMBERS_MAX:
            # Each unknown one would become an error of its own, made on the loop: seconds for a megabyte of them.
            raise HTTPException(
                400, f"the body has {len(found)} members, and no route here takes more than {_MEMBERS_MAX}"
            )
        return found


def check_query(connection: HTTPConnection, parameters: Iterable[str]) -> None:
    """Refuse what a query may not say.

    Args:
        connection: a request or a WebSocket.
        parameters: the names that it may hold.

    Raises:
        InvalidInput: `invalid_request`: one is not among them, or stands there twice; or the query is no UTF-8.
    """
    raw = connection.scope.get("query_string", b"")
    if not raw:
        return
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the query is no UTF-8 once it is decoded", code="invalid_request") from None
    for name, count in Counter(name for name, _ in connection.query_params.multi_items()).items():
        if name not in parameters:
            raise InvalidInput(
                f"there is no parameter {shorten(name)} here", code="invalid_request", path=f"$.{name}"[:200]
            )
        if count > 1:
            raise _twice("parameter", name)


def _twice(what: str, name: str) -> InvalidInput:
    return InvalidInput(f"the {what} {name} is given more than once", code="invalid_request", path=f"$.{name}")


def _all(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _all(each)


def _names(fields: Iterable[Any]) -> Iterator[str]:
    """Yield the names of parameters; a model stands for those of its members."""
    for field in fields:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from kind.model_fields
        else:
            yield field.alias


def _parsed(body: bytes) -> Any:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"the body is no UTF-8 at byte {error.start}") from None
    return json.loads(text, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise HTTPException(400, f"the body has an object with the key {shorten(name)} more than once")
    return made
