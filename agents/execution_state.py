"""Owns `ExecutionState`, what a body sees of the execution it runs in. Never outlives it, and decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from typing import IO

    from ..actors.abort import AbortSignal
    from ..actors.execution import Execution
    from ..actors.processes import OwnedProcess
    from ..actors.reply import Reply
    from ..protocol.messages import Message

__all__ = ["ExecutionState"]

T = TypeVar("T")


class ExecutionState:
    """The execution that a body runs in: one object for all of its passes."""

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
    def stopped(self) -> bool:
        """Whether `stop()` was called."""
        return self._execution.stopped

    def stop(self) -> None:
        """End the execution after this pass, as `succeeded` with reason `stopped`; any worker, never blocks.

        Steers that it has not read join history marked as not consumed; queued messages start the next execution.
        """
        self._execution.stop()

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
