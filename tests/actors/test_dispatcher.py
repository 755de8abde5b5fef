from __future__ import annotations

import asyncio
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors.burst import forget_burst, register_burst
from treadle.actors.dispatcher import Dispatcher, ManualDispatcher
from treadle.actors.mailbox import Mail, Mailbox
from treadle.actors.reply import Reply
from treadle.protocol.errors import RuntimeClosed, ThreadActorCrashed, WouldBlock
from treadle.storage.right_of_way import RightOfWay

if TYPE_CHECKING:
    from collections.abc import Callable

GUARD = 60


def nobody(mailbox: Mailbox) -> None:
    return None


def echo(mail: Mail) -> None:
    assert mail.reply is not None
    mail.reply.set(mail.body)


def raise_body(mail: Mail) -> None:
    assert isinstance(mail.body, BaseException)
    raise mail.body


def ask(mailbox: Mailbox, body: object) -> Reply[object]:
    reply: Reply[object] = Reply()
    mailbox.put(Mail(body, reply))
    return reply


def test_mail_put_before_the_start_is_delivered_after_it() -> None:
    dispatcher = Dispatcher()
    reply = ask(Mailbox("t", dispatcher, nobody, echo), 1)
    assert not reply.done()
    dispatcher.start()

    assert reply.result(GUARD) == 1
    assert dispatcher.stop()


