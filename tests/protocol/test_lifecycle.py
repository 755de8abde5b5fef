"""The table is total, each cell does what its kind says, and the page made from it is fresh."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from treadle.protocol import decision as decisions
from treadle.protocol.decision import Batch, Decision, Phase, Refusal, State, Verdict
from treadle.protocol.errors import InternalError
from treadle.protocol.events import MessageAdded
from treadle.protocol.handoffs import ChangeAgent
from treadle.protocol.lifecycle import RULES, TABLE, advance, classify, committed, decide, durable, not_written, rule_of
from treadle.protocol.message_edits import Changes, DeleteMessage, Found, MessageEdit, UpdateMessage
from treadle.protocol.running import fenced, is_fenced
from treadle.protocol.triggers import (
    Answer,
    Append,
    Ask,
    BodyEnded,
    Consume,
    Deadline,
    Delete,
    Expire,
    GraceExpired,
    Inject,
    Interrupt,
    Kind,
    Lost,
    RecordProcess,
    Released,
    Respond,
    Resume,
    RetryDue,
    SetValue,
    Stop,
    Terminate,
    Trigger,
    Wake,
    Withdraw,
)

from .states import Pure, in_phase, queue, row_of, steer, submit, text

BODY = (Kind.APPEND, Kind.CONSUME, Kind.RECORD_PROCESS, Kind.REQUEST, Kind.CHANGE_AGENT)


def inject() -> Inject:
    return Inject(text("i"))


def append() -> Append:
    return Append("e1", MessageAdded(execution_id="e1", message=text("a")), 10)


TRIGGERS: dict[Kind, Callable[[], Trigger]] = {
    Kind.SUBMIT: lambda: submit("s2", "queue"),
    Kind.STEER: steer,
    Kind.CONTROL_OTHER: lambda: steer("c", "e0"),
    Kind.INTERRUPT: lambda: Interrupt("e1", control_id="k", digest=b"k"),
    Kind.QUEUE: queue,
    Kind.STOP: Stop,
    Kind.RESUME: Resume,
    Kind.TERMINATE: Terminate,
    Kind.DELETE: Delete,
    Kind.WITHDRAW: lambda: Withdraw("q"),
    Kind.INJECT: inject,
    Kind.SET_VALUE: lambda: SetValue("k", b"1"),
    Kind.UPDATE_MESSAGE: lambda: UpdateMessage("m", Changes("other")),
    Kind.DELETE_MESSAGE: lambda: DeleteMessage("m"),
    Kind.APPEND: append,
    Kind.CONSUME: lambda: Consume("e1"),
    Kind.RECORD_PROCESS: lambda: RecordProcess("e1", 7, 8),
    Kind.REQUEST: lambda: Ask("e1", "r", "approval", {"of": 1}),
    Kind.RESPOND: lambda: Respond("r", True, True),
    Kind.REQUEST_EXPIRED: lambda: Expire("e1", "r"),
    Kind.CHANGE_AGENT: lambda: ChangeAgent("e1", "b"),
    Kind.BODY_ENDED: lambda: BodyEnded("e1"),
    Kind.DEADLINE: lambda: Deadline("e1"),
    Kind.GRACE_EXPIRED: lambda: GraceExpired("e1"),
    Kind.RELEASED: lambda: Released("e1"),
    Kind.RETRY_DUE: RetryDue,
    Kind.WAKE: Wake,
    Kind.LOST: lambda: Lost("e1", boot_id="b", cause="process", dispatched=True),
    Kind.START_COMMITTED: lambda: committed(Batch.START),
    Kind.START_NOT_WRITTEN: lambda: not_written(Batch.START, "storage_full", "full"),
    Kind.FINISH_COMMITTED: lambda: committed(Batch.FINISH),
    Kind.FINISH_NOT_WRITTEN: lambda: not_written(Batch.FINISH, "storage_full", "full"),
    Kind.INTERRUPTION_COMMITTED: lambda: committed(Batch.INTERRUPTION),
    Kind.INTERRUPTION_NOT_WRITTEN: lambda: not_written(Batch.INTERRUPTION, "storage_full", "full"),
    Kind.JOIN_COMMITTED: lambda: committed(Batch.JOIN),
    Kind.JOIN_NOT_WRITTEN: lambda: not_written(Batch.JOIN, "storage_full", "full"),
    Kind.OTHER_COMMITTED: lambda: committed(Batch.OTHER),
    Kind.OTHER_NOT_WRITTEN: lambda: not_written(Batch.OTHER, "storage_full", "full"),
}


def prepared(phase: Phase, kind: Kind) -> tuple[Pure, Trigger]:
    """Return a thread in a phase and a trigger of a kind, such that the cell's own rule has something to decide."""
    thread = in_phase(phase)
    if kind is Kind.RESUME and phase in (Phase.RUNNING, Phase.STOPPING, Phase.FINISHING):
        thread.state.facts.held = True
    waits = kind in (Kind.WITHDRAW, Kind.CONSUME) and phase is not Phase.STARTING
    if waits or (kind in (Kind.WAKE, Kind.RETRY_DUE) and phase is Phase.IDLE):
        event = thread.judge(queue()).events[0]
        thread.state.facts.fold(event, thread.facts.last_time + 1)
        thread.rows = [row_of(event, thread.facts.sequence)]
    if kind is Kind.LOST and phase is Phase.IDLE:
        running = in_phase(Phase.RUNNING)
        thread.state = decisions.State(running.facts)
        thread.state.active = "e1"
    if kind is Kind.RETRY_DUE and phase is Phase.FINISHING:
        thread.refuse(Released("e1"))
    if kind is Kind.RESUME and phase is Phase.IDLE:
        thread.commit(inject())
    trigger = TRIGGERS[kind]()
    if isinstance(trigger, Withdraw) and thread.rows:
        trigger.row, trigger.known = thread.rows[0], True
    if isinstance(trigger, MessageEdit):
        thread.commit(inject())
        trigger.found = Found(text("i"), [thread.facts.sequence, 0, thread.facts.sequence, 0], lambda draft: draft)  # type: ignore[arg-type,return-value]
    if isinstance(trigger, Respond | Expire):
        trigger.standing = "pending"
    if hasattr(trigger, "rows"):
        trigger.rows = list(thread.rows)
    trigger.now, trigger.new_id = thread.facts.last_time + 1, "e9"
    return thread, trigger


