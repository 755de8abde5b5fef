"""Owns what is declared where a state's caller stands: agent, prompt, definitions, hooks. Declares and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .errands import Errands
from .flow import flow_of
from .hook_runner import HookRunner
from .thread_env import ThreadEnv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..actors.execution import Execution
    from .agent_definition import Agent
    from .at_rest import ThreadAccess
    from .definitions import Definitions
    from .flow import Flow
    from .hooks import HookLike
    from .prompt import Prompt

__all__ = ["Scene", "is_declared"]


def is_declared(execution: Execution) -> bool:
    """Say whether the body of an execution is a declared agent; a plain callable has neither hooks nor prompts."""
    return getattr(execution.body, "definitions", None) is not None


class Scene:
    """What surrounds one state, made when it is first needed.

    Args:
        access: to the thread.
        execution: the one that runs, None at rest.
        log: called with a text and details where a hook failed.

    Attributes:
        services: the parts of the thread's runtime.
        errands: what runs beside the body.
        env: the thread's variables.
    """

    __slots__ = ("_access", "_execution", "_log", "_runner", "_stands", "env", "errands", "services")

    def __init__(
        self, access: ThreadAccess, execution: Execution | None, log: Callable[[str, dict[str, object]], object]
    ) -> None:
        self._access = access
        self._execution = execution
        self._log = log
        self._stands: tuple[Agent | None, Prompt | None] | None = None
        self._runner: HookRunner | None = None
        self.services = access.services
        self.errands = Errands(self.services, execution)
        self.env = ThreadEnv(access, self)

    @property
    def flow(self) -> Flow | None:
        """The flow of the step loop; None at rest and in a plain callable."""
        return None if self._execution is None else flow_of(self._execution)

    @property
    def agent(self) -> Agent | None:
        """The declared agent that acts, or at rest would; None for a plain callable."""
        flow = self.flow
        if flow is not None:
            return flow.agent
        # By what it has, since a plain callable must not cost the import of all that is declared.
        body: object = self.services.agents.get(self._access.agent_id)
        return None if getattr(body, "definitions", None) is None else cast("Agent", body)

    @property
    def definitions(self) -> Definitions | None:
        """The namespace of the agent."""
        agent = self.agent
        return None if agent is None else agent.definitions

    @property
    def prompt(self) -> Prompt | None:
        """The current prompt; where none is being run, that of side A."""
        flow = self.flow
        if flow is not None and flow.prompt is not None:
            return flow.prompt
        agent = self.agent
        given = None if agent is None else agent.side_a.prompt
        if agent is None or given is None:
            return None
        return agent.definitions.prompt(given) if isinstance(given, str) else given

    def _is_over(self) -> bool:
        """Whether the execution was interrupted or lost its thread; never at rest."""
        execution = self._execution
        return execution is not None and (execution.fenced or execution.abort_signal.aborted)

    @property
    def hooks(self) -> HookRunner:
        """The hooks that hold here; the same object as long as agent and prompt are the same."""
        agent, prompt = stands = self.agent, self.prompt
        runner = self._runner
        if runner is None or self._stands is None or not (self._stands[0] is agent and self._stands[1] is prompt):
            definitions = self.definitions
            runner = self._runner = HookRunner(
                () if agent is None else _resolved(definitions, agent.hooks),
                () if prompt is None else _resolved(definitions, prompt.hooks),
                timers=self.services.timers,
                pool=self.services.pool,
                log=self._log,
                over=self._is_over,
            )
            self._stands = stands
        return runner


def _resolved(definitions: Definitions | None, given: Iterable[str | HookLike]) -> list[HookLike]:
    hooks: list[HookLike] = []
    for one in given:
        if not isinstance(one, str):
            hooks.append(one)
        elif definitions is not None:
            hooks.append(definitions.hook(one))
    return hooks
