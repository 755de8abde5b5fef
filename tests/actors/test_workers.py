from __future__ import annotations

import contextvars
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.reply import Reply
from treadle.actors.workers import Job, WorkerLost, WorkerPool, release_lane
from treadle.protocol.errors import NoWorker, RuntimeClosed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

GUARD = 60
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


class Held:
    """A body that holds its worker until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.leave.wait(GUARD)


def ignore(error: BaseException | None) -> None:
    return None


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(maximum=2, abandoned_max=1)
    yield made
    made.close()


def run(pool: WorkerPool, call: object) -> BaseException | None:
    ended: Reply[BaseException | None] = Reply()
    pool.submit("e-1", call, ended.set)  # type: ignore[arg-type]
    return ended.result(GUARD)


def test_a_body_runs_on_a_daemon_worker_and_its_end_is_reported_there(pool: WorkerPool) -> None:
    seen: list[threading.Thread] = []
    ended: Reply[tuple[BaseException | None, threading.Thread]] = Reply()
    job = pool.submit(
        "e-1",
        lambda: seen.append(threading.current_thread()),
        lambda error: ended.set((error, threading.current_thread())),
    )

    assert ended.result(GUARD) == (None, seen[0])
    assert seen[0].daemon
    assert seen[0] is not threading.current_thread()
    assert job.state == "ended"
    assert job.stack() == []


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_whatever_ends_a_body_is_reported_and_the_worker_goes_on(pool: WorkerPool, error: BaseException) -> None:
    def body() -> None:
        raise error

    assert run(pool, body) is error
    assert run(pool, lambda: None) is None


def test_a_body_that_ends_its_os_thread_is_reported_and_the_worker_goes_on(pool: WorkerPool) -> None:
    import _thread

    assert isinstance(run(pool, _thread.exit), SystemExit)
    assert run(pool, lambda: None) is None


def test_a_worker_forced_out_from_outside_gives_its_place_to_another(pool: WorkerPool) -> None:
    class Forced(BaseException):
        pass

    def on_end(error: BaseException | None) -> None:
        ended.set(error)
        raise Forced

    ended: Reply[BaseException | None] = Reply()
    died: Reply[object] = Reply()
    hook, threading.excepthook = threading.excepthook, lambda args: died.set(args.exc_type)
    try:
        pool.submit("e-1", lambda: None, on_end)
        assert ended.result(GUARD) is None
        assert died.result(GUARD) is Forced
    finally:
        threading.excepthook = hook

    assert run(pool, lambda: None) is None
    counts = pool.counts()
    assert counts["workers"] == 1


def test_idle_workers_are_kept_and_used_again(pool: WorkerPool) -> None:
    workers: set[int] = set()
    for _ in range(5):
        run(pool, lambda: workers.add(threading.get_ident()))

    assert pool.counts()["workers"] <= 2
    assert len(workers) <= 2


def test_no_more_bodies_run_at_once_than_there_may_be_and_the_others_wait_in_line(pool: WorkerPool) -> None:
    bodies = [Held() for _ in range(3)]
    jobs = [pool.submit(str(number), body, ignore) for number, body in enumerate(bodies)]
    assert all(body.entered.wait(GUARD) for body in bodies[:2])
    assert jobs[2].state == "waiting"
    assert pool.counts()["waiting"] == 1
    bodies[0].leave.set()
    assert bodies[2].entered.wait(GUARD)
    for body in bodies:
        body.leave.set()


def test_a_job_in_line_can_be_taken_out_and_then_has_no_end(pool: WorkerPool) -> None:
    bodies = [Held() for _ in range(2)]
    for body in bodies:
        pool.submit("held", body, ignore)
    assert all(body.entered.wait(GUARD) for body in bodies)
    ran: list[object] = []
    job = pool.submit("waiting", lambda: ran.append("body"), ran.append)
    running = bodies[0]

    assert job.cancel()
    assert not job.cancel()
    assert job.state == "cancelled"
    for body in bodies:
        body.leave.set()
    assert run(pool, lambda: None) is None
    assert ran == []
    assert running.entered.is_set()


def test_a_job_that_runs_cannot_be_taken_out(pool: WorkerPool) -> None:
    body = Held()
    job = pool.submit("e-1", body, ignore)
    assert body.entered.wait(GUARD)

    assert not job.cancel()
    assert any("Held.__call__" in line for line in job.stack())
    body.leave.set()


def test_an_abandoned_worker_is_replaced_and_its_late_end_is_still_reported(pool: WorkerPool) -> None:
    bodies = [Held() for _ in range(3)]
    ended: Reply[BaseException | None] = Reply()
    jobs = [pool.submit(str(number), body, ended.set) for number, body in enumerate(bodies)]
    assert bodies[0].entered.wait(GUARD)
    assert jobs[0].abandon()
    assert not jobs[0].abandon()
    assert bodies[2].entered.wait(GUARD)
    assert pool.counts() == {"workers": 2, "idle": 0, "blocked": 0, "abandoned": 1, "waiting": 0}
    bodies[0].leave.set()
    assert ended.result(GUARD) is None
    assert jobs[0].abandoned
    for body in bodies:
        body.leave.set()


def test_with_too_many_abandoned_workers_there_is_no_worker_until_one_comes_back(pool: WorkerPool) -> None:
    bodies = [Held() for _ in range(2)]
    ends: list[Reply[BaseException | None]] = [Reply(), Reply()]
    workers: list[threading.Thread] = []
    for body, end in zip(bodies, ends, strict=True):
        pool.submit("late", lambda body=body: (workers.append(threading.current_thread()), body()), end.set)
    assert all(body.entered.wait(GUARD) for body in bodies)
    jobs = list(pool._running.values())
    assert jobs[0].abandon()
    run(pool, lambda: None)
    assert jobs[1].abandon()
    with pytest.raises(NoWorker) as raised:
        pool.submit("e-2", lambda: None, ignore)
    for body in bodies:
        body.leave.set()
    for worker in workers:
        worker.join(GUARD)

    assert raised.value.details == {"abandoned": 2, "maximum": 1}
    assert run(pool, lambda: None) is None
    assert pool.counts()["abandoned"] == 0


def test_a_worker_that_waits_in_a_reply_is_replaced_meanwhile_and_the_surplus_ends_later(pool: WorkerPool) -> None:
    answers: list[Reply[int]] = [Reply(), Reply()]
    blocked = [threading.Event(), threading.Event()]

    def body(number: int) -> None:
        pool.begin_blocking()
        pool.begin_blocking()
        blocked[number].set()
        answers[number].result(GUARD)
        pool.end_blocking()
        pool.end_blocking()

    ends: list[Reply[BaseException | None]] = [Reply(), Reply()]
    for number in range(2):
        pool.submit(str(number), lambda number=number: body(number), ends[number].set)
    assert all(event.wait(GUARD) for event in blocked)
    assert pool.counts()["blocked"] == 2
    # Both workers wait for what only a third can give.
    assert run(pool, lambda: [answer.set(1) for answer in answers]) is None
    assert [end.result(GUARD) for end in ends] == [None, None]
    for _ in range(5):
        run(pool, lambda: None)

    counts = pool.counts()
    assert counts["blocked"] == 0
    assert counts["workers"] <= 3


def test_an_abandoned_worker_that_waits_is_counted_once(pool: WorkerPool) -> None:
    answer: Reply[int] = Reply()
    blocked = threading.Event()

    def body() -> None:
        pool.begin_blocking()
        blocked.set()
        answer.result(GUARD)
        pool.end_blocking()

    ended: Reply[BaseException | None] = Reply()
    job = pool.submit("e-1", body, ended.set)
    assert blocked.wait(GUARD)
    assert job.abandon()
    assert pool.counts()["blocked"] == 0
    answer.set(1)
    ended.result(GUARD)
    run(pool, lambda: None)

    assert pool.counts()["blocked"] == 0


def test_blocking_outside_a_body_changes_nothing(pool: WorkerPool) -> None:
    pool.begin_blocking()
    pool.end_blocking()

    assert pool.counts()["blocked"] == 0


def test_closing_returns_what_was_in_line_and_takes_no_more(pool: WorkerPool) -> None:
    bodies = [Held() for _ in range(2)]
    ends: list[Reply[BaseException | None]] = [Reply(), Reply()]
    for body, end in zip(bodies, ends, strict=True):
        pool.submit("held", body, end.set)
    assert all(body.entered.wait(GUARD) for body in bodies)
    waiting = pool.submit("waiting", lambda: None, ignore)

    assert pool.close() == [waiting]
    assert waiting.state == "cancelled"
    assert not waiting.cancel()
    with pytest.raises(RuntimeClosed):
        pool.submit("late", lambda: None, ignore)
    for body in bodies:
        body.leave.set()
    assert [end.result(GUARD) for end in ends] == [None, None]


def test_where_the_system_gives_no_os_thread_there_is_no_worker(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(NoWorker):
            pool.submit("e-1", lambda: None, ignore)

    assert run(pool, lambda: None) is None


def test_a_body_runs_in_its_own_context(pool: WorkerPool) -> None:
    seen: list[str] = []

    def body() -> None:
        seen.append(variable.get())
        variable.set("changed inside")

    given = contextvars.Context()
    given.run(variable.set, "given")
    run(pool, body)
    ended: Reply[BaseException | None] = Reply()
    pool.submit("e-1", body, ended.set, context=given)
    ended.result(GUARD)
    run(pool, body)

    assert seen == ["unset", "given", "unset"]


def test_what_a_body_held_is_freed_when_it_ended() -> None:
    pool = WorkerPool(maximum=1)  # so that what runs next has to wait until this worker is done with it

    class Big:
        pass

    def body() -> None:
        big = Big()
        refs.append(weakref.ref(big))
        raise ValueError

    refs: list[weakref.ref[Big]] = []
    ended = threading.Event()
    pool.submit("e-1", body, lambda _: ended.set())
    assert ended.wait(GUARD)
    run(pool, lambda: None)
    gc.collect()
    pool.close()

    assert refs[0]() is None


def test_an_end_that_cannot_be_reported_is_logged_and_the_worker_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    pool = WorkerPool(maximum=1)

    def on_end(error: BaseException | None) -> None:
        raise ValueError("no mailbox")

    pool.submit("e-1", lambda: None, on_end)
    assert run(pool, lambda: None) is None
    pool.close()

    assert "Reporting the end of e-1 failed" in caplog.text


def test_releases_have_workers_that_bodies_cannot_take(pool: WorkerPool) -> None:
    bodies = [Held() for _ in range(2)]
    for body in bodies:
        pool.submit("hostile", body, ignore)
    assert all(body.entered.wait(GUARD) for body in bodies)
    lane = release_lane()
    try:
        assert run(lane, lambda: None) is None
    finally:
        lane.close()
        for body in bodies:
            body.leave.set()


AROUND_A_JOB = frozenset((WorkerPool._take.__code__, WorkerPool._work.__code__, Job.run.__code__))


@pytest.mark.parametrize("line", range(1, 14))
def test_a_worker_that_dies_around_its_job_is_noticed_and_replaced(pool: WorkerPool, line: int) -> None:
    passed: list[str] = []
    died: list[threading.Thread] = []

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code not in AROUND_A_JOB:
            return None
        # From where it has a job on. Not under the lock: no `with` gives it back if its own line raises.
        if event == "line" and pool._running and not ended.done() and not pool._lock._is_owned():  # type: ignore[attr-defined]
            passed.append(f"{frame.f_code.co_name} {frame.f_lineno}")
            if len(passed) == line:
                died.append(threading.current_thread())
                raise SystemExit
        return trace

    ended: Reply[BaseException | None] = Reply()
    ran: list[int] = []
    threading.settrace(trace)
    hook, threading.excepthook = threading.excepthook, lambda args: None
    try:
        pool.submit("e-1", lambda: ran.append(1), ended.set)
        error = ended.result(GUARD)
        if not isinstance(error, SystemExit):  # else it was taken for the body's own end
            for worker in died:
                worker.join(GUARD)
    finally:
        threading.settrace(None)  # type: ignore[arg-type]
        threading.excepthook = hook

    # Told once, whether the worker or the body ended; and nobody says that a body did not begin that ran.
    assert error is None or isinstance(error, WorkerLost | SystemExit), passed
    assert ran or error is not None, passed
    assert not isinstance(error, WorkerLost) or error.began or not ran, passed
    assert run(pool, lambda: None) is None
    assert run(pool, lambda: None) is None
    assert pool.counts()["waiting"] == 0
