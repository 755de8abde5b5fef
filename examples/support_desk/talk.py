"""Owns one conversation at a terminal: hands what is typed to the thread and shows what its stream brings. Stores nothing."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.support_desk.keyboard import Keyboard
    from examples.support_desk.screen import Screen
    from treadle.actors import Thread
    from treadle.actors.subscription import StreamSubscription
    from treadle.protocol.frames import Frame
    from treadle.protocol.values import JsonObject

__all__ = ["Talk"]

_YES, _NO = frozenset({"y", "yes"}), frozenset({"n", "no"})


class Talk:
    """A customer and, where money is involved, a colleague, both at one terminal.

    It knows of the thread only what the stream says: whether it runs, and what it asks for.
    """

    def __init__(self, thread: Thread, keyboard: Keyboard, screen: Screen) -> None:
        self._thread = thread
        self._keyboard = keyboard
        self._screen = screen
        self._running = False
        self._asked: dict[str, JsonObject] = {}  # open requests, oldest first
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Talk until there are no more lines, or one says so."""
        self._screen.history((await self._thread.messages(limit=40)).messages)
        self._keyboard.start()
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGINT, lambda: self._keyboard.put("/stop" if self._running else None)
        )
        stream = self._thread.stream()
        self._watching = asyncio.create_task(self._watch(stream))
        self._watching.add_done_callback(lambda _: self._changed.set())
        await self._changed.wait()
        try:
            while not self._watching.done() and await self._turn():
                pass
        finally:
            stream.close()
            await self._watching
            self._screen.leave()

    async def _watch(self, stream: StreamSubscription) -> None:
        async for frame in stream:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        """Show one frame, and keep what it says of the thread."""
        kind, screen = frame["type"], self._screen
        if kind == "thread_status":
            self._status(frame)
        elif kind == "message_chunk" and frame["depth"] == 0:
            screen.chunk(frame["message_id"], frame["chunk"])
        elif kind == "message_restart":
            screen.again(frame["message_id"])
        elif kind == "MESSAGE_ADDED":
            message = frame["message"]
            if message["role"] == "assistant" and message.get("content"):
                screen.message(message["id"], message["content"])
        elif kind == "tool_started":
            screen.tool(frame["tool"])
        elif kind == "MESSAGES_JOINED" and not frame["consumed"]:
            screen.note("that came too late to be read; it stays in the conversation")
        elif kind == "REQUEST_OPENED":
            self._open(frame)
        elif kind == "REQUEST_TERMINATED":
            self._asked.pop(frame["request_id"], None)

    def _status(self, frame: Frame) -> None:
        status = frame["status"]
        self._running = status["state"] == "running"
        if not self._running:
            self._asked.clear()
            self._screen.ended(status["state"], status["reason"])
        for request in frame.get("pending_requests", ()):
            self._open(request)
        if not self._running:
            self._screen.ask()
        self._changed.set()

    def _open(self, request: JsonObject) -> None:
        self._asked[request["request_id"]] = request
        self._screen.approval(request["payload"])
        self._changed.set()

    async def _turn(self) -> bool:
        """Take one line; False at the end."""
        line = await self._keyboard.line()
        if line is not None and line.startswith(("/steer", "/stop")):
            self._screen.typed(line)
            await self._control(line)
            return True
        if not self._keyboard.is_a_person or line is None:
            await self._free()  # a script is read line by line, as a person would type it
        if line is None or line == "/quit":
            if self._asked:
                await self._thread.stop()
            return False
        self._screen.typed(line)
        if line == "/help":
            self._screen.help()
        elif self._asked:
            await self._answer(line)
        elif line:
            await self._say(line)
        if not line or line == "/help":
            self._screen.ask()
        return True

    async def _free(self) -> None:
        """Wait until the desk is at rest, or asks for something."""
        while self._running and not self._asked and self._watching is not None and not self._watching.done():
            self._changed.clear()
            await self._changed.wait()

    async def _say(self, line: str) -> None:
        if self._running:
            await self._thread.queue_message(line)
            self._screen.note("the desk reads this before its next step")
            return
        self._running = True
        receipt = await self._thread.submit(line, on_busy="queue")
        if receipt.disposition not in ("accepted", "queued"):
            self._screen.note(f"not taken: {receipt.disposition}")

    async def _answer(self, line: str) -> None:
        request_id = next(iter(self._asked))
        if line.lower() not in _YES | _NO:
            self._screen.note("y or n, please; /steer and /stop work too")
            self._screen.approval({})
            return
        self._asked.pop(request_id)
        status = await self._thread.respond(request_id, {"approved": line.lower() in _YES, "by": "a colleague"})
        if status != "accepted":
            self._screen.note(f"too late: {status}")

    async def _control(self, line: str) -> None:
        verb, _, text = line.partition(" ")
        active = (await self._thread.state()).active_execution
        if active is None:
            self._screen.note("the desk is at rest; just say it")
            self._screen.ask()
        elif verb == "/stop":
            await self._thread.stop()
        elif text.strip():
            receipt = await self._thread.steer(active.execution_id, text.strip())
            self._screen.note("heard" if receipt.disposition == "accepted" else f"not taken: {receipt.disposition}")
            if self._asked:
                self._screen.approval({})
