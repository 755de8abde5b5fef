"""Owns the proof of treadle.storage.writer: grouping, order, and an answer for everything whatever goes wrong."""

from __future__ import annotations

import logging
import signal
import threading
from collections import Counter
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.protocol.errors import InternalError, StorageFull, StoreClosed, StoreFailed, TreadleError
from treadle.protocol.limits import GROUP_BATCHES_MAX, GROUP_BYTES_MAX
from treadle.storage import points
from treadle.storage.batch import COMMITTED, Answer, Batch, refused
from treadle.storage.writer import Barriers, Writer

from .driving import PATIENCE_S, Answers, batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


class Engine:
    """An engine that writes nowhere and does as it is told."""

    def __init__(self, act: Callable[[list[Batch], list[Answer]], TreadleError | None] | None = None) -> None:
        self.groups: list[list[int]] = []
        self.barriers: list[Barriers] = []
        self.untidy = False
        self.untidiable: TreadleError | None = None
        self.tidied: SimpleQueue[None] = SimpleQueue()
        self._act = act

    def is_tidy(self) -> bool:
        return not self.untidy

    def tidy(self) -> TreadleError | None:
        self.tidied.put(None)
        self.untidy = False
        return self.untidiable

    def write(self, batches: list[Batch], barriers: Barriers, answers: list[Answer]) -> TreadleError | None:
        self.groups.append([one.number for one in batches])
        self.barriers.append(dict(barriers))
        if self._act is not None:
            return self._act(batches, answers)
        answers.extend(COMMITTED for _ in batches)
        return None


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "treadle.storage"):
        yield
    points.disarm()


def fill(writer: Writer, answers: Answers, count: int, size: int = 1) -> None:
    for n in range(count):
        writer.commit(batch(n, size=size, confirm=answers.confirm(n)))


def drain(writer: Writer) -> None:
    while writer.step():
        pass


def test_want_of_room_is_noted_until_something_is_written_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    full = [True]

    def act(batches: list[Batch], answers: list[Answer]) -> None:
        answers.extend(refused(StorageFull("no room")) if full[0] else COMMITTED for _ in batches)

    writer, answers = Writer(Engine(act)), Answers()
    with caplog.at_level(logging.INFO, "treadle.storage"):
        for _ in range(3):
            fill(writer, answers, 1)
            drain(writer)
            assert writer.counts().full_at is not None
            assert writer.failure() is None
        full[0] = False
        fill(writer, answers, 1)
        drain(writer)

    assert writer.counts().full_at is None
    assert [one.message for one in caplog.records] == [
        "the store takes nothing for now: no room",
        "the store has room again",
    ]


def test_what_waits_is_written_as_one_group() -> None:
    engine, answers = Engine(), Answers()
    writer = Writer(engine)
    fill(writer, answers, 5)

    assert writer.step() == 5
    assert engine.groups == [[0, 1, 2, 3, 4]]
    assert writer.step() == 0


def test_a_group_holds_a_limited_number_of_batches() -> None:
    engine, answers = Engine(), Answers()
    writer = Writer(engine)
    fill(writer, answers, 2 * GROUP_BATCHES_MAX + 7)
    drain(writer)

    assert [len(group) for group in engine.groups] == [GROUP_BATCHES_MAX, GROUP_BATCHES_MAX, 7]
    assert [name for name, _ in answers.all] == list(range(2 * GROUP_BATCHES_MAX + 7))


def test_a_group_holds_a_limited_number_of_bytes_and_a_larger_batch_goes_alone() -> None:
    engine, answers = Engine(), Answers()
    writer = Writer(engine)
    half = GROUP_BYTES_MAX // 2
    for n, size in enumerate([half, half, 1, GROUP_BYTES_MAX * 2, 1, 1, half, half]):
        writer.commit(batch(n, size=size, confirm=answers.confirm(n)))
    drain(writer)

    assert engine.groups == [[0, 1], [2], [3], [4, 5, 6], [7]]
    assert [name for name, _ in answers.all] == list(range(8))


def test_a_barrier_stands_between_groups() -> None:
    engine, answers = Engine(), Answers()
    writer = Writer(engine)
    fill(writer, answers, 2)
    writer.barrier(7, 1, 2, answers.confirm("barrier"))
    writer.barrier(7, 1, 1, answers.confirm("lower"))
    fill(writer, answers, 2)
    drain(writer)

    assert engine.groups == [[0, 1], [0, 1]]
    assert engine.barriers == [{}, {7: (1, 2)}]
    assert [name for name, _ in answers.all] == [0, 1, "barrier", "lower", 0, 1]


