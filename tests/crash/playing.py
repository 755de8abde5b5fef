"""Owns the script that is played while the store fails: some of every call, each repeated with its id until it is answered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from treadle.protocol.errors import ThreadExists, ThreadNotFound, TreadleError, Unavailable

from .bodies import NAMES, make_agents
from .ledger import Ledger
from .worlds import Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply, Thread
    from treadle.agents import FunctionAgent
    from treadle.protocol.receipts import Receipt

    from .worlds import World

__all__ = ["Player", "play"]

TRIES = 60


class Player:
    """Calls, remembers and repeats.

    Attributes:
        ledger: what was asked and answered.
        blocked: what `explain()` said about threads while the store failed.
        errors: codes that calls met.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.blocked: list[Any] = []
        self.errors: list[str] = []
        self.heal_after: int | None = None  # errors
        self._world: World
        self._calls = 0

    def agents(self) -> list[FunctionAgent[Any]]:
        return make_agents(self._say)

    def enter(self, world: World) -> None:
        self._world = world
        world.on_time = self._look

    def _say(self, line: dict[str, Any]) -> None:
        self.ledger.read(json.dumps(line))

    def thread(self, name: str) -> Thread:
        return self._world.runtime.thread(name)

    def call(self, thread: str, verb: str, make: Callable[[Thread, str], Reply[Any]], **asked: Any) -> Any:
        """Ask, and ask again with the same id until there is an answer that is not "not now"."""
        self._calls += 1
        given = f"k.{self._calls}"
        text = asked.pop("text", None)
        op = {"op": given, "thread": thread, "verb": verb, **asked}
        if text is not None:
            op["text"] = f"{given} {text}"
        self._say(op)
        value, error = self._insist(lambda: make(self.thread(thread), op.get("text", given)))
        kept = None if verb in ("create", "inject", "update", "terminate", "delete") else value
        self._say({"ack": given, "receipt": kept, **({"error": error} if error else {})})
        return value

    def _insist(self, make: Callable[[], Reply[Any]]) -> tuple[Any, str | None]:
        for _ in range(TRIES):
            try:
                return self._world.get(make()), None
            except Stopped:
                self._world.reopen()
            except Unavailable as error:
                self.errors.append(error.code)
                self._trouble()
            except (ThreadExists, ThreadNotFound) as error:
                # A repeat of what was written the first time.
                return None, error.code
            except TreadleError as error:
                raise AssertionError(f"an error that nothing here explains: {error!r}") from error
        raise AssertionError(f"still refused after {TRIES} tries: {self.errors[-3:]}")

    def _trouble(self) -> None:
        self._look()
        self._heal()
        self._world.pass_time()

    def _look(self) -> None:
        """See what is blocked: what nobody asked for has nobody to be told."""
        ready, reasons = self._world.runtime.ready()
        found = []
        for name in ("t0", "t1", "t2", "gone", "deleted"):
            told = self.thread(name).explain()
            if told.error() is None and (blocked := told.result().blocked) is not None:
                assert not ready, (blocked, reasons)
                assert blocked.what in told.result().next, told.result()
                found.append(blocked)
        self.blocked += found
        if found:
            self.errors.append("blocked")
            self._heal()

    def _heal(self) -> None:
        if self.heal_after is not None and len(self.errors) >= self.heal_after:
            self._world.faults.heal()

    def become_ready(self) -> None:
        """Let what is still tried again get through."""
        for _ in range(TRIES):
            ready, _ = self._world.runtime.ready()
            if ready:
                return
            self._world.pass_time()
        raise AssertionError(f"the runtime does not become ready: {self._world.runtime.ready()}")

    # Verbs

    def create(self, name: str, agent: str) -> None:
        self.call(
            name, "create", lambda _thread, _text: self._world.runtime.create_thread(agent, thread_id=name, user_id="u")
        )

    def submit(self, name: str, how: str = "plain", on_busy: Any = "reject") -> Receipt | None:
        def make(thread: Thread, text: str) -> Reply[Any]:
            return thread.submit(text, input_id=text.split(maxsplit=1)[0], on_busy=on_busy)

        receipt: Receipt | None = self.call(name, "submit", make, text=how, on_busy=on_busy)
        return receipt

    def queue(self, name: str, how: str = "plain") -> Receipt | None:
        receipt: Receipt | None = self.call(
            name, "queue", lambda thread, text: thread.queue_message(text, input_id=text.split(maxsplit=1)[0]), text=how
        )
        return receipt

    def steer(self, name: str, target: str) -> None:
        def make(thread: Thread, text: str) -> Reply[Any]:
            return thread.steer(target, text, control_id=text.split(maxsplit=1)[0])

        self.call(name, "steer", make, text="plain", target=target)

    def interrupt(self, name: str, target: str, *, hold: bool = False) -> None:
        def make(thread: Thread, given: str) -> Reply[Any]:
            return thread.interrupt(target, hold=hold, control_id=given)

        self.call(name, "interrupt", make, target=target, hold=hold)

    def plainly(self, name: str, verb: str, make: Callable[[Thread], Reply[Any]], **asked: Any) -> Any:
        return self.call(name, verb, lambda thread, _text: make(thread), **asked)

    def edit(self, name: str) -> None:
        """Inject two messages, which no repeat can name, then update the first and delete the second."""
        kept, gone = (
            self.plainly(name, "inject", lambda thread: thread.inject_message("user", "by the way")).id
            for _ in range(2)
        )
        self.plainly(name, "update", lambda thread: thread.update_message(kept, content="rather"), target=kept)
        self.plainly(name, "erase", lambda thread: thread.delete_message(gone), target=gone)
        found = [self._insist(lambda one=one: self.thread(name).message(one))[0] for one in (kept, gone)]
        assert [message and message.content for message in found] == ["rather", None], found

    def rest(self, name: str) -> None:
        """Let everything that may run on a thread run to its end."""
        for _ in range(TRIES):
            try:
                if self._world.stopped():
                    raise Stopped
                live = self._world.get(self.thread(name).state())
                if live.active_execution is None and (live.waiting == 0 or live.held):
                    return
                if live.active_execution is not None:
                    self._world.get(self.thread(name).wait(live.active_execution.execution_id))
                else:
                    self._look()
                    self._world.pass_time()
            except Stopped:
                self._world.reopen()
            except Unavailable as error:
                self.errors.append(error.code)
                self._trouble()
        raise AssertionError(f"thread {name} does not come to rest: {self._world.get(self.thread(name).explain())}")


