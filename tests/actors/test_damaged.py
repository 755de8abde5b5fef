"""One thread whose record is damaged, in a store with others: it is named, answers with that, and costs nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import CorruptRecord
from treadle.storage.head import HEAD_SIZE
from treadle.storage.keys import numbered
from treadle.storage.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


@pytest.fixture
def on(stage: Enter, puppet: Puppet) -> Stage:
    """Three threads after the death of their process; two of them ran, and the record of one of these is damaged."""
    on = stage(puppet)
    for thread_id in ("damaged", "ran", "rested"):
        thread = on.thread(thread_id=thread_id, user_id="u")
        if thread_id != "rested":
            on.ask(thread.submit("go"))
            on.settle()
    number = on.services.directory.entry("damaged").number
    on.kill()
    rows = on.store._now.tables[Table.THREADS].values
    rows[numbered(number)] = rows[numbered(number)][: HEAD_SIZE + 5]
    return on


def test_an_open_names_it_and_serves_the_others(on: Stage, puppet: Puppet) -> None:
    report = on.reopen().opened
    on.settle()

    assert report is not None
    assert report.settled == ("ran",)
    assert list(report.unreadable) == [1]
    assert "threads" in report.unreadable[1]
    for thread_id in ("ran", "rested"):
        assert on.ask(on.runtime.thread(thread_id).submit("on")).disposition == "accepted"


def test_whatever_is_asked_of_it_is_answered_with_the_damage(on: Stage) -> None:
    on.reopen()
    thread = on.runtime.thread("damaged")
    for call in (
        lambda: thread.submit("x"), lambda: thread.stop(), lambda: thread.wait("e" * 32), lambda: thread.status(),
        lambda: thread.messages(), lambda: thread.explain(), lambda: thread.terminate(),
    ):  # fmt: skip
        reply = call()  # type: ignore[no-untyped-call]
        on.settle()
        error = reply.error()
        assert isinstance(error, CorruptRecord), (call, error)
        assert error.details["table"] == "threads"


@pytest.mark.parametrize("order", ["created", "activity"])
@pytest.mark.parametrize("user_id", [None, "u"])
@pytest.mark.parametrize("left", [HEAD_SIZE + 5, HEAD_SIZE - 5])
def test_lists_show_the_others_and_say_what_they_leave_out(
    on: Stage, order: Literal["created", "activity"], user_id: str | None, left: int
) -> None:
    on.reopen()
    on.settle()
    rows = on.store._now.tables[Table.THREADS].values
    rows[numbered(1)] = rows[numbered(1)][:left]
    page = on.runtime.threads(order=order, user_id=user_id).result()

    assert sorted(summary.id for summary in page.threads) == ["ran", "rested"]
    assert list(page.unreadable) == [1]
    assert "thread" in page.unreadable[1]