def test_one_sync_serves_all_that_comes_while_another_is_running() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(batches: list[Batch], answers: list[Answer]) -> None:
        entered.set()
        assert leave.wait(PATIENCE_S)
        answers.extend(COMMITTED for _ in batches)

    engine, answers = Engine(slow), Answers()
    writer = Writer(engine)
    writer.start()
    fill(writer, answers, 1)
    assert entered.wait(PATIENCE_S)
    fill(writer, answers, 50)
    assert writer.backlog() == 51
    leave.set()
    answers.wait(51)
    writer.close()

    assert [len(group) for group in engine.groups] == [1, 50]


def test_an_engine_that_gives_up_ends_all_writing_with_a_reason() -> None:
    failed = StoreFailed("on purpose")

    def give_up(batches: list[Batch], answers: list[Answer]) -> TreadleError:
        answers.extend(Answer("not_written", 0, failed) for _ in batches)
        return failed

    engine, answers = Engine(give_up), Answers()
    writer = Writer(engine)
    fill(writer, answers, 1)
    writer.barrier(1, 1, 1, answers.confirm("barrier"))
    first = batch(2, size=GROUP_BYTES_MAX, confirm=answers.confirm("waited"))
    writer.commit(first)
    drain(writer)
    writer.commit(batch(3, confirm=answers.confirm("later")))
    writer.barrier(1, 1, 1, answers.confirm("later barrier"))

    assert engine.groups == [[0]]
    assert [name for name, _ in answers.all] == [0, "barrier", "waited", "later", "later barrier"]
    assert all(answer.kind == "not_written" and isinstance(answer.error, StoreFailed) for _, answer in answers.all)
    assert isinstance(writer.failure(), StoreFailed)
    writer.close()
    assert isinstance(writer.failure(), StoreClosed)


def test_the_refusal_is_set_before_the_batches_of_the_broken_group_are_answered() -> None:
    def give_up(batches: list[Batch], answers: list[Answer]) -> TreadleError:
        answers.extend(COMMITTED for _ in batches)
        return StoreFailed("on purpose")

    engine, answers = Engine(give_up), Answers()
    writer = Writer(engine)
    writer.commit(batch(confirm=lambda answer: writer.commit(batch(2, confirm=answers.confirm("next")))))
    drain(writer)

    assert [(name, answer.kind) for name, answer in answers.all] == [("next", "not_written")]


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("worker", [False, True], ids=["stepped", "worker"])
def test_an_engine_that_raises_leaves_no_batch_without_an_answer(raised: type[BaseException], worker: bool) -> None:
    def explode(batches: list[Batch], answers: list[Answer]) -> None:
        answers.append(COMMITTED)
        raise raised("on purpose")

    engine, answers = Engine(explode), Answers()
    writer = Writer(engine)
    fill(writer, answers, GROUP_BATCHES_MAX + 3)
    writer.barrier(1, 1, 1, answers.confirm("barrier"))
    if worker:
        writer.start()
    else:
        drain(writer)
    answers.wait(GROUP_BATCHES_MAX + 4)
    writer.close()

    # What was in the engine's hands cannot be told; what waited was certainly not written.
    assert answers.kinds() == ["unknown"] * GROUP_BATCHES_MAX + ["not_written"] * 4
    assert all(isinstance(answer.error, StoreFailed) for _, answer in answers.all)
    assert writer.backlog() == 0


def test_an_engine_that_forgets_answers_is_a_bug_and_still_hangs_nobody() -> None:
    engine, answers = Engine(lambda batches, got: None), Answers()
    writer = Writer(engine)
    fill(writer, answers, 3)
    drain(writer)

    assert answers.kinds() == ["unknown"] * 3
    assert isinstance(writer.failure(), StoreFailed)


def test_what_happens_after_the_commit_and_before_the_confirm_is_answered_unknown() -> None:
    def explode() -> None:
        raise RuntimeError("on purpose")

    answers = Answers()
    writer = Writer(Engine())
    points.arm(points.AFTER_COMMIT, 2, explode)
    fill(writer, answers, 2)
    drain(writer)
    fill(writer, answers, 2)
    drain(writer)

    assert answers.kinds() == ["committed", "committed", "unknown", "unknown"]


def test_a_store_closed_from_its_own_confirm_is_told_so() -> None:
    caught: list[BaseException] = []
    answers = Answers()
    writer = Writer(Engine())

    def close(_: Answer) -> None:
        try:
            writer.close()
        except InternalError as refusal:
            caught.append(refusal)

    writer.start()
    writer.commit(batch(confirm=close))
    writer.commit(batch(confirm=answers.confirm("next")))
    answers.wait(1)
    writer.close()

    assert len(caught) == 1


