"""Owns the two kinds of stream that a client follows: one that blocks, one that is awaited. Judges no event.

Both drive the same `Following`: a connection is opened at the first item, and again whenever it is cut.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import httpx

from ..protocol.errors import TreadleError, Unavailable
from ..protocol.values import JsonObject
from .client_calls import check_stream, stream_request
from .client_errors import error_of, lost, retry_after

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from .client_following import Following

__all__ = ["AsyncEventStream", "EventStream"]

logger = logging.getLogger("treadle.client")


class _Stream:
    """What both kinds of stream know."""

    __slots__ = ("_following", "_path", "_response")

    def __init__(self, path: str, following: Following) -> None:
        self._path = path
        self._following = following
        self._response: httpx.Response | None = None

    @property
    def cursor(self) -> str | None:
        """The place of the last item that came out, or where it began: what to give as `after` in order to go on."""
        return self._following.after()

    def _refused(self, response: httpx.Response) -> float:
        """Return the seconds to wait after an answer that is no stream. Raises: TreadleError: waiting is no use."""
        error = error_of(response.status_code, response.content)
        return self._away(error, retry_after(response.headers.get("retry-after")))

    def _cut(self, cause: httpx.HTTPError | None, url: httpx.URL) -> float:
        error = Unavailable(f"{url} ended the stream") if cause is None else lost(cause, str(url), sent=False)
        return self._away(error, 0.0)

    def _away(self, error: TreadleError, at_least: float) -> float:
        delay = self._following.failed(error, at_least=at_least)
        logger.info("Connecting again in %.2f s behind %s: %s", delay, self.cursor, error, extra={"code": error.code})
        return delay


class EventStream(_Stream, Iterator[JsonObject]):
    """Committed events, each once and in order, for one worker; blocks until the next. Close it, or use it in a `with`.

    An unknown thread is `ThreadNotFound` at the first item, a cursor that the journal does not have `CursorConflict`.
    It ends when the thread is deleted, and with `follow=False` at what was the head when it began.
    """

    __slots__ = ("_chunks", "_client", "_sleep")

    def __init__(self, client: httpx.Client, path: str, following: Following, sleep: Callable[[float], object]) -> None:
        super().__init__(path, following)
        self._client = client
        self._sleep = sleep
        self._chunks: Iterator[bytes] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> JsonObject:
        """Return the next event; connects, and connects again. Raises: TreadleError: what connecting again cannot mend."""
        try:
            return self._next()
        except TreadleError:
            self._let_go()
            raise

    def _next(self) -> JsonObject:
        while True:
            item = self._take()
            if item is not None:
                return item
            if self._following.ended:
                self.close()
                raise StopIteration
            delay = self._read() if self._response is not None else self._connect()
            if delay is not None:
                self._let_go()
                self._sleep(delay)

    def close(self) -> None:
        """Let go of the connection; no further item comes."""
        self._following.ended = True
        self._let_go()

    def _take(self) -> JsonObject | None:
        try:
            return self._following.take()
        except Unavailable as error:
            self._let_go()
            self._sleep(self._away(error, 0.0))
            return None

    def _connect(self) -> float | None:
        """Open a connection, or return the seconds to wait before the next attempt."""
        request = stream_request(self._client, self._path, self._following.query())
        try:
            response = self._client.send(request, stream=True)
            if not response.is_success:
                try:
                    response.read()
                    return self._refused(response)
                finally:
                    response.close()
        except httpx.RequestError as error:
            return self._cut(error, request.url)
        self._response, self._chunks = response, response.iter_bytes()
        self._following.connected()
        check_stream(response)
        return None

    def _read(self) -> float | None:
        assert self._response is not None
        try:
            self._following.feed(next(self._chunks))
        except StopIteration:
            return self._cut(None, self._response.url)
        except httpx.RequestError as error:
            return self._cut(error, self._response.url)
        return None

    def _let_go(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()


class AsyncEventStream(_Stream, AsyncIterator[JsonObject]):
    """As `EventStream`, for one task: `async for`, `aclose`, `async with`. A cancelled wait loses no event."""

    __slots__ = ("_chunks", "_client", "_sleep")

    def __init__(
        self, client: httpx.AsyncClient, path: str, following: Following, sleep: Callable[[float], Awaitable[object]]
    ) -> None:
        super().__init__(path, following)
        self._client = client
        self._sleep = sleep
        self._chunks: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> JsonObject:
        """Return the next event; connects, and connects again. Raises: TreadleError: what connecting again cannot mend."""
        try:
            return await self._next()
        except TreadleError:
            await self._let_go()
            raise

    async def _next(self) -> JsonObject:
        while True:
            item = await self._take()
            if item is not None:
                return item
            if self._following.ended:
                await self.aclose()
                raise StopAsyncIteration
            delay = await self._read() if self._response is not None else await self._connect()
            if delay is not None:
                await self._let_go()
                await self._sleep(delay)

    async def aclose(self) -> None:
        """Let go of the connection; no further item comes."""
        self._following.ended = True
        await self._let_go()

    async def _take(self) -> JsonObject | None:
        try:
            return self._following.take()
        except Unavailable as error:
            await self._let_go()
            await self._sleep(self._away(error, 0.0))
            return None

    async def _connect(self) -> float | None:
        request = stream_request(self._client, self._path, self._following.query())
        try:
            response = await self._client.send(request, stream=True)
            if not response.is_success:
                try:
                    await response.aread()
                    return self._refused(response)
                finally:
                    await response.aclose()
        except httpx.RequestError as error:
            return self._cut(error, request.url)
        self._response, self._chunks = response, response.aiter_bytes()
        self._following.connected()
        check_stream(response)
        return None

    async def _read(self) -> float | None:
        assert self._response is not None
        assert self._chunks is not None
        try:
            # A wait that was cancelled has closed the connection: then this one ends, and the next goes on behind the cursor.
            self._following.feed(await anext(self._chunks))
        except StopAsyncIteration:
            return self._cut(None, self._response.url)
        except httpx.RequestError as error:
            return self._cut(error, self._response.url)
        return None

    async def _let_go(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            await response.aclose()
