"""Random declared agents, driven by a tape of choices: what they do is drawn, what must hold is the same for all.

All that happens from outside (steers, interrupts, queued messages, a crash of the actor) is done by a model or a tool at a
place of its own choice, so that one tape is one life.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.agents.looping import PATIENCE_S, Play
from treadle.actors.testing.crash_points import crash_after, disarm
from treadle.agents.agent_definition import Agent
from treadle.agents.handler import handler
from treadle.agents.model_definition import Model
from treadle.agents.models.errors import ModelError
from treadle.agents.models.function_model import FunctionModel
from treadle.agents.models.seam import ToolCall
from treadle.agents.prompt import Prompt
from treadle.agents.side import Side
from treadle.agents.stop_reasons import STOP_REASONS
from treadle.agents.tool import tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.agents.models.seam import ModelRequest
    from treadle.agents.thread_state import ThreadState
    from treadle.protocol.messages import Message
    from treadle.storage import Store

TOOLS = (
    "fine", "plain", "broken", "stop", "force_a", "force_b", "over", "inject", "queue", "queue_tool", "sub", "steer",
    "interrupt", "crash", "unknown", "badly",
)  # fmt: skip


CRASHES_MAX = 2  # a third within the hour holds the thread, or takes its actor from it


class Tape:
    """A list of choices; beyond its end everything is the first one, which ends what runs."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = list(choices)

    def choose(self, options: int) -> int:
        return self._choices.pop(0) % options if self._choices else 0


