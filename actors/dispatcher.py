"""Owns the workers that drain mailboxes, in the order in which these got mail. Never looks into mail.

One worker is the default: two or four gained nothing under the interpreter lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

from ..protocol.errors import RuntimeClosed, ThreadActorCrashed
from ..storage.right_of_way import RIGHT_OF_WAY
from .burst import collect_wakes, settle_wakes, stop_collecting
from .mailbox import DRAIN_BUDGET
from .reply import forbid_blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .mailbox import Mail, Mailbox

__all__ = ["Dispatcher", "ManualDispatcher", "report_crash"]

logger = logging.getLogger("treadle")


class _Turn(Protocol):
    """What stands in the line: a mailbox, or a call."""

    def drain(self, budget: int, /) -> None: ...
    def refuse(self, error: Callable[[], BaseException], /) -> object: ...


class _Call:
    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def drain(self, _budget: int) -> None:
        self._call()

    def refuse(self, _error: Callable[[], BaseException]) -> None:
        logger.debug("The dispatcher stopped before it ran %r", self._call)


class _Answers:
    """The store's answers, in order: a group of batches is answered at once, and one turn serves many of them."""

    __slots__ = ("_dispatcher", "_in_line", "_waiting")

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._waiting: deque[tuple[Mailbox, object]] = deque()
        self._in_line = False

    def add(self, mailbox: Mailbox, answer: object) -> None:
        self._waiting.append((mailbox, answer))
        # The append comes before this look, and a drain lowers the flag before it takes: who sees it raised is served.
        if not self._in_line:
            self._in_line = True
            self._dispatcher.schedule(self)
        if self._dispatcher.stopped:
            self._dispatcher.flush()

    def drain(self, budget: int) -> None:
        waiting = self._waiting
        self._in_line = False
        for _ in range(min(budget, len(waiting))):
            try:
                mailbox, answer = waiting.popleft()
            except IndexError:
                break  # another worker took them meanwhile
            mailbox.hand(answer)
        if waiting and not self._in_line:
            self._in_line = True
            self._dispatcher.schedule(self)

    def refuse(self, _error: Callable[[], BaseException]) -> list[object]:
        self._in_line = False
        refused: list[object] = []
        while self._waiting:
            refused.append(self._waiting.popleft()[1])
        return refused


class _Stop:
    """The end of the line for one worker."""


_STOP: Final = _Stop()

_TURNS_PER_WAKE: Final = 32
"""Turns taken, while there are more, before the loops that are owed a wake get it: about a millisecond."""


