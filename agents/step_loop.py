"""Owns the step loop of a declared agent: it looks at each boundary, asks `next_turn`, and does what that says.

One pass is one call of `run_agent`. The order is that of contract F.2. What has arrived joins in one place, `_join`,
before each turn and never between a call and its result; where the loop is to end anyway it stays unread.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NoReturn

from ..actors.failing import ExecutionFailed
from ..actors.fence import ExecutionFenced
from ..actors.reads import execution_page
from ..protocol.errors import TreadleError, Unavailable, kind_of
from ..protocol.messages import draft_message
from ..protocol.open_calls import STOPPED_BY_USER
from .flow import Flow, other_side
from .handler_turns import handler_turn, inbound
from .handoff import take_over
from .queued_tools import is_queued_tool, run_joined_tools, run_queued
from .rows import RUN_FAILED, assistant_row
from .session import Session
from .steps import model_step
from .stop_reasons import end_with
from .telemetry import show
from .thread_state import ThreadState
from .tool_result import failed_result
from .tool_run import uncancel
from .turns import At, Boundary, Force, Next, Over, Row, Steps, Trouble, next_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..actors.execution import Execution
    from ..protocol.messages import Message
    from .agent_definition import Agent
    from .flow import SideName
    from .prompt import Prompt

__all__ = ["TOTAL_STEPS_MAX", "run_agent"]

logger = logging.getLogger("treadle")

TOTAL_STEPS_MAX: Final = 250
"""Model steps of one execution, unless a side's own limit is larger (contract F.3)."""

_JOINS_MAX: Final = 64  # batches that join at one boundary; what still arrives then waits for the next

_RESUMED_MAX: Final = 16  # executions in a row of which each goes on with a lost one

_SESSION_ENDS: Final = frozenset({"max_session_turns"})
_SIDES: Final[tuple[SideName, ...]] = ("a", "b")


async def run_agent(agent: Agent, execution: Execution) -> None:
    """Run one pass of a declared agent; on the loop.

    Args:
        agent: the body that the execution was started with.
        execution: the same in all passes; its flow goes on.

    Raises:
        ExecutionCancelled: interrupted; every call has a result.
        ExecutionFailed: as the stop reason says, or `step_error` with the type of what escaped.
    """
    state = ThreadState.of(execution)
    flow = execution.body_flow
    if not isinstance(flow, Flow):
        flow = execution.body_flow = Flow(execution, agent)
        flow.context = state.context
    loop = _StepLoop(flow, state)
    try:
        await loop.run()
    except ExecutionFenced as error:
        if execution.fenced:
            raise
        await _fail(flow, state, error)
    except asyncio.CancelledError as error:
        if execution.fenced:
            raise
        if not execution.abort_signal.aborted:
            await uncancel(state)  # a model's own: an error like any other
            await _fail(flow, state, error)
        await _say_stopped(execution)
        raise
    except (ExecutionFailed, Unavailable):
        raise  # said already; or the store's, whose code is a stop reason of its own
    except BaseException as error:
        if execution.fenced:
            raise
        if execution.abort_signal.aborted:
            # What a provider or a tool makes of its interruption is the interruption's.
            logger.info("%s of %s ended by %s", execution.id, execution.thread_id, kind_of(error))
            await _say_stopped(execution)
            raise execution.cancelled() from error
        await _fail(flow, state, error)


async def _say_stopped(execution: Execution) -> None:
    """Leave a row that says so where a user stopped the execution (contract F.3)."""
    if execution.abort_signal.source == "user":
        await execution.append(draft_message(execution.new_id(), "system", STOPPED_BY_USER))


async def _fail(flow: Flow, state: ThreadState, error: BaseException) -> NoReturn:
    """Leave a failed row of the acting side, and end the execution as failed, both without secrets."""
    said = state.scene.env.redactor.text(failed_result(error).error or kind_of(error))
    state._note(said, {"error_type": "step_execution_error", "error": kind_of(error)})  # noqa: SLF001
    row = assistant_row(flow, flow.execution.new_id(), RUN_FAILED + said, failed=True)
    try:
        await flow.execution.append(row)
    except TreadleError as refused:
        logger.warning("The failed row of %s is not stored: %s", flow.execution.id, refused.code)
    raise ExecutionFailed(said, error_type=kind_of(error), reason="step_error") from error


