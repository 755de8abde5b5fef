"""Owns what the killed processes of one store asked for and what they were told, read from what they printed."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["Ledger", "Op"]


class Op:
    """One call: what was asked, and the answer, if any was printed."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.id: str = asked["op"]
        self.thread: str = asked["thread"]
        self.verb: str = asked["verb"]
        self.text: str = asked.get("text", "")
        self.asked = asked
        self.answered = False
        self.receipt: Any = None
        self.error: str | None = None

    @property
    def disposition(self) -> str | None:
        """What the receipt says, None without one."""
        return self.receipt[0] if isinstance(self.receipt, list) and self.receipt else None

    def __repr__(self) -> str:
        return f"{self.asked} -> {self.error or self.receipt if self.answered else 'no answer'}"


class Ledger:
    """All calls of all lives of one store.

    Attributes:
        ops: by id, in the order in which they were asked.
        groups: process groups that a body was told of.
        agents: by thread, whose it may be: the agent of its last acknowledged hand-off, and those that were begun since.
        requests: thread and id of what bodies asked; `got` the answers that they had, None where they had none in time.
    """

    def __init__(self) -> None:
        self.ops: dict[str, Op] = {}
        self.groups: list[int] = []
        self.agents: dict[str, list[str]] = {}
        self.requests: dict[str, str] = {}
        self.got: dict[str, str | None] = {}

    def read(self, line: str) -> int | None:
        """Take in one printed line; return the exit code if it says that the process has ended."""
        said = json.loads(line)
        assert "broke" not in said, said
        if "ended" in said:
            return int(said["ended"])
        if "group" in said:
            self.groups.append(said["group"])
        elif "handing" in said:
            self.agents.setdefault(said["thread"], [said["from"]]).append(said["handing"])
        elif "handed" in said:
            self.agents[said["thread"]] = [said["handed"]]
        elif "asked" in said:
            self.requests[said["asked"]] = said["thread"]
        elif "got" in said:
            self.got[said["got"]] = said["value"]
        elif "ack" in said:
            op = self.ops[said["ack"]]
            op.answered, op.receipt, op.error = True, said.get("receipt"), said.get("error")
        else:
            op = Op(said)
            # Creating the same threads is asked in every life; what counts is the first answer that says yes.
            self.ops[op.id] = op
        return None

    def answers(self, request_id: str) -> list[Op]:
        """Return every call that answered a request."""
        return [op for op in self.ops.values() if op.verb == "respond" and op.asked["target"] == request_id]

    def inputs(self) -> list[Op]:
        """Return every call that has a text for history."""
        return [op for op in self.ops.values() if op.text]

    def withdrawn(self, given: str) -> bool | None:
        """Say whether an input was taken back, or its message deleted; None where that is not known."""
        tries = [op for op in self.ops.values() if op.verb == "withdraw" and op.asked["target"] == given]
        # Of a message that was stored, "it was not there" is what a repeat is told: it is gone all the same.
        erased = [op for op in self.ops.values() if op.verb == "erase" and op.asked["target"] == given]
        if any(op.receipt == "withdrawn" for op in tries) or any(op.answered and op.error is None for op in erased):
            return True
        tries += erased
        return None if any(not op.answered for op in tries) else False

    def contents(self, op: Op) -> list[str]:
        """Return what the message of an input may say by now: what its last acknowledged update said, or a later one."""
        said = [op.text]
        for one in self.ops.values():
            if one.verb == "update" and one.asked["target"] == op.id:
                said = [one.asked["content"]] if one.answered and one.error is None else [*said, one.asked["content"]]
        return said

    def fate(self, thread: str, verb: str) -> bool | None:
        """Say whether a thread was `create`d, `delete`d or `terminate`d; None where that is not known."""
        tries = [op for op in self.ops.values() if op.thread == thread and op.verb == verb]
        # What a repeat is told, where the first call was written and its answer was lost.
        again = {"create": "thread_exists", "delete": "thread_not_found"}.get(verb)
        if any(op.answered and op.error in (None, again) for op in tries):
            return True
        return None if any(not op.answered for op in tries) else False