def report_crash(mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
    """Log the crash and fail the mail's reply with `ThreadActorCrashed`: what happens where nobody says otherwise."""
    logger.error("The receiver of mailbox %s crashed on %r", mailbox.key, mail, exc_info=error)
    if mail.reply is not None:
        crash = ThreadActorCrashed(f"the actor of {mailbox.key} crashed on this call", thread_id=mailbox.key)
        crash.__cause__ = error
        mail.reply.fail(crash)


def _closed() -> BaseException:
    return RuntimeClosed("the dispatcher has stopped")


class Dispatcher:
    """Daemon workers that give each mailbox with mail its turn; one mailbox is never on two of them at once.

    Args:
        workers: how many.
        on_crash: called on the worker with mailbox, mail and error when a receiver or an activation raised anything,
            `SystemExit` and the like included. The mail is gone from the mailbox by then; the mail behind waits.
    """

    def __init__(
        self,
        workers: int = 1,
        on_crash: Callable[[Mailbox, Mail, BaseException], object] = report_crash,
    ) -> None:
        self.stopped = False
        self.on_crash = on_crash
        self._line: SimpleQueue[_Turn | _Stop] = SimpleQueue()
        # Put a turn in line: a mailbox's own to call, for itself. A call for every mail, so it is the queue's own.
        self.schedule: Callable[[_Turn | _Stop], None] = self._line.put
        # Have a store's answer handed to a mailbox, before the mail that waits there; any worker, never blocks.
        self.answer: Callable[[Mailbox, object], None] = _Answers(self).add
        self._suspects: dict[Mailbox, Mail] = {}
        self._pinged_at: float | None = None
        self._workers = [
            threading.Thread(target=self._work, name=f"treadle-dispatcher-{number}", daemon=True)
            for number in range(workers)
        ]

    @property
    def has_workers(self) -> bool:
        """Whether turns are taken by workers, and not by a caller of `step`."""
        return bool(self._workers)

    def start(self) -> None:
        """Start the workers; mail put before waits in line."""
        for worker in self._workers:
            worker.start()

    def call(self, call: Callable[[], object]) -> bool:
        """Run a short internal function on a dispatcher worker, in line with the mailboxes; what it raises is logged.

        Returns:
            False when the dispatcher has stopped: it will not run.
        """
        if self.stopped:
            return False
        self.schedule(_Call(call))
        return True

    def ping(self) -> None:
        """Ask a worker for a sign of life; any worker, never blocks. A ping still unanswered is not repeated."""
        if self._workers and self._pinged_at is None:
            self._pinged_at = time.monotonic()
            self.call(self._pong)

    def silent_for(self) -> float:
        """Return the seconds for which a ping has gone unanswered, 0 when the last one was answered."""
        pinged_at = self._pinged_at
        return 0.0 if pinged_at is None else time.monotonic() - pinged_at

    def line_length(self) -> int:
        """Return about how many turns stand in line."""
        return self._line.qsize()

    def _pong(self) -> None:
        self._pinged_at = None

    def crashed(self, mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        """Pass a crash on to `on_crash`; a mailbox's to call, never raises."""
        try:
            self.on_crash(mailbox, mail, error)
        except BaseException:  # the worker serves all other mailboxes and must outlive this one's bad luck twice
            logger.exception("Handling a crash of mailbox %s failed", mailbox.key)
            if mail.reply is not None:
                mail.reply.fail(error)

    def sweep(self, mailboxes: Iterable[Mailbox]) -> int:
        """Give a turn to mailboxes whose turn was lost, as a `KeyboardInterrupt` inside `put` can; any one worker.

        A mailbox that merely waits in a long line is told apart by its head: only one that did not move between two
        sweeps gets a turn, unless the line is empty. A spare turn does no harm.

        Returns:
            How many got one.
        """
        idle = self._idle()
        before, self._suspects = self._suspects, {}
        woken = 0
        for mailbox in mailboxes:
            head = mailbox.head()
            if head is None:
                continue
            if idle or before.get(mailbox) is head:
                mailbox.wake()
                woken += 1
            else:
                self._suspects[mailbox] = head
        return woken

    def stop(self, timeout: float = 5.0) -> bool:
        """Give what is in line its turn, end the workers, and refuse all later mail with `RuntimeClosed`.

        Mail that waits because its activation said "not yet" is in no line: its owner refuses it (`Mailbox.refuse`).

        Args:
            timeout: seconds to wait for each worker; a worker that calls this is not waited for.

        Returns:
            Whether every worker ended.
        """
        # Mail scheduled before this flag stands before the end of the line; mail scheduled after it sees the flag.
        self.stopped = True
        for _ in self._workers:
            self.schedule(_STOP)
        others = [worker for worker in self._workers if worker is not threading.current_thread() and worker.ident]
        for worker in others:
            worker.join(timeout)
        self.flush()
        return not any(worker.is_alive() for worker in others)

    def flush(self) -> None:
        """Refuse the mail of every mailbox in line, once stopped; any worker."""
        spared = 0
        while (turn := self._next()) is not None:
            if isinstance(turn, _Stop):
                spared += 1
                continue
            silent = turn.refuse(_closed)
            if silent:
                logger.warning("The dispatcher stopped before it delivered %r", silent)
        for _ in range(spared):
            # These end workers that still have to come back from their mailbox.
            self.schedule(_STOP)

    def _work(self) -> None:
        forbid_blocking()
        get, empty = self._line.get, self._line.empty
        owed = collect_wakes()
        turns = waited_for = 0
        while True:
            try:
                turns += 1
                if owed and (turns >= _TURNS_PER_WAKE or empty()):
                    turns = 0
                    settle_wakes(owed)
                turn = get()
                if RIGHT_OF_WAY.taken():
                    waited_for = RIGHT_OF_WAY.give(waited_for)
                if turn is _STOP:
                    stop_collecting()
                    self.flush()
                    return
                turn.drain(DRAIN_BUDGET)  # type: ignore[union-attr]  # isinstance would cost what the identity does not
            except BaseException:
                logger.exception("A call on a dispatcher worker failed")

    def _next(self) -> _Turn | _Stop | None:
        try:
            return self._line.get_nowait()
        except Empty:
            return None

    def _idle(self) -> bool:
        return self._line.empty()


class ManualDispatcher(Dispatcher):
    """A dispatcher without workers: the caller takes each turn, in any order, and so decides every interleaving.

    Its `stop` refuses what is in line.

    Args:
        on_crash: as for `Dispatcher`.
        budget: mails a turn; 1 interleaves most finely.
    """

    def __init__(
        self,
        on_crash: Callable[[Mailbox, Mail, BaseException], object] = report_crash,
        budget: int = DRAIN_BUDGET,
    ) -> None:
        super().__init__(workers=0, on_crash=on_crash)
        self._turns: deque[_Turn | _Stop] = deque()
        self.schedule = self._turns.append
        self._budget = budget

    def step(self, pick: int = 0) -> bool:
        """Take one turn on this worker.

        Args:
            pick: which one in line, counted from its head; taken modulo the line's length.

        Returns:
            False when nothing was in line.
        """
        if not self._turns:
            return False
        pick %= len(self._turns)
        turn = self._turns[pick]
        del self._turns[pick]
        if not isinstance(turn, _Stop):
            turn.drain(self._budget)
        return True

    def run_until_idle(self, turns_max: int = 1_000_000) -> int:
        """Take turns until the line is empty.

        Returns:
            How many were taken.

        Raises:
            RuntimeError: `turns_max` were taken and there are more.
        """
        for taken in range(turns_max):
            if not self.step():
                return taken
        raise RuntimeError(f"still not idle after {turns_max} turns")

    def __len__(self) -> int:
        return len(self._turns)

    def __bool__(self) -> bool:
        return True

    def _next(self) -> _Turn | _Stop | None:
        return self._turns.popleft() if self._turns else None

    def _idle(self) -> bool:
        return not self._turns
