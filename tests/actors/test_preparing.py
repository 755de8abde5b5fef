"""What `preparing` looks up for a trigger before it is decided, and that the usual mail looks nothing up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.started import started
from treadle.actors.testing import Puppet, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


class Reads:
    """Counts the views that are opened while an actor takes its mail."""

    def __init__(self, on: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = on.store.view
        self._on = on

        def view() -> Any:
            self.count += 1
            return real()

        monkeypatch.setattr(on.store, "view", view)

    def of(self, call: Callable[[], object]) -> int:
        """Make a call, and return how many reads deciding it takes."""
        self._on.services.verifier = None
        call()
        before = self.count
        while self._on.turn():
            pass
        return self.count - before


def test_the_usual_mail_costs_no_read(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    puppet = Puppet()
    on = stage(puppet, always_evict=False)
    thread = on.thread()
    on.ask(thread.set_value("brings", "the actor up"))
    reads = Reads(on, monkeypatch)
    assert reads.of(lambda: thread.submit("go")) == 0
    on.settle()
    execution_id = puppet.execution.id
    assert reads.of(lambda: puppet.execution.append({"id": "m", "role": "assistant", "content": "x"})) == 0
    on.settle()
    assert reads.of(lambda: puppet.execution.consume()) == 0
    assert reads.of(lambda: thread.interrupt(execution_id)) == 0

    def ends() -> None:
        on.commit()
        while on.turn():
            pass
        while on.body():
            pass

    assert reads.of(ends) == 0
    on.settle()
    assert thread.status().result().state == "idle"


def test_an_id_of_the_caller_costs_one_read(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    on = stage(Puppet(), always_evict=False)
    thread = on.thread()
    on.ask(thread.set_value("brings", "the actor up"))
    reads = Reads(on, monkeypatch)

    assert reads.of(lambda: thread.submit("go", input_id="i")) == 1


def test_rows_are_read_where_the_counters_say_that_there_are_some(
    stage: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    puppet = Puppet()
    on = stage(puppet, always_evict=False)
    thread = on.thread()
    started(on, thread)
    on.ask(thread.queue_message("waits"))
    reads = Reads(on, monkeypatch)

    assert reads.of(lambda: puppet.execution.consume()) >= 1
    on.settle()
    assert reads.of(lambda: puppet.execution.consume()) == 0


def test_rows_of_a_terminated_thread_never_join(stage: Enter) -> None:
    puppet = Puppet(obeys=False)
    on = stage(puppet)
    thread = on.thread()
    execution_id = started(on, thread)
    on.ask(thread.queue_message("failed"))
    on.ask(thread.steer(execution_id, "steered"))
    terminated = thread.terminate()
    on.settle()
    assert terminated.result()
    puppet.returns()
    on.settle()
    shown = {message.content: message.status for message in thread.messages().result().messages}

    assert shown == {"go": "completed", "steered": "completed", "failed": "failed"}
    assert puppet.texts == ["go"]


def test_a_call_is_answered_once_whatever_the_batch_under_way_holds(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    append = puppet.execution.append
    opens = {"id": "m1", "role": "assistant", "content": "", "calls": ["c"], "tool_calls": '[{"id": "c"}]'}
    closes = {"role": "tool", "content": "done", "tool_call_id": "c", "closes": True}
    thread.set_value("holds", "the actor up")
    while on.turn():
        pass
    first = append(dict(opens))
    doubled = append({**opens, "id": "m2"})
    result = append({**closes, "id": "m3"})
    again = append({**closes, "id": "m4"})
    on.settle()

    assert (first.error(), result.error()) == (None, None)
    assert doubled.error().code == "call_already_open"  # type: ignore[union-attr]
    assert again.error().code == "call_not_open"  # type: ignore[union-attr]


def test_rows_beyond_what_one_batch_takes_stay_for_the_next(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    started(on, thread)
    for rank in range(300):
        thread.queue_message(str(rank))
    on.settle()
    puppet.returns()
    on.settle()
    assert len(puppet.passes[1]) == 256
    puppet.returns()
    on.settle()

    assert puppet.texts == ["go", *map(str, range(300))]
    assert len(puppet.passes) == 3
