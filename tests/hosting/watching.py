"""Owns one connection of a client that follows events or messages, read block by block. Resumes nothing by itself."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import httpx
from websockets.sync import client as websocket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

GUARD_S = 60.0  # no test waits for it

# Its own times are those of a network between two machines that do little else.
connect = partial(websocket.connect, open_timeout=GUARD_S, close_timeout=GUARD_S, ping_interval=None)


class Block(NamedTuple):
    """One block as sent: an event, or a comment, whose name is `heartbeat`."""

    name: str
    data: dict[str, Any]
    id: str | None


class Watching:
    """One answer of a stream, from `with` on; leaving it cuts the connection wherever it is."""

    def __init__(self, url: str, *, token: str | None = None, **headers: str) -> None:
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._client = httpx.Client(timeout=GUARD_S)
        self._request = self._client.build_request("GET", url, headers=headers)

    def __enter__(self) -> Self:
        self.response = self._client.send(self._request, stream=True)
        self._blocks = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.response.close()
        self._client.close()

    def __iter__(self) -> Iterator[Block]:
        return self._blocks

    def next(self, name: str | None = None) -> Block:
        """Return the next block, or the next of a name."""
        return next(block for block in self._blocks if name in (None, block.name))

    def committed(self, count: int) -> list[Block]:
        """Return the next events that move the cursor."""
        found: list[Block] = []
        while len(found) < count:
            block = next(self._blocks)
            if block.id is not None:
                found.append(block)
        return found

    def _read(self) -> Iterator[Block]:
        pending = b""
        for chunk in self.response.iter_raw():
            pending += chunk
            while b"\n\n" in pending:
                text, pending = pending.split(b"\n\n", 1)
                if text.startswith(b":"):
                    yield Block(text[1:].decode().strip(), {}, None)
                    continue
                # Read by hand, so that nothing of ours judges what we send.
                fields = dict(line.split(": ", 1) for line in text.decode().split("\n"))
                yield Block(fields["event"], json.loads(fields["data"]), fields.get("id"))
