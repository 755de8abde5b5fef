"""What an open does about the past, and what its report says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.actors.testing import Puppet, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


def test_a_lost_execution_is_reported_settled_though_what_waited_started_at_once(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    on.ask(thread.submit("lost"))
    on.settle()
    on.ask(thread.submit("waits", on_busy="queue"))
    on.kill()

    report = on.reopen(Puppet()).opened

    assert report is not None
    assert (report.settled, report.unsettled) == ((thread.id,), ())