@pytest.mark.parametrize(
    "error", [ValueError(), SystemExit(), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()], ids=repr
)
def test_nothing_that_a_receiver_raises_stops_the_worker(error: BaseException) -> None:
    crashes: list[tuple[str, object, BaseException]] = []

    def on_crash(mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        crashes.append((mailbox.key, mail.body, error))

    dispatcher = Dispatcher(on_crash=on_crash)
    dispatcher.start()
    bad, good = Mailbox("bad", dispatcher, nobody, raise_body), Mailbox("good", dispatcher, nobody, echo)
    bad.put(Mail(error))
    bad.put(Mail(error))

    assert ask(good, 1).result(GUARD) == 1
    assert dispatcher.stop()
    assert crashes == [("bad", error, error)] * 2


def test_an_activation_that_raises_is_a_crash_on_the_mail_that_asked_for_it() -> None:
    crashes: list[Mail] = []
    dispatcher = ManualDispatcher(on_crash=lambda _box, mail, _error: crashes.append(mail))

    def activate(mailbox: Mailbox) -> Callable[[Mail], None]:
        if not crashes:
            raise ValueError("unreadable")
        return echo

    mailbox = Mailbox("t", dispatcher, activate)
    first, second = ask(mailbox, 1), ask(mailbox, 2)
    dispatcher.run_until_idle()

    assert [mail.reply for mail in crashes] == [first]
    assert second.result(0) == 2


def test_after_a_crash_the_mail_behind_goes_to_the_next_receiver() -> None:
    def on_crash(mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        mailbox.receiver = None

    dispatcher = ManualDispatcher(on_crash=on_crash)
    mailbox = Mailbox("t", dispatcher, lambda _: echo, raise_body)
    mailbox.put(Mail(ValueError()))
    behind = ask(mailbox, "behind")
    dispatcher.run_until_idle()

    assert behind.result(0) == "behind"


def test_a_crash_handler_that_crashes_fails_the_reply_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def on_crash(mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        raise SystemExit("twice")

    dispatcher = ManualDispatcher(on_crash=on_crash)
    reply = ask(Mailbox("t", dispatcher, nobody, raise_body), ValueError("once"))
    dispatcher.run_until_idle()

    with pytest.raises(ValueError, match="once"):
        reply.result(0)
    assert "twice" in caplog.text


def test_where_nobody_says_otherwise_a_crash_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = ManualDispatcher()
    error = ValueError("broken")
    reply = ask(Mailbox("t", dispatcher, nobody, raise_body), error)
    dispatcher.run_until_idle()

    with pytest.raises(ThreadActorCrashed) as crash:
        reply.result(0)
    assert crash.value.__cause__ is error
    assert "broken" in caplog.text


def test_one_mailbox_is_never_on_two_workers_at_once() -> None:
    dispatcher = Dispatcher(workers=4)
    dispatcher.start()
    inside, overlaps, finished = 0, 0, threading.Event()
    total = 2_000

    def receive(mail: Mail) -> None:
        nonlocal inside, overlaps
        inside += 1
        overlaps += inside != 1
        seen.append(mail.body)
        inside -= 1
        if len(seen) == total:
            finished.set()

    seen: list[object] = []
    mailbox = Mailbox("t", dispatcher, nobody, receive)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(total):
            mailbox.put(Mail(number), internal=True)
            mailbox.wake()  # a second turn in line
        assert finished.wait(GUARD)
    finally:
        sys.setswitchinterval(interval)
        assert dispatcher.stop()

    assert overlaps == 0
    assert seen == list(range(total))


def test_calls_run_on_the_worker_in_line_and_their_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher()
    ran: Reply[str] = Reply()
    assert dispatcher.call(lambda: 1 // 0)
    assert dispatcher.call(lambda: ran.set(threading.current_thread().name))
    dispatcher.start()

    assert ran.result(GUARD) == "treadle-dispatcher-0"
    assert "ZeroDivisionError" in caplog.text
    assert dispatcher.stop()
    assert not dispatcher.call(print)


def test_blocking_on_the_dispatcher_is_refused() -> None:
    dispatcher = Dispatcher()
    dispatcher.start()

    def receive(mail: Mail) -> None:
        Reply[int]().result(GUARD)

    reply = ask(Mailbox("t", dispatcher, nobody, receive), None)
    with pytest.raises(ThreadActorCrashed) as crash:
        reply.result(GUARD)
    assert isinstance(crash.value.__cause__, WouldBlock)
    assert dispatcher.stop()


def test_a_lost_turn_is_found_by_a_sweep() -> None:
    dispatcher = ManualDispatcher()
    mailbox = Mailbox("t", dispatcher, nobody, echo)
    reply = ask(mailbox, 1)
    dispatcher._turns.clear()  # as if the hand-over had been interrupted
    assert dispatcher.run_until_idle() == 0
    assert dispatcher.sweep([mailbox]) == 1
    dispatcher.run_until_idle()

    assert reply.result(0) == 1
    assert dispatcher.sweep([mailbox]) == 0


def test_a_sweep_in_a_long_line_gives_a_turn_only_to_who_did_not_move() -> None:
    dispatcher = ManualDispatcher()
    lost, waiting = Mailbox("lost", dispatcher, nobody, echo), Mailbox("waiting", dispatcher, nobody, echo)
    ask(lost, 1)
    dispatcher._turns.clear()
    ask(waiting, 2)
    assert dispatcher.sweep([lost, waiting]) == 0
    dispatcher.step()
    ask(waiting, 3)
    assert dispatcher.sweep([lost, waiting]) == 1
    assert len(dispatcher) == 2


def test_an_interrupt_inside_put_leaves_mail_that_the_next_put_or_a_sweep_delivers() -> None:
    class Interrupted(ManualDispatcher):
        interrupt = False

        def __init__(self) -> None:
            super().__init__()
            self.schedule, self._schedule = self._interruptible, self.schedule

        def _interruptible(self, turn: Any) -> None:
            if self.interrupt:
                self.interrupt = False
                raise KeyboardInterrupt
            self._schedule(turn)

    dispatcher = Interrupted()
    seen: list[object] = []
    mailbox = Mailbox("t", dispatcher, nobody, lambda mail: seen.append(mail.body))
    for number in (1, 2):
        dispatcher.interrupt = True
        with pytest.raises(KeyboardInterrupt):
            mailbox.put(Mail(number))
    mailbox.put(Mail(3))
    dispatcher.run_until_idle()
    assert seen == [1, 2, 3]

    dispatcher.interrupt = True
    with pytest.raises(KeyboardInterrupt):
        mailbox.put(Mail(4))
    assert dispatcher.sweep([mailbox]) == 1
    dispatcher.run_until_idle()
    assert seen == [1, 2, 3, 4]


def test_stopping_delivers_what_is_in_line_and_refuses_what_comes_later() -> None:
    dispatcher = Dispatcher()
    mailbox = Mailbox("t", dispatcher, nobody, echo)
    before = ask(mailbox, 1)
    dispatcher.start()
    assert dispatcher.stop()
    after = ask(mailbox, 2)

    assert before.result(0) == 1
    with pytest.raises(RuntimeClosed):
        after.result(0)


def test_every_call_is_answered_while_the_dispatcher_stops() -> None:
    for _ in range(20):
        dispatcher = Dispatcher(workers=2)
        dispatcher.start()
        boxes = [Mailbox(str(number), dispatcher, nobody, echo) for number in range(4)]
        replies: list[Reply[object]] = []
        begun = threading.Event()

        def call(boxes: list[Mailbox] = boxes, replies: list = replies, begun: threading.Event = begun) -> None:
            for number in range(200):
                replies.append(ask(boxes[number % 4], number))
                if number == 20:
                    begun.set()

        caller = threading.Thread(target=call)
        caller.start()
        assert begun.wait(GUARD)
        assert dispatcher.stop()
        caller.join(GUARD)
        for reply in replies:
            try:
                reply.result(GUARD)
            except RuntimeClosed:
                continue


def test_stopping_from_one_of_its_own_workers_does_not_wait_for_itself() -> None:
    dispatcher = Dispatcher()
    dispatcher.start()
    stopped: Reply[bool] = Reply()
    dispatcher.call(lambda: stopped.set(dispatcher.stop()))

    assert stopped.result(GUARD) is True
    assert dispatcher.stop()


def test_a_worker_that_does_not_come_back_is_reported_and_its_mail_is_refused_when_it_does() -> None:
    dispatcher = Dispatcher()
    dispatcher.start()
    inside, leave = threading.Event(), threading.Event()

    def receive(mail: Mail) -> None:
        inside.set()
        leave.wait(GUARD)

    mailbox = Mailbox("t", dispatcher, nobody, receive)
    mailbox.put(Mail("holds"))
    assert inside.wait(GUARD)
    assert not dispatcher.stop(timeout=0.01)
    late = ask(mailbox, "late")
    mailbox.receiver = None
    leave.set()

    with pytest.raises(RuntimeClosed):
        late.result(GUARD)
    assert dispatcher.stop()


@pytest.mark.parametrize("seed", range(5))
def test_a_manual_dispatcher_takes_turns_in_any_order_and_keeps_that_of_each_mailbox(seed: int) -> None:
    chance = random.Random(seed)
    dispatcher = ManualDispatcher(budget=1)
    seen: dict[str, list[object]] = {key: [] for key in "abc"}
    boxes = [Mailbox(key, dispatcher, nobody, lambda mail, key=key: seen[key].append(mail.body)) for key in "abc"]
    for number in range(20):
        for box in boxes:
            box.put(Mail(number))
    while dispatcher.step(chance.randrange(100)):
        continue

    assert all(numbers == list(range(20)) for numbers in seen.values())


def test_a_manual_dispatcher_says_when_it_never_comes_to_rest() -> None:
    dispatcher = ManualDispatcher()
    mailbox = Mailbox("t", dispatcher, nobody, lambda mail: mailbox.put(mail))
    mailbox.put(Mail(0))

    with pytest.raises(RuntimeError, match="not idle"):
        dispatcher.run_until_idle(10)


def test_a_manual_dispatcher_that_stopped_refuses() -> None:
    dispatcher = ManualDispatcher()
    mailbox = Mailbox("t", dispatcher, nobody, echo)
    in_line = ask(mailbox, 1)
    dispatcher.call(print)
    assert dispatcher.stop()
    later = ask(mailbox, 2)

    assert [type(reply.error()) for reply in (in_line, later)] == [RuntimeClosed, RuntimeClosed]


def test_an_answer_of_the_store_comes_before_the_mail_that_waits_for_it() -> None:
    dispatcher = ManualDispatcher()
    seen: list[object] = []
    mailbox = Mailbox("t", dispatcher, nobody, lambda mail: seen.append(getattr(mail, "body", mail)))
    dispatcher.answer(mailbox, "first")
    ask(mailbox, "mail")
    dispatcher.answer(mailbox, "second")
    dispatcher.run_until_idle()
    assert seen == ["first", "second", "mail"]


def test_answers_that_another_worker_takes_meanwhile_are_each_handed_over_once() -> None:
    dispatcher = ManualDispatcher()
    seen: list[object] = []

    def first(answer: object) -> None:
        turn.drain(64)  # as a second worker would, with the turn of an answer that came in between
        seen.append(answer)

    boxes = [
        Mailbox("0", dispatcher, nobody, first),
        *(Mailbox(str(n), dispatcher, nobody, seen.append) for n in (1, 2)),
    ]
    for number, mailbox in enumerate(boxes):
        dispatcher.answer(mailbox, number)
    turn: Any = dispatcher._turns[0]
    dispatcher.run_until_idle()

    assert seen == [1, 2, 0]


def test_one_turn_serves_the_answers_of_a_whole_group_within_its_budget() -> None:
    dispatcher = ManualDispatcher(budget=2)
    seen: list[object] = []
    boxes = [Mailbox(str(number), dispatcher, nobody, seen.append) for number in range(3)]
    for number, mailbox in enumerate(boxes):
        dispatcher.answer(mailbox, number)
    assert len(dispatcher) == 1
    dispatcher.step()
    assert (seen, len(dispatcher)) == ([0, 1], 1)
    dispatcher.step()
    assert (seen, len(dispatcher)) == ([0, 1, 2], 0)


def test_an_answer_becomes_mail_where_nobody_receives_or_a_drain_is_under_way() -> None:
    dispatcher = ManualDispatcher()
    seen: list[object] = []

    def receive(mail: Mail) -> None:
        if mail.body == "mail":
            mailbox.hand("answer")
            assert seen == []
        seen.append(mail.body)

    mailbox = Mailbox("t", dispatcher, lambda _mailbox: receive)
    dispatcher.answer(mailbox, "early")
    dispatcher.run_until_idle()
    assert seen == ["early"]
    seen.clear()
    ask(mailbox, "mail")
    dispatcher.run_until_idle()
    assert seen == ["mail", "answer"]


def test_a_crash_over_an_answer_is_told_and_the_mail_behind_it_is_delivered() -> None:
    crashes: list[tuple[object, BaseException]] = []
    dispatcher = ManualDispatcher(on_crash=lambda _mailbox, mail, error: crashes.append((mail.body, error)))

    def receive(mail: object) -> None:
        if not isinstance(mail, Mail):
            ask(mailbox, "behind").add_done_callback(seen.append)
            raise bad
        assert mail.reply is not None
        mail.reply.set(mail.body)

    bad = SystemExit()
    seen: list[Reply[object]] = []
    mailbox = Mailbox("t", dispatcher, nobody, receive)
    dispatcher.answer(mailbox, "answer")
    dispatcher.run_until_idle()
    assert crashes == [("answer", bad)]
    assert [reply.result() for reply in seen] == ["behind"]


def test_an_answer_after_the_stop_is_reported_and_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = Dispatcher()
    dispatcher.start()
    assert dispatcher.stop()
    seen: list[object] = []
    dispatcher.answer(Mailbox("t", dispatcher, nobody, seen.append), "late")
    assert not seen
    assert "'late'" in caplog.text


def test_a_loop_gets_one_wake_for_all_turns_that_stand_in_line_and_none_is_kept_back() -> None:
    wakes: list[int] = []
    ran: list[int] = []
    told = threading.Event()

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *_args: object, **_kwargs: object) -> asyncio.Handle:  # type: ignore[override]
            wakes.append(len(ran))
            told.set()
            return asyncio.Handle(print, (), self)

    loop = Loop()
    try:
        burst = register_burst(loop)
        dispatcher = Dispatcher()

        def turn(number: int) -> Callable[[], object]:
            def run() -> None:
                ran.append(number)
                burst.submit(list)

            return run

        for number in range(10):
            dispatcher.call(turn(number))
        dispatcher.start()
        assert told.wait(GUARD)
        assert dispatcher.stop()
        assert wakes == [10]
    finally:
        forget_burst(loop)
        loop.close()


def test_a_worker_that_is_held_up_is_silent_until_it_goes_on() -> None:
    dispatcher = Dispatcher()
    held, goes_on = threading.Event(), threading.Event()
    dispatcher.start()
    dispatcher.call(lambda: (held.set(), goes_on.wait(GUARD)))
    assert held.wait(GUARD)
    dispatcher.ping()
    dispatcher.ping()

    assert dispatcher.silent_for() > 0
    assert dispatcher.line_length() == 1

    goes_on.set()
    answered = threading.Event()
    dispatcher.call(answered.set)
    assert answered.wait(GUARD)
    assert dispatcher.silent_for() == 0
    dispatcher.stop()


def test_a_dispatcher_without_workers_is_never_silent() -> None:
    dispatcher = ManualDispatcher()
    dispatcher.ping()

    assert (dispatcher.silent_for(), len(dispatcher)) == (0, 0)


def test_turns_wait_while_the_writer_passes_and_no_longer_than_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    way, order = RightOfWay(), list[str]()
    monkeypatch.setattr("treadle.actors.dispatcher.RIGHT_OF_WAY", way)
    dispatcher = Dispatcher()
    mailbox = Mailbox("t", dispatcher, nobody, lambda mail: (order.append("turn"), echo(mail)))
    dispatcher.start()
    assert way.take()

    # Nobody leaves: the mail is delivered all the same, and the second one of the same passage without any wait.
    assert ask(mailbox, 1).result(GUARD) == 1
    assert ask(mailbox, 2).result(GUARD) == 2
    way.leave()
    give = way.give
    monkeypatch.setattr(way, "give", lambda waited_for: give(waited_for, GUARD))
    assert way.take()
    reply = ask(mailbox, 3)
    order.append("passage")
    way.leave()

    assert reply.result(GUARD) == 3
    assert order == ["turn", "turn", "passage", "turn"]
    assert dispatcher.stop()
