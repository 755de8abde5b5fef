"""What runs inside an execution: `@agent` and the `ThreadState` that its function gets."""

from .agent import FunctionAgent, InvalidReturn, agent
from .execution_state import ExecutionState
from .thread_state import ThreadAccess, ThreadState

__all__ = ["ExecutionState", "FunctionAgent", "InvalidReturn", "ThreadAccess", "ThreadState", "agent"]
