"""Owns the client of one thread: its calls, each written down as it is answered, and the scenes it plays.

After a crash the same client plays the same scenes again: it skips what its notebook says was answered, and repeats,
under the same id, the one call that was cut short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from examples.demo.notes import Note, write_line
from treadle.actors import ControlReceipt, Disposition, Receipt, Thread
from treadle.protocol.errors import InputNotFound
from treadle.protocol.events import Event, ExecutionFinished, MessageAdded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from examples.demo.scenes import Line, Scene
    from treadle.actors import ExecutionRecord, Reply

__all__ = ["SCENES", "Client"]

Answer: TypeAlias = "Receipt | ControlReceipt"
OnBusy: TypeAlias = Literal["reject", "queue", "steer", "interrupt"]

NOBODY: Final = "nobody"  # a control needs a target, even where the input before it has not started one


class Client:
    """The person at the other end of a thread, with a notebook.

    Args:
        thread: whom to talk to.
        known: the notebook of an earlier life, by id of the call.
        reopened: an earlier process may have stored one call whose answer never arrived.
    """

    def __init__(self, thread: Thread, known: dict[str, Note], *, reopened: bool) -> None:
        self.thread = thread
        self._known = known
        self._may_be_stored = reopened

    async def play(self, scenes: list[Scene]) -> None:
        """Play the scenes, one after the other."""
        for scene in scenes:
            await SCENES[scene.kind](self, *scene.lines)
            write_line("scene", self.thread.id, at_once=False)

    async def submit(self, line: Line, how: str = "say", on_busy: OnBusy = "queue") -> Answer:
        """Submit a line."""
        return await self._ask(
            "submit", line, how, lambda ask: self.thread.submit(_message(line, ask), input_id=ask, on_busy=on_busy)
        )

    async def queue(self, line: Line) -> Answer:
        """Queue a line as a message."""
        return await self._ask(
            "queue", line, "queue", lambda ask: self.thread.queue_message(_message(line, ask), input_id=ask)
        )

    async def steer(self, target: Answer, line: Line) -> Answer:
        """Steer the execution of an earlier answer with a line."""
        execution = target.execution_id or NOBODY
        return await self._ask(
            "steer", line, "steer", lambda ask: self.thread.steer(execution, _message(line, ask), control_id=ask)
        )

    async def interrupt(self, target: Answer, line: Line) -> Answer:
        """Interrupt the execution of an earlier answer; `line` lends its id to the call."""
        execution = target.execution_id or NOBODY
        return await self._ask(
            "interrupt", line, "interrupt",
            lambda ask: self.thread.interrupt(execution, reason="changed my mind", control_id=ask),
        )  # fmt: skip

    async def insist(self, line: Line, answer: Answer) -> Answer:
        """Submit a line again that was refused: no line stays unsaid."""
        return answer if _taken(answer) else await self.submit(line, "instead")

    async def finish(self, *said: tuple[Line, Answer]) -> None:
        """Wait for the executions that the lines came to, and say again what was lost with the process."""
        for line, answer in said:
            record = await self._end(line, answer)
            if record.status == "interrupted":
                await self._end(line, await self.submit(line, "again"))

    async def until_answered(self, line: Line) -> Answer:
        """Submit a line and watch the thread's events until its execution has said something."""
        before = (await self.thread.state()).cursor
        answer = await self.submit(line)
        # In a second life the answer may be the first receipt of an execution that ended long ago.
        if answer.execution_id is not None and (await self.thread.execution(answer.execution_id)).status == "active":
            with self.thread.events(after=before) as events:
                async for happened in events:
                    if _is_news_of(happened.event, answer.execution_id):
                        break
        return answer

    async def _end(self, line: Line, answer: Answer) -> ExecutionRecord:
        record = await self.thread.wait(answer)
        write_line("end", (self.thread.id, line.id, record.execution_id, record.status), at_once=False)
        return record

    async def _ask(
        self, verb: str, line: Line, how: str, call: Callable[[str], Reply[Receipt] | Reply[ControlReceipt]]
    ) -> Answer:
        ask = f"{line.id}/{how}"
        note = self._known.get(ask)
        if note is not None:
            # An accepted call has its receipt for as long as the thread exists; a refused one left no trace.
            return (
                await self.thread.receipt(ask)
                if note.taken
                else ControlReceipt(Disposition(note.disposition), ask, None)
            )
        repeated = self._may_be_stored and await self._is_stored(ask)
        self._may_be_stored = False
        answer: Answer = await call(ask)
        write_line("note", _note(self.thread.id, ask, verb, answer, repeated))
        return answer

    async def _is_stored(self, ask: str) -> bool:
        try:
            await self.thread.receipt(ask)
        except InputNotFound:
            return False
        return True


