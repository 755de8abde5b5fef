"""Owns one random life of the whole heart on a stage: calls, bodies, moves, faults and deaths, all from one seed.

Which kinds of fault a seed may use is drawn first, so that rare combinations of few faults come up as often as the
usual mixture of all. The swarm keeps what callers were told and what bodies saw; at the end faults stop, and both are
compared with what is stored.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.actors import ExecutionCancelled
from treadle.actors.testing import Stage, StageStore
from treadle.agents import agent
from treadle.protocol.errors import (
    MessageNotFound,
    RequestExpired,
    ThreadNotFound,
    ThreadTerminated,
    TreadleError,
    Unavailable,
)
from treadle.storage.check import check_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.actors import Reply
    from treadle.actors.execution import Execution
    from treadle.agents import ThreadState

__all__ = ["Swarm"]

FAULTS = ("refuse", "unknown", "kill", "close")
ON_BUSY = ("reject", "queue", "steer", "interrupt")
REPEATABLE = ("submit", "queue", "steer", "interrupt")
THREADS = 3
DOOMED = "t2"  # the one thread that may be terminated and deleted
CALLS = 28
MOVES = 400


class Call(NamedTuple):
    """One call with its reply: `text` is its content and its id."""

    verb: str
    thread: str
    text: str
    make: Callable[[], Reply[Any]]
    reply: Reply[Any]


class Doing(NamedTuple):
    """What a body waits for, and whether its execution's interrupt was accepted before it asked."""

    kind: str
    reply: Reply[Any]
    told: bool
    asked: str = ""


class Resource:
    """What an execution owns; some do not close."""

    def __init__(self, *, broken: bool) -> None:
        self._broken = broken

    def close(self) -> None:
        if self._broken:
            raise OSError("it does not close")


