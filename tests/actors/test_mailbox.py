from __future__ import annotations

import sys
import threading

import pytest

from treadle.actors.dispatcher import Dispatcher, ManualDispatcher
from treadle.actors.mailbox import DRAIN_BUDGET, Mail, Mailbox
from treadle.actors.reply import Reply
from treadle.protocol.errors import RuntimeClosed, ThreadOverloaded
from treadle.protocol.limits import MAILBOX_BYTES_MAX, MAILBOX_MAILS_MAX

GUARD = 60


class Receiver:
    def __init__(self) -> None:
        self.seen: list[object] = []

    def __call__(self, mail: Mail) -> None:
        self.seen.append(mail.body)
        if mail.reply is not None:
            mail.reply.set(mail.body)


def nobody(mailbox: Mailbox) -> None:
    return None


def test_mail_is_delivered_in_order() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    mailbox = Mailbox("t", dispatcher, nobody, receiver)
    for number in range(10):
        mailbox.put(Mail(number))
    assert (len(mailbox), len(dispatcher)) == (10, 1)
    dispatcher.run_until_idle()

    assert receiver.seen == list(range(10))
    assert len(mailbox) == 0


def test_a_mailbox_with_much_mail_lets_others_have_their_turn() -> None:
    dispatcher, busy, other = ManualDispatcher(), Receiver(), Receiver()
    first, second = Mailbox("a", dispatcher, nobody, busy), Mailbox("b", dispatcher, nobody, other)
    for number in range(DRAIN_BUDGET + 1):
        first.put(Mail(number))
    second.put(Mail("other"))
    dispatcher.step()
    assert len(busy.seen) == DRAIN_BUDGET
    dispatcher.step()
    assert other.seen == ["other"]
    dispatcher.step()

    assert len(busy.seen) == DRAIN_BUDGET + 1


def test_beyond_the_number_of_mails_it_is_overloaded_but_for_mail_of_the_runtime() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    mailbox = Mailbox("t", dispatcher, nobody, receiver)
    for _ in range(MAILBOX_MAILS_MAX):
        mailbox.put(Mail(0))
    with pytest.raises(ThreadOverloaded) as raised:
        mailbox.put(Mail("too many"))
    mailbox.put(Mail("of the runtime"), internal=True)
    dispatcher.run_until_idle()

    assert raised.value.details["mails"] == MAILBOX_MAILS_MAX
    assert len(receiver.seen) == MAILBOX_MAILS_MAX + 1
    mailbox.put(Mail("again"))


def test_beyond_the_bytes_it_is_overloaded_until_they_are_worked_off() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    mailbox = Mailbox("t", dispatcher, nobody, receiver)
    mailbox.put(Mail("a", size=MAILBOX_BYTES_MAX - 1))
    mailbox.put(Mail("b", size=1))
    with pytest.raises(ThreadOverloaded):
        mailbox.put(Mail("c", size=1))
    dispatcher.run_until_idle()
    mailbox.put(Mail("d", size=MAILBOX_BYTES_MAX))
    dispatcher.run_until_idle()

    assert receiver.seen == ["a", "b", "d"]


def test_mail_that_the_receiver_postpones_still_fills_the_mailbox() -> None:
    dispatcher = ManualDispatcher()
    kept: list[Mail] = []

    def postpone(mail: Mail) -> None:
        mailbox.keep(mail)
        kept.append(mail)

    mailbox = Mailbox("t", dispatcher, nobody, postpone)
    mailbox.put(Mail("a", size=MAILBOX_BYTES_MAX))
    dispatcher.run_until_idle()
    with pytest.raises(ThreadOverloaded):
        mailbox.put(Mail("b", size=1))
    assert not mailbox.detach_if(lambda: True)
    mailbox.release(kept.pop())
    mailbox.put(Mail("c", size=1))


def test_mail_without_a_receiver_activates_one() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    activated: list[str] = []

    def activate(mailbox: Mailbox) -> Receiver:
        activated.append(mailbox.key)
        return receiver

    mailbox = Mailbox("t", dispatcher, activate)
    mailbox.put(Mail(1))
    mailbox.put(Mail(2))
    assert activated == []
    dispatcher.run_until_idle()

    assert (activated, receiver.seen) == (["t"], [1, 2])


def test_mail_waits_while_activation_says_not_yet() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    ready: list[Receiver] = []
    mailbox = Mailbox("t", dispatcher, lambda _: ready[0] if ready else None)
    mailbox.put(Mail(1))
    mailbox.put(Mail(2))
    assert dispatcher.run_until_idle() == 1
    mailbox.wake()
    assert dispatcher.run_until_idle() == 1
    ready.append(receiver)
    mailbox.wake()
    dispatcher.run_until_idle()

    assert receiver.seen == [1, 2]


def test_a_wake_between_not_yet_and_the_end_of_the_turn_is_not_lost() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    asked = 0

    def activate(mailbox: Mailbox) -> Receiver | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            mailbox.wake()  # what it waits for comes true here, while it still says "not yet"
            return None
        return receiver

    mailbox = Mailbox("t", dispatcher, activate)
    mailbox.put(Mail(1))
    dispatcher.run_until_idle()

    assert receiver.seen == [1]


