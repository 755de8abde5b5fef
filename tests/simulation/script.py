"""Owns what may happen in one exploration: how often each input and fault, and what bodies do. Decides nothing."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "A",
    "B",
    "BODIES",
    "C",
    "DEADLINES",
    "EDITS",
    "ENDS",
    "INPUTS",
    "LATE",
    "LOOPS",
    "LOSSES",
    "OWN_EDITS",
    "QUEUES",
    "REQUESTS",
    "SMALL",
    "Script",
    "Step",
]


class Step(NamedTuple):
    """One thing that happens: `send` of a mail, a `turn` of the actor, an answer of the store, a move of a body, a fault.

    kind       about
    send       the mail's name: its verb and rank ("steer2"); `repeat1` is the first submit again
    turn       the actor decides all mail that waits, into one batch
    commit     the store wrote the batch in flight, and the actor acts on it
    refuse     the store did not write it
    crash      "" with nothing in flight, else "written" or "unwritten"; the thread is opened again at once
    lost       the loop or worker under the body is gone
    body       how its pass ends (returned, raised, cancelled, stopped), or what it asks for (append, consume, call,
               result, ask, edit)
    late       what an abandoned body still tries (append, queue, returned, edit)
    released   what the execution owned is closed
    retry, grace, deadline, expire
               a timer fires
    """

    kind: str
    about: str = ""


class Script(NamedTuple):
    """Budgets and choices of one exploration.

    Attributes:
        budget: how often each input and fault may happen.
        on_busy: of the first, second, third submit; the rest are `reject`.
        ends: how a pass of a body may end.
        asks: what a body may ask for while it runs.
        tracked: the inputs that something later may name, so that they are told apart.
        resumes: whether the agent asks to run again after a loss.
        hold: whether an interrupt holds.
        window: how many mails from outside may wait at once.
        eager: the actor decides mail the moment it arrives, unless a batch is in flight.
    """

    name: str
    budget: dict[str, int]
    on_busy: tuple[str, ...] = ()
    ends: tuple[str, ...] = ("returned",)
    asks: tuple[str, ...] = ()
    tracked: frozenset[str] = frozenset()
    resumes: bool = False
    hold: bool = False
    window: int = 99
    eager: bool = False

    def busy(self, rank: int) -> str:
        """Return the `on_busy` of the submit of this rank, from 1."""
        return self.on_busy[rank - 1] if rank <= len(self.on_busy) else "reject"


INPUTS = (
    "submit",
    "steer",
    "interrupt",
    "queue",
    "repeat",
    "stop",
    "resume",
    "terminate",
    "withdraw",
    "respond",
    "update",
    "delete",
)
FAULTS = ("refuse", "crash", "lost", "grace", "deadline", "expire")

A = Script("A", {"submit": 3, "steer": 2, "interrupt": 2, "queue": 1, "refuse": 1, "crash": 1}, eager=True)
B = Script(
    "B", {"submit": 2, "repeat": 1, "stop": 1, "resume": 1, "crash": 1}, on_busy=("reject", "interrupt"),
    ends=("returned", "raised", "cancelled"), asks=("append", "consume"), tracked=frozenset({"submit1", "repeat1"}),
)  # fmt: skip
C = Script(
    "C", {"submit": 1, "queue": 2, "withdraw": 1, "terminate": 1, "grace": 1, "refuse": 1},
    ends=("returned", "raised", "stopped"), asks=("append", "consume"), tracked=frozenset({"queue1"}),
)  # fmt: skip
BODIES = Script(
    "bodies", {"submit": 2, "steer": 1, "interrupt": 1, "queue": 1, "refuse": 1, "crash": 1},
    ends=("returned", "raised", "cancelled"), asks=("append", "consume"),
)  # fmt: skip
ENDS = Script(
    "ends", {"submit": 1, "steer": 1, "queue": 1, "stop": 1, "resume": 1, "withdraw": 1, "terminate": 1},
    tracked=frozenset({"queue1"}), window=1, eager=True,
)  # fmt: skip
LATE = Script("late", {"submit": 2, "interrupt": 1, "grace": 1}, asks=("append", "consume"))
SMALL = Script("small", {"submit": 1, "steer": 1, "interrupt": 1, "refuse": 1, "crash": 1}, asks=("consume",))
QUEUES = Script(
    "queues", {"submit": 3, "stop": 1, "interrupt": 1, "refuse": 1}, on_busy=("queue", "queue", "steer"), hold=True,
    asks=("consume",),
)  # fmt: skip
DEADLINES = Script(
    "deadlines", {"submit": 1, "steer": 1, "interrupt": 1, "deadline": 1, "grace": 1, "refuse": 1},
    ends=("returned", "raised", "cancelled", "stopped"), asks=("append", "call", "result", "ask", "consume"), hold=True,
)  # fmt: skip
LOOPS = Script(
    "loops", {"submit": 2, "steer": 1, "interrupt": 1, "queue": 1, "lost": 1, "refuse": 1}, on_busy=("reject", "queue"), asks=("call",),
    resumes=True, eager=True,
)  # fmt: skip
LOSSES = Script("losses", {"submit": 1, "queue": 3, "crash": 3, "refuse": 1}, resumes=True)
EDITS = Script(
    "edits", {"submit": 1, "queue": 1, "steer": 1, "update": 1, "delete": 2, "interrupt": 1, "refuse": 1},
    tracked=frozenset({"queue1", "steer1"}), window=2, eager=True,
)  # fmt: skip
OWN_EDITS = Script(
    "own edits", {"submit": 1, "queue": 1, "delete": 2, "interrupt": 1, "grace": 1, "crash": 1, "refuse": 1},
    asks=("consume", "edit"), tracked=frozenset({"queue1"}), window=1, eager=True,
)  # fmt: skip
REQUESTS = Script(
    "requests", {"submit": 1, "respond": 2, "interrupt": 1, "expire": 1, "grace": 1, "lost": 1, "refuse": 1, "crash": 1},
    asks=("ask",),
)  # fmt: skip
