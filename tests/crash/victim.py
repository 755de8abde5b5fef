"""Owns the process that is killed: a seeded mix of calls on a real runtime, each acknowledgement printed before going on.

Run as a program it reads orders, one JSON line each, and forks a process for every one, so that a death costs a fork
and not an import. Whatever that process is told becomes a line at once; a line that is there was acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

from treadle.actors import Runtime
from treadle.protocol.errors import TreadleError
from treadle.storage import LmdbStore
from treadle.storage.points import arm

from .bodies import NAMES, make_agents

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply, Thread

THREADS = [f"t{rank}" for rank in range(6)]  # thread n runs agent n modulo their number
WINDOW = 8  # calls under way at once
CALLS = 600  # then the script ends by itself: its point was never reached
MISSED = 3  # the exit code that says so
FLAVOURS = (
    ["plain"] * 6
    + ["long"] * 5
    + ["tool", "tool", "open", "value", "queue", "queue", "fail", "process", "hand", "hand", *["ask"] * 5]
)


class Victim:
    """One life: sends calls until it is killed.

    Args:
        store: the directory.
        seed: of the mix.
        name: begins every id of this life, since ids are for ever.
    """

    def __init__(self, store: str, seed: int, name: str) -> None:
        self._chance = random.Random(seed)
        self._name = name
        self._window = threading.Semaphore(WINDOW)
        self._live: dict[str, str] = {}  # thread -> the execution that was accepted last
        self._waiting: list[tuple[str, str]] = []  # (thread, input id) that were queued
        self._asked: list[tuple[str, str]] = []  # (thread, request id)
        self._stored: list[tuple[str, str, str]] = []  # (thread, op, message id) of what was injected or queued
        self._calls = 0
        self._runtime = Runtime(
            LmdbStore(store), agents=make_agents(self._note), interrupt_grace=0.5, drain_timeout=0.5
        )

    def _note(self, line: dict[str, Any]) -> None:
        say(line)
        if "asked" in line:
            self._asked.append((line["thread"], line["asked"]))

    def run(self) -> None:
        self._runtime.open()
        for rank, name in enumerate(THREADS):
            self._send({"thread": name, "verb": "create"}, lambda name=name, rank=rank: self._create(name, rank))
        for _ in range(CALLS):
            self._step()
        os._exit(MISSED)

    def _step(self) -> None:
        thread_id = self._chance.choice(THREADS)
        verb = self._chance.choice(VERBS)
        verb(self, self._runtime.thread(thread_id))

    def _create(self, name: str, rank: int) -> Reply[Thread]:
        return self._runtime.create_thread(NAMES[rank % len(NAMES)], thread_id=name, user_id=f"u{rank % 2}")

    def _send(self, op: dict[str, Any], call: Callable[[], Reply[Any]]) -> Reply[Any]:
        """Say what is about to be asked, ask it, and have the answer said by whoever brings it."""
        self._window.acquire()
        self._calls += 1
        op.setdefault("op", f"{self._name}.{self._calls}")
        say(op)
        reply = call()
        reply.add_done_callback(lambda done: self._answered(op, done))
        return reply

    def _answered(self, op: dict[str, Any], reply: Reply[Any]) -> None:
        error = reply.error()
        if error is None:
            receipt = reply.result()
            told = None if op["verb"] in ("create", "inject", "update") else receipt
            # A queued tool's input id is none of ours.
            is_ours = op["verb"] != "tool"
            say({"ack": op["op"], "receipt": told})
            if op["verb"] == "inject":
                self._stored.append((op["thread"], op["op"], receipt.id))
            if op["verb"] == "submit" and receipt.execution_id is not None:
                self._live[op["thread"]] = receipt.execution_id
            if is_ours and getattr(receipt, "disposition", None) == "queued":
                self._waiting.append((op["thread"], op["op"]))
                self._stored += [(op["thread"], op["op"], message_id) for message_id in receipt.message_ids]
        else:
            code = error.code if isinstance(error, TreadleError) else repr(error)
            say({"ack": op["op"], "error": code})
        self._window.release()

    def _input(self, thread: Thread, verb: str, **more: Any) -> dict[str, Any]:
        given = f"{self._name}.{self._calls + 1}"
        return {
            "op": given, "thread": thread.id, "verb": verb, "text": f"{given} {self._chance.choice(FLAVOURS)}", **more,
        }  # fmt: skip

    def _submit(self, thread: Thread) -> None:
        on_busy = self._chance.choice(["reject", "reject", "queue", "queue", "steer", "interrupt"])
        op = self._input(thread, "submit", on_busy=on_busy)
        self._send(op, lambda: thread.submit(op["text"], input_id=op["op"], on_busy=on_busy))

    def _queue(self, thread: Thread) -> None:
        op = self._input(thread, "queue")
        self._send(op, lambda: thread.queue_message(op["text"], input_id=op["op"]))

    def _queue_tool(self, thread: Thread) -> None:
        op = {"op": f"{self._name}.{self._calls + 1}", "thread": thread.id, "verb": "tool"}
        self._send(op, lambda: thread.queue_tool("look", {"of": op["op"]}))

    def _steer(self, thread: Thread) -> None:
        target = self._live.get(thread.id)
        if target is not None:
            op = self._input(thread, "steer", target=target)
            self._send(op, lambda: thread.steer(target, op["text"], control_id=op["op"]))

    def _interrupt(self, thread: Thread) -> None:
        target, hold = self._live.get(thread.id), self._chance.random() < 0.3
        if target is not None:
            op = {"op": f"{self._name}.{self._calls + 1}", "thread": thread.id, "verb": "interrupt"}
            op |= {"target": target, "hold": hold}
            self._send(op, lambda: thread.interrupt(target, hold=hold, control_id=op["op"]))

    def _withdraw(self, thread: Thread) -> None:
        if self._waiting:
            where, given = self._waiting.pop(self._chance.randrange(len(self._waiting)))
            op = {"thread": where, "verb": "withdraw", "target": given}
            self._send(op, lambda: self._runtime.thread(where).withdraw(given))

    def _respond(self, _thread: Thread) -> None:
        """Answer one of the last requests, perhaps again, perhaps too late, perhaps too early."""
        if self._asked:
            where, asked = self._chance.choice(self._asked[-4:])
            op = {"op": f"{self._name}.{self._calls + 1}", "thread": where, "verb": "respond", "target": asked}
            self._send(op, lambda: self._runtime.thread(where).respond(asked, op["op"]))

    def _resume(self, thread: Thread) -> None:
        self._send({"thread": thread.id, "verb": "resume"}, thread.resume)

    def _stop(self, thread: Thread) -> None:
        self._send({"thread": thread.id, "verb": "stop"}, thread.stop)

    def _inject(self, thread: Thread) -> None:
        op = self._input(thread, "inject")
        self._send(op, lambda: thread.inject_message("user", op["text"]))

    def _update(self, _thread: Thread) -> None:
        """Change a message, in history or while it waits; its text goes on beginning with its id."""
        if self._stored:
            where, given, message_id = self._chance.choice(self._stored[-6:])
            op = {"op": f"{self._name}.{self._calls + 1}", "thread": where, "verb": "update", "target": given}
            op["content"] = f"{given} plain {op['op']}"
            self._send(op, lambda: self._runtime.thread(where).update_message(message_id, content=op["content"]))

    def _erase(self, _thread: Thread) -> None:
        if self._stored:
            where, given, message_id = self._chance.choice(self._stored[-6:])
            op = {"op": f"{self._name}.{self._calls + 1}", "thread": where, "verb": "erase", "target": given}
            self._send(op, lambda: self._runtime.thread(where).delete_message(message_id))

    def _value(self, thread: Thread) -> None:
        self._send({"thread": thread.id, "verb": "value"}, lambda: thread.set_value("outside", self._calls))

    def _pass_by(self, _thread: Thread) -> None:
        """Make a thread for a single message, and delete or terminate it once it is there."""
        name = f"{self._name}.{self._calls + 1}-gone"
        self._send({"thread": name, "verb": "create"}, lambda: self._create(name, 0)).result(60)
        thread = self._runtime.thread(name)
        op = self._input(thread, "queue")
        self._send(op, lambda: thread.queue_message(op["text"], input_id=op["op"]))
        if self._chance.random() < 0.7:
            self._send({"thread": name, "verb": "delete"}, lambda: self._runtime.delete_thread(name))
        else:
            self._send({"thread": name, "verb": "terminate"}, thread.terminate)


VERBS = [
    *[Victim._submit] * 12, *[Victim._queue] * 5, *[Victim._steer] * 6, *[Victim._interrupt] * 2, *[Victim._withdraw] * 2,
    *[Victim._resume] * 2, *[Victim._respond] * 6, Victim._stop, *[Victim._inject] * 2, Victim._value,
    Victim._pass_by, *[Victim._queue_tool] * 3, *[Victim._update] * 4, *[Victim._erase] * 2,
]  # fmt: skip

_out = threading.Lock()


def say(line: dict[str, Any]) -> None:
    """Write one line at once: what is in the pipe survives the process."""
    with _out:
        os.write(1, json.dumps(line).encode() + b"\n")


def main() -> None:
    for text in sys.stdin:
        order = json.loads(text)
        child = os.fork()
        if child == 0:
            arm(order["point"], order["nth"])
            try:
                Victim(order["store"], order["seed"], order["name"]).run()
            except BaseException as error:
                say({"broke": repr(error)})
                raise
            finally:
                os._exit(4)
        _, status = os.waitpid(child, 0)
        say({"ended": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main()
