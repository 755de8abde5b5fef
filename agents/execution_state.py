"""Owns `ExecutionState`, what a body sees of the execution it runs in. Never outlives it, and decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ..actors.fence import ExecutionFenced
from ..protocol.errors import InvalidInput, shorten
from .flow import flow_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import IO

    from ..actors.abort import AbortSignal
    from ..actors.execution import Execution
    from ..actors.processes import OwnedProcess
    from ..actors.reply import Reply
    from ..protocol.messages import Message
    from .flow import Flow, SideName

__all__ = ["ExecutionState"]

T = TypeVar("T")


class ExecutionState:
    """The execution that a body runs in: one object for all of its passes.

    Sides, steps and prompts are those of a declared agent's step loop. A plain callable is side `a` and takes no steps.
    """

    __slots__ = ("_execution",)

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @property
    def id(self) -> str:
        """The execution's id: what steers and interrupts name."""
        return self._execution.id

    @property
    def flow_id(self) -> str:
        """The same id under the contract's other name."""
        return self._execution.id

    @property
    def started_at(self) -> int:
        """When its START was recorded, in microseconds."""
        return self._execution.started_at

    @property
    def new_messages(self) -> list[Message]:
        """What this pass begins with and no earlier pass has seen; what `checkpoint()` joins is its own result."""
        return self._execution.new_messages

    @property
    def message_history(self) -> Sequence[Message]:
        """All durable history of the thread, oldest first, silent messages included; live, and read as it is used.

        Looking at what is older than the last few messages reads the store on the spot, a page at a time.
        """
        return self._execution.history

    @property
    def abort_signal(self) -> AbortSignal:
        """Set once, when the execution is interrupted, passes its deadline or its thread is terminated."""
        return self._execution.abort_signal

    @property
    def flow(self) -> Flow | None:
        """The step loop's own memory; the sub-prompt's inside one, None in a plain callable."""
        return flow_of(self._execution)

    @property
    def current_side(self) -> SideName:
        """The side whose turn it is, a handler's turn included."""
        flow = self.flow
        return "a" if flow is None else flow.side

    @property
    def step_count(self) -> int:
        """Model steps so far, of both sides; a handler's turn adds none. A sub-prompt counts its own."""
        flow = self.flow
        return 0 if flow is None else flow.step_count

    @property
    def side_a_step_count(self) -> int:
        """Model steps of side A so far."""
        flow = self.flow
        return 0 if flow is None else flow.side_steps["a"]

    @property
    def side_b_step_count(self) -> int:
        """Model steps of side B so far."""
        flow = self.flow
        return 0 if flow is None else flow.side_steps["b"]

    @property
    def prompt_path(self) -> list[str]:
        """Names of prompts, from the root to the current one; begins anew after a handoff. A copy."""
        flow = self.flow
        return [] if flow is None else list(flow.prompt_path)

    @property
    def stopped(self) -> bool:
        """Whether `stop()` was called, and no forced turn took it back."""
        flow = self.flow
        return self._execution.stopped or (flow is not None and flow.stopped)

    @property
    def stopped_by(self) -> SideName | None:
        """The side that acted when `stop()` was called; None while it was not."""
        flow = self.flow
        if flow is not None:
            return flow.stopped_by
        return "a" if self._execution.stopped else None

    def force_turn(self, side: SideName) -> None:
        """Give the next turn to a side, once this step's tools have run; any worker, never blocks.

        It takes an earlier `stop()` back. The own side goes on; a human side ends the execution with `forced_human_turn`.
        After a handoff it is the new agent's side. The last call counts, once.

        Raises:
            InvalidInput: `invalid_side`; `no_step_loop` in a plain callable, which has no sides.
            ExecutionFenced: the execution is over.
        """
        if side not in ("a", "b"):
            raise InvalidInput(f"a side is 'a' or 'b', not {shorten(side)}", code="invalid_side", value=shorten(side))
        flow = self.flow
        if flow is None:
            if self._execution.fenced:
                raise ExecutionFenced(self.id)
            raise InvalidInput("a plain function has no sides to turn to", code="no_step_loop", execution_id=self.id)
        flow.force_turn(side)

    def stop(self) -> None:
        """End the execution after the current operation, as `succeeded` with reason `stopped`; any worker, never blocks.

        In a step loop the tool that runs is finished, and the step's other calls get error results; in a plain callable
        it is the pass that is finished. Steers that were not read join history marked as not consumed; queued messages
        start the next execution. It is not the end of a session: that is `ThreadState.stop_session`.
        """
        flow = self.flow
        if flow is None:
            self._execution.stop()
        else:
            flow.stop()

    def own(self, resource: T) -> T:
        """Have a resource closed before the execution's finish is durable, the last one first; any worker, never blocks.

        Args:
            resource: what has `close()`, `aclose()` or is a context manager that was entered.

        Returns:
            The resource.

        Raises:
            TypeError: it has none of these.
            ExecutionFenced: the execution no longer owns its thread; the resource stays the caller's to close.
        """
        return self._execution.own(resource)

    def start_process(
        self,
        args: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
    ) -> Reply[OwnedProcess]:
        """Start a program in a process group of its own, which ends with the execution.

        The group is durable before the program runs, so that even after a crash it is found and killed.

        Args:
            args: program and arguments; no shell.
            cwd: directory to run in.
            env: environment; by default the runtime's.
            stdin: `subprocess.DEVNULL` (None means it too) or `subprocess.PIPE`.
            stdout: as for `subprocess.Popen`.
            stderr: as for `subprocess.Popen`.

        Returns:
            A reply with the running process, a `subprocess.Popen`. Fails with:
            InvalidInput: `args`, `stdin` or another option is none of these.
            FileNotFoundError: there is no such program.
            OSError: the system refuses it, for a bad file descriptor or for want of processes.
            ExecutionCancelled: the execution was interrupted; nothing was started.
        """
        given = {"cwd": cwd, "env": env, "stdin": stdin, "stdout": stdout, "stderr": stderr}
        return self._execution.start_process(args, **{key: value for key, value in given.items() if value is not None})

    def __repr__(self) -> str:
        return f"<ExecutionState {self.id}>"
