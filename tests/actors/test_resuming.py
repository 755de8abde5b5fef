"""An agent that asked to run again does so, even where the process dies between the settling and the next START."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.actors.testing import Puppet

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Thread
    from treadle.actors.testing import Stage


def starts(thread: Thread) -> list[str]:
    with thread.events() as events:
        causes = []
        while True:
            try:
                entry = events.next(0)
            except TimeoutError:
                return causes
            if entry is None:
                return causes
            if entry.event.type == "THREAD_EXECUTION_STARTED":
                causes.append(entry.event.cause)


def cut_between(on: Stage, thread: Thread) -> None:
    """Kill the process while it runs, open it, and kill it again right behind the commit that settles the loss."""
    on.ask(thread.submit("go"))
    on.settle()
    on.kill()
    on.reopen(settle=False)
    on.turn()
    assert on.commit() == 1  # the settling, and nothing behind it
    on.kill()


def test_a_second_death_between_settling_and_start_does_not_forget_the_wish_to_run_again(
    stage: Callable[..., Stage],
) -> None:
    on = stage(Puppet(on_lost="resume"))
    thread = on.thread()
    cut_between(on, thread)

    runtime = on.reopen()
    on.settle()
    again = runtime.thread(thread.id)

    assert starts(again) == ["submit", "recovery"]
    assert again.status().result(0).state == "running"


def test_an_agent_that_no_longer_asks_for_it_is_not_run_again(stage: Callable[..., Stage]) -> None:
    on = stage(Puppet(on_lost="resume"))
    thread = on.thread()
    cut_between(on, thread)

    runtime = on.reopen(Puppet(on_lost="settle"))
    on.settle()
    again = runtime.thread(thread.id)

    assert starts(again) == ["submit"]
    assert again.status().result(0) == (again.status().result(0))._replace(state="failed", reason="execution_lost")
