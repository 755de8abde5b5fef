"""Owns `VirtualActor`, a pykka actor that lives on the dispatcher's workers. Never waits, and never touches the registry.

Six things that pykka leaves open are closed here: an ask racing with a stop is answered; a tell behind a stop is
reported; an error in `on_start` fails the start; an error under tell is reported and does not kill; `SystemExit` and the
like end this actor and no other; awaiting an answer never blocks the loop.
"""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pykka import Actor, ActorDeadError, ActorRef, Future, Timeout
from pykka.messages import _ActorStop

from ..protocol.errors import InternalError
from .mailbox import Mail, Mailbox
from .reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from pykka._envelope import Envelope
    from pykka._types import OptExcInfo

    from .mailbox import Scheduler

__all__ = ["ActorFuture", "VirtualActor"]

T = TypeVar("T")

logger = logging.getLogger("treadle")


class _PykkaMail(Mail):
    """A message sent through pykka's own `ask` or `tell`, told apart by its class."""

    __slots__ = ()


class ActorFuture(Future[T]):
    """pykka's future over a `Reply`: set once, a second setting is ignored; awaiting it never blocks a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.reply: Reply[Any] = Reply()

    def get(self, *, timeout: float | None = None) -> T:
        """Wait for the value, blocking this worker.

        Args:
            timeout: seconds; None waits for ever.

        Raises:
            pykka.Timeout: it did not come in time.
            WouldBlock: this worker runs an event loop.
        """
        if self._get_hook is not None:
            return super().get(timeout=timeout)
        try:
            value: T = self.reply.result(timeout)
        except TimeoutError:
            if self.reply.done():
                raise
            raise Timeout(f"{timeout} seconds") from None
        return value

    def set(self, value: T | None = None) -> None:
        """Give the value, unless there is one."""
        self.reply.set(value)

    def set_exception(self, exc_info: OptExcInfo | None = None) -> None:
        """Give the error, the one being handled by default, unless there is something."""
        kind, error, _ = exc_info or sys.exc_info()
        if error is None:
            error = kind() if kind is not None else InternalError("set_exception() without an exception")
        self.reply.fail(error)

    def set_get_hook(self, func: Callable[[float | None], T]) -> None:
        """Have `get` call `func(timeout)`."""
        super().set_get_hook(func)

    def __await__(self) -> Generator[Any, None, T]:
        if self._get_hook is None:
            return self.reply.__await__()
        # A hook is code that blocks until it has its value, so it gets a worker of its own; pykka makes few of them.
        reply: Reply[T] = Reply()

        def follow() -> None:
            try:
                reply.set(self.get())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits
                reply.fail(error)

        threading.Thread(target=follow, name="treadle-future", daemon=True).start()
        return reply.__await__()


class _Inbox:
    """What pykka's `ActorRef` puts envelopes into: the way to the mailbox."""

    __slots__ = ("mailbox",)

    mailbox: Mailbox

    def put(self, envelope: Envelope[object], /) -> None:
        future = envelope.reply_to
        if future is None or isinstance(future, ActorFuture):
            reply = None if future is None else future.reply
        else:
            reply = Reply()
            reply.add_done_callback(lambda settled: _pass_on(settled, future))
        self.mailbox.put(_PykkaMail(envelope.message, reply))

    def get(self) -> Envelope[object]:
        raise InternalError("mail is delivered by the dispatcher; nobody takes it from the inbox")

    def empty(self) -> bool:
        return not len(self.mailbox)


def _pass_on(reply: Reply[object], future: Future[object]) -> None:
    error = reply.error()
    if error is None:
        future.set(reply.result())
    else:
        future.set_exception((type(error), error, error.__traceback__))


