"""Owns what an open does about the past: settles what a dead process left running, then starts what waits. One path.

Its cost is proportional to the index of threads with work, whatever else the store holds.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import ThreadNotFound, TreadleError
from ..storage.encoding import WORK_DELETING, WORK_ROWS, WORK_RUNNING
from ..storage.reading import read_open, read_thread
from ..storage.tables import Table
from .mailbox import Mail
from .processes import kill_if_same
from .reply import Reply
from .thread_mail import Nothing, Settled

if TYPE_CHECKING:
    from ..protocol.facts import Facts
    from .services import Services

__all__ = ["OpenReport", "recover"]

logger = logging.getLogger("treadle")

_PAGE = 1_000


class OpenReport(NamedTuple):
    """What an open found and did.

    Attributes:
        settled: threads whose execution was lost and is settled now.
        unsettled: such threads that the store has no room to settle; they show as lost and refuse submits.
        started: threads at rest with waiting inputs that were woken; what waits behind a settled execution starts as well,
            and such threads are listed under `settled` alone.
        held: threads held by this open, since their executions were lost again and again; `resume()` or a submit lifts that.
        removing: deleted threads whose contents are still being removed.
        agent_missing: threads with work whose agent is not registered, by agent.
        unreadable: threads with work whose record does not decode, by number, with the error.
        killed: process groups that had outlived the process and were ended.
    """

    boot_id: str
    settled: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    removing: int = 0
    agent_missing: dict[str, list[str]] = {}
    unreadable: dict[int, str] = {}
    killed: tuple[int, ...] = ()
    held: tuple[str, ...] = ()


def recover(services: Services) -> OpenReport:
    """Settle and wake; blocks until every lost execution is settled, or the store refused to."""
    running: list[tuple[int, Facts]] = []
    waiting: list[tuple[int, Facts]] = []
    deleting: list[int] = []
    killed: list[int] = []
    unreadable: dict[int, str] = {}
    low = b""
    while True:
        with services.store.view() as view:
            page = view.scan(Table.WORK, low, None, limit=_PAGE)
            for key, kind in page:
                number = int.from_bytes(key, "big")
                if kind == WORK_DELETING:
                    deleting.append(number)
                    continue
                try:
                    found = read_thread(view, number)
                    if found is None:
                        continue
                    if kind == WORK_RUNNING:
                        running.append((number, found[1]))
                        if found[1].processes:
                            killed += [
                                group for group, start in read_open(view, number, b"p") if kill_if_same(group, start)
                            ]
                    elif kind == WORK_ROWS:
                        waiting.append((number, found[1]))
                except TreadleError as error:
                    # One unreadable thread must not keep the others from being served.
                    logger.exception("Thread number %d cannot be read", number)
                    unreadable[number] = str(error)
        if len(page) < _PAGE:
            break
        low = page[-1][0] + b"\0"
    settled, unsettled = _settle(services, running)
    missing: dict[str, list[str]] = {}
    for _, facts in [*running, *waiting]:
        if facts.agent_id not in services.agents:
            missing.setdefault(facts.agent_id, []).append(facts.thread_id)
    for number, facts in waiting:
        services.directory.enter(facts.thread_id, number).mailbox.put(Mail(Nothing()), internal=True)
    for number in deleting:
        services.supervisor.remove_contents(number)
    started = tuple(facts.thread_id for _, facts in waiting)
    return OpenReport(
        services.boot.id,
        settled,
        unsettled,
        started,
        len(deleting),
        missing,
        unreadable,
        tuple(killed),
        _held(services, settled),
    )


def _held(services: Services, settled: tuple[str, ...]) -> tuple[str, ...]:
    held = []
    for thread_id in settled:
        try:
            shown = services.directory.snapshot(services.directory.entry(thread_id))
        except ThreadNotFound:
            continue  # an agent that started meanwhile has deleted it
        if shown.hold_reason == "lost_repeatedly":
            held.append(thread_id)
    return tuple(held)


def _settle(services: Services, running: list[tuple[int, Facts]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    replies: list[tuple[str, Reply[bool]]] = []
    for number, facts in running:
        reply: Reply[bool] = Reply()
        entry = services.directory.enter(facts.thread_id, number)
        entry.mailbox.put(Mail(Settled(facts.execution_id), reply), internal=True)
        replies.append((facts.thread_id, reply))
    settled: list[str] = []
    unsettled: list[str] = []
    for thread_id, reply in replies:
        try:
            (settled if reply.result() else unsettled).append(thread_id)
        except TreadleError as error:
            logger.error("Settling thread %s failed: %s", thread_id, error)  # noqa: TRY400 - the error says it all
            unsettled.append(thread_id)
    return tuple(settled), tuple(unsettled)
