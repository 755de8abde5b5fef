from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pykka
import pytest
from pykka import ActorRegistry

from treadle.actors.actor import VirtualActor
from treadle.actors.dispatcher import Dispatcher, ManualDispatcher
from treadle.actors.mailbox import Mail, Mailbox
from treadle.actors.reply import Reply
from treadle.protocol.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD = 60


class Echo(VirtualActor):
    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__(mailbox)
        self.failures: list[BaseException | None] = []
        self.stops = 0
        self.seen: list[object] = []

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, Mail):
            self.seen.append(message.body)
            return None
        if callable(message):
            return message()
        self.seen.append(message)
        return message

    def on_stop(self) -> None:
        self.stops += 1

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        self.failures.append(exception_value)


@pytest.fixture
def dispatcher() -> Iterator[Dispatcher]:
    running = Dispatcher()
    running.start()
    yield running
    assert running.stop()


def launch(dispatcher: Dispatcher, kind: type[Echo] = Echo) -> Echo:
    return kind.launch(Mailbox("echo", dispatcher, lambda _: None))


def test_an_answer_given_twice_is_ignored_the_second_time() -> None:
    future = VirtualActor._create_future()
    future.set(1)
    future.set(2)
    future.set_exception((ValueError, ValueError(), None))

    assert future.get() == 1


def test_a_slow_answer_raises_the_timeout_of_pykka() -> None:
    with pytest.raises(pykka.Timeout):
        VirtualActor._create_future().get(timeout=0)


def test_mail_of_ours_comes_whole_and_its_error_is_a_crash() -> None:
    crashes: list[tuple[object, BaseException]] = []
    dispatcher = ManualDispatcher(on_crash=lambda _mailbox, mail, error: crashes.append((mail, error)))
    actor = launch(dispatcher)
    actor.mailbox.put(Mail("first"))
    dispatcher.run_until_idle()

    class Crashing(Echo):
        def on_receive(self, message: Any) -> Any:
            raise ValueError(message.body)

    crashing = launch(dispatcher, Crashing)
    mail = Mail("second", Reply())
    crashing.mailbox.put(mail)
    dispatcher.run_until_idle()

    assert actor.seen == ["first"]
    assert [(m, str(e)) for m, e in crashes] == [(mail, "second")]


def test_proxies_and_mapped_futures_work(dispatcher: Dispatcher) -> None:
    proxy = launch(dispatcher).actor_ref.proxy()

    assert proxy.stops.get(timeout=GUARD) == 0
    assert proxy.stops.map(lambda stops: stops + 1).get(timeout=GUARD) == 1


def test_a_foreign_future_is_answered_too(dispatcher: Dispatcher) -> None:
    actor = launch(dispatcher)
    good, bad = pykka.ThreadingFuture(), pykka.ThreadingFuture()
    actor.actor_inbox.put(pykka._envelope.Envelope("hello", reply_to=good))
    actor.actor_inbox.put(pykka._envelope.Envelope(ValueError("no"), reply_to=bad))

    assert good.get(timeout=GUARD) == "hello"
    with pytest.raises(ValueError, match="no"):
        bad.get(timeout=GUARD)


def test_nothing_enters_the_registry_of_pykka(dispatcher: Dispatcher) -> None:
    ref = Echo.start(dispatcher)

    assert ActorRegistry.get_all() == []
    assert ref.stop(timeout=GUARD) is True


class Idle(VirtualActor):
    __slots__ = ()


def test_a_start_that_fails_leaves_the_mail_in_its_mailbox() -> None:
    class Unable(Echo):
        def on_start(self) -> None:
            raise ValueError("unable")

    dispatcher = ManualDispatcher()
    mailbox = Mailbox("t", dispatcher, lambda mailbox: Echo.launch(mailbox).receive)
    mailbox.put(Mail("waits"))
    with pytest.raises(ValueError, match="unable"):
        Unable.launch(mailbox)

    assert len(mailbox) == 1
    assert mailbox.receiver is None
    dispatcher.run_until_idle()
    assert len(mailbox) == 0


def test_an_error_in_on_stop_is_reported_and_the_stop_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    class Sticky(Echo):
        def on_stop(self) -> None:
            raise SystemExit("sticky")

    dispatcher = ManualDispatcher()
    actor = launch(dispatcher, Sticky)
    stop = actor.actor_ref.stop(block=False)
    dispatcher.run_until_idle()

    assert stop.get(timeout=0) is True
    assert [str(failure) for failure in actor.failures] == ["sticky"]
    assert "sticky" in caplog.text


def test_an_on_failure_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Echo):
        def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            raise LookupError("clumsy")

    dispatcher = ManualDispatcher()
    actor = launch(dispatcher, Clumsy)
    actor.actor_ref.tell(ValueError("told"))
    dispatcher.run_until_idle()

    assert "told" in caplog.text
    assert "clumsy" in caplog.text
    assert actor.actor_ref.is_alive()


def test_an_actor_may_stop_itself_and_mail_of_ours_behind_it_is_answered() -> None:
    dispatcher = ManualDispatcher()
    actor = launch(dispatcher)
    actor.stop()
    reply: Reply[object] = Reply()
    actor.mailbox.put(Mail("behind", reply))
    dispatcher.run_until_idle()

    with pytest.raises(pykka.ActorDeadError):
        reply.result(0)


def test_the_inbox_only_takes_mail_in() -> None:
    actor = launch(ManualDispatcher())
    assert actor.actor_inbox.empty()
    actor.actor_ref.tell("mail")

    assert not actor.actor_inbox.empty()
    with pytest.raises(InternalError):
        actor.actor_inbox.get()
    assert actor.actor_ref is actor.actor_ref


def test_an_idle_actor_with_its_mailbox_stays_well_under_a_kibibyte() -> None:
    dispatcher = ManualDispatcher()
    keys = [f"thread-{number}" for number in range(1_000)]

    def activate(mailbox: Mailbox) -> None:
        return None

    Idle.launch(Mailbox("warm", dispatcher, activate))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        actors = [Idle.launch(Mailbox(key, dispatcher, activate)) for key in keys]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (after - before - sys.getsizeof(actors)) / len(actors) < 512