class _Stopped:
    """The part of `threading.Event` that pykka uses, without its condition and queue."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True


class VirtualActor(Actor):
    """An actor that costs no OS thread: the dispatcher calls it when its mailbox has mail.

    Mail of ours comes to `on_receive(mail)`; what that raises is a crash, for the dispatcher's `on_crash` to deal with.
    Messages sent by pykka's `ask` and `tell` come to `on_receive(message)` and the proxy calls as in pykka: an `Exception`
    goes to the asker, or under tell to `on_failure`, and the actor goes on; anything worse stops this actor.

    Subclasses should define `__slots__`: an idle actor is otherwise mostly its `__dict__`.
    """

    __slots__ = ("_actor_ref", "actor_inbox", "actor_stopped", "actor_urn", "mailbox")

    def __init__(self, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self.actor_urn = mailbox.key
        self.actor_inbox: _Inbox = self._create_actor_inbox()
        self.actor_inbox.mailbox = mailbox
        self.actor_stopped: _Stopped = _Stopped()  # type: ignore[assignment]  # all of Event that pykka calls

    @classmethod
    def launch(cls, mailbox: Mailbox, *args: object, **kwargs: object) -> Self:
        """Start an actor on a mailbox that exists already, as an activation does.

        `on_start` runs here and now, before any mail is delivered.

        Raises:
            BaseException: what `__init__` or `on_start` raised; the latter is reported as well. The mailbox keeps its mail.
        """
        actor = cls(mailbox, *args, **kwargs)
        actor._start_actor_loop()
        return actor

    @classmethod
    def start(cls, dispatcher: Scheduler, *args: object, **kwargs: object) -> ActorRef[Self]:
        """Start an actor with a mailbox of its own and return pykka's reference to it; nothing is registered.

        Raises:
            BaseException: what `__init__` or `on_start` raised.
        """
        mailbox = Mailbox(uuid.uuid4().urn, dispatcher, _nobody)
        return cls.launch(mailbox, *args, **kwargs).actor_ref

    @staticmethod
    def _create_actor_inbox() -> _Inbox:
        return _Inbox()

    @staticmethod
    def _create_future() -> Future[object]:
        return ActorFuture()

    def _start_actor_loop(self) -> None:
        try:
            self.on_start()
        except BaseException as error:
            self._fail(error)
            raise
        self.mailbox.receiver = self.receive

    @property
    def actor_ref(self) -> ActorRef[Self]:
        """pykka's reference to this actor, made when first asked for: the product needs none."""
        try:
            ref: ActorRef[Self] = self._actor_ref
        except AttributeError:
            ref = self._actor_ref = ActorRef(self)
        return ref

    def receive(self, mail: Mail) -> None:
        """Handle one mail; the dispatcher's to call, on one of its workers."""
        if mail.__class__ is not _PykkaMail:
            self.on_receive(mail)
            return
        reply = mail.reply
        try:
            answer = self._handle_receive(mail.body)
        except Exception as error:  # noqa: BLE001 - it goes to the asker, or is reported
            if reply is not None:
                reply.fail(error)
            else:
                self._report(error)
        except BaseException as error:
            self._fail(error)
            self.mailbox.receiver = self._decline
            raise
        else:
            if reply is not None:
                reply.set(answer)

    def _stop(self) -> None:
        """Stop this actor; mail behind the stop is answered or reported by `_decline`."""
        self.actor_stopped.set()
        self.mailbox.receiver = self._decline
        try:
            self.on_stop()
        except BaseException as error:  # noqa: BLE001 - it is stopped already, and its stop must not end a worker
            self._fail(error)

    def _decline(self, mail: Mail) -> None:
        """Deal with mail that got in behind the stop, now and whenever it comes."""
        if mail.reply is None:
            logger.warning("%s stopped before it handled %r", self, mail.body)
        elif isinstance(mail.body, _ActorStop):
            mail.reply.set(None)
        else:
            mail.reply.fail(ActorDeadError(f"{self} stopped before handling the message"))

    def _fail(self, error: BaseException) -> None:
        """Report an error that ends this actor."""
        self._handle_failure(type(error), error, error.__traceback__)
        self._tell_failure(error)

    def _report(self, error: Exception) -> None:
        """Report an error that the actor survives."""
        logger.error("A message told to %s failed", self, exc_info=error)
        self._tell_failure(error)

    def _tell_failure(self, error: BaseException) -> None:
        try:
            self.on_failure(type(error), error, error.__traceback__)
        except Exception:
            logger.exception("on_failure of %s failed", self)

    def _handle_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,  # noqa: ARG002 - pykka's signature
    ) -> None:
        """Log what ends this actor, and mark it as stopped."""
        logger.error("%s failed with %s", self, exception_type, exc_info=exception_value)
        self.actor_stopped.set()


def _nobody(mailbox: Mailbox) -> None:
    raise InternalError(f"mailbox {mailbox.key} has no actor")