def _message(line: Line, ask: str) -> list[dict[str, object]]:
    # The id travels with the message, so that history can be compared with the notebook without any receipt.
    return [{"role": "user", "content": line.text, "metadata": {"ask": ask}}]


def _is_news_of(event: Event, execution_id: str) -> bool:
    return isinstance(event, MessageAdded | ExecutionFinished) and event.execution_id == execution_id


def _taken(answer: Answer) -> bool:
    return answer.disposition in (Disposition.ACCEPTED, Disposition.QUEUED)


def _note(thread: str, ask: str, verb: str, answer: Answer, repeated: bool) -> Note:
    steered = isinstance(answer, ControlReceipt) or answer.delivered_as == "steer"
    interrupted = None if isinstance(answer, ControlReceipt) else answer.interrupted
    return Note(thread, ask, verb, answer.disposition, steered, answer.execution_id, interrupted, repeated)


async def _say(client: Client, a: Line) -> None:
    await client.finish((a, await client.submit(a)))


async def _steer(client: Client, a: Line, b: Line) -> None:
    first = await client.submit(a)
    second = await client.insist(b, await client.steer(first, b))
    await client.finish((a, first), (b, second))


async def _steer_late(client: Client, a: Line, b: Line) -> None:
    # As soon as the answer shows: by then the execution is about to finish, or has finished.
    first = await client.until_answered(a)
    second = await client.insist(b, await client.steer(first, b))
    await client.finish((a, first), (b, second))


async def _queue(client: Client, a: Line, b: Line, c: Line) -> None:
    first = await client.submit(a)
    second, third = await client.queue(b), await client.queue(c)
    await client.finish((a, first), (b, second), (c, third))


async def _interrupt(client: Client, a: Line, b: Line) -> None:
    first = await client.submit(a)
    await client.interrupt(first, a)
    # One more thing: too late, an execution that stops takes no steer.
    second = await client.insist(b, await client.steer(first, b))
    await client.finish((a, first), (b, second))


async def _busy(client: Client, a: Line, b: Line) -> None:
    first = await client.submit(a)
    second = await client.insist(b, await client.submit(b, "reject", on_busy="reject"))
    await client.finish((a, first), (b, second))


async def _barge_in(client: Client, a: Line, b: Line) -> None:
    first = await client.submit(a)
    second = await client.submit(b, "barge", on_busy="interrupt")
    await client.finish((a, first), (b, second))


async def _join_in(client: Client, a: Line, b: Line) -> None:
    first = await client.submit(a)
    second = await client.insist(b, await client.submit(b, "join", on_busy="steer"))
    await client.finish((a, first), (b, second))


async def _steer_the_past(client: Client, a: Line, b: Line) -> None:
    first = await client.submit(a)
    await client.finish((a, first))
    second = await client.insist(b, await client.steer(first, b))
    # By now another execution owns the thread; the first one's id must not touch it.
    await client.interrupt(first, b)
    await client.finish((b, second))


SCENES: Final[dict[str, Callable[..., Awaitable[None]]]] = {
    "say": _say,
    "steer": _steer,
    "steer late": _steer_late,
    "queue": _queue,
    "interrupt": _interrupt,
    "busy": _busy,
    "barge in": _barge_in,
    "join in": _join_in,
    "steer the past": _steer_the_past,
}