CELLS = [
    pytest.param(phase, kind, id=f"{phase.value}, {kind.value}") for phase, kind in product(Phase, Kind)
]  # fmt: skip


# The table as it was agreed, one letter a phase: decide, refuse, ignore, postpone, X for impossible.
AGREED = {
    Kind.SUBMIT: "DPDDD",
    Kind.STEER: "RPDRR",
    Kind.CONTROL_OTHER: "RPRRR",
    Kind.INTERRUPT: "RPDDR",
    Kind.QUEUE: "DPDDD",
    Kind.STOP: "DPDDD",
    Kind.RESUME: "DPDDD",
    Kind.TERMINATE: "DPDDD",
    Kind.DELETE: "DPRRR",
    Kind.WITHDRAW: "DPDDD",
    Kind.INJECT: "DPDDD",
    Kind.SET_VALUE: "DPDDD",
    Kind.UPDATE_MESSAGE: "DPDDD",
    Kind.DELETE_MESSAGE: "DPDDD",
    Kind.APPEND: "XXDDR",
    Kind.CONSUME: "XXDRR",
    Kind.RECORD_PROCESS: "XXDRR",
    Kind.REQUEST: "XXDRR",
    Kind.RESPOND: "RPDRR",
    Kind.REQUEST_EXPIRED: "IIDII",
    Kind.CHANGE_AGENT: "XXDRR",
    Kind.BODY_ENDED: "XXDDI",
    Kind.DEADLINE: "IIDII",
    Kind.GRACE_EXPIRED: "IIIDI",
    Kind.RELEASED: "IIIID",
    Kind.RETRY_DUE: "DIIID",
    Kind.WAKE: "DIIII",
    Kind.LOST: "DPDDI",
    Kind.START_COMMITTED: "XDXXX",
    Kind.START_NOT_WRITTEN: "XDXXX",
    Kind.FINISH_COMMITTED: "XXXXD",
    Kind.FINISH_NOT_WRITTEN: "XXXXD",
    Kind.INTERRUPTION_COMMITTED: "XXXDD",
    Kind.INTERRUPTION_NOT_WRITTEN: "XXXDD",
    Kind.JOIN_COMMITTED: "XXDXX",
    Kind.JOIN_NOT_WRITTEN: "XXDXX",
    Kind.OTHER_COMMITTED: "DXDDD",
    Kind.OTHER_NOT_WRITTEN: "DXDDD",
}
LETTERS = {
    Verdict.DECIDE: "D", Verdict.REFUSE: "R", Verdict.IGNORE: "I", Verdict.POSTPONE: "P", Verdict.IMPOSSIBLE: "X",
}  # fmt: skip


