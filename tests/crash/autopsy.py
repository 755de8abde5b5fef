"""Owns the look at what a killed process left: the store's own check, then everything promised, over the public API."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.actors import Runtime
from treadle.protocol.errors import InputNotFound, ThreadNotFound, ThreadTerminated
from treadle.storage import LmdbStore
from treadle.storage.check import CheckReport, check, check_tables

from .bodies import quiet_agents
from .victim import THREADS

if TYPE_CHECKING:
    from treadle.actors import Message, Thread
    from treadle.storage import Store

    from .ledger import Ledger, Op

__all__ = ["Findings", "examine", "look_at"]

ACKNOWLEDGED = ("accepted", "queued")
REFUSED = (
    None,
    "storage_full",
    "thread_terminated",
    "thread_not_found",
)  # by a disposition or an error; others may have been written
PATIENCE_S = 60.0  # only a broken runtime makes a look wait this long
REPEATS = 6


class Findings:
    """What one look counted, to be added up over all of them."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def must(self, true: object, promise: str, found: object) -> None:
        """Hold a promise."""
        self.counts["promises looked at"] += 1
        assert true, f"{promise}: {found}"


def look_at(store: Store) -> CheckReport:
    """Check a closed store of any kind."""
    if isinstance(store, LmdbStore):
        return check(store.path)
    store.open()
    try:
        return check_tables(store)
    finally:
        store.close()


def examine(store: Store, ledger: Ledger, findings: Findings, chance: Any) -> None:
    """Open what was left and hold it against what was printed.

    Args:
        store: not open.
        ledger: what was asked of it and answered, over all its lives.
        findings: where to count.
        chance: chooses which calls are repeated.
    """
    left = look_at(store)
    findings.must(left.broken == (), "a killed store is whole", left.broken[:3])
    with Runtime(store, agents=quiet_agents(), drain_timeout=PATIENCE_S) as runtime:
        opened = runtime.opened
        assert opened is not None
        findings.must(set(left.running) == set(opened.settled), "what ran is settled", (left.running, opened))
        findings.must(not (opened.unsettled or opened.unreadable or opened.agent_missing), "all is settled", opened)
        findings.counts["executions settled as lost"] += len(opened.settled)
        _look_at_running(runtime, opened.boot_id, findings)
        threads = [runtime.thread(name) for name in THREADS if ledger.fate(name, "create")]
        for thread in threads:
            _let_waiting_run(thread, findings)
        _take_up_work(threads, findings)
        for thread in threads:
            _look_at_history(thread, ledger, findings)
            _look_at_calls(thread, ledger, findings)
        _look_at_agents(runtime, ledger, findings)
        _look_at_requests(runtime, ledger, findings)
        _look_at_others(runtime, ledger, findings)
        _let_deletions_end(runtime, threads, findings)
        asked = [op for op in ledger.ops.values() if op.thread in THREADS and _repeatable(op)]
        for op in chance.sample(asked, min(REPEATS, len(asked))):
            _repeat(runtime.thread(op.thread), op, findings)
    left = look_at(store)
    findings.must(
        left.broken == () and left.running == () and not left.removing, "a closed store is whole and at rest", left
    )
    for group in ledger.groups:
        findings.must(not _runs(group), "no process outlives its execution", group)
    findings.counts["process groups"] += len(ledger.groups)
    ledger.groups.clear()


def _look_at_running(runtime: Runtime, boot_id: str, findings: Findings) -> None:
    for summary in runtime.threads(state="running", limit=1_000).result().threads:
        live = runtime.thread(summary.id).state().result()
        # What runs now was started by this boot, from rows that waited or by `on_lost`, and is somebody's.
        ours = live.boot_id == boot_id and (live.active_execution is not None or live.status.state != "running")
        findings.must(ours, "no thread is left running", (summary, live))


def _let_waiting_run(thread: Thread, findings: Findings) -> None:
    """What waits on a thread that is not held runs by itself: nothing has to come for it."""
    live = thread.state().result()
    if live.held:
        findings.counts[f"held: {live.hold_reason}"] += 1
        return
    # Watching sends no mail, and so wakes nobody.
    with thread.stream() as stream:
        while thread.state().result().waiting:
            findings.must(stream.next(PATIENCE_S) is not None, "what waits runs after an open", live)
    findings.counts["inputs that ran after an open by themselves"] += live.waiting


