"""Owns `replay`: a recorded thread's inputs against an agent, its models saying what they said. Compares, and judges no text."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from ...actors.handle import Thread
from ...actors.runtime import Runtime
from ...storage.memory_store import MemoryStore
from ..agent_definition import Agent
from ..model_calls import CALL_BYTES_MAX, INVALID_RESPONSE, SURPLUS
from ..models.errors import ModelError
from ..models.seam import ModelRequest, ModelResponse, ToolCall
from ..rows import RUN_FAILED
from .recording import Recording
from .resting import GUARD_S, settle
from .scripted_model import ScriptedModel
from .swapping import agents_of, with_model

if TYPE_CHECKING:
    from ...actors.execution import Execution
    from ...actors.reply import Reply
    from ...actors.services import Body
    from ...actors.subscription import EventSubscription
    from ...protocol.receipts import ControlReceipt
    from ...protocol.values import JsonObject
    from ..environment import Environment
    from .recording import Act, Run

__all__ = ["Difference", "replay"]

Same: TypeAlias = Callable[["JsonObject", "JsonObject"], bool]

_INPUT: Final = ("role", "content", "silent", "metadata", "attachments")
_RESTS: Final = frozenset({"pending", "abandoned"})  # of requests that a cut left without an answer


class Difference(NamedTuple):
    """The first place where a replay is not as recorded.

    Attributes:
        run: the execution, by rank.
        row: the place among what joined history in it, by rank; behind the last row it is the end.
        recorded: what stands there, None where nothing does; `replayed` likewise.
    """

    run: int
    row: int
    recorded: object
    replayed: object

    def __str__(self) -> str:
        return f"execution {self.run}, row {self.row}: recorded {self.recorded!r}, replayed {self.replayed!r}"


def replay(
    recorded: Thread | Recording, agents: Agent | Sequence[Body], *, env: Mapping[str, str] | None = None,
    environment: Environment | None = None, same: Same | None = None, guard: float = GUARD_S,
) -> Difference | None:  # fmt: skip
    """Play a thread again in memory, against agents as they are now, and return the first difference.

    Inputs, steers, queued messages and answers to requests come when they came; what models said is said again, and the
    tools, hooks and handlers of the agents run for real. Executions that were interrupted or lost are interrupted in the
    same step, and compared up to there. What was withdrawn never comes. A model says what was stored of what it said, so
    a `before_create_message` hook that would change its own work again shows as a difference. Not played: edits of
    messages and values set from outside. Blocks; never on an event loop.

    Args:
        recorded: a thread of an open runtime, or what was recorded of one.
        agents: what hosts the thread; the models of declared ones are not asked.
        env: variables of the thread, which no recording has.
        environment: in the place of the agents' own.
        same: says whether two rows are the same though they differ, by a date in a text for one.
        guard: real seconds for each input to come to rest.

    Returns:
        None where everything is the same.

    Raises:
        AssertionError: it does not come to rest.
        InvalidInput: the recording has no thread.
    """
    recording = Recording.of(recorded) if isinstance(recorded, Thread) else recorded
    playing = _Playing(recording, same or (lambda _recorded, _replayed: False), guard)
    model = ScriptedModel(otherwise=playing.respond, name="recorded")
    bodies = _with_models([agents] if isinstance(agents, Agent) else list(agents), model, environment)
    for body in bodies:
        _begin_with(body, playing.begin)
    with Runtime(MemoryStore(), agents=bodies) as runtime:
        created = recording.created
        thread = runtime.create_thread(
            created["agent_id"], user_id=created["user_id"], arguments=created["arguments"], tags=created["tags"],
            env=None if env is None else dict(env),
        ).result(guard)  # fmt: skip
        return playing.run(thread)


def _with_models(given: Sequence[Body], model: ScriptedModel, environment: Environment | None) -> list[Body]:
    bodies: list[Body] = []
    known: list[object] = []
    for body in given:
        if not isinstance(body, Agent):
            bodies.append(body)
        elif body.definitions not in known:
            known.append(body.definitions)
            bodies += agents_of(with_model(body, model, environment=environment).definitions)
    return bodies


def _begin_with(body: Body, begin: Callable[[Execution], Awaitable[None]]) -> None:
    """Have a copy of a declared agent wait for something before each of its passes."""
    if not isinstance(body, Agent):
        return
    run = body.run

    async def begun(execution: Execution, /) -> None:
        await begin(execution)
        await run(execution)

    object.__setattr__(body, "run", begun)  # of this copy alone, which nobody else has


class _Playing:
    """One replay: the recording, and beside it what the new thread's journal says so far."""

    def __init__(self, recording: Recording, same: Same, guard: float) -> None:
        self._recorded = recording
        self._played = Recording()
        self._same = same
        self._guard = guard
        self._lock = threading.Lock()
        self._compared = 0
        self._thread: Thread
        self._events: EventSubscription

    def run(self, thread: Thread) -> Difference | None:
        self._thread = thread
        self._events = thread.events()
        for act in self._recorded.acts:
            if act.run is not None:
                continue  # its execution hears of it when it runs
            found = self._play(act)
            if found is not None:
                return found
        return self._compare(max(len(self._recorded.runs), len(self._look().runs)))

    def _play(self, act: Act) -> Difference | None:
        """Do what came at rest, and what came while an agent without a model closed, which nobody here hears of."""
        following: Act | None = act
        while following is not None:
            self._do(following).result(self._guard)
            settle(self._thread, self._answer, self._guard)
            runs = len(self._look().runs)
            found = self._compare(runs)
            if found is not None:
                return found
            following = next(iter(self._coming(runs - 1)), None)
        return None

    async def begin(self, execution: Execution) -> None:
        """Let come what joined before any model was asked, and at its end what came while it closed; on the loop."""
        rank, _run = self._now()
        if execution.passes == 1:
            execution.own(_Closing(self, rank))  # the first owned is closed last
        for act in self._coming(rank):
            if act.run == rank and act.at < 0:
                await self._do(act)

    def close(self, rank: int) -> None:
        """Let come what no model of an execution heard of; on the worker that closes what it owns."""
        for act in self._coming(rank):
            self._do(act).result(self._guard)

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """Say what the model said at this place, once the inputs that came meanwhile are there too; on the loop."""
        rank, run = self._now()
        for act in self._coming(rank):
            late = act.run != rank or act.at < len(run.stored)
            if late or (act.at == len(run.stored) and act.request is None):
                await self._do(act)
        recorded = self._recorded.runs[rank] if rank < len(self._recorded.runs) else None
        cut = None if recorded is None else _cut_of(recorded)
        if cut is not None and len(run.rows) >= cut:
            await self._cut(recorded, run)
            await asyncio.get_running_loop().create_future()  # the interruption ends this
        if recorded is None or len(run.stored) >= len(recorded.stored):
            raise ModelError("the recording has no further response here", model=request.model_name)
        return _said(recorded.stored[len(run.stored)], request.model_name)

    def _coming(self, rank: int) -> list[Act]:
        """Return what has come by the execution of a rank, and was not played yet."""
        return [act for act in self._recorded.acts if act.run is not None and act.run <= rank and not act.done]

    def _now(self) -> tuple[int, Run]:
        runs = self._look().runs
        return len(runs) - 1, runs[-1]

    def _answer(self, request: JsonObject) -> None:
        """Answer what the agent asks as it was answered, or interrupt it where it never was."""
        rank, run = self._now()
        recorded = self._recorded.runs[rank] if rank < len(self._recorded.runs) else None
        answers = [] if recorded is None else list(recorded.requests.values())
        place = list(run.requests).index(request["request_id"])
        for act in self._coming(rank):
            if act.run == rank and act.request is not None and act.request <= place:
                self._do(act).result(self._guard)
        status, value = answers[place] if place < len(answers) else ("abandoned", None)
        if status == "resolved":
            self._thread.respond(request["request_id"], value).result(self._guard)
        elif status in _RESTS:
            self._cut(recorded, run).result(self._guard)

    def _cut(self, recorded: Run | None, run: Run) -> Reply[ControlReceipt]:
        by = {} if recorded is None else recorded.cut_by
        source = by.get("source", "system")
        return self._thread.interrupt(
            run.execution_id, source="system" if source == "deadline" else source, hold=by.get("hold", False)
        )

    def _compare(self, count: int) -> Difference | None:
        for rank in range(self._compared, count):
            recorded, played = self._recorded.runs[rank : rank + 1], self._played.runs[rank : rank + 1]
            if not recorded or not played:
                return Difference(rank, 0, *(one[0].rows if one else None for one in (recorded, played)))
            found = self._difference(rank, recorded[0], played[0])
            if found is not None:
                return found
        self._compared = max(self._compared, count)
        return None

    def _difference(self, rank: int, recorded: Run, played: Run) -> Difference | None:
        cut = _cut_of(recorded)
        ours, theirs = recorded.rows[:cut], played.rows[:cut]
        for place in range(max(len(ours), len(theirs))):
            one, other = (rows[place] if place < len(rows) else None for rows in (ours, theirs))
            if one != other and not (one is not None and other is not None and self._same(one, other)):
                return Difference(rank, place, one, other)
        if cut is None and recorded.end != played.end:
            return Difference(rank, len(ours), recorded.end, played.end)
        return None

    def _look(self) -> Recording:
        """Read what the new thread's journal has by now; any worker, the loop included."""
        with self._lock:
            while True:
                try:
                    found = self._events.next(0)
                except TimeoutError:
                    return self._played
                if found is None:
                    return self._played
                self._played.take(found.to_wire())

    def _do(self, act: Act) -> Reply[Any]:
        act.done = True
        thread, messages = self._thread, act.messages
        if act.verb == "submit":
            return thread.submit(list(map(_given, messages)), on_busy="queue")
        if act.verb == "instead":
            return thread.submit(list(map(_given, messages)), on_busy="interrupt")
        if act.verb == "steer":
            return thread.steer(self._played.runs[-1].execution_id, list(map(_given, messages)))
        if act.verb == "hold":
            return thread.stop()
        if act.verb == "resume":
            return thread.resume()
        if act.verb == "terminate":
            return thread.terminate()
        given = _given(messages[0])
        if act.verb == "tool":
            function = json.loads(messages[0]["tool_calls"])[0]["function"]
            return thread.queue_tool(function["name"], json.loads(function["arguments"]))
        if act.verb == "inject":
            return thread.inject_message(**given)
        return thread.queue_message(given.pop("content"), **given)