class Life:
    """One thread of one random agent, and what was seen of it."""

    def __init__(self, choices: Sequence[int], store: Store | None = None) -> None:
        self.tape = Tape(choices)
        self.store = store
        self.play: Play
        self.calls = self.crashes = self.texts = 0
        self.tools = [self.tool(name) for name in TOOLS if name not in ("plain", "sub", "unknown", "badly")]
        self.tools.append(self.plain_tool())
        self.requests: list[tuple[str, ModelRequest]] = []
        self.histories: list[list[str]] = []
        self.said: Counter[str] = Counter()  # what was accepted from outside and must be in history once
        self.wrong: list[str] = []

    # What is drawn

    def agent(self) -> Agent:
        draw = self.tape.choose
        backings = [
            ("prompt", "human"),
            ("prompt", "prompt"),
            ("prompt", "handler"),
            ("handler", "human"),
            ("handler", "prompt"),
        ]
        first, second = backings[draw(len(backings))]
        return Agent(
            name="agent", side_a=self.side("a", first), side_b=self.side("b", second),
            max_session_turns=(None, 1, 2, 3)[draw(4)], on_lost=("settle", "resume")[draw(2)],  # type: ignore[arg-type]
        )  # fmt: skip

    def side(self, name: str, backing: str) -> Side:
        if backing == "human":
            return Side(human=True)
        if backing == "handler":
            return Side(handler=self.handler(name))
        draw = self.tape.choose
        on_response, manual = [(True, False), (False, False), (False, True)][draw(3)]
        return Side(
            prompt=self.prompt(name), max_steps=1 + draw(5), stop_on_response=on_response, manual_stop_condition=manual
        )

    def prompt(self, name: str) -> Prompt:
        sub = Prompt(name=f"sub_{name}", prompt="x", model=self.model(f"s{name}"), tools=self.tools)
        return Prompt(
            name=f"prompt_{name}", prompt="x", model=self.model(name), tools=[*self.tools, sub], include_past_tools=True
        )

    def tool(self, name: str) -> Any:
        @tool(name=name)
        async def run(state: ThreadState) -> str:
            assert state.execution is not None
            return await self.act(state, name, state.execution.current_side)

        return run

    def plain_tool(self) -> Any:
        @tool(name="plain")
        def plain(state: ThreadState) -> str:
            self.look(state)
            return "plain"

        return plain

    def model(self, name: str) -> Model:
        return Model(name=f"model_{name}", model=FunctionModel(lambda request: self.respond(name, request)), attempts=1)

    def handler(self, name: str) -> Any:
        @handler(name=f"handler_{name}")
        async def answer(state: ThreadState, message: Message) -> None:
            before = self.step_count(state)
            await self.act(state, ("fine", "inject", "broken", "over", "stop")[self.tape.choose(5)], name)
            if self.step_count(state) != before:
                self.wrong.append("a handler's turn took a step")

        return answer

    # What happens

    def respond(self, name: str, request: ModelRequest) -> Any:
        self.requests.append((name[-1], request))
        choice = self.tape.choose(6)
        if choice == 0:
            return "ok"
        if choice == 1:
            return None
        if choice == 2 and self.tape.choose(4) == 1:
            raise ModelError("gone", model=name)
        return ["hm ", *[self.call(name) for _ in range(choice - 1)]]

    def call(self, name: str) -> ToolCall:
        self.calls += 1
        chosen = TOOLS[self.tape.choose(len(TOOLS))]
        arguments = "{" if chosen == "badly" else "{}"
        named = {"badly": "fine", "sub": f"sub_{name[-1]}"}.get(chosen, chosen)
        return ToolCall(f"{name[-1]}{self.calls}", named, arguments)

    def step_count(self, state: ThreadState) -> int:
        assert state.execution is not None
        return state.execution.step_count

    def look(self, state: ThreadState) -> None:
        execution = state.execution
        assert execution is not None
        self.histories.append([one.id for one in execution.message_history])
        if execution.step_count != execution.side_a_step_count + execution.side_b_step_count:
            self.wrong.append("the steps of the sides are not the steps")

    async def act(self, state: ThreadState, name: str, side: str) -> str:
        """Do what a tool is called after."""
        execution = state.execution
        assert execution is not None
        self.look(state)
        thread = self.play.thread
        if name == "broken":
            raise ValueError("broken")
        if name == "stop":
            execution.stop()
        elif name.startswith("force_"):
            execution.force_turn(name[-1])  # type: ignore[arg-type]
        elif name == "over":
            await state.stop_session()
        elif name == "inject":
            await state.inject_message("assistant" if side == "a" else "user", self.text())
        elif name == "queue":
            await state.queue_message(self.text(), role=("user", "assistant")[self.tape.choose(2)])
        elif name == "queue_tool":
            state.queue_tool("fine")
        elif name == "steer":
            text = self.text()
            receipt = await thread.steer(execution.id, text)
            if receipt.disposition != "accepted":
                del self.said[text]
        elif name == "interrupt":
            await thread.interrupt(execution.id)
        elif name == "crash" and self.crashes < CRASHES_MAX:
            self.crashes += 1
            crash_after("VALUE_CHANGED committed")
            await state.set_value("crash", True)
        self.look(state)
        return name

    def text(self) -> str:
        self.texts += 1
        text = f"text {self.texts}"
        self.said[text] = 1
        return text

    # What must hold

    def live(self, executions: int) -> None:
        """Live through some executions, to rest each time, and check what must hold."""
        try:
            with Play(self.agent(), store=self.store) as self.play:
                for _ in range(executions):
                    self.play.thread.submit(self.text(), on_busy="queue").result(PATIENCE_S)
                    self.rest()
                self.check()
        finally:
            disarm()

    def rest(self) -> None:
        """Wait until nothing runs and nothing waits."""
        thread = self.play.thread
        for _ in range(10_000):
            state = thread.state().result(PATIENCE_S)
            active = state.active_execution
            waiting = [one for one in self.play.messages() if one.status == "pending"]
            if active is not None:
                self.play.end(active.execution_id)
            elif not waiting and not self.is_to_go_on() and thread.state().result(PATIENCE_S).cursor == state.cursor:
                return  # and nothing began between the looks
        raise AssertionError("the thread does not come to rest")

    def is_to_go_on(self) -> bool:
        """Say whether a lost execution has yet to be followed by the one that goes on."""
        if self.play.agents[0].on_lost != "resume":
            return False
        records = self.play.thread.executions(limit=100).result(PATIENCE_S).executions
        return bool(records) and records[0].status == "interrupted"

    def check(self) -> None:
        history = self.play.messages()
        self.check_calls(history)
        self.check_requests()
        ids = [one.id for one in history]
        for seen in self.histories:
            assert seen == ids[: len(seen)], "live history is stored history"
        contents = Counter(one.content for one in history if one.content in self.said)
        assert contents == self.said, "what was accepted is in history once"
        assert self.wrong == []
        state, reason = self.play.state()
        assert STOP_REASONS[str(reason)].state == state
        for record in self.play.thread.executions(limit=100).result(PATIENCE_S).executions:
            assert (record.status == "interrupted") == (record.outcome is None)
            if record.outcome is not None:
                assert STOP_REASONS[str(record.reason)].outcome == record.outcome

    def check_calls(self, history: list[Message]) -> None:
        """Each call has exactly one result, behind it, and nothing that waited joins between the two."""
        open_calls: dict[str, tuple[int, str | None]] = {}  # with where they stand
        answered: Counter[str] = Counter()
        for message in history:
            if message.tool_calls:
                place = message.depth, message.parent_id
                open_calls.update((one["id"], place) for one in json.loads(message.tool_calls))
            elif message.tool_call_id is not None:
                assert (message.depth, message.parent_id) == open_calls.pop(message.tool_call_id), "it stands elsewhere"
                assert message.name, "a result says of which tool it is"
                answered[message.tool_call_id] += 1
            elif "queued_at" in (message.metadata or {}) and (message.metadata or {}).get("consumed") is not False:
                assert not open_calls, "a message joined between a call and its result"
        assert not open_calls
        assert set(answered.values()) <= {1}

    def check_requests(self) -> None:
        """No request has a call or a result of the other side, and each result stands behind its call."""
        for side, request in self.requests:
            known: set[str] = set()
            for message in request.messages:
                for one in message.tool_calls:
                    assert one.id[0] in {side, "c"} or len(one.id) > 20, (side, one.id)  # made ones are long
                    known.add(one.id)
                if message.role == "tool":
                    assert message.tool_call_id in known
                    known.discard(message.tool_call_id)
            assert not known, "a call without its result"