class _StepLoop:
    """One pass of the loop."""

    __slots__ = ("_execution", "_flow", "_session", "_spoken", "_state")

    def __init__(self, flow: Flow, state: ThreadState) -> None:
        self._flow = flow
        self._state = state
        self._execution = flow.execution
        self._session = flow.session or Session(flow.execution)
        self._spoken = False  # whether there is anything for a turn to answer

    async def run(self) -> None:
        """Go from boundary to boundary until nothing is next."""
        flow = self._flow
        await self._begin()
        at, over, trouble, looked = At.BEFORE, Over.NO, Trouble.NONE, False
        while True:
            row = next_turn(self._boundary(at, over, trouble))
            if at is At.BEFORE and not looked and row.next not in _WITHOUT_JOINING:
                looked = True
                if await self._join():
                    continue  # what has arrived may change what is next
            if row.next is Next.PARK and flow.tool_queue:
                # Queued by a hook outside of any step, or the turn has none: no later place runs them.
                await run_queued(flow, self._state)
                continue
            if row.counts:
                self._session.count(flow.side)
            over, trouble, looked = Over.NO, Trouble.NONE, False
            if row.next in _ACTS:
                self._session.turn_of(flow.side)
                await self._session.save()
            if row.next is Next.MODEL:
                at = At.MODEL
                prompt = self._prompt()
                step = await model_step(flow, self._state, prompt, await flow.history(prompt))
                over, trouble = step.over, step.trouble
            elif row.next is Next.HANDLER:
                at = At.HANDLER
                await handler_turn(flow, self._state, self._session, inbound(flow, self._session))
            elif row.next in _STAYS:
                at = At.BEFORE
                await self._go_on(row)
            else:
                await self._end(row)
                return

    async def _begin(self) -> None:
        """Take what this pass is called for; the first pass finds the side whose turn it is."""
        flow, session = self._flow, self._session
        messages = self._execution.new_messages
        if flow.session is None:
            await session.follow(flow.agent)
            flow.session = session
            if not messages:
                flow.course.since = _begun(self._execution)
            flow.side = session.side or ("b" if flow.agent.side_a.backing == "human" else "a")
            flow.prompt_path = _root_path(flow)
        self._spoken = False
        await self._take(messages)

    async def _take(self, messages: Sequence[Message], *, decided: bool = False) -> bool:
        """Look at what has joined: it decides whose turn it is, and queued tools run before that.

        Args:
            messages: in order.
            decided: what joined right before has decided it.

        Returns:
            Whether there was a message that decides it.
        """
        flow, session = self._flow, self._session
        joined = await self._state.hook_joined(messages)
        queued = [message for message in joined if is_queued_tool(message)]
        said = [message for message in joined if message.role in ("user", "assistant") and not is_queued_tool(message)]
        for message in said:
            author: SideName = "a" if message.role == "assistant" else "b"
            if flow.side_of(author).backing == "human":
                session.count(author)
        if said:
            if not decided:
                # The first one's role says whose turn it is: the other side's (contract D.4).
                flow.side = "a" if said[0].role == "user" else "b"
            self._spoken = True
        elif not queued:
            self._spoken = True  # a resume, or what has no side: history is to be answered
        if queued:
            await run_joined_tools(flow, self._state, queued)
        return bool(said)

    async def _join(self) -> bool:
        """Let all that has arrived join history, and look at it; say whether there was anything."""
        course = self._flow.course
        any_joined = decided = False
        for _ in range(_JOINS_MAX):
            # One batch at a time, and nothing behind queued tools before these have run.
            joined, course.arrived = course.arrived + await self._execution.consume(), []
            if not joined:
                break
            any_joined = True
            decided = await self._take(joined, decided=decided) or decided
        return any_joined

    def _boundary(self, at: At, over: Over, trouble: Trouble) -> Boundary:
        flow, course = self._flow, self._flow.course
        acting, sibling = flow.acting, flow.sibling
        forced = Force.NONE
        if course.forced is not None:
            forced = Force.OWN if course.forced == flow.side else Force.OTHER
        return Boundary(
            at,
            interrupted=self._execution.abort_signal.aborted,
            handoff=course.handoff is not None,
            session=course.session_end is not None,
            trouble=trouble,
            stopped=flow.stopped,
            forced=forced,
            over=over,
            backing=acting.backing,
            sibling=sibling.backing,
            capped=self._session.capped(flow.agent.max_session_turns, None if at is At.BEFORE else flow.side),
            steps=self._steps(flow.side),
            inbound=acting.backing != "handler" or at is not At.BEFORE or bool(inbound(flow, self._session)),
            spoken=self._spoken,
        )

    def _steps(self, name: SideName) -> Steps:
        flow = self._flow
        own = flow.side_of(name).max_steps
        if own is not None and flow.side_steps[name] >= own:
            return Steps.SIDE
        most = max(TOTAL_STEPS_MAX, flow.agent.side_a.max_steps or 0, flow.agent.side_b.max_steps or 0)
        return Steps.TOTAL if flow.step_count >= most else Steps.FREE

    def _limit(self) -> str | None:
        """Return the limit that leaves no step for what arrives from now on; it is the next execution's to read."""
        for name in _SIDES:
            if self._flow.side_of(name).backing == "prompt":
                steps = self._steps(name)
                if steps is not Steps.FREE:
                    return "max_side_steps" if steps is Steps.SIDE else "max_total_steps"
        return None

    def _prompt(self) -> Prompt:
        flow = self._flow
        given = flow.acting.prompt
        assert given is not None, flow.acting
        prompt = flow.agent.definitions.prompt(given) if isinstance(given, str) else given
        flow.prompt_path = [prompt.name]
        return prompt

    async def _go_on(self, row: Row) -> None:
        flow = self._flow
        if row.next is Next.HANDOFF:
            await take_over(flow, self._state, self._session)
            flow.prompt_path = _root_path(flow)
        else:
            flow.take_forced()
            if row.next is Next.SWITCH:
                flow.side = other_side(flow.side)
        self._spoken = True

    async def _end(self, row: Row) -> None:
        flow, session = self._flow, self._session
        if row.next is Next.CANCEL:
            raise self._execution.cancelled()
        reason = row.reason or ""
        if flow.course.session_end is not None and row.next is Next.END and not row.reason:
            reason = flow.course.session_end.reason
            session.reset()
        elif reason in _SESSION_ENDS:
            session.reset()
        else:
            session.turn_of(None)
        flow.take_forced()
        await session.save()
        show(flow, "stopped", reason=reason, side=flow.side)
        end_with(self._execution, reason, limit=self._limit() if row.next is Next.PARK else None)


_WITHOUT_JOINING: Final = frozenset({Next.END, Next.FAIL, Next.CANCEL, Next.HANDOFF})
_ACTS: Final = frozenset({Next.MODEL, Next.HANDLER})
_STAYS: Final = frozenset({Next.AGAIN, Next.SWITCH, Next.HANDOFF})


def _begun(execution: Execution) -> int:
    """Return when the execution began that this one goes on with after a loss: what was called there must not be again."""
    since = execution.started_at
    for record in execution_page(execution.services, execution.entry, limit=_RESUMED_MAX).executions:
        since = min(since, record.started_at)
        if record.cause != "recovery":
            break
    return since


def _root_path(flow: Flow) -> list[str]:
    """Return the path before any step: side A's prompt, else side B's, else none (contract B)."""
    for side in (flow.agent.side_a, flow.agent.side_b):
        if side.prompt is not None:
            return [side.prompt if isinstance(side.prompt, str) else side.prompt.name]
    return []
