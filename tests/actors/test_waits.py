from __future__ import annotations

import contextvars
import threading

from treadle.actors.fence import ExecutionCancelled
from treadle.actors.reply import Reply, current_wait
from treadle.actors.waits import BodyWait
from treadle.actors.workers import WorkerPool

GUARD = 60


class Announcing(BodyWait):
    """Says when the body waits."""

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__(pool)
        self.entered = threading.Event()

    def enter(self, reply: object, abort: object) -> None:
        super().enter(reply, abort)  # type: ignore[arg-type]
        self.entered.set()


def test_an_interruption_ends_the_wait_of_a_body_and_a_later_wait_is_left_alone() -> None:
    pool = WorkerPool(maximum=1)
    guard = Announcing(pool)
    never: Reply[int] = Reply()
    later: Reply[str] = Reply()
    caught: list[BaseException] = []

    def body() -> None:
        try:
            never.result(GUARD)
        except ExecutionCancelled as error:
            caught.append(error)
        guard.entered.clear()
        waiting_again.set()
        assert later.result(GUARD) == "appended"

    waiting_again = threading.Event()
    context = contextvars.copy_context()
    context.run(current_wait.set, guard)
    ended: Reply[BaseException | None] = Reply()
    pool.submit("e-1", body, ended.set, context=context)
    assert guard.entered.wait(GUARD)
    # Its worker may be replaced while it waits.
    other: Reply[BaseException | None] = Reply()
    pool.submit("e-2", lambda: None, other.set)
    assert other.result(GUARD) is None

    assert guard.abort(lambda: ExecutionCancelled("e-1", "enough")) == 1
    assert waiting_again.wait(GUARD)
    assert guard.entered.wait(GUARD)
    later.set("appended")
    assert ended.result(GUARD) is None
    assert guard.abort(lambda: ExecutionCancelled("e-1")) == 0
    assert [str(error) for error in caught] == ["execution e-1 was interrupted by user: enough"]
    assert pool.counts()["blocked"] == 0
    pool.close()


def test_a_reply_that_is_there_is_no_wait() -> None:
    pool = WorkerPool(maximum=1)
    guard = Announcing(pool)
    token = current_wait.set(guard)
    try:
        assert Reply.of(1).result() == 1
    finally:
        current_wait.reset(token)
        pool.close()

    assert not guard.entered.is_set()
