"""Owns the routes of messages: pages, one, queue, change, delete. Decides nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response

from ..actors import Message, Thread
from ..protocol.errors import MessageNotFound
from ..protocol.limits import PAGE_BYTES
from ..protocol.values import JsonObject
from .envelopes import MessagePatch, QueuedMessage
from .paging import MessagesQuery, answered
from .parameters import GivenKey, MessageId, ThreadHere, one_id
from .problems import problems
from .strict_route import StrictRoute
from .wire import DeletedAnswer, MessagesAnswer, ReceiptAnswer, message_json, messages_json, receipt_json

__all__ = ["router"]

router = APIRouter(tags=["messages"], route_class=StrictRoute)


@router.get("/threads/{thread_id:id}/messages", responses={200: {"model": MessagesAnswer}, **problems(404)})
async def list_messages(thread: ThreadHere, query: Annotated[MessagesQuery, Query()]) -> Response:
    """List messages, what waits behind all history (contract D.3); large ones make a page shorter than its limit."""
    options = query.given()
    return await answered(lambda: messages_json(thread.messages(**options, bytes_max=PAGE_BYTES).result()))


@router.post(
    "/threads/{thread_id:id}/messages",
    status_code=202,
    responses={202: {"model": ReceiptAnswer}, **problems(404, 408, 409, 413, 415, 423, 429, 507)},
)
async def queue_message(thread: ThreadHere, body: QueuedMessage, key: GivenKey) -> Response:
    """Queue a message: it joins the active execution at its next boundary, or starts one (contract D.4)."""
    receipt = await thread.queue_message(
        body.content,
        role=body.role,
        input_id=one_id(key, body.input_id),
        silent=body.silent,
        metadata=body.metadata,
        attachments=body.attachments,
    )
    return JSONResponse(receipt_json(receipt), 202)


@router.get("/threads/{thread_id:id}/messages/{message_id:rest}", responses={200: {"model": Message}, **problems(404)})
async def get_message(thread: ThreadHere, message_id: MessageId) -> Response:
    """Return a message by its id, at any depth, waiting ones included."""
    return await answered(lambda: _message(thread, message_id))


@router.patch(
    "/threads/{thread_id:id}/messages/{message_id:rest}",
    responses={200: {"model": Message}, **problems(404, 408, 413, 415, 423, 429, 507)},
)
async def update_message(thread: ThreadHere, message_id: MessageId, body: MessagePatch) -> Response:
    """Change a message, waiting or in history, whoever runs; it keeps its place and its time."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    return JSONResponse(message_json(await thread.update_message(message_id, **given)))


@router.delete(
    "/threads/{thread_id:id}/messages/{message_id:rest}",
    responses={200: {"model": DeletedAnswer}, **problems(404, 423, 429, 507)},
)
async def delete_message(thread: ThreadHere, message_id: MessageId) -> Response:
    """Take a message out, whoever runs; a repeat is told that it is not there."""
    return JSONResponse({"deleted": await thread.delete_message(message_id)})


def _message(thread: Thread, message_id: str) -> JsonObject:
    found = thread.message(message_id).result()
    if found is None:
        raise MessageNotFound(
            f"thread {thread.id!r} has no message {message_id!r}", thread_id=thread.id, message_id=message_id
        )
    return message_json(found)
