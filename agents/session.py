"""Owns the durable counters of a session: the turns of each side, whose turn it is, what handlers were called with.

They live in one reserved value of the thread, written only when they change and only where an agent needs them: with a
cap on turns, two sides that the runtime acts for, or a handler. Never counts steps, which belong to one execution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ..actors.execution import Execution
    from ..protocol.messages import Message
    from ..protocol.values import JsonObject, Value
    from .agent_definition import Agent
    from .flow import SideName

__all__ = ["SESSION_KEY", "Handled", "Session"]

SESSION_KEY: Final = "treadle:session"


class Handled(NamedTuple):
    """A message by its time and its id: messages of one input have the same time."""

    at: int
    message_id: str


class Session:
    """The counters of one thread's session, as one execution holds them.

    Attributes:
        turns: completed turns by side since the session began.
        side: whose turn it is, None where nobody's turn is under way.
        handled: by handler side, the last message that it was called with: its time in microseconds, and its id.
    """

    __slots__ = ("_changed", "_dual", "_execution", "_loaded", "_tracked", "handled", "side", "turns")

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._loaded = self._tracked = self._changed = self._dual = False
        self.turns: dict[SideName, int] = {"a": 0, "b": 0}
        self.side: SideName | None = None
        self.handled: dict[SideName, Handled] = {"a": Handled(0, ""), "b": Handled(0, "")}

    async def follow(self, agent: Agent) -> None:
        """Read the counters where this agent needs them and they were not read yet; one read of the store."""
        backings = (agent.side_a.backing, agent.side_b.backing)
        self._dual = "human" not in backings
        self._tracked = agent.max_session_turns is not None or self._dual or "handler" in backings
        if self._loaded or not self._tracked:
            return
        self._loaded = True
        self._take(await self._execution.get_internal(SESSION_KEY))

    def _take(self, stored: Value) -> None:
        if not isinstance(stored, dict):
            return
        side, turns, handled = stored.get("side"), stored.get("turns"), stored.get("handled")
        self.side = "a" if side == "a" else "b" if side == "b" else None
        for name in self.turns:
            # What was counted in this execution before it was read counts as well.
            self.turns[name] += _number(turns, name)
            self.handled[name] = max(self.handled[name], _handled(handled, name))

    def count(self, side: SideName, turns: int = 1) -> None:
        """Count completed turns of a side."""
        self.turns[side] += turns
        self._changed = True

    def turn_of(self, side: SideName | None) -> None:
        """Note whose turn it is; beside a human that need not be known."""
        if self._dual and side != self.side:
            self.side = side
            self._changed = True

    def capped(self, cap: int | None, counting: SideName | None = None) -> bool:
        """Say whether both sides have had as many turns as the cap allows; `counting` has one more turn by now."""
        if cap is None:
            return False
        return min(self.turns[name] + (name == counting) for name in self.turns) >= cap

    def handle(self, side: SideName, message: Message) -> None:
        """Note that the handler of a side is called with the messages up to this one."""
        self.handled[side] = Handled(message.created_at, message.id)
        self._changed = True

    def reset(self) -> None:
        """Begin a new session: nobody had a turn. What handlers were called with stays."""
        if any(self.turns.values()) or self.side is not None:
            self.turns = {"a": 0, "b": 0}
            self.side = None
            self._changed = True

    async def save(self) -> None:
        """Make what changed durable."""
        if not (self._changed and self._tracked):
            return
        self._changed = False
        stored: JsonObject = {
            "turns": dict(self.turns),
            "side": self.side,
            "handled": {side: list(one) for side, one in self.handled.items()},
        }
        await self._execution.set_internal(SESSION_KEY, stored)


def _number(stored: Value, name: str) -> int:
    number = stored.get(name) if isinstance(stored, dict) else None
    return number if isinstance(number, int) else 0


def _handled(stored: Value, name: str) -> Handled:
    match stored.get(name) if isinstance(stored, dict) else None:
        case [int(at), str(message_id)]:
            return Handled(at, message_id)
    return Handled(0, "")