def _take_up_work(threads: list[Thread], findings: Findings) -> None:
    """New work is taken at once, and everything that waited comes to its end with it."""
    receipts = []
    for thread in threads:
        busy = thread.state().result()
        receipt = thread.submit("more plain", on_busy="queue").result(PATIENCE_S)
        at_rest = busy.active_execution is None and not busy.waiting
        # An execution that a resuming agent was given may have begun between the look and the call.
        findings.must(receipt.disposition in ACKNOWLEDGED, "new work is accepted", receipt)
        findings.counts["accepted at once at rest"] += at_rest and receipt.disposition == "accepted"
        receipts.append((thread, receipt))
    for thread, receipt in receipts:
        record = thread.wait(receipt).result(PATIENCE_S)
        findings.must(record.status == "succeeded", "new work succeeds", record)
    for thread, _ in receipts:
        while (live := thread.state().result()).active_execution is not None:
            thread.wait(live.active_execution.execution_id).result(PATIENCE_S)
        findings.must(live.waiting == 0, "what waited has run", live)
        findings.must(live.status.state != "running", "no thread stays running", live)


def _look_at_history(thread: Thread, ledger: Ledger, findings: Findings) -> None:
    texts = _history(thread)
    found = Counter(text.partition(" ")[0] for text in texts if not text.startswith("seen "))
    seen = Counter(text.removeprefix("seen ") for text in texts if text.startswith("seen "))
    place = {text.partition(" ")[0]: rank for rank, text in enumerate(texts) if not text.startswith("seen ")}
    mine = [op for op in ledger.inputs() if op.thread == thread.id]
    for op in mine:
        _look_at_input(op, found[op.id], seen[op.id], ledger, findings)
        if op.id in place:
            said, may = texts[place[op.id]], ledger.contents(op)
            findings.must(said in may, "a message is as it was updated last", (op, said, may))
            findings.counts["messages that were updated"] += said != op.text
    for line in (_line(mine, "queue", None), _line(mine, "submit", "queue"), _line(mine, "submit", "interrupt")):
        places = [place[op.id] for op in line if op.id in place]
        findings.must(places == sorted(places), "order is kept within a kind", (thread.id, line))
        findings.counts["in order"] += len(places)


def _look_at_input(op: Op, found: int, seen: int, ledger: Ledger, findings: Findings) -> None:
    findings.must(found <= 1, "nothing joins twice", op)
    findings.must(seen <= 1, "a body sees an input at most once", op)
    if op.verb == "inject":
        erased = ledger.withdrawn(op.id)
        kept = erased is None or not op.answered or op.error is not None or found == (not erased)
        findings.must(kept, "what was injected is there, unless it was deleted", op)
        findings.counts["messages that were deleted"] += bool(erased)
    elif op.disposition in ACKNOWLEDGED:
        withdrawn = ledger.withdrawn(op.id)
        findings.counts["acknowledged inputs"] += 1
        if withdrawn is not None:
            findings.must(found == (0 if withdrawn else 1), "what was acknowledged is in history once", op)
    elif op.answered and op.error in REFUSED:
        findings.must(found == 0, "what was refused is not stored", op)


def _look_at_calls(thread: Thread, ledger: Ledger, findings: Findings) -> None:
    """At rest every call has its one result, whoever made it and whatever became of it."""
    messages = _messages(thread, include_silent=True)
    calls = [call for message in messages for call in json.loads(message.tool_calls or "[]")]
    results = Counter(message.tool_call_id for message in messages if message.role == "tool")
    findings.must(
        results == Counter(call["id"] for call in calls), "a call has one result", (thread.id, calls, results)
    )
    queued = Counter(json.loads(call["function"]["arguments"]).get("of") for call in calls)
    for op in ledger.ops.values():
        if op.verb == "tool" and op.thread == thread.id:
            due = (1, 1) if op.disposition == "queued" else (0, int(not op.answered or op.error not in REFUSED))
            findings.must(due[0] <= queued[op.id] <= due[1], "a queued tool is called once", (op, queued[op.id]))
            findings.counts["queued tools"] += queued[op.id]


def _look_at_agents(runtime: Runtime, ledger: Ledger, findings: Findings) -> None:
    for summary in runtime.threads(limit=1_000).result().threads:
        may = ledger.agents.get(summary.id)
        if may is not None:
            findings.must(summary.agent_id in may, "a thread that was handed over stays so", (summary, may))
            findings.counts["hand-offs that last"] += 1


