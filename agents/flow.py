"""Owns `Flow`, what the loop of one execution remembers between its steps. Never durable, and decides nothing.

One execution has one root flow, for all of its passes. A sub-prompt gets a child with counters and a path of its own;
what ends or turns the whole loop (a stop, a forced turn, a handoff, the end of the session) is kept on the root.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple

from .transcript import Transcript

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..actors.execution import Execution
    from ..actors.reply import Reply
    from ..protocol.messages import Message
    from ..protocol.values import JsonObject, Value
    from .agent_definition import Agent
    from .prompt import Prompt
    from .session import Session
    from .side import Side
    from .tool import Tool

__all__ = ["Course", "Flow", "Handoff", "QueuedTool", "SessionEnd", "SideName", "current_flow", "flow_of", "other_side"]

SideName = Literal["a", "b"]

REPEATS_MAX = 8
"""So many equal tool errors in a row end the execution (contract F.3)."""


class QueuedTool(NamedTuple):
    """A call that a tool asked for, to be run after the calls of this step."""

    call_id: str
    name: str
    arguments: JsonObject


class Handoff(NamedTuple):
    """The agent that takes over after this step's tools; `message` is stored as the user's where there is one."""

    agent: str
    arguments: JsonObject
    message: str | None = None


class SessionEnd(NamedTuple):
    """That the session ends after the current operation: its stop code, what it came to, and the label it leaves."""

    reason: str
    result: str | None = None
    status: str | None = None


class Course:
    """Where the whole loop is to go after the current operation: one for a root flow and all of its sub-prompts."""

    __slots__ = (
        "arrived", "forced", "handoff", "open_calls", "session_end", "since", "stopped_by", "sub_prompts", "transcript",
    )  # fmt: skip

    def __init__(self, execution: Execution) -> None:
        self.transcript = Transcript(execution.history)
        self.arrived: list[Message] = []  # joined, and not looked at by the loop yet
        self.since: int | None = None  # when the lost execution began that this one goes on with
        self.forced: SideName | None = None
        self.handoff: Handoff | None = None
        self.session_end: SessionEnd | None = None
        self.stopped_by: SideName | None = None
        self.open_calls: set[str] = set()  # ids in use, at every depth: a further call must have another one
        self.sub_prompts = 0  # model requests of sub-prompts so far


class Flow:
    """Where the loop of one execution stands.

    Attributes:
        agent: whose sides act; another one after a handoff.
        side: the acting side.
        step_count: model steps so far; `side_steps` by side. Handler turns count none.
        prompt_path: prompt names from the root to the current one.
        prompt: the prompt that is being run; None in a handler's turn.
        parent: the flow that called this sub-prompt; None for the root. `depth` is 0 there.
        parent_message_id: the row whose call runs this sub-prompt; in a handler's turn the message that it answers.
        arguments: what a sub-prompt was called with; empty at the root.
        context: the scratch space of the execution, `ThreadState.context`; shared with sub-prompts.
        tool_queue: calls that tools asked for with `queue_tool`, for the end of this step.
        caller: the tool that runs now, whose `uses` bounds what it may queue or invoke.
        session: the counters of the session; None before the first pass has read them.
        running: the tool that a worker runs for this step.
        recent_errors: normalised errors of the last tool results at this depth, None for a success.
        course: what ends or turns the whole loop; the same object in every flow of an execution.
    """

    __slots__ = (
        "agent", "arguments", "caller", "context", "course", "depth", "execution", "message_id", "parent",
        "parent_message_id", "prompt", "prompt_path", "recent_errors", "running", "session", "side", "side_steps", "step_count",
        "tool_queue",
    )  # fmt: skip

    def __init__(self, execution: Execution, agent: Agent, *, side: SideName = "a", parent: Flow | None = None) -> None:
        self.execution = execution
        self.agent = agent
        self.side: SideName = side
        self.parent = parent
        self.course: Course = Course(execution) if parent is None else parent.course
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.step_count = 0
        self.side_steps: dict[SideName, int] = {"a": 0, "b": 0}
        self.prompt: Prompt | None = None
        self.prompt_path: list[str] = [] if parent is None else list(parent.prompt_path)
        self.parent_message_id: str | None = None
        self.message_id: str | None = None  # the row whose calls run, or that a handler is called with
        self.arguments: Mapping[str, Value] = {}
        self.context: JsonObject = {} if parent is None else parent.context
        self.tool_queue: list[QueuedTool] = []
        self.caller: Tool | None = None
        self.running: Reply[object] | None = None
        self.recent_errors: deque[str | None] = deque(maxlen=REPEATS_MAX)
        self.session: Session | None = None if parent is None else parent.session

    @property
    def acting(self) -> Side:
        """The definition of the acting side."""
        return self.agent.side_a if self.side == "a" else self.agent.side_b

    @property
    def sibling(self) -> Side:
        """The definition of the other side."""
        return self.agent.side_b if self.side == "a" else self.agent.side_a

    def side_of(self, name: SideName) -> Side:
        """Return the definition of a side."""
        return self.agent.side_a if name == "a" else self.agent.side_b

    @property
    def stopped(self) -> bool:
        """Whether `stop()` was called and no forced turn took it back."""
        return self.course.stopped_by is not None

    @property
    def stopped_by(self) -> SideName | None:
        """The side that acted when the loop was stopped."""
        return self.course.stopped_by

    @property
    def forced(self) -> SideName | None:
        """The side that a tool, hook or handler chose for the next turn."""
        return self.course.forced

    @property
    def handoff(self) -> Handoff | None:
        """The agent that is to take over."""
        return self.course.handoff

    @property
    def session_end(self) -> SessionEnd | None:
        """That the session is to end; the first call counts."""
        return self.course.session_end

    async def history(self, prompt: Prompt) -> Sequence[Message]:
        """Return the stored messages that a request of a prompt is made of; reads what is new since the last step."""
        return await self.course.transcript.messages(prompt.history_limit)

    def stop(self) -> None:
        """End the loop after the current operation; the calls of this step that have not run get error results."""
        self.course.stopped_by = self.side

    def force_turn(self, side: SideName) -> None:
        """Choose the side of the next turn; takes an earlier `stop()` back."""
        self.course.forced = side
        self.course.stopped_by = None

    def hand_off(self, handoff: Handoff) -> None:
        """Let another agent take over after this step's tools; the last one asked for counts."""
        self.course.handoff = handoff

    def end_session(self, end: SessionEnd) -> None:
        """End the whole session after the current operation, also from a sub-prompt; the first one counts."""
        if self.course.session_end is None:
            self.course.session_end = end

    def take_forced(self) -> SideName | None:
        """Return the forced side and forget it: a force is used once."""
        forced, self.course.forced = self.course.forced, None
        return forced

    def take_handoff(self) -> Handoff | None:
        """Return the pending handoff and forget it."""
        handoff, self.course.handoff = self.course.handoff, None
        return handoff

    def child(self, prompt: Prompt, arguments: Mapping[str, Value]) -> Flow:
        """Return the flow of a sub-prompt that a call of the current step runs."""
        made = Flow(self.execution, self.agent, side=self.side, parent=self)
        made.prompt = prompt
        made.prompt_path.append(prompt.name)
        made.arguments = arguments
        made.parent_message_id = self.message_id
        return made

    def __repr__(self) -> str:
        return f"<Flow of {self.execution.id}: side {self.side}, step {self.step_count}, depth {self.depth}>"


current_flow: ContextVar[Flow | None] = ContextVar("current_flow", default=None)
"""The flow of the sub-prompt that code runs in; None at the root, whose flow the execution holds."""


def flow_of(execution: Execution) -> Flow | None:
    """Return the flow that calling code belongs to: its sub-prompt's, else the execution's own; None before the first pass."""
    flow = current_flow.get()
    if flow is not None and flow.execution is execution:
        return flow
    own = execution.body_flow
    return own if isinstance(own, Flow) else None


def other_side(side: SideName) -> SideName:
    """Return the other side's name."""
    return "b" if side == "a" else "a"
