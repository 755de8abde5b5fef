"""Owns the lives of actors: activation, crashes, restarts within an intensity, sweeps. Decides nothing about a thread.

An incarnation ends in one way: it is fenced off at the store by a barrier, what it owned is released, and the next one
reads what is there and settles it. Boot and crash take the same path; only what is left behind differs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..protocol.errors import (
    AppendConflict,
    OutcomeUnknown,
    RuntimeClosed,
    ThreadActorCrashed,
    ThreadQuarantined,
    TreadleError,
)
from ..protocol.limits import CRASH_WINDOW_S, CRASHES_MAX, SUPERVISOR_CRASHES_MAX, SUPERVISOR_WINDOW_S
from ..protocol.triggers import Lost
from ..storage.reading import read_thread, thread_number
from ..storage.schema import boot_id_of
from .building import Building
from .directory import Entry, not_found
from .intensity import Intensity, retry_delay
from .mailbox import Mail, Mailbox
from .release import release, write_off
from .removal import Removal
from .snapshot import at_rest
from .thread import ThreadActor
from .thread_mail import Nothing, Reload, Settled
from .waiting import ask_again, fail_waiters

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..protocol.facts import Facts
    from ..storage.head import Head
    from ..storage.store import View
    from .execution import Execution
    from .hub import Hub
    from .services import Services

__all__ = ["Supervisor"]

logger = logging.getLogger("treadle")

SWEEP_S = 1.0


class _Fallen:
    """A crashed incarnation until the next one may begin."""

    __slots__ = ("cause", "dispatched", "left", "leftovers", "mails")

    def __init__(self, mails: list[Mail], cause: str, *, dispatched: bool) -> None:
        self.mails = mails
        self.cause = cause
        self.dispatched = dispatched
        self.leftovers: tuple[str, ...] = ()
        self.left = 2  # the barrier and the release


class Supervisor:
    """Brings actors up and deals with their ends; its methods say which worker may call them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._fallen: dict[str, _Fallen] = {}
        self._crashes: dict[str, Intensity] = {}
        # Where a thread's head stood at its last unknown outcome, and how often in a row it stood there.
        self._unknown: dict[str, tuple[int, int]] = {}
        self._own = Intensity(SUPERVISOR_CRASHES_MAX, SUPERVISOR_WINDOW_S)
        self._removals: dict[int, Removal] = {}
        self._sweeping = False

    # Lives

    def activate(self, entry: Entry) -> Callable[[Mail], object] | None:
        """Bring a thread's next incarnation up; on the dispatcher worker. None while the last one is being cleared away."""
        fallen = self._fallen.get(entry.thread_id)
        if fallen is not None and fallen.left:
            return None
        try:
            receiver = self._bring_up(entry, fallen)
        except BaseException as error:
            # What the last life had postponed has nobody else to answer it.
            while fallen is not None and fallen.mails:
                self._answer(entry, fallen.mails.pop(0), error)
            if entry.actor is None:
                self._let_down(entry, error)
            raise
        self._fallen.pop(entry.thread_id, None)
        return receiver

    def _bring_up(self, entry: Entry, fallen: _Fallen | None) -> Callable[[Mail], object]:
        with self._services.store.view() as view:
            buried = fallen is not None and not thread_number(view, entry.thread_id)
            found = None if entry.gone or buried else read_thread(view, entry.number)
            boot_id = self._last_writer(view, found)
        if buried and not entry.gone:
            self._bury(entry)
        refusal: TreadleError | None = entry.quarantine or (None if found is not None else not_found(entry.thread_id))
        if refusal is not None:
            receiver = _refusing(self._services.hub, refusal)
            for mail in fallen.mails if fallen is not None else ():
                receiver(mail)
            return receiver
        assert found is not None
        facts = found[1]
        if self._services.verifier is not None:
            self._services.verifier.loaded(entry.number, facts)
        actor = ThreadActor.launch(entry.mailbox, self._services, entry, facts, self._services.directory.next_life())
        self._services.directory.resident(entry, actor)
        entry.snapshot = at_rest(entry.number, facts)
        if entry.watch is not None and facts.execution_id is None:
            # The last life may have fallen between a commit and showing it.
            self._services.hub.published(entry, None, entry.snapshot, [], 0)
            self._services.hub.flush(entry)
        self._begin(actor, facts, boot_id, fallen)
        return actor.receive

    def _bury(self, entry: Entry) -> None:
        """Go on from a tombstone that the last life left and did not live to act on."""
        entry.gone = True
        fail_waiters(entry, not_found(entry.thread_id))
        self._services.hub.flush(entry)
        self.remove_contents(entry.number)

    def _last_writer(self, view: View, found: tuple[Head, Facts] | None) -> str:
        """Return the id of the boot that wrote a thread's row, as its evidence names it where an execution is settled."""
        boot = self._services.boot
        if found is None or found[1].execution_id is None or found[0].boot == boot.number:
            return boot.id
        return boot_id_of(view, found[0].boot)

    def _begin(self, actor: ThreadActor, facts: Facts, boot_id: str, fallen: _Fallen | None) -> None:
        """Settle what the last life left behind, then let it go on with the mail that waited there."""
        if fallen is not None:
            actor.inherit(fallen.mails)
        ask_again(self._services, actor.entry, facts.execution_id)
        if facts.execution_id is not None:
            actor.state.active = facts.execution_id
            actor.acting.note_loss()
            lost = Lost(
                facts.execution_id,
                boot_id=boot_id,
                cause=fallen.cause if fallen is not None else "process_ended",
                dispatched=fallen.dispatched if fallen is not None else True,
                leftovers=fallen.leftovers if fallen is not None else (),
            )
            actor.take_urgent(lost)
        elif (facts.waiting_messages + facts.waiting_submits or facts.resuming) and not self._services.closing:
            actor.wake()
        actor.go_on()

    def crashed(self, mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        """Deal with what a receiver or an activation raised; the dispatcher's `on_crash`.

        Where dealing with it fails in turn, the thread's next life goes on without it: the store refuses an older life's
        batches all the same. Where that happens too often, the runtime fails closed.
        """
        if isinstance(mail.body, Building) and mail.body.answer.change:
            # It may not have come to publishing it, and every later change would wait for this one.
            self._services.hub.change_published(mail.body.answer.change)
        try:
            self._crashed(mailbox, mail, error)
        except BaseException as failure:  # noqa: BLE001 - it is counted, and the other threads go on
            fallen = self._fallen.pop(mailbox.key, None)
            mailbox.receiver = None
            if mail.reply is not None:
                mail.reply.fail(_crash(mailbox.key, failure))
            entry = self._services.directory.known(mailbox.key)
            if entry is not None:
                self._let_down(entry, failure, fallen)
            self._failed(failure)
            mailbox.wake()

    def _let_down(self, entry: Entry, error: BaseException, fallen: _Fallen | None = None) -> None:
        """Tell those who wait on a thread that has no life: its next one begins when somebody writes to it, if ever."""
        actor = entry.actor
        for mail in (*(fallen.mails if fallen else ()), *((*actor.surrender(), *actor.postponed()) if actor else ())):
            self._answer(entry, mail, error)
        for live in [live for live in list(self._services.running.values()) if live.entry is entry]:
            release(self._services, live.id, write_off(self._services, live), lambda _left: None)
        self._services.directory.dropped(entry)
        entry.shown = None  # first: who finds there an execution as the live one waits for its end
        fail_waiters(entry, _crash(entry.thread_id, error))

    def _failed(self, error: BaseException) -> None:
        logger.error("The supervisor failed", exc_info=error)
        if self._own.exceeded(self._services.clock.monotonic()):
            self._services.closing = True
            self._services.report("supervisor_failed", {"error": error})

    def _crashed(self, mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        entry = self._services.directory.known(mailbox.key)
        actor = entry.actor if entry is not None else None
        if not isinstance(error, Reload):
            logger.error("The actor of thread %s crashed on %r", mailbox.key, mail, exc_info=error)
        if entry is None or actor is None:
            self._activation_failed(entry, mailbox, mail, error)
            return
        in_flight = [taken for taken in actor.surrender() if taken is not mail]
        live = actor.acting.live
        fallen = _Fallen(actor.postponed(), "actor_crashed", dispatched=live is not None)
        actor.acting.drop_timers()
        self._fallen[entry.thread_id] = fallen
        self._services.directory.dropped(entry)
        mailbox.receiver = None
        for taken in (mail, *in_flight):
            self._answer(entry, taken, (isinstance(error, Reload) and error.__cause__) or error)
        self._pause(entry, mail.body, fallen, error)
        self._count(entry, error)
        self._release(entry, live, fallen)
        boot, life = self._services.boot.number, self._services.directory.next_life()
        self._services.store.barrier(entry.number, boot, life, lambda _answer: self._cleared(entry, fallen))

    def _pause(self, entry: Entry, batch: object, fallen: _Fallen, error: BaseException) -> None:
        """Let the next life wait, where the store could not say again what became of a batch at the same place.

        Once is nothing unusual, and the next life reads what is there at once. But a store that never can say would have
        it read, settle and fall without end. What waits for the settling is told that it was tried.
        """
        if not isinstance(error.__cause__, OutcomeUnknown) or not isinstance(batch, Building):
            return
        at = batch.sequence
        before, times = self._unknown.get(entry.thread_id, (at, 0))
        times = times + 1 if at == before else 1
        self._unknown[entry.thread_id] = at, times
        if times == 1:
            return
        fallen.left += 1
        for mail in fallen.mails:
            if isinstance(mail.body, Settled) and mail.reply is not None:
                mail.reply.set(False)
        fallen.mails = [mail for mail in fallen.mails if not isinstance(mail.body, Settled)]
        self._services.timers.after(retry_delay(times - 1), lambda: self._cleared(entry, fallen))

    def _activation_failed(self, entry: Entry | None, mailbox: Mailbox, mail: Mail, error: BaseException) -> None:
        mailbox.receiver = None
        if entry is not None and not isinstance(error, TreadleError):
            self._count(entry, error)
        if mail.reply is not None:
            mail.reply.fail(_crash(mailbox.key, error))
        mailbox.wake()

    def _answer(self, entry: Entry, mail: Mail, error: BaseException) -> None:
        if mail.reply is not None and not isinstance(mail.body, Building):
            mail.reply.fail(_crash(entry.thread_id, error))

    def _count(self, entry: Entry, error: BaseException) -> None:
        """Count a crash; beyond the intensity the thread rests until the store is opened again."""
        if isinstance(error, Reload):
            self._services.report("actor_reloaded", {"thread_id": entry.thread_id, "error": error.__cause__})
            if not isinstance(error.__cause__, AppendConflict):
                return
            # A reload reads the head anew, so a conflict that comes again is a bug, and must not turn for ever.
        else:
            self._services.report("actor_crashed", {"thread_id": entry.thread_id, "error": error})
        crashes = self._crashes.setdefault(entry.thread_id, Intensity(CRASHES_MAX, CRASH_WINDOW_S))
        if not crashes.exceeded(self._services.clock.monotonic()):
            return
        entry.quarantine = ThreadQuarantined(
            f"the actor of thread {entry.thread_id!r} crashed {CRASHES_MAX + 1} times within {CRASH_WINDOW_S:g} s; "
            "it rests until the store is opened again",
            thread_id=entry.thread_id,
        )
        self._services.directory.pin(entry)
        shown = entry.snapshot
        if shown is not None:
            status = shown.status._replace(state="failed", reason="execution_lost", since=self._services.clock.now_us())
            entry.snapshot = shown._replace(status=status, active=None)
            self._services.hub.published(entry, shown, entry.snapshot, [], 0)
            self._services.hub.flush(entry)
        fail_waiters(entry, entry.quarantine)
        self._services.report("thread_quarantined", {"thread_id": entry.thread_id})

    def _release(self, entry: Entry, live: Execution | None, fallen: _Fallen) -> None:
        """Abort the body and close what it owns, as before FINISH; what is left is named in the evidence."""
        owned = None if live is None else write_off(self._services, live)
        if live is None or not owned:
            fallen.left -= 1
            return

        def released(left: tuple[str, ...]) -> None:
            fallen.leftovers = left
            self._cleared(entry, fallen)

        release(self._services, live.id, owned, released)

    def _cleared(self, entry: Entry, fallen: _Fallen) -> None:
        """One of the two things that the next life waits for is done; any worker."""

        def note() -> None:
            fallen.left -= 1
            if not fallen.left:
                # A mail, not a wake: what the last life left has to be settled even if nobody writes to it.
                entry.mailbox.put(Mail(Nothing()), internal=True)
                entry.mailbox.wake()
                for call in self._services.idle_callbacks:
                    call()

        self._services.dispatcher.call(note)

    # Bodies whose loop or worker is gone

    def loop_closed(self, keys: list[str]) -> None:
        """Settle the executions that were lost with their loop; any worker."""
        for key in keys:
            live = self._services.running.get(key)
            if live is not None:
                lost = Lost(key, boot_id=self._services.boot.id, cause="loop_closed", dispatched=True)
                live.entry.mailbox.put(Mail(lost), internal=True)

    # Deleting

    def refuse(self, actor: ThreadActor, error: TreadleError) -> None:
        """Refuse all mail that an actor has not decided, and all that comes to it; on the dispatcher worker."""
        refuse = _refusing(self._services.hub, error)
        actor.mailbox.receiver = refuse
        for mail in actor.postponed():
            refuse(mail)

    def refuse_fallen(self) -> None:
        """Refuse the mail that waits for lives which will not begin any more: the dispatcher has stopped."""
        for thread_id, fallen in list(self._fallen.items()):
            refuse = _refusing(self._services.hub, RuntimeClosed("the runtime is closed", thread_id=thread_id))
            for mail in fallen.mails:
                refuse(mail)

    def remove_contents(self, number: int) -> None:
        """Remove a deleted thread's contents in the background, a thousand rows a batch; any worker."""
        removal = Removal(self._services, number, lambda: self._removals.pop(number, None))
        self._removals[number] = removal
        removal.go_on()

    @property
    def clearing(self) -> bool:
        """Whether a crashed actor is still being cleared away."""
        return any(fallen.left for fallen in list(self._fallen.values()))

    @property
    def removing(self) -> int:
        """How many deleted threads are being removed."""
        return len(self._removals)

    # Sweeping

    def start_sweep(self) -> None:
        """Look, once a second, for lost turns, actors idle too long, and a silent loop."""
        self._sweeping = True
        self._services.timers.after(SWEEP_S, self._sweep)

    def stop_sweep(self) -> None:
        """Sweep no more."""
        self._sweeping = False

    def _sweep(self) -> None:
        if not self._sweeping:
            return
        try:
            self._services.dispatcher.ping()
            self._services.dispatcher.sweep(self._services.directory.mailboxes())
            self._services.directory.passivate_idle()
            self._services.loop.ping()
        except Exception as error:  # noqa: BLE001 - it is counted, and the next sweep comes
            self._failed(error)
        self._services.timers.after(SWEEP_S, self._sweep)


def _crash(thread_id: str, error: BaseException) -> TreadleError:
    if isinstance(error, TreadleError):
        return error.again()
    crash = ThreadActorCrashed(
        f"the actor of thread {thread_id!r} crashed on this call; it may have been written: repeat it with the same id",
        thread_id=thread_id,
    )
    crash.__cause__ = error
    return crash


def _refusing(hub: Hub, error: TreadleError) -> Callable[[Mail | Building], object]:
    """Return what takes the mail of a thread that has no life any more."""

    def refuse(mail: Mail | Building) -> None:
        # The store's answer to the last life comes by itself, or in a mail; nobody else will publish its number.
        about, reply = (mail, None) if isinstance(mail, Building) else (mail.body, mail.reply)
        if isinstance(about, Building) and about.answer.change:
            hub.change_published(about.answer.change)
        elif reply is not None:
            reply.fail(error.again())

    return refuse