class Swarm:
    """A stage, three threads of two agents, and everything that was said and seen."""

    def __init__(self, seed: int, *, always_evict: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.faults = {fault for fault in FAULTS if self.chance.random() < 0.5}
        self._editing = random.Random(f"edits of {seed}")  # its own, so that edits change no other choice
        self._tooling = random.Random(f"tools of {seed}")
        self.calls: list[Call] = []
        self.tools: list[Call] = []  # that were queued
        self.edits: list[Call] = []
        self.seen: list[str] = []
        self.interrupted: set[str] = set()
        self.asked: list[tuple[str, str]] = []  # (thread, request id)
        self.answers: dict[str, list[tuple[str, int]]] = {}  # to each request: what was said, in which call
        self.got: dict[str, object] = {}  # what bodies had for an answer, None where none came in time
        self.wrong: list[str] = []
        self._names = 0
        coroutine = agent(self._coroutine, name="coroutine", on_lost=self.chance.choice(["settle", "resume"]))
        function = agent(self._function, name="function", timeout=self.chance.choice([None, 8.0]))
        self.store = StageStore()
        self.on = Stage(
            coroutine, function, store=self.store, interrupt_grace=3, release_timeout=2, always_evict=always_evict
        ).__enter__()  # fmt: skip
        self.threads = [f"t{number}" for number in range(THREADS)]
        for number, name in enumerate(self.threads):
            self.on.thread(("coroutine", "function")[number % 2], thread_id=name)
        self._watch()

    # Bodies: what each does next is drawn when it does it.

    def _live(self, state: ThreadState) -> Execution:
        live: Execution = state.execution._execution  # type: ignore[union-attr, attr-defined]
        return live

    def _enter(self, state: ThreadState) -> None:
        live = self._live(state)
        if live.id in self.interrupted:
            self.wrong.append(f"a pass of {live.id} began after its accepted interrupt")
        self._see(state.execution.new_messages)  # type: ignore[union-attr]

    def _see(self, messages: Any) -> None:
        self.seen += [message.content for message in messages if message.role == "user"]

    def _next(self, state: ThreadState) -> Doing | None:
        kind = self.chance.choices(
            ["say", "sleep", "checkpoint", "model", "value", "queue", "own", "ask", "raise", "end"],
            [4, 3, 3, 2, 1, 1, 1, 1, 1, 4],
        )[0]
        told = self._live(state).id in self.interrupted
        if kind == "raise":
            raise ValueError("a body that fails")
        if kind == "own":
            state.execution.own(Resource(broken=self.chance.random() < 0.3))  # type: ignore[union-attr]
        if kind == "model":
            self._live(state).begin("model_request")
        makes: dict[str, Callable[[], Reply[Any]]] = {
            "model": lambda: state.inject_message("assistant", "generated"),
            "say": lambda: state.inject_message("assistant", "said"),
            "sleep": lambda: state.sleep(self.chance.choice([0.5, 2, 6])),
            "checkpoint": state.checkpoint,
            "own": state.checkpoint,
            "value": lambda: state.set_value("k", self.chance.randrange(9)),
            "queue": lambda: state.queue_message(self._name("own")),
        }
        if kind == "ask":
            asked = self._name("ask")
            self.asked.append((state.thread_id, asked))
            wait = state.request("approval", timeout=self.chance.choice([1, 5]), request_id=asked)
            return Doing(kind, wait, told, asked)
        return Doing(kind, makes[kind](), told) if kind in makes else None

    def _went_on(self, state: ThreadState, doing: Doing, got: Any) -> None:
        """Judge what a body got: no boundary is passed once an interrupt was accepted."""
        if doing.told and doing.kind in ("sleep", "checkpoint", "own", "model", "ask"):
            self.wrong.append(f"{self._live(state).id} passed a boundary after its accepted interrupt: {doing.kind}")
        if doing.asked:
            self.got[doing.asked] = got
        self._see(got if isinstance(got, list) else [])

    async def _coroutine(self, state: ThreadState) -> None:
        self._enter(state)
        while (doing := self._next(state)) is not None:
            try:
                got = await doing.reply
            except RequestExpired:
                self._went_on(state, doing, None)
            except asyncio.CancelledError:
                if self.chance.random() < 0.5:
                    raise
                await state.inject_message("assistant", "last words")
            else:
                self._went_on(state, doing, got)

    def _function(self, state: ThreadState) -> None:
        self._enter(state)
        while (doing := self._next(state)) is not None:
            try:
                got = doing.reply.result()
            except RequestExpired:
                self._went_on(state, doing, None)
            except ExecutionCancelled:
                if self.chance.random() < 0.5:
                    raise
                with suppress(TreadleError):
                    state.inject_message("assistant", "last words").result()
            else:
                self._went_on(state, doing, got)

    # Calls

    def _name(self, verb: str) -> str:
        self._names += 1
        return f"{verb}-{self._names}"

    def call(self) -> None:
        """Make one call, of the usual kinds and with the usual mistakes."""
        thread_id = f"t{self.chance.randrange(THREADS)}"
        shown = self.on.runtime.thread(thread_id).state()
        owner = shown.result().active_execution if shown.error() is None else None
        target = owner.execution_id if owner is not None and self.chance.random() < 0.9 else "0" * 32
        busy: Any = self.chance.choice(ON_BUSY)
        verb = self.chance.choices(
            [
                "submit",
                "queue",
                "steer",
                "interrupt",
                "withdraw",
                "stop",
                "resume",
                "again",
                "respond",
                "terminate",
                "delete",
            ],
            [16, 10, 10, 6, 4, 2, 4, 6, 8, 1, 1],
        )[0]
        if verb in ("terminate", "delete"):
            thread_id = DOOMED
        text = self._name(verb)
        mine = [call.text for call in self.calls if call.thread == thread_id and call.verb in ("submit", "queue")]
        makes: dict[str, Callable[[], Reply[Any]]] = {
            "submit": lambda: self.on.runtime.thread(thread_id).submit(text, input_id=text, on_busy=busy),
            "queue": lambda: self.on.runtime.thread(thread_id).queue_message(text, input_id=text),
            "steer": lambda: self.on.runtime.thread(thread_id).steer(target, text, control_id=text),
            "interrupt": lambda: self.on.runtime.thread(thread_id).interrupt(target, control_id=text),
            "stop": lambda: self.on.runtime.thread(thread_id).stop(),
            "resume": lambda: self.on.runtime.thread(thread_id).resume(),
            "terminate": lambda: self.on.runtime.thread(thread_id).terminate(),
            "delete": lambda: self.on.runtime.delete_thread(thread_id),
        }
        if verb == "withdraw":
            if not mine:
                return
            text = self.chance.choice(mine)
            makes["withdraw"] = lambda: self.on.runtime.thread(thread_id).withdraw(text)
        elif verb == "respond":
            if not self.asked:
                return
            thread_id, asked = self.chance.choice(self.asked[-3:])
            answer, text = text, asked
            makes["respond"] = lambda: self.on.runtime.thread(thread_id).respond(asked, answer)
            self.answers.setdefault(asked, []).append((answer, len(self.calls)))
        elif verb == "again":
            again = [call for call in self.calls if call.verb in REPEATABLE]
            if not again:
                return
            self._note(self.chance.choice(again))
            return
        self._note(Call(verb, thread_id, text, makes[verb], None))  # type: ignore[arg-type]

    def edit(self) -> None:
        """Update or delete a message that somebody was told of; an update leaves its text, by which it is counted."""
        known = [
            call for call in self.calls if call.verb in ("submit", "queue") and _said(call) in ("accepted", "queued")
        ]
        if not known:
            return
        call = self._editing.choice(known[-6:])
        thread, (message_id, *_) = self.on.runtime.thread(call.thread), call.reply.result().message_ids
        if self._editing.random() < 0.3:
            made = Call("erase", call.thread, call.text, call.make, thread.delete_message(message_id))
        else:
            made = call._replace(
                verb="update", reply=thread.update_message(message_id, metadata={"n": len(self.edits)})
            )
        self.edits.append(made)

    def queue_tool(self) -> None:
        """Queue a tool that nobody has; its arguments name the call."""
        name, text = self._tooling.choice(self.threads), f"tool-{len(self.tools)}"
        thread = self.on.runtime.thread(name)

        def make() -> Reply[Any]:
            return thread.queue_tool("look", {"of": text})

        self.tools.append(Call("tool", name, text, make, make()))

    def _note(self, call: Call) -> None:
        made = call._replace(reply=call.make())
        self.calls.append(made)

        def answered(reply: Reply[Any]) -> None:
            if reply.error() is None and made.verb in ("interrupt", "stop"):
                receipt = reply.result()
                if receipt.disposition == "accepted":
                    self.interrupted.add(receipt.execution_id)

        made.reply.add_done_callback(answered)

    # Watchers: one follows each thread for as long as a runtime lives.

    def _watch(self) -> None:
        self._streams = {}
        for name in self.threads:
            stream = self.on.runtime.thread(name).stream()
            try:
                first = stream.next(0)
            except ThreadNotFound:
                continue
            assert first is not None
            self._streams[name] = (stream, [first])

    def _look_at_watchers(self) -> None:
        for name, (stream, frames) in self._streams.items():
            with suppress(TimeoutError):
                while (frame := stream.next(0)) is not None:
                    frames.append(frame)
            state = self._state(name)
            if state is None:
                continue
            shown = next(frame["status"] for frame in reversed(frames) if frame["type"] == "thread_status")
            if shown != state.status.to_wire():
                self.wrong.append(f"a watcher of {name} ends with {shown}, not {state.status}")
            places = [int(frame["cursor"].partition(":")[2]) for frame in frames if "cursor" in frame]
            if places != list(range(places[0], places[0] + len(places))):
                self.wrong.append(f"a watcher of {name} got {places}")

    # Moves

    def move(self) -> None:
        """Do one thing that the seed chooses."""
        on, chance = self.on, self.chance
        kind = chance.choices(["call", "turn", "commit", "body", "release", "time", "fault"], [5, 30, 14, 25, 6, 4, 2])[
            0
        ]
        if kind == "call" and len(self.calls) < CALLS:
            self.call()
            if self._editing.random() < 0.4:
                self.edit()
            if self._tooling.random() < 0.2:
                self.queue_tool()
        elif kind == "turn":
            on.turn(chance.randrange(4))
        elif kind == "commit":
            on.commit()
        elif kind == "body":
            on.body(chance.randrange(4))
        elif kind == "release":
            on.release(chance.randrange(4))
        elif kind == "time":
            on.advance(chance.choice([0.05, 0.5, 1, 3]))
        elif kind == "fault" and self.faults:
            getattr(self, f"_{chance.choice(sorted(self.faults))}")()

    def _refuse(self) -> None:
        self.on.refuse()

    def _unknown(self) -> None:
        if self.store.pending():
            self.store.lose_next(written=self.chance.random() < 0.5)
            self.on.commit()

    def _kill(self) -> None:
        self.on.kill()
        self._look("after a death")
        self.on.reopen()
        self._watch()

    def _close(self) -> None:
        """Break the store for good, and open it again."""
        if self.store.pending():
            self.store.break_next()
            self.on.settle()
            self.on.reopen()
            self._watch()

    def _look(self, when: str, *, at_rest: bool = False) -> None:
        self.store.open()
        try:
            report = check_tables(self.store)
        finally:
            self.store.crash()
        if report.broken:
            self.wrong.append(f"{when} the tables are broken: {report.broken}")
        if at_rest and (report.running or report.waiting):
            self.wrong.append(f"{when} {report.running} run, and {report.waiting} inputs wait")

    # The end

    def run(self) -> list[str]:
        """Live, come to rest without faults, and return what is wrong."""
        try:
            for _ in range(MOVES):
                self.move()
            self._rest()
            self._repeat()
            self._judge()
            self._judge_requests()
            self._judge_tools()
            self._look_at_watchers()
            self.on.kill()
            self._look("at the end", at_rest=True)
            self.wrong += [
                f"{name}: {details}" for name, details in self.on.reports if name in ("actor_crashed", "decide_failed")
            ]
        finally:
            self.on.close()
        return self.wrong

    def _rest(self) -> None:
        """Once faults stop every thread comes to rest: nothing waits, nothing runs."""
        for _ in range(200):
            self.on.settle()
            states = [state for state in map(self._state, self.threads) if state is not None]
            quiet = all(state.active_execution is None and (state.held or not state.waiting) for state in states)
            ready, reasons = self.on.runtime.ready()
            if quiet and reasons == ["storage_full"]:
                # What was refused is over; that there is room again is known by the next write.
                self.on.ask(self.on.runtime.thread("t0").set_value("room", True))
                ready, _ = self.on.runtime.ready()
            if quiet and ready and not self.on.services.supervisor.clearing:
                if not any(state.held and state.terminated_at is None for state in states):
                    return
                for name in self.threads:
                    resumed = self.on.runtime.thread(name).resume()
                    self.on.settle()
                    resumed.error()
            self.on.advance(1)
        self.wrong.append(f"not at rest: {states}, {self.on.runtime.ready()}")

    def _state(self, name: str) -> Any:
        reply = self.on.runtime.thread(name).state()
        return reply.result() if reply.error() is None else None

    def _repeat(self) -> None:
        """Repeat what nobody answered, or answered with "repeat it": it gets its first receipt, or is judged afresh."""
        for call in list(self.calls):
            error = call.reply.error()
            if call.verb not in REPEATABLE:
                continue
            if not call.reply.done() or isinstance(error, Unavailable):
                self._note(call)
                self._rest()
        for call in (*self.calls, *self.edits, *self.tools):
            error = call.reply.error()
            if isinstance(error, MessageNotFound):
                continue  # it was withdrawn or deleted
            over = call.thread == DOOMED and isinstance(error, ThreadTerminated | ThreadNotFound)
            if error is not None and not isinstance(error, Unavailable) and not over:
                self.wrong.append(f"{call.verb} {call.text} was answered with {error!r}")

    def _judge(self) -> None:
        history: dict[str, list[str]] = {}
        for name in self.threads:
            if self._state(name) is not None:
                page = self.on.runtime.thread(name).messages(limit=1_000, order="asc").result()
                history[name] = [message.content or "" for message in page.messages]
        every = [text for texts in history.values() for text in texts]
        withdrawn = {call.text for call in self.calls if call.verb == "withdraw" and _said(call) == "withdrawn"}
        unsure = {call.text for call in self.calls if call.verb == "withdraw" and _said(call) is None}
        # Of a message that was stored, deleting it says False where it is gone already.
        withdrawn |= {call.text for call in self.edits if call.verb == "erase" and _said(call) in (True, False)}
        unsure |= {call.text for call in self.edits if call.verb == "erase"}
        for call in self.calls:
            taken = call.verb in ("submit", "queue", "steer") and _said(call) in ("accepted", "queued")
            if taken and call.thread in history:
                found = history[call.thread].count(call.text)
                if found != (call.text not in withdrawn) and not (found == 0 and call.text in unsure):
                    self.wrong.append(f"{call.verb} {call.text} is {found} times in history, withdrawn: {withdrawn}")
        doubled = {text for text in every if "-" in text and every.count(text) > 1}
        seen_twice = {text for text in self.seen if self.seen.count(text) > 1}
        if doubled or seen_twice:
            self.wrong.append(f"joined twice: {doubled}; seen twice: {seen_twice}")
        unseen = set(self.seen) - set(every) - withdrawn - unsure
        if unseen and len(history) == THREADS:
            self.wrong.append(f"a body saw what history does not know: {unseen}")

    def _judge_requests(self) -> None:
        """One answer at most was taken, it is the one that the body had, and nothing is pending at rest."""
        for name, asked in self.asked:
            if self._state(name) is None:
                continue
            answers = [(answer, self.calls[place]) for answer, place in self.answers.get(asked, ())]
            accepted = [answer for answer, call in answers if _said(call) == "accepted"]
            unsure = [answer for answer, call in answers if _said(call) is None]
            now = self.on.ask(self.on.runtime.thread(name).respond(asked, "late"))
            found = (asked, now, accepted, unsure, self.got.get(asked, "nothing"))
            if now == "accepted" or len(accepted) > 1 or (accepted and now != "already_resolved"):
                self.wrong.append(f"a request was answered again, or not for ever: {found}")
            if now == "already_resolved" and not accepted and not unsure:
                self.wrong.append(f"a request has an answer that nobody gave: {found}")
            if asked in self.got:
                had = self.got[asked]
                due = "timed_out" if had is None else "already_resolved"
                if now != due or not (had is None or had in accepted or (not accepted and had in unsure)):
                    self.wrong.append(f"a body had another answer than was taken: {found}")

    def _judge_tools(self) -> None:
        """A queued tool that was acknowledged is called once, and at rest every call has its one result."""
        for name in self.threads:
            if self._state(name) is None:
                continue
            page = self.on.runtime.thread(name).messages(limit=1_000, include_silent=True).result()
            made = [call for message in page.messages for call in json.loads(message.tool_calls or "[]")]
            results = Counter(message.tool_call_id for message in page.messages if message.role == "tool")
            if results != Counter(call["id"] for call in made):
                self.wrong.append(f"calls and results of {name} do not match: {made}, {results}")
            found = Counter(json.loads(call["function"]["arguments"]).get("of") for call in made)
            for call in self.tools:
                least = int(_said(call) == "queued") if call.thread == name else 0
                if not least <= found[call.text] <= int(call.thread == name):
                    self.wrong.append(f"queued tool {call.text} of {call.thread} is {found[call.text]} times in {name}")


def _said(call: Call) -> object:
    if not call.reply.done() or call.reply.error() is not None:
        return None
    value = call.reply.result()
    return getattr(value, "disposition", value)
