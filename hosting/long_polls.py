"""Owns the answer that waits for an execution's end, for as long as its client asks and no longer. Decides nothing."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from anyio import to_thread
from pydantic import WithJsonSchema

from ..protocol.errors import InvalidInput, shorten
from ..protocol.limits import LONG_POLL_S
from .hosted import hosted
from .paging import Query
from .sse import gone

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from ..actors import Reply
    from ..protocol.executions import ExecutionRecord
    from .auth import Principal

__all__ = ["WaitQuery", "long_polled"]

T = TypeVar("T")

_SECONDS = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", re.ASCII)

Seconds: TypeAlias = Annotated[
    str | None, WithJsonSchema({"type": "number", "minimum": 0, "maximum": LONG_POLL_S, "default": 0})
]


class WaitQuery(Query):
    """How long to wait for the end, in seconds; when the time is up the answer is what there is by then."""

    wait: Seconds = None

    def seconds(self) -> float:
        """Return the seconds. Raises: InvalidInput: `invalid_request`."""
        given = "0" if self.wait is None else self.wait
        seconds = float(given) if len(given) <= 60 and _SECONDS.fullmatch(given) else -1.0
        if not 0 <= seconds <= LONG_POLL_S:
            raise InvalidInput(
                f"wait is a number of seconds from 0 to {LONG_POLL_S:g}, not {shorten(given)}",
                code="invalid_request",
                path="$.wait",
            )
        return seconds


async def long_polled(
    request: Request,
    who: Principal,
    query: WaitQuery,
    read: Callable[[], ExecutionRecord | None],
    wait: Callable[[], Reply[ExecutionRecord]],
) -> ExecutionRecord | None:
    """Return an execution's record: that of its end, if it comes in the time that the client gives it.

    Args:
        request: ends the wait when its client leaves.
        who: whose share of streams a wait counts in.
        query: the time.
        read: reads the record, None where nothing has begun yet; on a worker.
        wait: waits for the end.
    """
    seconds = query.seconds()
    record = await to_thread.run_sync(read)
    if not seconds or not (record is None or record.status == "active"):
        return record
    leave = hosted(request).enter(who)
    try:
        reply = wait()
        ended = await _first(request, reply, seconds)
        if ended is not None:
            return ended
        record = await to_thread.run_sync(read)
        if not reply.done():
            # Whoever holds it may forget it.
            reply.set(record)  # type: ignore[arg-type]  # nobody reads it
        return record
    finally:
        leave()


async def _first(request: Request, reply: Reply[T], seconds: float) -> T | None:
    """Return a reply; None where the time is up, or the client gone."""
    answer = asyncio.ensure_future(_value(reply))
    leaving = asyncio.ensure_future(gone(request.receive))
    both: tuple[asyncio.Future[Any], ...] = (answer, leaving)
    try:
        done, _ = await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer in done else None
    finally:
        for one in both:
            one.cancel()
        await asyncio.wait(both)


async def _value(reply: Reply[T]) -> T:
    return await reply
