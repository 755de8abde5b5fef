"""Owns who waits for an execution or an input to end, and tells them. Pins a thread's actor, starts nothing.

Waiters live on the thread's entry, so they outlive a crash of its actor. Nearly every wait is for the execution that
is shown as the live one: it is kept on the caller's worker, without a mail. One lock orders that against the actor,
which shows the end first and takes the waiters second: who still finds the execution shown is found by it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from itertools import filterfalse
from typing import TYPE_CHECKING, Literal, cast

from ..protocol.errors import (
    ExecutionNotFound,
    InputNotFound,
    InputWithdrawn,
    ThreadTerminated,
    TreadleError,
    WaitCycle,
)
from ..protocol.events import (
    Event,
    ExecutionFinished,
    ExecutionLost,
    ExecutionStarted,
    InputQueued,
    MessageAdded,
    MessagesJoined,
)
from ..protocol.events import (
    InputWithdrawn as InputWithdrawnEvent,
)
from ..protocol.executions import ExecutionRecord
from ..protocol.ids import check_id
from ..storage.encoding import RECEIPT_WITHDRAWN
from .forking import renew_in_child
from .given_up import Leave, is_given_up
from .mailbox import Mail
from .reads import execution_record, followed_input
from .reply import Reply
from .snapshot import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .directory import Entry
    from .execution import Execution
    from .services import Services

__all__ = [
    "Await",
    "ask_again",
    "execution_of",
    "fail_waiters",
    "kept_here",
    "over_or_noted",
    "register",
    "resolve",
    "sent",
    "still_waited",
]

# Reentrant, since a finaliser may wait; never held while a reply is set.
_LOCK = threading.RLock()
renew_in_child(globals(), _LOCK=threading.RLock)
_SWEPT = 2
_ENDS = (ExecutionFinished, ExecutionLost)


class Await:
    """Mail that waits for the end of an execution, or of the execution that an input comes to."""

    __slots__ = ("given", "kind")

    def __init__(self, kind: Literal["execution", "input"], given: str) -> None:
        self.kind = kind
        self.given = given


def kept_here(services: Services, entry: Entry, wanted: Await, reply: Reply[ExecutionRecord]) -> bool:
    """Keep a wait for the execution that is shown as live; any worker, never blocks.

    Returns:
        False, and nothing done, for any other wait: the actor has to judge it.
    """
    if wanted.kind != "execution":
        return False
    with _LOCK:
        shown = entry.shown
        # A stopped dispatcher has no actor left that would take the waiters; it stops before they are failed.
        if shown.__class__ is not Shown or shown.active != wanted.given or services.dispatcher.stopped:
            return False
        _put(entry, ("e", wanted.given), reply)
    return True


def sent(entry: Entry, wanted: Await, reply: Reply[ExecutionRecord]) -> None:
    """Have the actor judge a wait; any worker, never blocks. Raises: ThreadOverloaded."""
    try:
        entry.mailbox.put(Mail(wanted, reply))
    except BaseException as error:
        # Nobody gets it, but what was noted of the wait goes with it.
        reply.fail(error)
        reply.error()
        raise


def register(
    services: Services,
    entry: Entry,
    active: str | None,
    last: ExecutionRecord | None,
    wanted: Await,
    reply: Reply[ExecutionRecord],
) -> None:
    """Answer a wait from what is published, or keep it until that changes; on the actor, with nothing unpublished.

    Args:
        services: the runtime's.
        entry: the thread's.
        active: the execution in the slot.
        last: the record of the one before, as far as it is known: reading it again costs more.
        wanted: what is waited for.
        reply: to set.
    """
    try:
        if wanted.kind == "execution":
            _await_execution(services, entry, active, last, wanted.given, reply)
        else:
            _await_input(services, entry, active, last, wanted.given, reply)
    except TreadleError as error:
        reply.fail(error)


def _await_execution(
    services: Services,
    entry: Entry,
    active: str | None,
    last: ExecutionRecord | None,
    execution_id: str,
    reply: Reply[ExecutionRecord],
) -> None:
    if execution_id != active:
        known = last is not None and last.execution_id == execution_id
        record = last if known and last is not None else execution_record(services, entry, execution_id)
        if record.status != "active":
            reply.set(record)
            return
    _keep(entry, ("e", execution_id), reply)


def _await_input(
    services: Services,
    entry: Entry,
    active: str | None,
    last: ExecutionRecord | None,
    given: str,
    reply: Reply[ExecutionRecord],
) -> None:
    execution_id = _came_to(services, entry, given)
    if execution_id is not None:
        _await_execution(services, entry, active, last, execution_id, reply)
    else:
        _keep(entry, ("i", given), reply)


def _came_to(services: Services, entry: Entry, given: str) -> str | None:
    """Return the execution that an input came to, None while it waits. Raises: as `execution_of`."""
    shown = services.directory.snapshot(entry)
    with services.store.view() as view:
        found = followed_input(view, entry.number, shown.cursor.generation, given)
    if found is None:
        raise InputNotFound(
            f"thread {entry.thread_id!r} accepted nothing under {given!r}", thread_id=entry.thread_id, id=given
        )
    state, execution_id = found
    if state == RECEIPT_WITHDRAWN:
        raise _withdrawn(entry, given)
    # What a terminated thread still has is failed, though its rows are taken out batch by batch.
    if execution_id is None and (state or (shown.terminated_at is not None and shown.active is None)):
        raise _terminated(entry, given)
    return execution_id


def execution_of(services: Services, entry: Entry, given: str) -> ExecutionRecord | None:
    """Return the record of the execution that an input came to, None while it waits; blocks for two reads.

    Raises:
        InputNotFound, InputWithdrawn, ThreadTerminated: there is none, and there will be none.
    """
    execution_id = _came_to(services, entry, check_id("input_id", given))
    if execution_id is None:
        return None
    try:
        return execution_record(services, entry, execution_id)
    except ExecutionNotFound:
        return None  # its start is stored and not published yet: until then the input waits


def _keep(entry: Entry, key: tuple[str, str], reply: Reply[ExecutionRecord]) -> None:
    with _LOCK:
        _put(entry, key, reply)


def _put(entry: Entry, key: tuple[str, str], reply: Reply[ExecutionRecord]) -> None:
    """Keep a wait; the lock is held, which does not keep out a finaliser or a signal handler that waits in the middle."""
    waiters = entry.waiters
    if waiters is None:
        made: dict[tuple[str, str], list[Reply[ExecutionRecord]]] = {}
        waiters = entry.waiters
        if waiters is None:
            waiters = entry.waiters = made
    kept = waiters.setdefault(key, [])
    kept.append(reply)
    # Looked for each time their number has doubled, so that all of it costs what they cost.
    if len(kept) >= _SWEPT and not len(kept) & (len(kept) - 1):
        kept[:] = filterfalse(is_given_up, kept)


def still_waited(entry: Entry) -> bool:
    """Let go of the waits for a thread that were given up; return whether there are others."""
    with _LOCK:
        waiters = entry.waiters
        if waiters is None:
            return False
        for kept in list(waiters.values()):
            kept[:] = filterfalse(is_given_up, kept)
        return any(waiters.values())


def _swept(services: Services, thread_ids: Iterable[str]) -> bool:
    """Let go of the waits for threads that were given up; return whether an execution was noted for one."""
    before = services.waits.count()
    for thread_id in thread_ids:
        entry = services.directory.known(thread_id)
        if entry is not None:
            still_waited(entry)
    return services.waits.count() < before


def _taken(entry: Entry, key: tuple[str, str]) -> list[Reply[ExecutionRecord]]:
    """Take those who wait for one thing."""
    with _LOCK:
        waiters = entry.waiters
        if waiters is None:
            return []
        taken = waiters.pop(key, None)
        if not waiters:
            entry.waiters = None
        return taken or []


def _all_taken(entry: Entry) -> dict[tuple[str, str], list[Reply[ExecutionRecord]]]:
    with _LOCK:
        waiters, entry.waiters = entry.waiters, None
    return waiters or {}


def resolve(
    services: Services,
    entry: Entry,
    events: Iterable[tuple[int, int, Event]],
    contents: Mapping[int, tuple[int, InputQueued]] | None,
    last: ExecutionRecord | None,
) -> None:
    """Tell waiters what a committed and published batch means for them."""
    for _, _, event in events:
        if type(event) is MessageAdded:
            continue
        if isinstance(event, _ENDS):
            ended = _taken(entry, ("e", event.execution_id))
            if ended:
                known = last is not None and last.execution_id == event.execution_id
                try:
                    record = (
                        last if known and last is not None else execution_record(services, entry, event.execution_id)
                    )
                except BaseException:
                    _put_back(entry, {("e", event.execution_id): ended})
                    raise
                for reply in ended:
                    reply.set(record)
        elif isinstance(event, ExecutionStarted):
            if event.input_id is not None:
                _follow(entry, event.input_id, event.execution_id)
        elif isinstance(event, MessagesJoined):
            for row in event.rows:
                assert contents is not None
                given = contents[row[0]][1].input_id
                if event.execution_id is not None:
                    _follow(entry, given, event.execution_id)
                else:
                    for reply in _taken(entry, ("i", given)):
                        reply.fail(_terminated(entry, given))
        elif isinstance(event, InputWithdrawnEvent):
            for reply in _taken(entry, ("i", event.input_id)):
                reply.fail(_withdrawn(entry, event.input_id))


def _follow(entry: Entry, given: str, execution_id: str) -> None:
    for reply in _taken(entry, ("i", given)):
        _keep(entry, ("e", execution_id), reply)


def ask_again(services: Services, entry: Entry, active: str | None) -> None:
    """Ask anew for all who wait: a life that fell may have committed what they wait for, and not lived to say so."""
    taken = _all_taken(entry)
    try:
        for (kind, given), replies in taken.items():
            for reply in replies:
                register(services, entry, active, None, Await("execution" if kind == "e" else "input", given), reply)
    except BaseException:
        _put_back(entry, taken)
        raise


def _put_back(entry: Entry, taken: Mapping[tuple[str, str], list[Reply[ExecutionRecord]]]) -> None:
    """Keep those who could not be told: this life falls, and the next one asks again."""
    for key, replies in taken.items():
        for reply in replies:
            if not reply.done():
                _keep(entry, key, reply)


def over_or_noted(
    services: Services, entry: Entry, sender: Execution, wanted: Await, reply: Reply[ExecutionRecord]
) -> bool:
    """Note that an execution waits for a thread; or answer it here and return True, where what it waits for has ended.

    Raises:
        WaitCycle: it would wait for itself.
    """
    try:
        wait = services.waits.enter(sender.thread_id, entry.thread_id, sender.id)
    except WaitCycle as circle:
        # Only what has not ended, and is still waited for, makes a circle; whether it is is worth a look only here.
        record = _ended(services, entry, wanted)
        if record is not None:
            reply.set(record)
            return True
        if not _swept(services, cast("list[str]", circle.details["threads"])):
            raise
        return over_or_noted(services, entry, sender, wanted, reply)
    reply.add_done_callback(Leave(services.waits, wait))
    return False


def _ended(services: Services, entry: Entry, wanted: Await) -> ExecutionRecord | None:
    execution_id: str | None = wanted.given
    if wanted.kind == "input":
        cursor = services.directory.snapshot(entry).cursor
        with services.store.view() as view:
            found = followed_input(view, entry.number, cursor.generation, wanted.given)
        execution_id = None if found is None else found[1]
    record = None if execution_id is None else execution_record(services, entry, execution_id)
    return None if record is None or record.status == "active" else record


def fail_waiters(entry: Entry, error: TreadleError) -> None:
    """End every wait on a thread with an error: it was deleted or quarantined, or the runtime closes."""
    for replies in _all_taken(entry).values():
        for reply in replies:
            reply.fail(error.again())


def _withdrawn(entry: Entry, given: str) -> InputWithdrawn:
    return InputWithdrawn(
        f"input {given!r} of thread {entry.thread_id!r} was withdrawn", thread_id=entry.thread_id, input_id=given
    )


def _terminated(entry: Entry, given: str) -> ThreadTerminated:
    return ThreadTerminated(
        f"input {given!r} of thread {entry.thread_id!r} never ran: the thread was terminated",
        thread_id=entry.thread_id,
        input_id=given,
    )