@pytest.mark.parametrize("kind", Kind)
def test_the_table_is_the_one_that_was_agreed(kind: Kind) -> None:
    assert "".join(LETTERS[TABLE[phase, kind].verdict] for phase in Phase) == AGREED[kind]


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(product(Phase, Kind))
    assert set(TRIGGERS) == set(Kind)


def test_each_cell_has_a_label_and_a_reason_and_a_rule_where_one_decides() -> None:
    assert len({cell.label for cell in TABLE.values()}) == len(TABLE)
    for cell in TABLE.values():
        assert cell.because
        assert (cell.rule is not None) == (cell.verdict in (Verdict.DECIDE, Verdict.REFUSE))


def test_what_decides_in_a_cell_is_its_own_rule_wherever_it_has_one() -> None:
    assert {(phase, kind) for phase, row in RULES.items() for kind in row} == set(TABLE)
    for (phase, kind), cell in TABLE.items():
        assert cell.rule is None or RULES[phase][kind] is cell.rule


def outcome(decide: Callable[[State, Trigger], Decision], state: State, trigger: Trigger) -> list[Any]:
    """Return all that a decision says, or the error that it raises."""
    try:
        made = decide(state, trigger)
    except InternalError as error:
        return [error.message]
    # Errors are made anew each time; what they say is what counts.
    return [
        getattr(value, "message", value)
        for value in (getattr(made, name) for name in type(made).__slots__)
    ]  # fmt: skip


def decide_as_stated(state: State, trigger: Trigger) -> Decision:
    """Ask the fence about every mail, then the table."""
    kind = classify(state, trigger)
    if kind in BODY and is_fenced(state, trigger.execution_id):
        return fenced(state, trigger)
    if kind in (Kind.BODY_ENDED, Kind.RELEASED) and trigger.execution_id != state.active:
        return Decision(Verdict.IGNORE, state.phase)
    return rule_of(TABLE[state.phase, kind])(state, trigger)


@pytest.mark.parametrize(("phase", "kind"), CELLS)
def test_no_mail_passes_the_fence_that_it_would_stop(phase: Phase, kind: Kind) -> None:
    for named in ("e1", "e0", None):
        for lost in (False, True):
            thread, trigger = prepared(phase, kind)
            if lost:
                thread.state.active = "e1"  # at rest too: an earlier life left it behind
            if not isinstance(trigger, Answer):  # which is one object each time, and names none
                trigger.execution_id = named
            if phase is Phase.FINISHING and thread.state.ending is None:
                continue
            assert outcome(decide, thread.state, trigger) == outcome(decide_as_stated, thread.state, trigger)


