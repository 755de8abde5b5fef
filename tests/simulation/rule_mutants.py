"""Owns the mutants of the lifecycle table and of the rules it names."""

from __future__ import annotations

import copy
from typing import Any

from tests.protocol.states import queue, steer
from tests.protocol.test_recorded import held_at_rest
from treadle.protocol import admission, controls, ending, lifecycle, recorded, refusals, requests, running, starting
from treadle.protocol.decision import Action, Decision, Do, Ending, Phase, State, Verdict
from treadle.protocol.events import (
    ExecutionInterrupted,
    HoldChanged,
    InboxFailed,
    InputQueued,
    MessageAdded,
    MessagesJoined,
    RequestTerminated,
)
from treadle.protocol.facts import Facts
from treadle.protocol.inbox import Row
from treadle.protocol.receipts import ControlReceipt, Disposition, RespondStatus, Withdrawal
from treadle.protocol.triggers import Kind

from .mutant import Mutant, attributes, explored, rules, tested
from .script import LATE, Script

__all__ = ["RULES"]

# Scripts just large enough that each mutant is reached, and reached soon.
_STEER = Script("steer", {"submit": 2, "steer": 1, "interrupt": 1}, ends=("returned", "raised"), asks=("consume",))
_QUEUE = Script("queue", {"submit": 1, "queue": 2, "interrupt": 1, "stop": 1, "resume": 1}, asks=("consume",))
_WAITS = Script("waits", {"submit": 2}, on_busy=("reject", "queue"))
_HELD = Script("held", {"submit": 1, "queue": 1, "stop": 1})
_HOLD = Script("hold", {"submit": 2, "interrupt": 2, "queue": 1, "stop": 1}, on_busy=("reject", "queue"), hold=True)
_FAILS = Script("fails", {"submit": 2, "queue": 1, "interrupt": 1, "refuse": 1})
_FAILS_HELD = Script("fails, held", {"submit": 2, "stop": 1, "refuse": 1}, on_busy=("reject", "queue"))
_CRASH = Script("crash", {"submit": 1, "steer": 1, "crash": 1}, asks=("call",))
_LOSES = Script("loses", {"submit": 1, "steer": 1, "lost": 1, "refuse": 1}, asks=("call",), resumes=True)
_OFTEN = Script("often", {"submit": 1, "queue": 2, "crash": 3})
_TIME = Script("time", {"submit": 1, "interrupt": 1, "deadline": 1, "grace": 1}, ends=("returned", "raised"))
_FIRST = Script("first", {"submit": 3}, on_busy=("reject", "queue", "interrupt"))
_AGAIN = Script("again", {"submit": 1, "repeat": 1}, tracked=frozenset({"submit1"}))
_DEAD = Script(
    "dead", {"submit": 1, "queue": 1, "interrupt": 1, "terminate": 1, "withdraw": 1}, tracked=frozenset({"queue1"})
)
_STEER_ROW = Row(4, "steer", "x", None, 1, 0, 10, False, None)
_ASK = Script("ask", {"submit": 1, "respond": 2, "interrupt": 1, "expire": 1}, asks=("ask",))
_ASK_AND_LOSE = Script("ask and lose", {"submit": 1, "respond": 1, "lost": 1, "crash": 1}, asks=("ask",))
_CALLS = Script("calls", {"submit": 1, "steer": 1}, asks=("call", "result", "ask", "consume"))


def _without(made: Decision, *kinds: type) -> Decision:
    made.events = [event for event in made.events if not isinstance(event, kinds)]
    return made


def _after(rule: Any, change: Any) -> Any:
    """Return a rule that changes what another decided."""

    def changed(state: State, trigger: Any) -> Decision:
        # A copy: decisions that are always the same are one object.
        made = copy.copy(rule(state, trigger))
        made.events = list(made.events)
        change(state, trigger, made)
        return made

    return changed


def _steer_lost(state: State, trigger: Any) -> Decision:
    return running.close(state, running._ending_uninterrupted(trigger))


def _ignored_interrupt(state: State, trigger: Any) -> Decision:
    receipt = ControlReceipt(Disposition.ACCEPTED, None, state.active, state.ownership())
    return Decision(Verdict.REFUSE, state.phase, reply=receipt)