def _look_at_requests(runtime: Runtime, ledger: Ledger, findings: Findings) -> None:
    """One answer at most is taken, it outlives every death, and nothing that a dead process asked is pending."""
    for asked, name in ledger.requests.items():
        thread, answers = runtime.thread(name), ledger.answers(asked)
        accepted = [op.id for op in answers if op.receipt == "accepted"]
        unsure = [op.id for op in answers if not op.answered or op.error is not None]
        try:
            now = thread.respond(asked, "late").result(PATIENCE_S)
        except ThreadNotFound:
            findings.must(ledger.fate(name, "delete") is not False, "only a deleted thread is gone", (asked, name))
            continue
        findings.must(now != "accepted", "no request of a dead process is pending", (asked, now))
        findings.must(len(accepted) <= 1, "a request is answered once", (asked, answers))
        findings.must(
            not accepted or now == "already_resolved", "an accepted answer is for ever", (asked, answers, now)
        )
        findings.must(now != "already_resolved" or accepted or unsure, "an answer is somebody's", (asked, answers))
        if asked in ledger.got:
            due = ledger.got[asked]
            findings.must(
                now == ("timed_out" if due is None else "already_resolved"), "what a body had stays", (asked, due, now)
            )
            known = due is None or due in accepted or (not accepted and due in unsure)
            findings.must(known, "a body has the answer that was accepted", (asked, due, answers))
        told = {op.receipt for op in answers} - {None, "accepted", "not_found"}
        findings.must(told <= {str(now)} or not told, "what became of a request never changes", (asked, told, now))
        findings.counts[f"requests: {now}"] += 1


def _line(ops: list[Op], verb: str, on_busy: str | None) -> list[Op]:
    """Return the inputs that stood in one line: queued, not started at once."""
    return [
        op for op in ops if op.verb == verb and op.asked.get("on_busy") == on_busy and op.disposition == "queued"
    ]  # fmt: skip


def _history(thread: Thread) -> list[str]:
    return [message.content or "" for message in _messages(thread)]


def _messages(thread: Thread, **options: bool) -> list[Message]:
    found: list[Message] = []
    while True:
        page = thread.messages(limit=1_000, offset=len(found), order="asc", **options).result()
        found += page.messages
        if not page.has_more:
            return found


def _look_at_others(runtime: Runtime, ledger: Ledger, findings: Findings) -> None:
    """Threads that were made to be deleted or terminated."""
    for name in {op.thread for op in ledger.ops.values()} - set(THREADS):
        deleted, terminated = ledger.fate(name, "delete"), ledger.fate(name, "terminate")
        if deleted is None or terminated is None or not ledger.fate(name, "create"):
            continue
        try:
            runtime.thread(name).submit("more").result(PATIENCE_S)
            end = "takes work"
        except ThreadNotFound:
            end = "deleted"
        except ThreadTerminated:
            end = "terminated"
        due = "deleted" if deleted else "terminated" if terminated else "takes work"
        findings.must(end == due, "a thread that was deleted or terminated stays so", (name, end, due))
        findings.counts[end] += 1


def _let_deletions_end(runtime: Runtime, threads: list[Thread], findings: Findings) -> None:
    """Contents of deleted threads go in the background, batch by batch; each look is a commit further."""
    for _ in range(1_000):
        if not runtime._services.supervisor.removing:
            return
        threads[0].set_value("looked", True).result(PATIENCE_S)
    findings.must(False, "deleted contents are removed in the end", runtime.opened)


def _repeatable(op: Op) -> bool:
    return op.disposition in ACKNOWLEDGED and op.verb in ("submit", "queue", "steer", "interrupt")


def _repeat(thread: Thread, op: Op, findings: Findings) -> None:
    """The same call with the same id gets the first receipt, whatever has become of it since."""
    asked = op.asked
    if op.verb == "submit":
        reply: Any = thread.submit(op.text, input_id=op.id, on_busy=asked["on_busy"])
    elif op.verb == "queue":
        reply = thread.queue_message(op.text, input_id=op.id)
    elif op.verb == "steer":
        reply = thread.steer(asked["target"], op.text, control_id=op.id)
    else:
        reply = thread.interrupt(asked["target"], hold=asked["hold"], control_id=op.id)
    try:
        again = json.loads(json.dumps(reply.result(PATIENCE_S)))
    except InputNotFound as error:
        again = error
    # A refusal records nothing, and an interrupt that came too late is a refusal.
    findings.must(again == op.receipt, "a repeat gets the first receipt", (op, again))
    findings.counts["repeats"] += 1


def _runs(group: int) -> bool:
    try:
        stat = Path(f"/proc/{group}/stat").read_text()
    except OSError:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        return True
    # A killed process stays as a zombie until whoever inherited it looks.
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