def advance_as_stated(state: State, made: Decision, now: int) -> None:
    """Move a state as `advance` does, each rule of it by itself."""
    for rank, event in enumerate(made.events):
        state.facts.fold(event, now + rank)
    before, state.phase = state.phase, made.phase
    if made.batch is Batch.START:
        state.active = state.facts.execution_id
    if made.ending is not None:
        state.ending = made.ending
    if made.unrecorded is not None:
        state.unrecorded = made.unrecorded
    if (before, made.phase) == (Phase.STARTING, Phase.RUNNING):
        state.resumes = False
    if made.phase is Phase.IDLE:
        state.active = state.ending = state.unrecorded = None


@pytest.mark.parametrize(("phase", "kind"), CELLS)
def test_advance_moves_a_state_as_is_stated(phase: Phase, kind: Kind) -> None:
    for resumes in (False, True):
        moved = []
        for move in (advance, advance_as_stated):
            thread, trigger = prepared(phase, kind)
            thread.state.resumes = resumes
            try:
                made = decide(thread.state, trigger)
            except InternalError:
                return
            if made.verdict is not Verdict.DECIDE:
                return
            move(thread.state, made, trigger.now)
            live = {name: getattr(thread.state, name) for name in State.__slots__ if name != "facts"}
            moved.append((live, thread.facts.values()))
        assert moved[0] == moved[1]


@pytest.mark.parametrize(("phase", "kind"), CELLS)
def test_each_cell_does_what_its_kind_says(phase: Phase, kind: Kind) -> None:
    thread, trigger = prepared(phase, kind)
    cell = TABLE[phase, kind]
    # Behind the fence an impossible cell is never looked up: such mail does not get that far.
    fenced = phase in (Phase.IDLE, Phase.STARTING) and kind in BODY
    ignored = phase is Phase.IDLE and kind is Kind.BODY_ENDED
    if fenced or ignored:
        made = decide(thread.state, trigger)
        assert (made.verdict, made.reply) == ((Verdict.REFUSE, Refusal.FENCED) if fenced else (Verdict.IGNORE, None))
        return
    if cell.verdict is Verdict.IMPOSSIBLE:
        with pytest.raises(InternalError) as caught:
            decide(thread.state, trigger)
        assert caught.value.details == {"thread_id": "t", "cell": cell.label}
        return

    decision = decide(thread.state, trigger)

    if kind is Kind.CONTROL_OTHER and phase is Phase.IDLE:
        assert classify(thread.state, trigger) is Kind.STEER  # at rest no execution is the other one
    elif kind is not classify(thread.state, trigger):
        # Only a control can be reclassified: in IDLE and STARTING its execution is another one.
        assert classify(thread.state, trigger) is Kind.CONTROL_OTHER
    assert decision.verdict is cell.verdict
    if cell.verdict is not Verdict.DECIDE:
        assert (decision.events, decision.actions, decision.at_once) == ([], (), ())
        assert decision.phase is phase
    assert (decision.reply is not None) <= (cell.verdict in (Verdict.DECIDE, Verdict.REFUSE))


@pytest.mark.parametrize(("phase", "kind"), CELLS)
def test_deciding_changes_nothing_and_is_the_same_each_time(phase: Phase, kind: Kind) -> None:
    thread, trigger = prepared(phase, kind)
    state = thread.state

    def seen() -> list[Any]:
        live = [getattr(state, name) for name in type(state).__slots__ if name != "facts"]
        return [
            *live,
            state.facts.values(),
            dict(state.facts.counts),
            dict(vars(trigger)),
            list(getattr(trigger, "rows", ())),
        ]

    before = seen()
    first = outcome(decide, state, trigger)

    assert seen() == before
    assert outcome(decide, state, trigger) == first
    assert seen() == before


@pytest.mark.parametrize(("phase", "batch"), list(product(Phase, Batch)))
def test_a_durable_batch_is_decided_and_moved_on_as_its_trigger_is(phase: Phase, batch: Batch) -> None:
    def by_trigger(state: State, _batch: Batch) -> Decision:
        decision = decide(state, committed(batch))
        advance(state, decision, 0)
        return decision

    for waits in (False, True):
        seen = []
        for move in (durable, by_trigger):
            thread = in_phase(phase)
            thread.state.resumes = waits
            said = outcome(move, thread.state, batch)  # type: ignore[arg-type]
            seen.append((said, [getattr(thread.state, name) for name in State.__slots__ if name != "facts"]))
        assert seen[0] == seen[1]


