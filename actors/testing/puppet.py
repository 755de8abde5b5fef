"""Owns an agent that does what a test tells it, when the test tells it: what it was called with, how each pass ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from ...protocol.errors import InternalError
from ..reply import Reply
from .probe import GUARD_S

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ...protocol.messages import Message
    from ..execution import Execution

__all__ = ["Puppet"]

_CANCELS_MAX: Final = 3  # by an interrupt, by being abandoned, by the end of the runtime


class Puppet:
    """A coroutine agent whose passes end when and how the test says.

    Args:
        name: what threads are created under.
        obeys: whether a pass ends by itself once it is cancelled; else only the test ends it, or the third time that it
            is cancelled, so that a runtime gets rid of it when it closes.
        timeout, steerable, on_lost: as of any agent.

    Attributes:
        execution: of the pass that was called last.
        passes: the new messages that each pass was called with.
        cancels: how often passes were told to end.
    """

    runs_on: Literal["loop"] = "loop"

    def __init__(
        self, name: str = "puppet", *, obeys: bool = True, timeout: float | None = None, steerable: bool = True,
        on_lost: Literal["settle", "resume"] = "settle",
    ) -> None:  # fmt: skip
        self.name = name
        self.timeout = timeout
        self.steerable = steerable
        self.on_lost = on_lost
        self.passes: list[list[Message]] = []
        self.cancels = 0
        self._obeys = obeys
        self._execution: Execution | None = None
        self._end: Reply[None] = Reply()
        self._called: Reply[None] = Reply()

    @property
    def execution(self) -> Execution:
        """The execution of the last pass. Raises: InternalError: it was never called."""
        if self._execution is None:
            raise InternalError(f"the puppet {self.name!r} was never called")
        return self._execution

    @property
    def texts(self) -> list[str]:
        """The texts of the new messages of all passes, in order."""
        return [message.content or "" for messages in self.passes for message in messages]

    def run(self, execution: Execution, /) -> Awaitable[None]:
        """One pass; the runtime's to call."""
        self._execution = execution
        self._end = Reply()
        self.passes.append(list(execution.new_messages))
        called, self._called = self._called, Reply()
        called.set(None)
        return self._play(self._end)

    def wait_for_pass(self, count: int, timeout: float = GUARD_S) -> None:
        """Block until it was called `count` times; for runtimes whose loop runs by itself.

        Raises:
            TimeoutError: not within `timeout` real seconds.
        """
        called = self._called
        while len(self.passes) < count:
            called.result(timeout)
            called = self._called

    def returns(self) -> None:
        """Let the present pass return."""
        self._end.set(None)

    def raises(self, error: BaseException) -> None:
        """Let the present pass raise an error."""
        self._end.fail(error)

    async def _play(self, end: Reply[None]) -> None:
        while True:
            try:
                await end
            except asyncio.CancelledError:
                # Its own end may be a CancelledError that the test chose.
                self.cancels += 1
                if self._obeys or end.done() or self.cancels >= _CANCELS_MAX:
                    raise
            else:
                return
