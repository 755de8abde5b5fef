"""Owns the routes of threads as a whole: create, list, show, change, delete. Decides nothing."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from ..actors import Runtime, Thread
from ..protocol.values import JsonObject
from .auth import Principal
from .envelopes import NewThread, ThreadPatch
from .hosted import hosted
from .paging import ThreadsQuery, answered
from .parameters import ThreadHere, Who
from .problems import Refused, problems
from .strict_route import StrictRoute
from .wire import ThreadAnswer, ThreadDetailAnswer, ThreadsAnswer, thread_json, threads_json

__all__ = ["router"]

router = APIRouter(tags=["threads"], route_class=StrictRoute)


@router.post(
    "/threads",
    status_code=201,
    responses={201: {"model": ThreadAnswer}, **problems(404, 408, 409, 413, 415, 429, 507)},
)
async def create_thread(request: Request, who: Who, body: NewThread) -> Response:
    """Create a thread, at rest; durable when the answer is there."""
    runtime = hosted(request).runtime
    thread = await runtime.create_thread(
        body.agent_id,
        thread_id=body.thread_id,
        user_id=_owner(who, body.user_id),
        arguments=body.arguments,
        tags=body.tags,
        env=body.env,
    )
    answer = await answered(lambda: thread_json(thread.summary().result()), 201)
    answer.headers["location"] = f"{request.scope.get('root_path', '')}/threads/{quote(thread.id, safe='')}"
    return answer


def _owner(who: Principal, given: object) -> str | None:
    if who.kind == "admin":
        return given  # type: ignore[return-value]
    if given not in (None, who.user_id):
        raise Refused(403, "forbidden", "a user's threads are its own; only an admin creates them for others")
    return who.user_id


@router.get("/threads", responses={200: {"model": ThreadsAnswer}, **problems()})
async def list_threads(request: Request, who: Who, query: Annotated[ThreadsQuery, Query()]) -> Response:
    """List the threads that the caller sees, a page at a time."""
    options = query.given()
    if "agent_id" in options:
        options["agent"] = options.pop("agent_id")
    if who.kind == "user":
        if options.get("user_id", who.user_id) != who.user_id:
            # As if there were none: nothing tells a user who else is here.
            return JSONResponse({"threads": [], "next": None, "unreadable": {}})
        options["user_id"] = who.user_id
    runtime: Runtime = hosted(request).runtime
    return await answered(lambda: threads_json(runtime.threads(**options).result(), unreadable=who.kind == "admin"))


@router.get("/threads/{thread_id:id}", responses={200: {"model": ThreadDetailAnswer}, **problems(404)})
async def get_thread(thread: ThreadHere) -> Response:
    """Return a thread with its run status."""
    return await answered(lambda: _detail(thread))


@router.patch(
    "/threads/{thread_id:id}",
    responses={200: {"model": ThreadDetailAnswer}, **problems(404, 408, 413, 415, 423, 429, 507)},
)
async def patch_thread(thread: ThreadHere, body: ThreadPatch) -> Response:
    """Replace a thread's tags, or close it for good: `terminated` is true and never anything else again."""
    if "tags" in body.model_fields_set:
        await thread.set_tags(body.tags)
    if body.terminated:
        await thread.terminate()
    return await answered(lambda: _detail(thread))


@router.delete("/threads/{thread_id:id}", status_code=204, responses=problems(404, 423, 429, 507))
async def delete_thread(request: Request, thread: ThreadHere) -> Response:
    """Delete a thread: it is terminated, its execution ends, and its id never comes back."""
    await hosted(request).runtime.delete_thread(thread.id)
    return Response(status_code=204)


def _detail(thread: Thread) -> JsonObject:
    return {**thread_json(thread.summary().result()), "tags": thread.tags().result()}