class _Closing:
    """Something that an execution owns, so that it is told when it closes."""

    def __init__(self, playing: _Playing, rank: int) -> None:
        self._playing = playing
        self._rank = rank

    def close(self) -> None:
        self._playing.close(self._rank)


def _cut_of(run: Run) -> int | None:
    """Return up to which row it can be compared: one that was interrupted or lost, or still ran; None for the whole."""
    return len(run.rows) if run.cut is None and run.end[0] is None else run.cut


def _given(message: JsonObject) -> JsonObject:
    return {key: message[key] for key in _INPUT if key in message}


def _said(message: JsonObject, model: str) -> ModelResponse:
    """Return the response that a stored message came from. Raises: ModelError: it came from none, or from a failure."""
    text = message.get("content") or ""
    if message.get("status") == "failed":
        raise ModelError(text.removeprefix(RUN_FAILED), model=model)
    if message["role"] == "tool":
        raise ModelError(f"recorded here is no response, but: {text}", model=model)
    functions = json.loads(message["tool_calls"]) if message.get("tool_calls") else []
    calls = [ToolCall(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in functions]
    if any(call.name == INVALID_RESPONSE for call in calls):
        return ModelResponse()
    calls = [made for call in calls for made in ((call,) if call.name != SURPLUS else _surplus(call))]
    thoughts = (message.get("metadata") or {}).get("reasoning", "")
    return ModelResponse(text, thoughts, tuple(calls))


def _surplus(call: ToolCall) -> list[ToolCall]:
    """Return as many calls as one that stands for those beyond the limits; the first is beyond them by its size alone."""
    count = json.loads(call.arguments)["calls"]
    return [ToolCall("", SURPLUS, " " * CALL_BYTES_MAX), *[ToolCall("", SURPLUS, "{}")] * (count - 1)]
