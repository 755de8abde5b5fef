"""Tests actors/closing.py on a stage: what a close waits for. The whole of a close is played in test_runtime.py."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors.closing import drain
from treadle.actors.reply import Reply
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import CloseIncomplete

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]

GUARD_S = 60.0


def draining(on: Stage, seconds: float) -> Reply[None]:
    """Drain on a worker of its own; the stage moves on the test's."""
    drained: Reply[None] = Reply()

    def work() -> None:
        try:
            drain(on.services, seconds)
        except BaseException as error:
            drained.fail(error)
        else:
            drained.set(None)

    threading.Thread(target=work, name="treadle-test-drain", daemon=True).start()
    return drained


def test_where_nothing_runs_there_is_nothing_to_wait_for(stage: Enter) -> None:
    on = stage(Puppet())
    on.thread()

    assert draining(on, 0).result(GUARD_S) is None
    assert draining(on, 30).result(GUARD_S) is None
    assert on.services.idle_callbacks == []


def test_a_drain_ends_with_the_last_execution(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    waits = on.clock.pending()
    drained = draining(on, 30)
    on.clock.wait_for_timers(waits + 1)
    puppet.returns()
    while not drained.done():
        on.settle()
    drained.result(GUARD_S)

    assert thread.execution(receipt.execution_id or "").result().status == "succeeded"
    assert on.clock.pending() == waits  # its own timer is gone


def test_what_is_not_over_in_time_is_interrupted_by_the_system_once(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    receipt = on.ask(thread.submit("go"))
    on.settle()
    drained = draining(on, 0)
    while not drained.done():
        on.settle()
    drained.result(GUARD_S)

    record = thread.execution(receipt.execution_id or "").result()
    assert (record.status, puppet.cancels) == ("cancelled", 1)
    assert (puppet.execution.abort_signal.source, puppet.execution.abort_signal.reason) == (
        "system",
        "the runtime closes",
    )


def test_what_the_store_never_takes_is_named(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet, interrupt_grace=1, release_timeout=1)
    thread = on.thread()
    on.ask(thread.submit("go"))
    on.settle()
    drained = draining(on, 0)
    while not drained.done():
        on.act()
        on.refuse()
        on.advance(0.1)
    error = drained.error()

    assert isinstance(error, CloseIncomplete)
    assert error.details == {"threads": [thread.id]}
    with pytest.raises(CloseIncomplete, match=thread.id):
        drained.result()
