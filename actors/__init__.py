"""Threads as actors: the runtime, handles, replies, and what runs, watches and settles executions on a store."""

from ..protocol.cursors import Cursor
from ..protocol.executions import ExecutionError, ExecutionRecord
from ..protocol.messages import Message
from ..protocol.receipts import ActiveExecution, ControlReceipt, Disposition, Receipt, RespondStatus, Withdrawal
from ..protocol.status import ThreadStatus
from ..storage.value_rows import ValueEntry
from .abort import AbortSignal
from .change_feed import ChangeSubscription
from .clock import Clock, SystemClock
from .execution import Execution
from .explain import Explanation
from .failing import ExecutionFailed
from .fence import ExecutionCancelled, ExecutionFenced
from .handle import Thread
from .listing import ThreadPage, ThreadSummary
from .live_state import ThreadLiveState
from .processes import OwnedProcess
from .reads import ExecutionPage, MessagePage, ValuePage
from .recovery import OpenReport
from .reply import Reply
from .runtime import Runtime
from .services import Body
from .snapshot import Blocked
from .subscription import EventSubscription, StreamSubscription

__all__ = [
    "AbortSignal",
    "ActiveExecution",
    "Blocked",
    "Body",
    "ChangeSubscription",
    "Clock",
    "ControlReceipt",
    "Cursor",
    "Disposition",
    "EventSubscription",
    "Execution",
    "ExecutionCancelled",
    "ExecutionError",
    "ExecutionFailed",
    "ExecutionFenced",
    "ExecutionPage",
    "ExecutionRecord",
    "Explanation",
    "Message",
    "MessagePage",
    "OpenReport",
    "OwnedProcess",
    "Receipt",
    "Reply",
    "RespondStatus",
    "Runtime",
    "StreamSubscription",
    "SystemClock",
    "Thread",
    "ThreadLiveState",
    "ThreadPage",
    "ThreadStatus",
    "ThreadSummary",
    "ValueEntry",
    "ValuePage",
    "Withdrawal",
]
