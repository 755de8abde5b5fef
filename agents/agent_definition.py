"""Owns `Agent`, the declared agent: two sides and what holds for both. Runs no step: that is the step loop's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from ..protocol.open_calls import STOPPED_BY_USER
from .bounds import Count, Seconds
from .expected import expected
from .hook import Hooks
from .side import Side
from .variable import Env

if TYPE_CHECKING:
    from ..actors.execution import Execution
    from ..actors.handle import Thread
    from ..actors.services import Body
    from .definitions import Definitions

__all__ = ["Agent"]

_SIDE: Final = expected("a side is Side(prompt=...), Side(handler=...) or Side(human=True)", dict, Side)


class Agent(BaseModel):
    """An agent that is declared rather than coded (contract E.2); a runtime takes it like a function agent.

    Attributes:
        name: what threads are created under.
        side_a: who answers as `assistant`.
        side_b: who answers as `user`; a human by default.
        max_session_turns: the session ends when both sides have completed so many turns.
        description: for people.
        tool_description: what a model reads where it may hand the thread over to this agent.
        expose_as_tool: whether other agents may start it as their own; `primary`: whether people may.
        env: values of environment variables.
        hooks: themselves or by id.
        timeout: seconds an execution may take, None for any.
        steerable: whether its executions take steers; never where a handler is side A, which no model step ever reads for.
        on_lost: `settle` or `resume`: whether a lost execution is followed by one on the same history.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True)

    name: str = ""
    side_a: Annotated[Side, _SIDE]
    side_b: Annotated[Side, _SIDE] = Field(default_factory=lambda: Side(human=True))
    max_session_turns: Count | None = None
    description: str = ""
    tool_description: str = ""
    expose_as_tool: bool = False
    primary: bool = True
    env: Env = Field(default_factory=dict, repr=False)
    hooks: Hooks = ()
    timeout: Seconds | None = None
    steerable: bool = True
    on_lost: Literal["settle", "resume"] = "settle"

    _definitions: Definitions | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _handlers_take_no_steers(self) -> Self:
        if self.side_a.backing == "handler":
            self.__dict__["steerable"] = False  # frozen for everybody else
        return self

    @property
    def runs_on(self) -> Literal["loop", "worker"]:
        """The step loop is a coroutine."""
        return "loop"

    @property
    def stopped_text(self) -> str:
        """What history says where a user stopped a loop that hung: it cannot say so itself any more (contract F.3)."""
        return STOPPED_BY_USER

    @property
    def definitions(self) -> Definitions:
        """The namespace that its names are looked up in: the `Definitions` made last with it, else of what it reaches."""
        held = self._definitions
        # A copy of an agent carries the namespace of the original, which does not know the copy.
        if held is None or not held.holds(self):
            from .definitions import Definitions

            held = Definitions(agents=(self,))
        return held

    def join_namespace(self, definitions: Definitions) -> None:
        """Look names up there from now on; `Definitions` calls it."""
        self._definitions = definitions

    def run(self, execution: Execution, /) -> Awaitable[None]:
        """Run one pass; the runtime's to call, on the loop."""
        from .step_loop import run_agent

        return run_agent(self, execution)

    @property
    def created(self) -> Callable[[Thread], Awaitable[None]] | None:
        """What calls the `after_thread_created` hooks of a thread at rest; None where there are none, so that it costs none."""
        definitions = self.definitions
        prompt = self.side_a.prompt
        given = [*self.hooks, *(() if prompt is None else definitions.prompt(prompt).hooks)]
        has_any = any(definitions.hook(one).hook == "after_thread_created" for one in given)
        return self._tell_created if has_any else None

    async def _tell_created(self, thread: Thread) -> None:
        from .thread_state import ThreadState

        state = ThreadState.at_rest(thread)
        await state.scene.hooks.run("after_thread_created", state)

    def bind(self, bodies: Mapping[str, Body]) -> list[str]:
        """Look at the other agents of a runtime that opens, and return what is wrong with these definitions.

        Agents of one namespace report its problems once.
        """
        return self.definitions.bind(self, bodies)

    def __repr__(self) -> str:
        return f"<agent {self.name!r} {self.side_a.backing} and {self.side_b.backing}>"
