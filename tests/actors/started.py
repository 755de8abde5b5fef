"""Owns the one step with which most tests of the actors begin: an execution whose body is out. Checks nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treadle.actors import Thread
    from treadle.actors.testing import Stage


def started(on: Stage, thread: Thread, **options: Any) -> str:
    """Start an execution, let everything come to rest, and return its id."""
    receipt = on.ask(thread.submit("go", **options))
    on.settle()
    assert receipt.execution_id is not None
    return receipt.execution_id
