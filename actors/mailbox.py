"""Owns the mail that waits for one receiver, in order and within limits. Never runs user code and never blocks.

A mailbox outlives its receivers: it belongs to the directory, and mail that finds no receiver activates one. An idle
one must be small, so its queue exists only while there is mail, and its lock is one of a few shared ones. Those are
reentrant, since a signal handler or a finaliser may send mail while its own worker is inside.
"""

from __future__ import annotations

import threading
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from ..protocol.errors import ThreadOverloaded
from ..protocol.limits import MAILBOX_BYTES_MAX, MAILBOX_MAILS_MAX
from .forking import renew_in_child

if TYPE_CHECKING:
    from collections.abc import Callable

    from .reply import Reply

__all__ = ["DRAIN_BUDGET", "Mail", "Mailbox", "Scheduler"]

DRAIN_BUDGET = 64
"""Mails handled before the next mailbox has its turn."""

_SMALL = 1 << 16  # bytes that fit into any mailbox in which nothing waits

# The dispatcher takes one by hand, since `with` costs twice as much; where a caller takes it an interrupt from the keyboard
# may come at any call, and only `with` is safe from that.
_LOCKS = tuple(threading.RLock() for _ in range(64))
renew_in_child(globals(), _LOCKS=lambda: tuple(threading.RLock() for _ in range(64)))


class Scheduler(Protocol):
    """What a mailbox needs of its dispatcher.

    Attributes:
        stopped: no turn comes any more; mail put now is refused by `flush`.
    """

    stopped: bool

    def schedule(self, mailbox: Mailbox, /) -> None:
        """Put the mailbox in line for a drain; may be called twice without harm."""

    def crashed(self, mailbox: Mailbox, mail: Mail, error: BaseException, /) -> None:
        """Deal with an error that a receiver or an activation raised; must not raise."""

    def flush(self) -> None:
        """Refuse the mail of every mailbox in line, once stopped."""

    def answer(self, mailbox: Mailbox, answer: object, /) -> None:
        """Have a store's answer handed to a mailbox before the mail that waits there; any worker, never blocks."""


class Mail:
    """One message to a receiver: its body, the reply it wants, if any, and its size in bytes."""

    __slots__ = ("body", "reply", "size")

    # A reply is invariant in its value, and a mailbox carries those of every call: hence Any.
    def __init__(self, body: object, reply: Reply[Any] | None = None, size: int = 0) -> None:
        self.body = body
        self.reply = reply
        self.size = size

    def __repr__(self) -> str:
        return f"<Mail {type(self.body).__name__} {self.size} bytes>"