def test_a_body_that_is_not_the_live_one_is_fenced_before_the_table() -> None:
    thread = in_phase(Phase.RUNNING)

    for trigger in (
        Append("e0", MessageAdded(execution_id="e0", message=text("a")), 1),
        Consume("e0"),
        RecordProcess("e0", 1, 1),
        Ask("e0", "r", "approval", None),
    ):
        decision = decide(thread.state, trigger)
        assert (decision.verdict, decision.reply, decision.events) == (Verdict.REFUSE, Refusal.FENCED, [])


@pytest.mark.parametrize("phase", Phase)
def test_the_end_of_an_abandoned_body_is_ignored_in_every_phase(phase: Phase) -> None:
    thread = in_phase(phase)

    for trigger in (BodyEnded("e0"), Released("e0")):
        decision = decide(thread.state, trigger)
        assert (decision.verdict, decision.phase) == (Verdict.IGNORE, phase)


@pytest.mark.parametrize("phase", [Phase.RUNNING, Phase.STOPPING, Phase.FINISHING])
@pytest.mark.parametrize(
    "trigger", [Deadline("e0"), GraceExpired("e0"), Lost("e0", boot_id="b", cause="x", dispatched=True)]
)
def test_a_timer_or_a_loss_of_an_earlier_execution_is_ignored(phase: Phase, trigger: Trigger) -> None:
    assert decide(in_phase(phase).state, trigger).verdict is Verdict.IGNORE


def test_a_loss_reported_after_the_execution_is_over_is_ignored() -> None:
    assert decide(in_phase(Phase.IDLE).state, TRIGGERS[Kind.LOST]()).verdict is Verdict.IGNORE


def test_advance_folds_each_event_a_microsecond_later() -> None:
    thread = Pure()
    decision = thread.judge(queue())

    advance(thread.state, decision, 100)

    assert len(decision.events) == 3
    assert (thread.facts.last_time, thread.facts.started_at, thread.facts.sequence) == (102, 101, 4)
    assert (thread.state.phase, thread.state.active) == (Phase.STARTING, "e1")


def test_advance_to_rest_forgets_the_live_execution() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.refuse(Interrupt("e1"))
    thread.take(BodyEnded("e1"))
    thread.commit(Released("e1"))
    state = thread.state

    assert (state.phase, state.active, state.ending, state.unrecorded) == (Phase.IDLE, None, None, None)


def test_what_a_lost_agent_asked_for_outlives_its_settling_and_ends_with_the_next_start() -> None:
    thread = in_phase(Phase.RUNNING)
    thread.take(Lost("e1", boot_id="b", cause="loop_closed", dispatched=True))
    thread.state.resumes = True
    thread.commit(Released("e1"))
    assert thread.state.resumes

    thread.refuse(Wake())
    assert thread.state.resumes

    thread.commit(Wake())
    assert not thread.state.resumes


@pytest.mark.parametrize("batch", Batch)
def test_an_answer_is_a_trigger_that_says_which_batch(batch: Batch) -> None:
    good, bad = committed(batch), not_written(batch, "storage_full", "full")

    assert isinstance(bad, Answer)
    assert good.kind.value.endswith(" committed")
    assert bad.kind.value.endswith(" not written")
    assert good.kind.value.split(" committed")[0] == bad.kind.value.split(" not written")[0]
    assert (bad.error_code, bad.error_message, bad.interruption) == ("storage_full", "full", None)


def test_the_page_of_the_lifecycle_is_fresh() -> None:
    place = Path(__file__).parents[2] / "docs" / "make_lifecycle.py"
    spec = importlib.util.spec_from_file_location("make_lifecycle", place)
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)

    assert maker.PAGE.read_text() == maker.page(), "run `python docs/make_lifecycle.py`"