def test_a_close_after_one_that_was_interrupted_waits_for_what_is_still_written() -> None:
    writing, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    early: list[bool] = []

    def act(_batches: list[Batch], answers: list[Answer]) -> None:
        writing.set()
        assert go_on.wait(PATIENCE_S)
        early.append(closed.wait(0.1))
        answers.append(COMMITTED)

    def interrupt(_signal: int, frame: FrameType | None) -> None:
        # Only where `close` waits: in C, or in what `join` is made of.
        while frame is not None and frame.f_code is not Writer.close.__code__:
            frame = frame.f_back
        if frame is not None and not gave_up.is_set() and writer._closing:
            gave_up.set()
            raise KeyboardInterrupt

    def press() -> None:
        while not gave_up.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    gave_up = threading.Event()
    writer, answers = Writer(Engine(act)), Answers()
    before = signal.signal(signal.SIGUSR1, interrupt)
    writer.start()
    try:
        writer.commit(batch(confirm=answers.confirm(1)))
        assert writing.wait(PATIENCE_S)
        presses = threading.Thread(target=press)
        presses.start()
        with pytest.raises(KeyboardInterrupt):
            writer.close()
        presses.join()
        again = threading.Thread(target=lambda: (writer.close(), closed.set()))
        again.start()
        go_on.set()
        again.join(PATIENCE_S)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert early == [False]
    assert answers.kinds() == ["committed"]
    assert closed.is_set()


def test_commit_may_be_called_in_the_middle_of_a_commit_by_the_same_worker() -> None:
    # As a signal handler or a finalizer would.
    answers = Answers()
    writer = Writer(Engine())
    with writer._lock:
        writer.commit(batch(confirm=answers.confirm(0)))
    drain(writer)

    assert answers.kinds() == ["committed"]


def test_a_discarded_writer_answers_nothing_that_waited_and_refuses_what_comes() -> None:
    answers = Answers()
    writer = Writer(Engine())
    fill(writer, answers, 3)
    writer.discard()
    drain(writer)
    writer.commit(batch(confirm=answers.confirm("late")))

    assert [(name, answer.kind) for name, answer in answers.all] == [("late", "not_written")]


