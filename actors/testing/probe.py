"""Owns a test's view of one thread: waits for frames as they come. Never sleeps, never polls, and changes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ...protocol.cursors import Cursor
    from ...protocol.frames import Frame
    from ..handle import Thread

__all__ = ["GUARD_S", "Probe"]

GUARD_S: Final = 30.0  # real seconds that a test waits for what must come; only a broken one waits so long


class Probe:
    """Follows the stream of a thread, from its snapshot on, and waits for what a test expects.

    Every wait begins behind the frame that the last one found, so a test that names what it expects in order proves
    that order. A wait that is not met in time fails with the frames that came instead.

    Args:
        thread: whom to follow.
        after: a cursor to begin behind; by default what happens from now on.
        guard: real seconds for each wait.

    Attributes:
        frames: all frames read so far, the snapshot first.
    """

    def __init__(self, thread: Thread, after: str | Cursor | None = None, *, guard: float = GUARD_S) -> None:
        self.frames: list[Frame] = []
        self._thread = thread
        self._guard = guard
        self._stream = thread.stream(after)
        # Read here and now, so that nothing that happens after this line goes unseen.
        self.next()

    @property
    def snapshot(self) -> Frame:
        """The first frame: status, cursor, active execution, pending requests, held, boot id."""
        return self.frames[0]

    def next(self) -> Frame:
        """Return the next frame; blocks until there is one.

        Raises:
            AssertionError: none came in time, or the stream has ended.
        """
        return self.until(lambda _frame: True, "a frame")

    def until(self, predicate: Callable[[Frame], object], wanted: str = "what the predicate asks for") -> Frame:
        """Return the next frame that fulfils a predicate; blocks until there is one.

        Args:
            predicate: is shown each frame once.
            wanted: names it in the failure.

        Raises:
            AssertionError: it did not come in time, or the stream ended before.
        """
        begun = len(self.frames)
        deadline = time.monotonic() + self._guard
        while True:
            try:
                frame = self._stream.next(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise AssertionError(self._missed(wanted, f"not within {self._guard:g} s", begun)) from None
            if frame is None:
                raise AssertionError(self._missed(wanted, "the stream ended", begun))
            self.frames.append(frame)
            if predicate(frame):
                return frame

    def until_status(self, state: str, reason: str | None = None) -> Frame:
        """Return the next frame that says that the thread is `idle`, `running` or `failed`.

        Where nothing was published since the snapshot, and that says so already, it is the snapshot. So take the reply
        of a call before waiting for what it brings about: `thread.submit("hello").result()`.

        Args:
            state: the run status waited for.
            reason: also ask for this reason; None lets any pass.
        """

        def fits(frame: Frame) -> bool:
            status = frame.get("status") if frame["type"] == "thread_status" else None
            return status is not None and status["state"] == state and reason in (None, status["reason"])

        if len(self.frames) == 1 and fits(self.frames[0]):
            try:
                following = self._stream.next(0)
            except TimeoutError:
                return self.frames[0]
            if following is not None:
                self.frames.append(following)
                if fits(following):
                    return following
        return self.until(fits, f"status {state}" + (f" with reason {reason}" if reason else ""))

    def next_event(self, kind: str, **fields: object) -> Frame:
        """Return the next committed event of a type (`MESSAGE_ADDED`, `THREAD_EXECUTION_FINISHED`, ...).

        Args:
            kind: its type.
            fields: what the frame must hold besides, by name.
        """

        def fits(frame: Frame) -> bool:
            return frame["type"] == kind and all(frame.get(name) == value for name, value in fields.items())

        return self.until(fits, " ".join([kind, *(f"{name}={value!r}" for name, value in fields.items())]))

    def types(self) -> list[str]:
        """Return the types of all frames read so far, in order."""
        return [frame["type"] for frame in self.frames]

    def close(self) -> None:
        """Follow no more. Idempotent."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _missed(self, wanted: str, why: str, begun: int) -> str:
        came = ", ".join(_short(frame) for frame in self.frames[begun:]) or "nothing"
        return f"thread {self._thread.id!r}: waited for {wanted}, {why}; what came: {came}"


def _short(frame: Frame) -> str:
    status = frame.get("status")
    return (
        f"{frame['type']} {status['state']}" if isinstance(status, dict) and "state" in status else str(frame["type"])
    )