def play(player: Player) -> None:
    """Some of everything, on threads of each kind of agent."""
    for name, agent in zip(("t0", "t1", "t2"), NAMES, strict=True):
        player.create(name, agent)
    player.submit("t0")
    player.rest("t0")
    _play_busy(player)
    _play_held(player)
    for name in ("t1", "t2"):
        player.submit(name)
        player.queue(name)
        player.submit(name, on_busy="queue")
        player.rest(name)
    _play_endings(player)
    for name in ("t0", "t1", "t2"):
        player.rest(name)


def _play_busy(player: Player) -> None:
    """What comes while an execution runs."""
    receipt = player.submit("t0", "long", on_busy="queue")
    if receipt is not None and receipt.execution_id is not None:
        player.steer("t0", receipt.execution_id)
    player.queue("t0", "queue")
    player.submit("t0", "tool", on_busy="steer")
    waiting = player.submit("t0", on_busy="queue")
    player.edit("t0")
    player.plainly("t0", "value", lambda thread: thread.set_value("k", [1, 2]))
    if waiting is not None and waiting.input_id is not None:
        given = waiting.input_id
        player.plainly("t0", "withdraw", lambda thread: thread.withdraw(given), target=given)
    player.submit("t0", "value", on_busy="interrupt")
    player.rest("t0")


def _play_held(player: Player) -> None:
    """What waits for a hold to be lifted."""
    receipt = player.submit("t0", "open", on_busy="queue")
    if receipt is not None and receipt.execution_id is not None:
        player.interrupt("t0", receipt.execution_id, hold=True)
    player.queue("t0", "fail")
    player.rest("t0")
    player.plainly("t0", "resume", lambda thread: thread.resume())
    player.rest("t0")
    player.plainly("t0", "stop", lambda thread: thread.stop())
    player.queue("t0")
    player.submit("t0", on_busy="queue")
    player.rest("t0")


def _play_endings(player: Player) -> None:
    """Threads that end."""
    player.create("gone", "talk")
    player.queue("gone", "long")
    player.plainly("gone", "terminate", lambda thread: thread.terminate())
    player.create("deleted", "talk")
    player.queue("deleted", "long")
    player.plainly("deleted", "delete", lambda thread: player._world.runtime.delete_thread("deleted"))
