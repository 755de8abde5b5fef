"""Owns a small HTTP server that speaks as an OpenAI-compatible provider does, over a real socket, one script a request."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GUARD_S = 60.0


class Exchange:
    """One request and its answer, as a reply writes it."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self.headers: dict[str, str] = {}
        self.body: dict[str, object] = {}

    async def read(self) -> bool:
        """Read one request; False when the client closed the connection instead."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            return False
        self.headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
        self.body = json.loads(await self.reader.readexactly(int(self.headers["content-length"])))
        return True

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Status", f"content-type: {kind}", "transfer-encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self.writer.drain()

    async def raw(self, text: str) -> None:
        data = text.encode()
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def send(self, *deltas: object) -> None:
        """Send chunks; a dict is the delta of a choice, a text its content, a tuple (finish reason, usage)."""
        for delta in deltas:
            await self.raw(f"data: {json.dumps(chunk(delta))}\n\n")

    async def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def until_closed(self) -> None:
        """Wait until the client closes the connection, and note that it did."""
        with contextlib.suppress(ConnectionError):
            assert await self.reader.read(1) == b""
        self.server.closed_by_client += 1
        self.server.changed.set()


def chunk(delta: object) -> dict[str, object]:
    made: dict[str, object] = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    if isinstance(delta, tuple):
        reason, usage = delta
        return {
            **made,
            "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
            **({"usage": usage} if usage else {}),
        }
    content = {"content": delta} if isinstance(delta, str) else delta
    return {**made, "choices": [{"index": 0, "delta": content, "finish_reason": None}]}


class Server:
    """Serves one reply for each request, in order.

    Attributes:
        requests: the exchanges so far.
        closed_by_client: how many answers the client closed while they were held open.
    """

    def __init__(self, *replies: Callable[[Exchange], Awaitable[None]], port: int = 0) -> None:
        self.port = port
        self.requests: list[Exchange] = []
        self.closed_by_client = 0
        self.changed = asyncio.Event()
        self._replies = list(replies)
        self._errors: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        if self._errors:
            raise self._errors[0]

    async def until_closed(self, count: int = 1) -> None:
        async with asyncio.timeout(GUARD_S):
            while self.closed_by_client < count:
                self.changed.clear()
                await self.changed.wait()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                exchange = Exchange(self, reader, writer)
                if not await exchange.read():
                    break
                self.requests.append(exchange)
                await self._replies[len(self.requests) - 1](exchange)
        except Exception as error:
            self._errors.append(error)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def answering(
    *deltas: object, usage: dict[str, object] | None = None, reason: str | None = "stop"
) -> Callable[[Exchange], Awaitable[None]]:
    """Answer in full."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(*deltas, (reason, usage))
        await exchange.raw("data: [DONE]\n\n")
        await exchange.end()

    return reply


def refusing(status: int, error: dict[str, object] | str, **headers: str) -> Callable[[Exchange], Awaitable[None]]:
    """Answer with a status that is no success."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head(status, "application/json", **headers)
        await exchange.raw(json.dumps({"error": error}) if isinstance(error, dict) else error)
        await exchange.end()

    return reply


def stalling(*deltas: object, head: bool = True) -> Callable[[Exchange], Awaitable[None]]:
    """Begin an answer, then say nothing more until the client goes."""

    async def reply(exchange: Exchange) -> None:
        if head:
            await exchange.head()
            await exchange.send(*deltas)
        await exchange.until_closed()
        exchange.writer.close()

    return reply


def cutting(*deltas: object, orderly: bool = False) -> Callable[[Exchange], Awaitable[None]]:
    """Begin an answer, then cut the connection: in the middle of the body, or behind an orderly end of it."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(*deltas)
        if orderly:
            await exchange.end()
        exchange.writer.close()

    return reply


def garbling(text: str, *deltas: object) -> Callable[[Exchange], Awaitable[None]]:
    """Begin an answer, then send something raw."""

    async def reply(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.send(*deltas)
        await exchange.raw(text)
        await exchange.end()

    return reply
