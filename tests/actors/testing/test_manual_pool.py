"""Plain functions one at a time: each moves only at a step, until it waits for a reply or ends."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING

import pytest

from treadle.actors.reply import Reply
from treadle.actors.testing import ManualPool
from treadle.protocol.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pool() -> Iterator[ManualPool]:
    made = ManualPool()
    yield made
    made.close()


def ignore(_error: BaseException | None) -> None:
    """Be told the end of a job that does not matter."""


def test_nothing_runs_before_its_step(pool: ManualPool) -> None:
    ran: list[str] = []
    ends: list[BaseException | None] = []
    job = pool.submit("a", lambda: ran.append("a"), ends.append)
    pool.submit("b", lambda: ran.append("b"), ends.append)
    assert (ran, job.state, pool.movable()) == ([], "waiting", 2)
    assert pool.step(pick=1)
    assert ran == ["b"]
    assert pool.step()

    assert (ran, ends, job.state) == (["b", "a"], [None, None], "ended")
    assert not pool.step()


def test_a_job_that_waits_for_a_reply_gives_way_until_that_is_there(pool: ManualPool) -> None:
    reply: Reply[str] = Reply()
    got: list[str] = []
    pool.submit("a", lambda: got.append(reply.result()), ignore)
    assert pool.step()
    assert (pool.step(), pool.movable(), pool.counts()["blocked"]) == (False, 0, 1)
    reply.set("there")
    assert got == []
    assert pool.step()

    assert got == ["there"]


def test_a_reply_that_is_there_needs_no_second_step(pool: ManualPool) -> None:
    got: list[int] = []
    pool.submit("a", lambda: got.extend([Reply.of(1).result(), Reply.of(2).result()]), ignore)
    assert pool.step()

    assert got == [1, 2]


def test_an_error_ends_the_job_and_nothing_else(pool: ManualPool) -> None:
    ends: list[BaseException | None] = []

    def fail() -> None:
        raise SystemExit(3)

    pool.submit("a", fail, ends.append)
    assert pool.step()

    assert isinstance(ends[0], SystemExit)


def test_a_job_that_has_not_begun_can_be_withdrawn(pool: ManualPool) -> None:
    job = pool.submit("a", lambda: 1 // 0, ignore)

    assert job.cancel()
    assert (job.cancel(), pool.step(), job.state) == (False, False, "cancelled")


def test_each_job_runs_in_its_context_on_an_os_thread_of_its_own(pool: ManualPool) -> None:
    mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")
    seen: list[object] = []
    context = contextvars.Context()
    context.run(mark.set, "its own")
    job = pool.submit("a", lambda: seen.extend([mark.get(), threading.get_ident()]), ignore, context)
    pool.step()

    assert seen == ["its own", job.ident]
    assert job.ident != threading.get_ident()


def test_closing_ends_every_wait_and_takes_no_more() -> None:
    pool = ManualPool()
    ends: list[BaseException | None] = []
    never: Reply[None] = Reply()
    waiting = pool.submit("waits", never.result, ends.append)
    pool.step()
    unbegun = pool.submit("unbegun", never.result, ends.append)

    assert pool.close() == [unbegun]
    assert isinstance(ends[0], SystemExit)
    assert waiting.state == "ended"
    with pytest.raises(InternalError, match="left"):
        pool.submit("late", never.result, ignore)


def test_an_abandoned_job_is_counted_until_it_ends(pool: ManualPool) -> None:
    reply: Reply[None] = Reply()
    job = pool.submit("a", reply.result, ignore)
    assert not job.abandon()  # it does not run
    pool.step()
    assert job.abandon()
    assert not job.abandon()
    assert pool.counts()["abandoned"] == 1
    reply.set(None)
    pool.step()

    assert pool.counts() == {"workers": 0, "idle": 0, "blocked": 0, "abandoned": 0, "waiting": 0}