class Mailbox:
    """Mail in order for one receiver at a time.

    Attributes:
        key: the name of whom it belongs to, for errors and logs.
        scheduler: gives it its turns, and takes the store's answers for it.
        receiver: takes each mail, on a dispatcher worker; None until the first mail, and after `detach_if`.
        activate: called on a dispatcher worker with the mailbox when mail finds no receiver. Returns the receiver, or
            None for "not yet": the mail then waits for `wake()`.
    """

    __slots__ = (
        "_bytes_in",
        "_bytes_out",
        "_kept_bytes",
        "_kept_mails",
        "_lock",
        "_queue",
        "_queued",
        "_running",
        "activate",
        "key",
        "receiver",
        "scheduler",
    )

    def __init__(
        self,
        key: str,
        scheduler: Scheduler,
        activate: Callable[[Mailbox], Callable[[Mail], object] | None],
        receiver: Callable[[Mail], object] | None = None,
    ) -> None:
        self.key = key
        self.receiver = receiver
        self.activate = activate
        self.scheduler = scheduler
        self._lock = _LOCKS[(id(self) >> 6) & 63]
        self._queue: deque[Mail] | None = None
        self._queued = False  # in the dispatcher's line, a hint: being there twice does no harm
        self._running = 0  # the ident of the worker that drains, 0 for none
        # One counter for those who put and one for the one who takes, so that taking needs no lock.
        self._bytes_in = 0
        self._bytes_out = 0
        self._kept_mails = 0
        self._kept_bytes = 0

    def put(self, mail: Mail, *, internal: bool = False) -> None:
        """Add mail at the end; any worker, never blocks.

        Args:
            mail: belongs to the mailbox from now on.
            internal: mail of the runtime itself, which always fits.

        Raises:
            ThreadOverloaded: the limit of mails or bytes is met; nothing was added.
        """
        scheduler = self.scheduler
        size = mail.size
        with self._lock:
            queue = self._queue
            if queue is None:
                fresh: deque[Mail] = deque()
                # Making one may run a finaliser that put mail just now.
                queue = self._queue
                if queue is None:
                    queue = self._queue = fresh
            # Where nothing waits, which is nearly always, a small mail fits; the sums are worth their time elsewhere.
            if (queue or size > _SMALL or self._kept_mails) and not internal and self._is_full(size):
                raise self._overloaded(mail)
            queue.append(mail)
            if size:
                self._bytes_in += size
            if not self._queued and not self._running:
                # In line first, flagged second: a KeyboardInterrupt between the two leaves a spare turn, not a wedge.
                scheduler.schedule(self)
                self._queued = True
        # Outside the lock, since a refusal runs callbacks; after the schedule, so that a stop leaves no gap.
        if scheduler.stopped:
            scheduler.flush()

    def keep(self, mail: Mail) -> None:
        """Count mail that its receiver took but postponed: it still fills the mailbox. Only on the draining worker."""
        self._kept_mails += 1
        self._kept_bytes += mail.size

    def release(self, mail: Mail) -> None:
        """Stop counting postponed mail. Only on the draining worker."""
        self._kept_mails -= 1
        self._kept_bytes -= mail.size

    def drain(self, budget: int = DRAIN_BUDGET) -> None:
        """Hand up to `budget` mails to the receiver; the dispatcher's to call, on one of its workers.

        Nothing that a receiver raises comes out: it goes to `Scheduler.crashed`; mail behind waits for another turn.
        """
        lock = self._lock
        lock.acquire()
        try:
            # Whoever drains it now looks once more, under this lock, before it leaves.
            if self._running:
                return
            self._queued = False
            queue = self._queue
            if not queue:
                return
            self._running = get_ident()
        finally:
            lock.release()
        parked = False
        try:
            while queue:
                mail = queue[0]
                try:
                    receiver = self.receiver
                    if receiver is None:
                        receiver = self.receiver = self.activate(self)
                        if receiver is None:
                            parked = True
                            break
                    queue.popleft()
                    if mail.size:
                        self._bytes_out += mail.size
                    receiver(mail)
                except BaseException as error:  # noqa: BLE001 - one receiver must not end the worker that serves all
                    if queue and queue[0] is mail:
                        queue.popleft()
                        self._bytes_out += mail.size
                    self.scheduler.crashed(self, mail, error)
                    break
                budget -= 1
                if budget <= 0:
                    break
        finally:
            lock.acquire()
            try:
                self._running = 0
                if not queue:
                    self._queue = None
                    self._queued = False
                    self._bytes_in = self._bytes_out = 0
                elif not parked or self._queued or self.scheduler.stopped:
                    self.scheduler.schedule(self)
                    self._queued = True
            finally:
                lock.release()

    def hand(self, answer: object) -> None:
        """Hand over the store's answer, before the mail that waits for it; the dispatcher's to call, on one of its workers.

        It is no mail: nobody else sends it, and nothing counts it. Where the mailbox is being drained, or has no receiver,
        it becomes mail and waits its turn. What a receiver raises goes the way of `drain`.
        """
        lock = self._lock
        lock.acquire()
        receiver = self.receiver
        if receiver is None or self._running:
            lock.release()
            self.put(Mail(answer), internal=True)
            return
        self._running = get_ident()
        lock.release()
        try:
            receiver(answer)  # type: ignore[arg-type]  # it knows answers
        except BaseException as error:  # noqa: BLE001 - as in a drain
            self.scheduler.crashed(self, Mail(answer), error)
        finally:
            lock.acquire()
            self._running = 0
            # Also where it seems to be in line: that turn may have come meanwhile and gone, and a wake raises the flag alone.
            if self._queue:
                self.scheduler.schedule(self)
                self._queued = True
            lock.release()

    def wake(self) -> None:
        """Give the mailbox a turn if it has mail: after "not yet" from `activate`, and in sweeps. Any worker."""
        with self._lock:
            if self._queue:
                # While it is drained the flag alone is enough: the drain looks at it before it parks.
                if not self._running:
                    self.scheduler.schedule(self)
                self._queued = True

    def detach_if(self, condition: Callable[[], bool]) -> bool:
        """Take the receiver away if there is no mail and `condition()` holds, in one step; later mail activates another.

        Args:
            condition: runs under the mailbox's lock: it must be quick and must not touch another mailbox.

        Returns:
            Whether it was detached. False also while another worker drains.
        """
        with self._lock:
            if self._running and self._running != threading.get_ident():
                return False
            if self._queue or self._kept_mails or not condition():
                return False
            self.receiver = None
            return True

    def refuse(self, error: Callable[[], BaseException]) -> list[Mail]:
        """Take all waiting mail out and fail its replies, each with a new error; nothing while it is being drained.

        Returns:
            The mail that wanted no reply, for the caller to report.
        """
        with self._lock:
            queue = self._queue
            if not queue or self._running:
                return []
            mails = list(queue)
            self._queue = None
            self._queued = False
            self._bytes_in = self._bytes_out = 0
        silent = []
        for mail in mails:
            if mail.reply is None:
                silent.append(mail)
            else:
                mail.reply.fail(error())
        return silent

    def is_idle(self) -> bool:
        """Say whether no mail waits and none is being handled."""
        with self._lock:
            return not self._queue and not self._running

    def head(self) -> Mail | None:
        """Return the mail whose turn is next; None when there is none or when it is being drained."""
        with self._lock:
            return self._queue[0] if self._queue and not self._running else None

    def __len__(self) -> int:
        queue = self._queue
        return 0 if queue is None else len(queue)

    def __bool__(self) -> bool:
        return True  # an empty mailbox is still one

    def _is_full(self, size: int) -> bool:
        mails = len(self) + self._kept_mails
        return mails >= MAILBOX_MAILS_MAX or self._waiting_bytes() + size > MAILBOX_BYTES_MAX

    def _waiting_bytes(self) -> int:
        return self._bytes_in - self._bytes_out + self._kept_bytes

    def _overloaded(self, mail: Mail) -> ThreadOverloaded:
        return ThreadOverloaded(
            f"the mailbox of {self.key} is full",
            thread_id=self.key,
            mails=len(self) + self._kept_mails,
            mails_maximum=MAILBOX_MAILS_MAX,
            bytes=self._waiting_bytes(),
            bytes_maximum=MAILBOX_BYTES_MAX,
            size=mail.size,
        )