@pytest.mark.parametrize("meanwhile", ["a wake", "its turn"])
def test_mail_that_comes_while_an_answer_is_handed_over_gets_a_turn(meanwhile: str) -> None:
    dispatcher, seen = ManualDispatcher(), []

    def receive(mail: Mail) -> None:
        seen.append(mail if isinstance(mail, str) else mail.body)
        if mail == "answer":
            if meanwhile == "a wake":
                mailbox.put(Mail(1))
                mailbox.wake()
            else:
                assert dispatcher.step()  # as another worker would take it

    mailbox = Mailbox("t", dispatcher, nobody, receive)
    if meanwhile == "its turn":
        mailbox.put(Mail(1))
    mailbox.hand("answer")
    dispatcher.run_until_idle()

    assert seen == ["answer", 1]


def test_detaching_needs_an_empty_mailbox_and_the_condition_and_later_mail_activates_the_next() -> None:
    dispatcher = ManualDispatcher()
    lives: list[Receiver] = []

    def activate(mailbox: Mailbox) -> Receiver:
        lives.append(Receiver())
        return lives[-1]

    mailbox = Mailbox("t", dispatcher, activate)
    mailbox.put(Mail(1))
    assert not mailbox.detach_if(lambda: True)
    dispatcher.run_until_idle()
    assert not mailbox.detach_if(lambda: False)
    assert mailbox.detach_if(lambda: True)
    assert mailbox.receiver is None
    mailbox.put(Mail(2))
    dispatcher.run_until_idle()

    assert [life.seen for life in lives] == [[1], [2]]


def test_a_receiver_may_detach_itself_and_others_may_not_detach_it_meanwhile() -> None:
    dispatcher = ManualDispatcher()
    answers: list[bool] = []

    def receive(mail: Mail) -> None:
        other = threading.Thread(target=lambda: answers.append(mailbox.detach_if(lambda: True)))
        other.start()
        other.join(GUARD)
        answers.append(mailbox.detach_if(lambda: True))

    mailbox = Mailbox("t", dispatcher, nobody, receive)
    mailbox.put(Mail(1))
    dispatcher.run_until_idle()

    assert answers == [False, True]
    assert mailbox.receiver is None


@pytest.mark.slow
def test_no_mail_is_lost_between_detaching_and_activating() -> None:
    callers, each = 4, 400
    sys_interval = sys.getswitchinterval()
    dispatcher = Dispatcher()
    dispatcher.start()
    mailbox = Mailbox("t", dispatcher, lambda _: Receiver())
    done = threading.Event()
    let_go = threading.Event()
    detached = 0

    def passivate() -> None:
        nonlocal detached
        while not done.is_set():
            if mailbox.detach_if(lambda: True):
                detached += 1
                let_go.set()

    def call() -> None:
        for number in range(each):
            if number % 20 == 0:
                # Else callers on a busy machine may leave no moment in which there is no mail.
                let_go.clear()
                assert let_go.wait(GUARD)
            reply: Reply[int] = Reply()
            mailbox.put(Mail(number, reply))
            assert reply.result(GUARD) == number
            answered.append(number)

    answered: list[int] = []
    workers = [threading.Thread(target=call) for _ in range(callers)]
    passivator = threading.Thread(target=passivate)
    sys.setswitchinterval(1e-5)
    try:
        for worker in [*workers, passivator]:
            worker.start()
        for worker in workers:
            worker.join(60)
    finally:
        sys.setswitchinterval(sys_interval)
        done.set()
        passivator.join(GUARD)
        assert dispatcher.stop()

    assert len(answered) == callers * each
    assert detached >= each // 20


def test_refusing_fails_each_reply_with_its_own_error_and_returns_the_rest() -> None:
    mailbox = Mailbox("t", ManualDispatcher(), nobody)
    replies: list[Reply[int]] = [Reply(), Reply()]
    mailbox.put(Mail(1, replies[0]))
    told = Mail(2)
    mailbox.put(told)
    mailbox.put(Mail(3, replies[1]))

    assert mailbox.refuse(lambda: RuntimeClosed("closed")) == [told]
    errors = [reply.error() for reply in replies]
    assert all(isinstance(error, RuntimeClosed) for error in errors)
    assert errors[0] is not errors[1]
    assert mailbox.refuse(lambda: RuntimeClosed("closed")) == []


def test_mail_sent_by_a_finaliser_while_the_queue_is_made_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.actors import mailbox as module

    dispatcher, receiver = ManualDispatcher(), Receiver()
    mailbox = Mailbox("t", dispatcher, nobody, receiver)
    real = module.deque

    def deque_that_collects(*args: object) -> object:
        monkeypatch.setattr(module, "deque", real)
        mailbox.put(Mail("from the finaliser"))
        return real(*args)

    monkeypatch.setattr(module, "deque", deque_that_collects)
    mailbox.put(Mail("first"))
    dispatcher.run_until_idle()

    assert receiver.seen == ["from the finaliser", "first"]


def test_an_idle_mailbox_is_small() -> None:
    dispatcher, receiver = ManualDispatcher(), Receiver()
    mailbox = Mailbox("t", dispatcher, nobody, receiver)
    mailbox.put(Mail(1))
    dispatcher.run_until_idle()

    assert sys.getsizeof(mailbox) < 200
    assert mailbox._queue is None
