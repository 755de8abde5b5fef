"""A crash between a commit and showing it leaves no watcher behind: what is durable is pushed all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.testing import Crash
from treadle.actors.thread import ThreadActor
from treadle.agents import agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Runtime
    from treadle.agents import ThreadState

GUARD_S = 60.0


@agent
async def listener(state: ThreadState) -> None:
    """Say nothing."""


@pytest.mark.parametrize(
    ("about", "pushed"), [("START", ["running", "failed"]), ("FINISH", ["running", "idle"])], ids=["start", "finish"]
)
def test_watchers_see_what_was_committed_by_an_actor_that_fell_before_it_could_show_it(
    runtime: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch, about: str, pushed: list[str]
) -> None:
    committed = ThreadActor._committed
    falls = iter([True])

    def fall_once(actor: ThreadActor, building: Any, answer: Any) -> None:
        if building.about.value == about and next(falls, False):
            raise Crash("between commit and publish")
        committed(actor, building, answer)

    monkeypatch.setattr(ThreadActor, "_committed", fall_once)
    open_runtime = runtime(listener)
    thread = open_runtime.create_thread("listener").result(GUARD_S)
    with thread.stream() as frames, open_runtime.events() as changes:
        assert frames.next(GUARD_S)["status"]["state"] == "idle"
        thread.submit("hello").add_done_callback(lambda reply: reply.error())

        states = []
        while len(states) < len(pushed):
            frame = frames.next(GUARD_S)
            states += [frame["status"]["state"]] if frame["type"] == "thread_status" else []
        assert states == pushed
        assert thread.status().result(GUARD_S).state == pushed[-1]

        # The number that the fallen actor never published holds nothing up.
        latest = changes.next(GUARD_S)
        while latest["status"]["state"] != pushed[-1]:
            latest = changes.next(GUARD_S)
