"""Owns what a body gets when its execution is over for it: interrupted, or no longer its own. Decides neither.

Both pass through `except Exception`, so that an agent which guards its tools does not swallow its own end.
"""

from __future__ import annotations

import asyncio

__all__ = ["ExecutionCancelled", "ExecutionFenced"]


class ExecutionCancelled(asyncio.CancelledError):
    """The execution was interrupted: the body should clean up and end.

    Attributes:
        execution_id: which one.
        reason: the interruption's text, if it gave one.
        source: who interrupted: `user`, `system` or `parent`.
    """

    def __init__(self, execution_id: str, reason: str | None = None, source: str = "user") -> None:
        super().__init__(execution_id, reason, source)
        self.execution_id = execution_id
        self.reason = reason
        self.source = source

    def __str__(self) -> str:
        said = "" if self.reason is None else f": {self.reason}"
        return f"execution {self.execution_id} was interrupted by {self.source}{said}"


class ExecutionFenced(BaseException):
    """The execution no longer owns its thread: nothing that this body does has an effect any more.

    Attributes:
        execution_id: the execution whose body came too late.
    """

    def __init__(self, execution_id: str) -> None:
        super().__init__(execution_id)
        self.execution_id = execution_id

    def __str__(self) -> str:
        return f"execution {self.execution_id} no longer owns its thread"
