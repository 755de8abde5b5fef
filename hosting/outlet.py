"""Owns how what a feed yields goes to one client: in batches, with a sign of life in quiet, never past a deadline.

A watcher is a place in a ring that all share. What it holds of its own is one batch; what its client did not take yet
stands in the transport, whose mark bounds it. Knows no format.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..protocol.errors import CallerError, RuntimeClosed, StoreClosed, TreadleError
from ..protocol.frames import Frame, closed_frame

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ..actors.feed import Feed

__all__ = ["batches", "bound_writes", "close_when", "failure_frame", "written"]

logger = logging.getLogger("treadle")

_BATCH_FRAMES = 64
_BATCH_BYTES = 1 << 16  # the mark at which a transport asks to wait


async def batches(feed: Feed[Frame], due: Callable[[], float | None] = lambda: None) -> AsyncIterator[list[Frame]]:
    """Yield what the feed has, at once and together, until it ends; an empty list when nothing came until it was due.

    A page of the journal is read on the loop where the reader fell behind. Such readers take turns, one batch in each round
    of the loop, so that however many there are, everybody else is served between two batches.

    Args:
        feed: read by nobody else.
        due: asked before each wait: when, by the loop's time, an empty list is to say that nothing came; None for never.

    Raises:
        TreadleError: the feed cannot be read further.
    """
    behind = False
    while True:
        frames: list[Frame] = []
        if behind:
            async with _turns():
                failed = _fill(feed, frames)
                await asyncio.sleep(0)
            behind = _is_full(frames)
            if not frames and failed is None:
                continue
        else:
            try:
                async with asyncio.timeout_at(due()):
                    frames.append(await anext(feed))
            except TimeoutError:
                yield []
                continue
            except StopAsyncIteration:
                return
            failed = _fill(feed, frames)
            behind = _is_full(frames)
        if frames:
            yield frames
        if failed is not None:
            raise failed


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def _turns() -> asyncio.Lock:
    """Return the lock by which readers of one loop that are behind take turns."""
    loop = asyncio.get_running_loop()
    lock = _TURNS.get(loop)
    if lock is None:
        lock = _TURNS[loop] = asyncio.Lock()
    return lock


def _is_full(frames: list[Frame]) -> bool:
    """Say whether a batch has as much as it may: then there is probably more."""
    return len(frames) >= _BATCH_FRAMES or sum(len(frame.text) for frame in frames) >= _BATCH_BYTES


def _fill(feed: Feed[Frame], frames: list[Frame]) -> TreadleError | None:
    """Add what else is there, up to a batch; return the error that ended it, told once these frames are out."""
    size = sum(len(frame.text) for frame in frames)
    while size < _BATCH_BYTES and len(frames) < _BATCH_FRAMES:
        try:
            frame = feed.next(0)
        except TimeoutError:
            return None
        except TreadleError as error:
            return error
        if frame is None:
            return None
        frames.append(frame)
        size += len(frame.text)
    return None


async def written(sending: Awaitable[None], seconds: float) -> bool:
    """Wait until a client took enough for the next write; False where it is gone, or did not in its time and is dropped."""
    try:
        async with asyncio.timeout(seconds):
            await sending
    except TimeoutError:
        logger.info("A client took nothing of its stream for %g s and is dropped", seconds)
        return False
    except OSError:
        return False
    return True


def close_when(ended: Callable[[], Awaitable[None]], feed: Feed[Frame]) -> asyncio.Task[None]:
    """End a feed, and with it the loop over its batches, once something has ended; cancel the task to forget that."""

    async def wait() -> None:
        try:
            await ended()
        finally:
            feed.close()

    return asyncio.create_task(wait())


def failure_frame(error: TreadleError) -> Frame:
    """Return the last frame of a stream that broke; it moves no cursor, and its client begins anew from its own."""
    if isinstance(error, RuntimeClosed | StoreClosed):
        return closed_frame(complete=False)  # the server went before the last frame could be made of what was read
    # What is wrong with the store or with us is for the log.
    detail = error.message if isinstance(error, CallerError) else "the server cannot go on with this stream"
    return Frame(type="stream_failed", code=error.code, detail=detail)


def bound_writes(listening: socket.socket, seconds: float) -> None:
    """Have the system end every connection of a listening socket whose client takes nothing for this long.

    Without it what was written to a client that is silent, but there, would stand in memory for as long as it likes:
    closing a transport waits for its buffer, and an app cannot abort one.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None and listening.family in (socket.AF_INET, socket.AF_INET6):
        # Accepted sockets inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, option, max(1, round(seconds * 1000)))
