"""A crash of an actor leaves no caller without an answer, whichever mail it was at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from treadle.actors import acting
from treadle.actors.testing import Crash
from treadle.agents import agent
from treadle.protocol.errors import ThreadActorCrashed

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors.testing import Stage
    from treadle.agents import ThreadState


@agent
async def listener(state: ThreadState) -> None:
    """Say nothing."""


def test_a_crash_at_postponed_mail_answers_that_mail_and_those_decided_beside_it(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mail that waited for a batch is no longer in the mailbox when its turn comes: its answer was lost with the actor."""
    on = stage(listener)
    thread = on.thread()
    first = thread.set_value("a", 1)
    on.turn()
    beside = thread.set_value("b", 2)
    waiting = thread.wait("e" * 32)
    behind = thread.set_value("c", 3)

    def fail(*_args: object) -> None:
        raise Crash("a bug in the actor")

    monkeypatch.setattr(acting, "register", fail)
    on.settle()

    assert first.result(0) is None
    assert isinstance(waiting.error(), ThreadActorCrashed)
    assert isinstance(beside.error(), ThreadActorCrashed)
    assert behind.result(0) is None
    assert thread.get_value("b").result(0) is None
    assert thread.get_value("c").result(0) == 3
