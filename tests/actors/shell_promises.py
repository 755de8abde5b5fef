"""Owns what the shell around the rules promises, each as a check on a real runtime; the shell's mutants break one each.

The rules are pure and are explored elsewhere. What is left to the shell is order: what is durable before what is shown,
said, dispatched and told; and that nothing of a batch that was not written, or of a life that is over, has an effect.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.mutant import attributes
from treadle.actors import ExecutionCancelled, Reply
from treadle.actors.hub import Hub
from treadle.actors.mailbox import Mail
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.receipts import RespondStatus
from treadle.protocol.triggers import SetValue
from treadle.storage.codec import pack
from treadle.storage.lmdb_store import LmdbStore
from treadle.storage.reading import read_journal, read_thread

Promise = Callable[[], None]


def enter(puppet: Puppet) -> Stage:
    """Enter a stage as every test of the actors does: with each free thread dropped and reloaded where the run says so."""
    return Stage(puppet, always_evict=getattr(pytest, "always_evict", False)).__enter__()


def journal(on: Stage) -> list[str]:
    """Return the types of all durable events of the only thread."""
    with on.store.view() as view:
        found = read_thread(view, 1)
        assert found is not None
        return [entry.event.type for entry in read_journal(view, 1, 1, 0, found[0].sequence, 1_000)]


def turns(on: Stage) -> None:
    while on.turn():
        pass


def a_reply_follows_its_commit() -> None:
    with enter(Puppet()) as on:
        thread = on.thread()
        replies = [thread.submit("go", input_id="i")]
        turns(on)
        replies += [thread.inject_message("user", "x"), thread.queue_message("y")]
        turns(on)
        while on.store.pending():
            assert not any(reply.done() for reply in replies), "a reply came before its commit"
            on.commit()
            turns(on)
            replies = [reply for reply in replies if not reply.done()]
        assert not replies


def nothing_is_shown_before_its_commit() -> None:
    with enter(Puppet()) as on:
        thread = on.thread()
        with thread.stream() as stream:
            stream.next(0)
            thread.submit("go")
            turns(on)
            assert _frames(stream) == [], "a frame came before its commit"
            assert thread.status().result().state == "idle", "a status showed before its commit"
            on.commit()
            turns(on)

            assert _frames(stream) == ["THREAD_EXECUTION_STARTED", "thread_status"]
            assert thread.status().result().state == "running"


def _frames(stream: Any) -> list[str]:
    found = []
    while True:
        try:
            found.append(stream.next(0)["type"])
        except TimeoutError:
            return found


def what_is_shown_is_folded() -> None:
    """Whoever sees START finds its owner, whoever sees its end finds the slot free (scenario 19)."""
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        seen: list[tuple[str, bool]] = []
        with thread.stream() as stream:
            stream.next(0)
            real = Hub.published

            def published(hub: Hub, entry: Any, before: Any, snapshot: Any, events: Any, change: int = 0) -> None:
                seen.append((snapshot.status.state, snapshot.active is not None))
                real(hub, entry, before, snapshot, events, change)

            with attributes((Hub, "published", published)):
                on.ask(thread.submit("go"))
                on.settle()
                puppet.returns()
                on.settle()
        assert seen
        assert all((state == "running") == owned for state, owned in seen), f"shown before it was folded: {seen}"


def who_is_answered_finds_it_shown() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        found: list[object] = []
        submitted = thread.submit("go")
        submitted.add_done_callback(lambda _: found.append(thread.status().result().state))
        on.settle()
        injected = thread.inject_message("user", "x")
        injected.add_done_callback(lambda _: found.append(thread.state().result().cursor.sequence))
        on.settle()
        waited = thread.wait(submitted.result())
        waited.add_done_callback(lambda _: found.append(thread.status().result().state))
        puppet.returns()
        on.settle()

        assert found == ["running", 3, "idle"], f"an answer came before what it speaks of was shown: {found}"


def the_body_is_called_after_its_start() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        thread.submit("go")
        on.act()
        assert puppet.passes == [], "the body was called before its START was durable"
        on.commit()
        on.act()
        assert len(puppet.passes) == 1


def the_body_is_told_in_its_turn() -> None:
    puppet = Puppet(obeys=False)
    with enter(puppet) as on:
        thread = on.thread()
        receipt = on.ask(thread.submit("go"))
        on.settle()
        signal = puppet.execution.abort_signal
        assert receipt.execution_id is not None
        reply = thread.interrupt(receipt.execution_id)
        told_first: list[bool] = []
        reply.add_done_callback(lambda _: told_first.append(signal.aborted))
        turns(on)
        assert not signal.aborted, "the body was told before the record was durable"
        on.settle()
        assert told_first == [True], "accepted was said before the body was told"
        puppet.returns()
        on.settle()


def the_body_is_answered_in_turn() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        on.ask(thread.submit("go"))
        on.settle()
        waits: Reply[Any] = puppet.execution.request("approval", request_id="r")
        on.settle()
        said = thread.respond("r", 1)
        had: list[bool] = []
        said.add_done_callback(lambda _: had.append(waits.done()))
        turns(on)
        assert not waits.done(), "the body had its answer before it was durable"
        on.settle()
        assert had == [True], "accepted was said before the body had its answer"
        puppet.returns()
        on.settle()


def a_request_is_answered_once() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        on.ask(thread.submit("go"))
        on.settle()
        puppet.execution.request("approval", request_id="r")
        on.settle()
        thread.set_value("k", 1)  # a batch in flight, so that both answers are decided into the next one
        turns(on)
        said = [thread.respond("r", value) for value in (1, 2)]
        on.settle()
        accepted = [reply.result(1) for reply in said if reply.error() is None].count(RespondStatus.ACCEPTED)
        assert accepted == 1, f"{accepted} answers were accepted"
        puppet.returns()
        on.settle()


def nothing_begins_after_an_accepted_interrupt() -> None:
    puppet = Puppet(obeys=False)
    with enter(puppet) as on:
        thread = on.thread()
        receipt = on.ask(thread.submit("go"))
        on.settle()
        puppet.execution.begin("model_request")
        assert receipt.execution_id is not None
        on.ask(thread.interrupt(receipt.execution_id))
        try:
            puppet.execution.begin("model_request")
        except ExecutionCancelled:
            puppet.returns()
            on.settle()
        else:
            raise AssertionError("something began after an accepted interrupt")


def an_older_life_writes_nothing() -> None:
    with enter(Puppet()) as on:
        thread = on.thread()
        on.ask(thread.queue_message("held back by nothing"))
        on.settle()
        entry = on.services.directory.entry(thread.id)
        older = entry.actor
        assert older is not None

        class Bug(Exception):
            """What ends the older life."""

        def crash(_mail: Mail) -> None:
            raise Bug

        entry.mailbox.receiver = crash
        thread.set_value("k", 1)
        on.settle()
        on.reports.clear()
        before = journal(on)
        # Beside its mailbox, as one that does not know yet that it is over.
        older.state.facts = _facts(on)
        older.on_receive(Mail(SetValue("k", pack(2))))
        on.commit()

        assert journal(on) == before, "an incarnation that was replaced has written"


def _facts(on: Stage) -> Any:
    with on.store.view() as view:
        found = read_thread(view, 1)
    assert found is not None
    return found[1]


def a_refused_finish_is_built_anew() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        receipt = on.ask(thread.submit("go"))
        on.settle()
        puppet.returns()
        on.act()
        on.refuse()
        on.act()
        on.ask(thread.inject_message("user", "between two attempts"))
        on.advance(1)
        on.settle()
        assert receipt.execution_id is not None
        record = thread.execution(receipt.execution_id).result()

        assert record.status == "succeeded", f"the retried FINISH did not fit any more: {record.status}"
        assert journal(on).count("THREAD_EXECUTION_FINISHED") == 1


def a_refusal_is_not_remembered() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        on.ask(thread.submit("go"))
        on.settle()
        assert on.ask(thread.submit("again", input_id="i")).disposition == "busy"
        puppet.returns()
        on.settle()
        answer = on.ask(thread.submit("again", input_id="i"))

        assert answer.disposition == "accepted", f"a refusal was remembered: {answer.disposition}"


def what_waited_starts_at_the_next_open() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        on.ask(thread.submit("go"))
        on.ask(thread.submit("next", on_busy="queue"))
        on.settle()
        puppet.returns()
        on.act()
        on.commit()  # FINISH is durable, and the process dies before the next START
        on.kill()
        on.reopen()
        on.settle()

        assert puppet.texts == ["go", "next"], f"what waited did not start: {puppet.texts}"


def what_joined_never_joins_again() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        on.ask(thread.submit("go"))
        for text in ("a", "b"):
            on.ask(thread.queue_message(text))
            puppet.returns()
            on.settle()

        assert puppet.texts == ["go", "a", "b"], f"a joined row joined again: {puppet.texts}"


def what_was_refused_is_taken_back() -> None:
    puppet = Puppet()
    with enter(puppet) as on:
        thread = on.thread()
        on.ask(thread.submit("go"))
        on.settle()
        refused = thread.queue_message("refused", input_id="i")
        turns(on)
        on.refuse()
        on.act()
        refused.error()
        live = on.services.directory.entry(thread.id).actor
        assert live is not None
        assert live.state.facts.values() == _facts(on).values(), "facts of a refused batch were kept"


def a_commit_is_synced() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = LmdbStore(Path(folder))
        store.open()
        try:
            assert store._environment is not None
            flags = store._environment.env.flags()
        finally:
            store.close()

        assert flags["sync"], "a commit is answered before it is synced"


PROMISES: list[Promise] = [
    a_reply_follows_its_commit,
    nothing_is_shown_before_its_commit,
    what_is_shown_is_folded,
    who_is_answered_finds_it_shown,
    the_body_is_called_after_its_start,
    the_body_is_told_in_its_turn,
    the_body_is_answered_in_turn,
    a_request_is_answered_once,
    nothing_begins_after_an_accepted_interrupt,
    an_older_life_writes_nothing,
    a_refused_finish_is_built_anew,
    a_refusal_is_not_remembered,
    what_waited_starts_at_the_next_open,
    what_joined_never_joins_again,
    what_was_refused_is_taken_back,
    a_commit_is_synced,
]