# A script of what is handed over, and of what the engine and the confirms do: anything may raise anywhere.
HANDED = st.lists(
    st.tuples(
        st.sampled_from(["batch", "batch", "batch", "barrier", "step"]),
        st.sampled_from([1, GROUP_BYTES_MAX // 3, GROUP_BYTES_MAX + 1]),
        st.booleans(),
    ),
    max_size=40,
)
ENGINE = st.lists(st.sampled_from(["fine", "fine", "fine", "refuse", "raise", "forget", "give up"]), max_size=10)


@given(HANDED, ENGINE)
def test_everything_is_answered_exactly_once_and_in_order_whatever_raises(
    handed: list[tuple[str, int, bool]], acts: list[str]
) -> None:
    script = iter(acts)
    order: list[int] = []

    def act(batches: list[Batch], answers: list[Answer]) -> TreadleError | None:
        what = next(script, "fine")
        if what == "raise":
            raise OSError("on purpose")
        if what == "forget":
            return None
        failed = StoreFailed("on purpose")
        answers.extend(COMMITTED if what == "fine" else Answer("not_written", 0, failed) for _ in batches)
        return failed if what == "give up" else None

    def confirm(name: int, raises: bool) -> Callable[[Answer], None]:
        def take(answer: Answer) -> None:
            order.append(name)
            if raises:
                raise SystemExit

        return take

    writer = Writer(Engine(act))
    expected = 0
    for what, size, raises in handed:
        if what == "step":
            writer.step()
        elif what == "batch":
            writer.commit(batch(size=size, confirm=confirm(expected, raises)))
            expected += 1
        else:
            writer.barrier(1, 1, 1, confirm(expected, raises))
            expected += 1
    writer.close()
    writer.close()

    assert Counter(order) == Counter(range(expected))
    assert writer.backlog() == 0
    # A refusal comes on the spot and so may overtake; without a failure nothing does.
    if not {"raise", "forget", "give up"} & {*acts}:
        assert order == list(range(expected))


def test_groups_are_counted_by_their_size() -> None:
    writer, answers = Writer(Engine()), Answers()
    for count in (1, 2, 3, 4, 5):
        fill(writer, answers, count)
        drain(writer)

    counts = writer.counts()

    assert (counts.groups, counts.batches, counts.waiting) == (5, 15, 0)
    assert counts.sizes[:5] == (1, 1, 2, 1, 0)
    assert len(counts.sizes) == 1 + (GROUP_BATCHES_MAX - 1).bit_length()
    assert counts.seconds >= 0


def test_the_backlog_counts_down_with_each_answer_and_counts_what_did_not_fit_the_group() -> None:
    writer = Writer(Engine())
    seen: list[int] = []

    def look(_: Answer) -> None:
        seen.append(writer.backlog())

    for _ in range(3):
        writer.commit(batch(size=GROUP_BYTES_MAX // 2, confirm=look))
    writer.barrier(1, 1, 1, look)
    drain(writer)

    assert seen == [3, 2, 1, 0]


def test_a_writer_that_sleeps_wakes_for_whatever_comes_first() -> None:
    writer, answers = Writer(Engine()), Answers()
    writer.start()
    for count in range(0, 400, 2):
        # Each waits for its answer, so that the writer falls asleep again and again, now before and now after.
        writer.commit(batch(count, confirm=answers.confirm(count)))
        answers.wait(count + 1)
        writer.barrier(1, 1, 1, answers.confirm(count + 1))
        answers.wait(count + 2)
    writer.close()

    assert [name for name, _ in answers.all] == list(range(400))


@pytest.mark.parametrize("interrupted", ["put", "append"])
def test_a_commit_that_is_interrupted_anywhere_leaves_nothing_accepted_behind_that_nobody_looks_for(
    interrupted: str,
) -> None:
    writer, answers = Writer(Engine()), Answers()

    class Bell(SimpleQueue[None]):
        def put(self, item: None, block: bool = True, timeout: float | None = None) -> None:
            super().put(item)
            if interrupted == "put":
                raise KeyboardInterrupt

    class Waiting(list[Any]):
        def append(self, item: Any) -> None:
            super().append(item)
            raise KeyboardInterrupt

    writer._bell = Bell()
    writer._asleep = True  # as the writer leaves it when it goes to wait for the bell
    if interrupted == "append":
        writer._waiting = Waiting()
    with pytest.raises(KeyboardInterrupt):
        writer.commit(batch(confirm=answers.confirm(1)))

    assert writer._bell.qsize() == 1
    assert len(writer._waiting) == (interrupted == "append")
    writer._bell, writer._waiting = SimpleQueue(), list(writer._waiting)
    writer.start()
    writer.commit(batch(2, confirm=answers.confirm(2)))
    writer.close()
    assert [name for name, _ in answers.all] == ([1, 2] if interrupted == "append" else [2])


# --- what was put off


def test_a_writer_without_work_does_what_was_put_off_and_then_sleeps_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.storage.writer.IDLE_S", 0.01)
    engine, answers = Engine(), Answers()
    engine.untidy = True
    writer = Writer(engine)
    writer.start()
    engine.tidied.get(timeout=PATIENCE_S)
    fill(writer, answers, 1)
    answers.wait(1)
    engine.untidy = True
    fill(writer, answers, 1)
    engine.tidied.get(timeout=PATIENCE_S)
    writer.close()

    assert answers.kinds() == ["committed"] * 2
    assert engine.tidied.empty()


@pytest.mark.parametrize("worker", [True, False])
def test_a_close_does_what_was_put_off_once_everything_is_written(worker: bool) -> None:
    engine, answers = Engine(), Answers()
    engine.untidy = True
    writer = Writer(engine)
    fill(writer, answers, 3)
    if worker:
        writer.start()
    writer.close()

    assert answers.kinds() == ["committed"] * 3
    assert engine.tidied.qsize() == 1


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize("worker", [True, False])
def test_what_was_put_off_and_cannot_be_done_is_why_nothing_more_is_taken(
    monkeypatch: pytest.MonkeyPatch, raises: bool, worker: bool
) -> None:
    monkeypatch.setattr("treadle.storage.writer.IDLE_S", 0.01)
    engine, answers, told = Engine(), Answers(), threading.Event()
    engine.untidy, engine.untidiable = True, StoreFailed("the disk is broken")

    def tidy() -> TreadleError | None:
        told.set()
        if raises:
            raise MemoryError
        return engine.untidiable

    monkeypatch.setattr(engine, "tidy", tidy)
    writer = Writer(engine)
    if worker:
        writer.start()
        assert told.wait(PATIENCE_S)
        writer.barrier(1, 1, 1, answers.confirm("behind it"))
        answers.wait(1)
    writer.close()

    assert isinstance(writer._failed, StoreFailed)
    fill(writer, answers, 1)
    assert set(answers.kinds()) == {"not_written"}


def test_a_failed_store_is_left_as_it_is() -> None:
    engine = Engine(
        lambda batches, answers: answers.extend(refused(StoreFailed("no")) for _ in batches) or StoreFailed("no")
    )
    engine.untidy = True
    writer = Writer(engine)
    fill(writer, Answers(), 1)
    writer.close()

    assert engine.tidied.empty()
