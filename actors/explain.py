"""Owns the explanation of one thread: who holds it, where it is, what waits, what comes next. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.limits import LOOP_SILENT_S

if TYPE_CHECKING:
    from ..protocol.receipts import ActiveExecution
    from ..protocol.status import ThreadStatus
    from .directory import Entry
    from .execution import Execution
    from .services import Services
    from .snapshot import Blocked, Snapshot

__all__ = ["Explanation", "explain"]


class Explanation(NamedTuple):
    """What a person needs who asks why a thread does not move.

    Attributes:
        held_by: the execution in the slot, None at rest.
        where: the body's stack, or the chain of what it awaits, outermost first.
        waits_for_worker: the body stands in line for a worker of the pool.
        interrupted: the abort signal was raised, by whom and why.
        calls: the functions that the body has workers run, each with where it is.
        waits_on: threads that the execution waits for.
        requests: ids of its requests that nobody has answered, oldest first.
        waiting: inputs that have not joined history; `mail` those not decided yet.
        in_flight: what the batch on its way to the store is about.
        blocked: the commit that the store refuses.
        problems: anything else that keeps the thread from moving, one sentence each.
        next: what will happen next, one sentence.
    """

    thread_id: str
    status: ThreadStatus
    held_by: ActiveExecution | None
    where: tuple[str, ...]
    waits_for_worker: bool
    interrupted: str | None
    calls: tuple[str, ...]
    waits_on: tuple[str, ...]
    requests: tuple[str, ...]
    waiting: int
    mail: int
    in_flight: str | None
    held: bool
    hold_reason: str | None
    blocked: Blocked | None
    problems: tuple[str, ...]
    next: str


def explain(services: Services, entry: Entry) -> Explanation:
    """Explain a thread from what is published and from where its body is; any worker, blocks at most for one read."""
    shown = services.directory.snapshot(entry)
    actor = entry.actor
    live = services.running.get(shown.active.execution_id) if shown.active is not None else None
    pending = services.hub.pending(shown)
    handle = live.handle if live is not None else None  # looked up once: its actor may drop it meanwhile
    where = tuple(handle.stack()) if handle is not None else ()
    in_line = getattr(handle, "state", None) == "waiting"
    calls = live.calls if live is not None else None
    signal = live.abort_signal if live is not None and live.abort_signal.aborted else None
    interrupted = None if signal is None else f"{signal.source}: {signal.reason}" if signal.reason else signal.source
    return Explanation(
        entry.thread_id,
        shown.status,
        shown.active,
        where,
        in_line,
        interrupted,
        calls.explained() if calls is not None else (),
        tuple(services.waits.targets(entry.thread_id)),
        tuple(str(request["request_id"]) for request in pending),
        shown.waiting,
        len(entry.mailbox) + (actor.mail_waiting if actor is not None else 0),
        actor.in_flight if actor is not None else None,
        shown.held,
        shown.hold_reason,
        shown.blocked,
        tuple(_problems(services, entry, shown, live)),
        _stuck(services, entry, shown) or _next(shown, pending, in_line=in_line),
    )


def _problems(services: Services, entry: Entry, shown: Snapshot, live: Execution | None) -> list[str]:
    problems = []
    if entry.quarantine is not None:
        problems.append(f"thread_quarantined: {entry.quarantine}")
    if shown.agent_id not in services.agents:
        problems.append(f"agent_missing: no agent {shown.agent_id!r} is registered; nothing starts")
    failure = services.store.failure()
    if failure is not None:
        problems.append(f"{failure.code}: {failure}")
    if services.loop.loop.is_closed() and (live is None or live.body.runs_on == "loop"):
        problems.append(
            "loop_closed: the event loop that the runtime was opened on is closed; coroutine agents are lost"
        )
    silent = services.loop.silent_for()
    if silent > LOOP_SILENT_S and (live is None or live.body.runs_on == "loop"):
        problems.append(
            f"loop_silent: the event loop has not answered for {silent:.1f} s, it is at "
            + " < ".join(services.loop.stack()[-3:])
        )
    return problems


def _stuck(services: Services, entry: Entry, shown: Snapshot) -> str | None:
    """Say what must happen outside before anything can; None where the thread goes on by itself."""
    if entry.quarantine is not None:
        return "nothing, until the next open"
    if services.store.failure() is not None:
        return "nothing, until the store is opened again"
    if shown.agent_id not in services.agents and shown.active is None and shown.terminated_at is None:
        return "nothing, until its agent is registered"
    return None


def _next(shown: Snapshot, pending: list[dict[str, object]], *, in_line: bool) -> str:
    if shown.blocked is not None:
        return f"{shown.blocked.what} is tried again at {shown.blocked.next_attempt_at} (attempt {shown.blocked.attempts + 1})"
    if shown.active is not None:
        if in_line:
            return "the body is called as soon as a worker is free"
        if pending and shown.active.phase == "running":
            oldest = pending[0]
            expires = "" if oldest["timeout"] is None else f", or expires {oldest['timeout']:g} s after it was opened"
            return f"request {oldest['request_id']!r} ({oldest['kind']}) is answered with respond(){expires}; the body goes on"
        return {
            "running": "the body goes on; what waits joins at its next boundary",
            "stopping": "the body ends, or is abandoned after its grace",
            "finishing": "what it owns is released, then it finishes",
        }.get(shown.active.phase, "the body is called")
    if shown.terminated_at is not None:
        return "nothing: the thread is terminated"
    if shown.waiting and shown.held:
        return "nothing, until resume() or a submit lifts the hold"
    if shown.waiting:
        return "the oldest waiting input starts"
    return "nothing, until an input comes"
