"""Owns the routes of values: page, one, set, delete. Decides nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from .envelopes import NewValue
from .paging import ValuesQuery, answered
from .parameters import ThreadHere, ValueKey
from .problems import problems
from .strict_route import StrictRoute
from .wire import ValueAnswer, ValuesAnswer, values_json

__all__ = ["router"]

router = APIRouter(tags=["values"], route_class=StrictRoute)


@router.get("/threads/{thread_id:id}/values", responses={200: {"model": ValuesAnswer}, **problems(404)})
async def list_values(thread: ThreadHere, query: Annotated[ValuesQuery, Query()]) -> Response:
    """List values in the order of their keys (contract D.5)."""
    options = query.given()
    return await answered(lambda: values_json(thread.list_values(**options).result()))


@router.get("/threads/{thread_id:id}/values/{key:rest}", responses={200: {"model": ValueAnswer}, **problems(404)})
async def get_value(thread: ThreadHere, key: ValueKey) -> Response:
    """Return a value; null where there is none."""
    return await answered(lambda: {"key": key, "value": thread.get_value(key).result()})


@router.put(
    "/threads/{thread_id:id}/values/{key:rest}",
    status_code=204,
    responses=problems(404, 408, 413, 415, 423, 429, 507),
)
async def set_value(thread: ThreadHere, key: ValueKey, body: NewValue) -> Response:
    """Set a value, or delete it with null; durable when the answer is there."""
    await thread.set_value(key, body.value)
    return Response(status_code=204)


@router.delete("/threads/{thread_id:id}/values/{key:rest}", status_code=204, responses=problems(404, 423, 429, 507))
async def delete_value(thread: ThreadHere, key: ValueKey) -> Response:
    """Delete a value; the same where there is none."""
    await thread.set_value(key, None)
    return Response(status_code=204)