def _run_again(state: State, trigger: Any) -> Decision:
    return Decision(Verdict.DECIDE, Phase.RUNNING, actions=(Do(Action.DISPATCH),))


def _invented_finish(state: State, trigger: Any) -> Decision:
    made = Ending("failed", trigger.now, "HostExecutionLost", "The process died.", "execution_lost")
    state.ending = made
    return ending.finish(state, trigger)


def _record_refusal(state: State, trigger: Any) -> Decision:
    made = copy.copy(admission.submit_running(state, trigger))
    if made.verdict is Verdict.REFUSE:
        made.events = [admission._queued(state, trigger)]
    return made


def _withdraw_anything(state: State, trigger: Any) -> Decision:
    return Decision(Verdict.REFUSE, state.phase, reply=Withdrawal.WITHDRAWN)


def _consumed(made: Decision) -> Decision:
    made.events = [
        event.model_copy(update={"consumed": True, "reason": None}) if isinstance(event, MessagesJoined) else event
        for event in made.events
    ]
    return made


def _told_at_once(state: State, trigger: Any, made: Decision) -> None:
    made.at_once, made.actions = made.actions, ()


def _second_time(state: State, trigger: Any, made: Decision) -> None:
    assert made.ending is not None
    made.ending = made.ending._replace(finished_at=trigger.now)


def _retry_anything(state: State, trigger: Any) -> Decision:
    return ending.finish(state, trigger)


def _succeeded(state: State, trigger: Any) -> Decision:
    return running.close(state, Ending("succeeded", trigger.now, reason="awaiting_human"))


def _not_first(event: InputQueued) -> InputQueued:
    return event.model_copy(update={"first": False})


def _forgetful_advance(state: State, made: Decision, now: int, advance: Any = lifecycle.advance) -> None:
    advance(state, made, now)
    if made.phase is Phase.IDLE:
        state.resumes = False


def _as_pending(rule: Any) -> Any:
    """Return a rule that takes every request for one that is pending."""

    def changed(state: State, trigger: Any) -> Decision:
        trigger.standing = "pending"
        return rule(state, trigger)  # type: ignore[no-any-return]

    return changed


def _settle_only(state: State, trigger: Any, made: Decision) -> None:
    _without(made, MessagesJoined, MessageAdded, RequestTerminated)


def _may_start_held(state: State) -> bool:
    facts = state.facts
    return bool(facts.waiting_messages + facts.waiting_submits) and state.startable and facts.terminated_at is None


def _always_settle(facts: Facts, state: str, reason: str | None, at: int) -> None:
    facts.state, facts.reason, facts.since = state, reason, at


def _any_content(state: State, prior: Any, digest: bytes | None, given_id: str | None) -> Decision | None:
    return None if prior is None else refusals.refuse(state, prior.receipt)


def _no_limit(state: State, records: int, size: int) -> None:
    return None


def _new(trigger: Any) -> Any:
    trigger.standing = None
    return trigger


def _as_message(trigger: Any) -> Any:
    if trigger.row is not None:
        trigger.row = trigger.row._replace(kind="message")
    return trigger


def _attribute(owner: Any, name: str, value: Any) -> Any:
    return lambda: attributes((owner, name, value))


def _rule(kind: Kind, **changes: Any) -> Any:
    return lambda: rules(kind, **changes)


def _drop(kind: type) -> Any:
    return lambda state, trigger, made: _without(made, kind)


def _no_actions(state: State, trigger: Any, made: Decision) -> None:
    made.actions = made.at_once = ()


