"""Owns what a `ThreadState` does with what is declared: load it by name, queue a tool, invoke one. Runs no tool itself."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar, cast

from ..actors.fence import ExecutionFenced
from ..actors.reply import Reply
from ..protocol.errors import InvalidInput, TreadleError, shorten
from ..protocol.ids import check_name
from ..protocol.values import JsonObject, check_value
from .at_rest import RestAccess
from .flow import QueuedTool
from .state_parts import StateParts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..actors.services import Body
    from ..protocol.receipts import Receipt
    from .agent_definition import Agent
    from .definitions import Definitions
    from .model_definition import Model
    from .prompt import Prompt
    from .thread_state import ThreadState
    from .tool_result import ToolResult

__all__ = ["ThreadTools"]

T = TypeVar("T")

INVOKED_DEPTH_MAX: Final = 8
"""Invoked tools inside one another, as sub-prompts (contract I.4)."""

_depth: ContextVar[int] = ContextVar("treadle_invoked_depth", default=0)


class ThreadTools(StateParts):
    """The part of a `ThreadState` that loads definitions and calls tools (contract D.6, D.7)."""

    __slots__ = ()

    # Tools

    def queue_tool(self, name: str, args: Mapping[str, object] | None = None) -> Reply[None]:
        """Have a tool run after the calls of this step, or this call of a handler; at rest, in an execution of its own.

        Tools run in the order queued. The call is on record as if the model had made it, and has its result in history.
        It need not be among the prompt's tools. What is wrong with the call is raised here and now: nobody need look at the reply.

        Args:
            name: of a tool, prompt or agent.
            args: JSON data. At rest they are stored, without secrets: a tool reads those from its variables.

        Returns:
            In an execution, a reply that is there: the call is queued, and runs unless the execution ends first. At rest,
            one that is there once the call is durable.

        Raises:
            InvalidInput: `tool_not_allowed`: the calling tool declares `uses`, and this is none of them; `no_step_loop`: a
                plain function runs the thread; `invalid_name`, `invalid_value`, `secret_in_name`.
            ExecutionFenced: the execution is over.
        """
        name, checked = _checked_call(name, args)
        self._check_uses(name)
        self._check_names(tool=name)
        scene = self.scene
        flow = scene.flow
        if flow is not None:
            flow.tool_queue.append(QueuedTool(self._access.new_id(), name, checked))
            return Reply.of(None)
        if self._execution is not None and self._execution.fenced:
            raise ExecutionFenced(self._execution.id)
        if not isinstance(self._access, RestAccess) or scene.agent is None:
            raise InvalidInput(
                f"agent {self._access.agent_id!r} is a plain function, which runs no queued tools",
                code="no_step_loop",
                thread_id=self._access.thread_id,
            )
        reply: Reply[None] = Reply()

        def queued(receipt: Reply[Receipt]) -> None:
            error = receipt.error()
            if error is None:
                reply.set(None)
            else:
                reply.fail(error)

        self._access.queue_tool(name, scene.env.redactor.data(checked)).add_done_callback(queued)
        return reply

    def invoke_tool(self, name: str, args: Mapping[str, object] | None = None) -> Reply[ToolResult]:
        """Run a tool now and return its result, which is stored nowhere; at rest too.

        It need not be among the prompt's tools.

        Args:
            name: of a tool, prompt or agent.
            args: JSON data.

        Returns:
            A reply with the result; what goes wrong in the tool, a call that the calling tool's `uses` forbids, and one
            that is more than 8 invocations deep, is a result with `status` `error`. Fails with:
            InvalidInput: `invalid_name`, `invalid_value`; `no_step_loop` where a plain function runs the thread.
            ExecutionCancelled: the execution is or was interrupted.
            ExecutionFenced: the execution is over.
        """
        from .models.seam import ToolCall
        from .tool_result import ToolResult
        from .tool_run import run_tool

        try:
            name, checked = _checked_call(name, args)
            scene = self.scene
            if scene.agent is None:
                raise InvalidInput(
                    f"agent {self._access.agent_id!r} is a plain function, which has no tools",
                    code="no_step_loop",
                    thread_id=self._access.thread_id,
                )
            try:
                self._check_uses(name)
            except InvalidInput as error:
                return Reply.of(ToolResult(status="error", error=error.message, error_code=error.code))
        except TreadleError as error:
            return Reply.failed(error)
        depth = _depth.get() + 1
        if depth > INVOKED_DEPTH_MAX:
            # Each that is plain holds a worker while it waits: without an end, all workers of the runtime.
            said = f"invoked tools are at most {INVOKED_DEPTH_MAX} deep"
            return Reply.of(ToolResult(status="error", error=said, error_code="tool_depth"))
        call = ToolCall(self._access.new_id(), name, json.dumps(checked, ensure_ascii=False))
        flow = scene.flow

        async def run() -> ToolResult:
            _depth.set(depth)  # in a context of its own, which a worker gets too
            return await run_tool(flow, cast("ThreadState", self), call)

        return scene.errands.run(run, ends_with_interrupt=True)

    def _check_uses(self, name: str) -> None:
        flow = self.scene.flow
        caller = None if flow is None else flow.caller
        if caller is not None and caller.uses and name not in caller.uses:
            raise InvalidInput(
                f"tool {caller.name!r} uses {', '.join(map(repr, caller.uses))}, and not {name!r}",
                code="tool_not_allowed",
                tool=caller.name,
                name=name,
            )

    # Loading

    def load_model(self, name: str) -> Reply[Model]:
        """Return a model by name. Fails with DefinitionNotFound."""
        return self._load(lambda definitions: definitions.model(name), "model", name)

    def load_prompt(self, name: str) -> Reply[Prompt]:
        """Return a prompt by name. Fails with DefinitionNotFound."""
        return self._load(lambda definitions: definitions.prompt(name), "prompt", name)

    def load_agent(self, name: str) -> Reply[Agent | Body]:
        """Return an agent by name, of the own definitions or another one of the runtime's. Fails with DefinitionNotFound."""
        from .definitions import DefinitionNotFound

        reply: Reply[Agent | Body] = self._load(lambda definitions: definitions.agent(name), "agent", name)
        error = reply.error()
        other = self._access.services.agents.get(name) if isinstance(name, str) else None
        return Reply.of(other) if isinstance(error, DefinitionNotFound) and other is not None else reply

    def get_model_names(self) -> list[str]:
        """Return the names of the models in reach, at once."""
        definitions = self.scene.definitions
        return [] if definitions is None else list(definitions.model_names())

    def get_prompt_names(self) -> list[str]:
        """Return the names of the prompts in reach, at once."""
        definitions = self.scene.definitions
        return [] if definitions is None else list(definitions.prompt_names())

    def get_agent_names(self) -> list[str]:
        """Return the names of the agents in reach and of those of the runtime, at once."""
        definitions = self.scene.definitions
        own = [] if definitions is None else list(definitions.agent_names())
        return list(dict.fromkeys([*own, *self._access.services.agents]))

    def _load(self, load: Callable[[Definitions], T], kind: str, name: str) -> Reply[T]:
        from .definitions import DefinitionNotFound

        definitions = self.scene.definitions
        try:
            if definitions is None:
                raise DefinitionNotFound(kind, shorten(name))
            return Reply.of(load(definitions))
        except TreadleError as error:
            return Reply.failed(error)


def _checked_call(name: str, args: Mapping[str, object] | None) -> tuple[str, JsonObject]:
    name = check_name("the name of a tool", name)
    checked = check_value({} if args is None else args, path="$.args")
    if not isinstance(checked, dict):
        raise InvalidInput(
            f"a tool's arguments are a dict, not {shorten(args)}",
            code="invalid_value",
            path="$.args",
            value=shorten(args),
        )
    return name, checked