RULES = [
    Mutant(
        "the fence is off", _attribute(running, "is_fenced", lambda state, execution_id: False), explored(LATE),
        "cannot be",
    ),
    Mutant(
        "a late body may append to the next execution",
        _attribute(running, "is_fenced", lambda state, execution_id: state.phase not in (Phase.RUNNING, Phase.STOPPING)),
        explored(LATE), "nothing a fenced body does has an effect",
    ),
    Mutant(
        "a late body may queue", _attribute(admission, "_is_late", lambda state, execution_id: False), explored(LATE),
        "each input and control is answered as its table says",
    ),
    Mutant(
        "a steer accepted during the last pass is lost", _rule(Kind.BODY_ENDED, running=_steer_lost), explored(_STEER),
        "a steer begins one more pass",
    ),
    Mutant(
        "a hold is lost on interrupt",
        _rule(Kind.INTERRUPT, running=_after(controls.interrupt_running, lambda s, t, made: made.events.__setitem__(
            0, made.events[0].model_copy(update={"hold": False})))),
        explored(_HOLD), "a hold is set and lifted as section 5 says",
    ),
    Mutant(
        "a lost execution is run again", _rule(Kind.LOST, idle=_run_again), explored(_CRASH),
        "a body that does not stop is abandoned",
    ),
    Mutant(
        "a queued message starts a second owner", _rule(Kind.QUEUE, running=admission.queue_at_rest), explored(_QUEUE),
        "never two executions own one thread",
    ),
    Mutant(
        "an interrupt is answered and ignored", _rule(Kind.INTERRUPT, running=_ignored_interrupt), explored(_STEER),
        "the body is told before `accepted` is said",
    ),
    Mutant(
        "a second interrupt is a second interruption", _rule(Kind.INTERRUPT, stopping=controls.interrupt_running),
        explored(_HOLD), "there is one interruption",
    ),
    Mutant(
        "rows start while held", _attribute(ending, "may_start", _may_start_held), explored(_HELD),
        "nothing starts by itself while held",
    ),
    Mutant(
        "joined rows stay on the thread record", _attribute(Facts, "take_rows", lambda facts, rows, **_: None),
        explored(_STEER), "the thread record counts what the tables hold",
    ),
    Mutant(
        "recovery invents a FINISH", _rule(Kind.LOST, idle=_invented_finish), explored(_CRASH),
        "the outcome is that of the table",
    ),
    Mutant(
        "a steer to another id is accepted", _attribute(lifecycle, "classify", lambda state, trigger: trigger.kind),
        explored(_STEER), "each input and control is answered as its table says",
    ),
    Mutant(
        "a refusal is recorded", _rule(Kind.SUBMIT, running=_record_refusal), explored(_STEER),
        "a receipt is recorded if and only if it accepts",
    ),
    Mutant(
        "a waiting submit joins as a message", _attribute(running, "joinable", lambda _state, rows: list(rows)), explored(_WAITS),
        "a boundary takes all that waits for it, and no submit",
    ),
    Mutant(
        "a deadline is passed over", _rule(Kind.DEADLINE, running=lambda s, t: Decision(Verdict.IGNORE, s.phase)),
        explored(_TIME), "a deadline aborts",
    ),
    Mutant(
        "a timed-out execution is cancelled", _attribute(running, "is_deadline", lambda state: False), explored(_TIME),
        "the outcome is that of the table",
    ),
    Mutant(
        "withdraw takes back what was delivered", _rule(Kind.WITHDRAW, running=_withdraw_anything), explored(_DEAD),
        "withdraw tells what became of the input",
    ),
    Mutant(
        "a terminated thread accepts", _attribute(admission, "terminated", lambda state: None), explored(_DEAD),
        "each input and control is answered as its table says",
    ),
    Mutant(
        "a terminated thread's inbox does not fail",
        _rule(Kind.TERMINATE, running=_after(controls.terminate_running, _drop(InboxFailed))), explored(_DEAD),
        "what waits on a terminated thread has failed",
    ),
    Mutant(
        "a repeated FINISH takes the second attempt's time",
        _rule(Kind.FINISH_NOT_WRITTEN, finishing=_after(ending.finish_not_written, _second_time)), explored(_FAILS),
        "every attempt has the first one's",
    ),
    Mutant(
        "a refused FINISH is given up",
        _rule(Kind.FINISH_NOT_WRITTEN, finishing=_after(ending.finish_not_written, _no_actions)), explored(_FAILS),
        "a refused FINISH is tried again",
    ),
    Mutant(
        "any retry hands FINISH over", _rule(Kind.RETRY_DUE, finishing=_retry_anything), explored(_FAILS),
        "FINISH follows the release",
    ),
    Mutant(
        "an unread steer is marked as read",
        _rule(Kind.RELEASED, finishing=_after(ending.finish, lambda s, t, made: _consumed(made))), explored(_STEER),
        "what joins as read is read",
    ),
    Mutant(
        "unread steers vanish with the execution",
        _rule(Kind.RELEASED, finishing=_after(ending.finish, _drop(MessagesJoined))), explored(_STEER),
        "an accepted steer is never lost",
    ),
    Mutant(
        "the body is told before the interrupt is recorded",
        _rule(Kind.INTERRUPT, running=_after(controls.interrupt_running, _told_at_once)), explored(_STEER),
        "an interrupt is recorded before the body is told",
    ),
    Mutant(
        "an interrupt that could not be recorded is forgotten",
        _rule(Kind.INTERRUPTION_NOT_WRITTEN, stopping=ending.refused), explored(_FAILS),
        "the outcome is that of the table",
    ),
    Mutant(
        "FINISH does not carry the interruption that could not be recorded",
        _rule(Kind.RELEASED, finishing=_after(ending.finish, _drop(ExecutionInterrupted))), explored(_FAILS),
        "an interruption is recorded",
    ),
    Mutant(
        "an interrupted body that returns has succeeded", _rule(Kind.BODY_ENDED, stopping=_succeeded), explored(_STEER),
        "the outcome is that of the table",
    ),
    Mutant(
        "an interrupted body gets one more pass", _rule(Kind.BODY_ENDED, stopping=running.body_ended_running),
        explored(_STEER), "the outcome is that of the table",
    ),
    Mutant(
        "an interrupted body may go on reading", _rule(Kind.CONSUME, stopping=running.consume), explored(_STEER),
        "no pass begins after an interrupt",
    ),
    Mutant(
        "a body that does not stop is waited for", _rule(Kind.GRACE_EXPIRED, stopping=lambda s, t: Decision(
            Verdict.IGNORE, s.phase)), explored(LATE), "a body that does not stop is abandoned",
    ),
    Mutant(
        "nothing looks for rows after FINISH",
        _rule(Kind.FINISH_COMMITTED, finishing=_after(ending.finish_committed, _no_actions)), explored(_WAITS),
        "once faults stop every thread comes to rest",
    ),
    Mutant(
        "a START that was not written keeps the slot",
        _rule(Kind.START_NOT_WRITTEN, starting=lambda s, t: Decision(Verdict.DECIDE, s.phase)), explored(_FAILS),
        "STARTING is a batch in flight",
    ),
    Mutant(
        "a START from rows that was not written is not tried again",
        _attribute(ending, "may_start", lambda state: False), explored(_FAILS),
        "once faults stop every thread comes to rest",
    ),
    Mutant(
        "START does not close its batch",
        _rule(Kind.SUBMIT, idle=_after(admission.submit_at_rest, lambda s, t, made: setattr(made, "closes", False))),
        explored(_STEER), "START closes its batch",
    ),
    Mutant(
        "a queued message lifts the hold",
        _rule(Kind.QUEUE, idle=_after(admission.queue_at_rest, lambda s, t, made: made.events.append(
            HoldChanged(held=False, reason=None)))), explored(_QUEUE), "a hold is set and lifted as section 5 says",
    ),
    Mutant(
        "a stored submit does not lift the hold", _attribute(admission, "lift", lambda state: ([], state.unrecorded)),
        explored(_HOLD), "a hold is set and lifted as section 5 says",
    ),
    Mutant(
        "a hold that could not be recorded comes back after it was lifted",
        _attribute(admission, "lift", lambda state: (controls.lift(state)[0], state.unrecorded)),
        explored(_FAILS_HELD), "a hold is set and lifted as section 5 says",
    ),
    Mutant(
        "an interrupting input stands behind the others",
        _rule(Kind.SUBMIT, running=_after(admission.submit_running, lambda s, t, made: setattr(made, "events", [
            _not_first(event) if isinstance(event, InputQueued) else event for event in made.events]))),
        explored(_FIRST), "an interrupting input stands ahead of the others",
    ),
    Mutant(
        "a START from rows takes messages first",
        _attribute(ending, "start_from_rows", lambda state, execution_id, rows, cause: starting.start_from_rows(
            state, execution_id, sorted(rows, key=lambda row: row.kind), cause)),
        explored(Script("mixed", {"submit": 2, "queue": 1, "interrupt": 1}, on_busy=("reject", "queue"))),
        "a START from rows takes the oldest",
    ),
    Mutant(
        "a repeat is judged afresh", _attribute(admission, "repeat", lambda *looked_up: None), explored(_AGAIN),
        "each input and control is answered as its table says",
    ),
    Mutant(
        "a loss leaves steers and calls open", _rule(Kind.LOST, idle=_after(ending.lost_at_rest, _settle_only)),
        explored(_CRASH), "an accepted steer is never lost",
    ),
    Mutant(
        "a thread whose executions are lost again and again goes on",
        _attribute(ending, "LOST_MAX", 99), explored(_OFTEN), "an agent lost again and again is held",
    ),
    Mutant(
        "a run asked for after a loss is forgotten", _attribute(lifecycle, "advance", _forgetful_advance),
        explored(_LOSES), "once faults stop every thread comes to rest",
    ),
    Mutant(
        "rows join while a tool call is open",
        _rule(Kind.CONSUME, running=lambda s, t: Decision(Verdict.DECIDE, s.phase, [MessagesJoined(
            execution_id=s.active, rows=[row.stored() for row in t.rows], consumed=True, reason=None)], (),
            joined=tuple(t.rows)) if t.rows else running.consume(s, t)),
        explored(_CALLS), "rows never join while a call is open",
    ),
    Mutant(
        "the slot is free before FINISH is durable",
        _rule(Kind.RELEASED, finishing=_after(ending.finish, lambda s, t, made: setattr(made, "phase", Phase.IDLE))),
        explored(_STEER), "FINISH is durable before the slot is free",
    ),
    Mutant(
        "a join that was not written begins a pass all the same",
        _rule(Kind.JOIN_NOT_WRITTEN, running=lambda s, t: Decision(
            Verdict.DECIDE, Phase.RUNNING, at_once=(Do(Action.PASS),))),
        explored(Script("join", {"submit": 1, "steer": 1, "refuse": 1})), "a refused join ends the execution",
    ),
    Mutant(
        "a request is answered twice", _rule(Kind.RESPOND, running=_as_pending(requests.respond_running)), explored(_ASK),
        "an answer is told what became of its request",
    ),
    Mutant(
        "an answer is taken after an interrupt", _rule(Kind.RESPOND, stopping=requests.respond_running), explored(_ASK),
        "an answer is told what became of its request",
    ),
    Mutant(
        "an answer is taken after the end of acceptance", _rule(Kind.RESPOND, finishing=requests.respond_running),
        explored(_ASK), "an answer is told what became of its request",
    ),
    Mutant(
        "a request of an execution that is over is answered", _rule(
            Kind.RESPOND, idle=_as_pending(requests.respond_running)), explored(_ASK),
        "an answer is told what became of its request",
    ),
    Mutant(
        "an abandoned request is not found",
        _attribute(requests, "_OVER", {**requests._OVER, "abandoned": RespondStatus.NOT_FOUND}), explored(_ASK_AND_LOSE),
        "an answer is told what became of its request",
    ),
    Mutant(
        "a late answer does not hear of the time", _attribute(
            requests, "_OVER", {**requests._OVER, "expired": RespondStatus.ALREADY_RESOLVED}), explored(_ASK),
        "an answer is told what became of its request",
    ),
    Mutant(
        "an answer is accepted and not recorded",
        _rule(Kind.RESPOND, running=_after(_after(requests.respond_running, _no_actions), _drop(RequestTerminated))),
        explored(_ASK), "a reply rests on what is durable",
    ),
    Mutant(
        "an interrupted body may go on asking", _rule(Kind.REQUEST, stopping=requests.open_request), explored(_ASK),
        "nothing is asked after an interrupt",
    ),
    Mutant(
        "a request's time is passed over",
        _rule(Kind.REQUEST_EXPIRED, running=lambda s, t: Decision(Verdict.IGNORE, s.phase)), explored(_ASK),
        "a request whose time is over expires",
    ),
    Mutant(
        "a request expires though it was answered", _rule(Kind.REQUEST_EXPIRED, running=_as_pending(requests.expire)),
        explored(_ASK), "a request ends once",
    ),
    Mutant(
        "a request expires after an interrupt", _rule(Kind.REQUEST_EXPIRED, stopping=requests.expire), explored(_ASK),
        "a request is answered while its body reads",
    ),
    Mutant(
        "the body has its answer before it is durable",
        _rule(Kind.RESPOND, running=_after(requests.respond_running, _told_at_once)), explored(_ASK),
        "an answer is durable before the body has it",
    ),
    Mutant(
        "the body never hears of its answer",
        _rule(Kind.RESPOND, running=_after(requests.respond_running, _no_actions)), explored(_ASK),
        "a body has what its request came to",
    ),
    Mutant(
        "the body never hears that its time is over",
        _rule(Kind.REQUEST_EXPIRED, running=_after(requests.expire, _no_actions)), explored(_ASK),
        "a body has what its request came to",
    ),
    Mutant(
        "pending requests outlive their execution",
        _rule(Kind.RELEASED, finishing=_after(ending.finish, _drop(RequestTerminated))), explored(_ASK),
        "each pending request is abandoned before the end",
    ),
    Mutant(
        "pending requests outlive the process",
        _rule(Kind.LOST, idle=_after(ending.lost_at_rest, _drop(RequestTerminated))), explored(_ASK_AND_LOSE),
        "each pending request is abandoned before the end",
    ),
    Mutant(
        "an id is used for two requests", _rule(Kind.REQUEST, running=lambda s, t: requests.open_request(s, _new(t))),
        tested("protocol.test_requests", "test_an_id_is_used_for_one_request_in_the_life_of_a_thread", "resolved"),
        "test_an_id_is_used_for_one_request_in_the_life_of_a_thread",
    ),
    Mutant(
        "since moves without a change of the status", _attribute(Facts, "settle", _always_settle),
        tested("protocol.test_facts", "test_since_moves_only_with_state_or_reason"),
        "test_since_moves_only_with_state_or_reason",
    ),
    Mutant(
        "other content under an accepted id gets the first receipt",
        lambda: attributes((admission, "repeat", _any_content), (controls, "repeat", _any_content)),
        tested("protocol.test_controls", "test_a_control_id_with_other_content_is_a_conflict", Phase.RUNNING, steer),
        "test_a_control_id_with_other_content_is_a_conflict",
    ),
    Mutant(
        "any number of steers and calls may be open",
        lambda: attributes(*((module, "refuse_unread", _no_limit) for module in (admission, controls, requests, running))),
        tested("protocol.test_controls", "test_unread_steers_open_calls_and_requests_share_one_limit"),
        "test_unread_steers_open_calls_and_requests_share_one_limit",
    ),
    Mutant(
        "an exception's words reach FINISH as they are",
        _attribute(running, "_text", lambda given, longest, default: given or default),
        tested("protocol.test_running", "test_no_words_of_an_exception_make_finish_impossible", "  ", " ", ("", "")),
        "test_no_words_of_an_exception_make_finish_impossible",
    ),
    Mutant(
        "a steer can be withdrawn",
        _rule(Kind.WITHDRAW, running=lambda s, t: admission.withdraw(s, _as_message(t))),
        tested("protocol.test_admission", "test_withdraw_takes_back_only_what_waits", Phase.RUNNING, _STEER_ROW, True, False, 0,
               Withdrawal.ALREADY_DELIVERED),
        "test_withdraw_takes_back_only_what_waits",
    ),
    Mutant(
        "a receipt read back has lost its hold",
        _attribute(admission, "receipt_of", lambda event, at: recorded.receipt_of(event, at)._replace(held=False)),
        tested("protocol.test_recorded", "test_a_recorded_receipt_equals_the_first_reply", held_at_rest, queue("x")),
        "test_a_recorded_receipt_equals_the_first_reply",
    ),
]  # fmt: skip
