"""Owns the proof that a thread's history is a list: whatever is put in, updated, deleted and read, in any order, through deaths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import MessageNotFound, StorageFull
from treadle.storage.check import check_tables

PICKS = st.integers(0, 10_000)
METADATA = st.none() | st.dictionaries(
    st.sampled_from("abc"), st.none() | st.integers(0, 3) | st.booleans(), max_size=2
)
OLD = 140  # messages at the start: more than a block of gaps, and more than a tail


class Told:
    """A message as the model knows it."""

    def __init__(self, message_id: str, content: str, *, silent: bool = False, depth: int = 0) -> None:
        self.id = message_id
        self.content = content
        self.silent = silent
        self.depth = depth
        self.metadata: dict[str, Any] = {}

    def copy(self) -> Told:
        new = Told(self.id, self.content, silent=self.silent, depth=self.depth)
        new.metadata = dict(self.metadata)
        return new

    def change(self, content: str | None, metadata: dict[str, Any] | None) -> None:
        self.content = self.content if content is None else content
        for name, value in (metadata or {}).items():
            if value is None:
                self.metadata.pop(name, None)
            else:
                self.metadata[name] = value


def form(message: Any) -> tuple[Any, ...]:
    """Return what of a message the model tells; what the runtime adds to its metadata stands apart."""
    metadata = {name: value for name, value in (message.metadata or {}).items() if len(name) == 1}
    return message.id, message.content, message.silent, message.depth, repr(sorted(metadata.items()))


class HistoryMachine(RuleBasedStateMachine):
    """One held thread, the list that its history is, and the list of lists that its inbox is."""

    always_evict = False

    @initialize()
    def begin(self) -> None:
        self.puppet = Puppet()
        self.on = Stage(self.puppet, always_evict=self.always_evict).__enter__()
        self.thread = self.on.thread(thread_id="t")
        replies = [self.thread.inject_message("user", f"old {rank}") for rank in range(OLD)]
        self.on.settle()
        self.history = [Told(reply.result().id, f"old {rank}") for rank, reply in enumerate(replies)]
        self.waiting: list[list[Told]] = []
        self.gone: list[str] = []
        self.open: list[tuple[Any, Any]] = []  # replies with what they must say, until they are there
        self.names = 0
        self.on.ask(self.thread.stop())

    def teardown(self) -> None:
        if hasattr(self, "on"):
            self.settle()
            assert check_tables(self.on.store).broken == ()
            self.on.close()

    def _name(self) -> str:
        self.names += 1
        return f"new {self.names}"

    def _all(self) -> list[Told]:
        return [*self.history, *(told for row in self.waiting for told in row)]

    def _find(self, pick: int) -> Told | None:
        """Return one that is there, the newest more often than the others, or now and then none."""
        every = self._all()
        return every[-1 - pick % len(every)] if every and pick % 9 else None

    # What is put in

    @rule(silent=st.booleans())
    def inject(self, silent: bool) -> None:
        self.settle()
        content = self._name()
        message = self.on.ask(self.thread.inject_message("user", content, silent=silent))
        self.history.append(Told(message.id, content, silent=silent))

    @rule(count=st.integers(1, 3))
    def queue(self, count: int) -> None:
        self.settle()
        contents = [self._name() for _ in range(count)]
        receipt = self.on.ask(self.thread.queue_message(contents))
        self.waiting.append([Told(name, one) for name, one in zip(receipt.message_ids, contents, strict=True)])

    @precondition(lambda self: self.waiting)
    @rule(deep=st.booleans())
    def run(self, deep: bool) -> None:
        """Let what waits join, with a word of the body at some depth."""
        self.settle()
        self.on.ask(self.thread.resume())
        self.on.settle()
        joined = [told for row in self.waiting for told in row]
        assert [form(message) for message in self.puppet.passes[-1]] == [form(told) for told in joined]
        self.history += joined
        self.waiting = []
        if deep:
            told = Told(f"deep-{self._name()}".replace(" ", ""), "deep", depth=1)
            self.on.ask(
                self.puppet.execution.append({"id": told.id, "role": "assistant", "content": "deep", "depth": 1})
            )
            self.history.append(told)
        self.puppet.returns()
        self.on.settle()
        self.on.ask(self.thread.stop())

    # What is changed: asked without waiting, so that several come into one batch

    @rule(pick=PICKS, content=st.none() | st.sampled_from(["x", "y", "z" * 500]), metadata=METADATA)
    def update(self, pick: int, content: str | None, metadata: dict[str, Any] | None) -> None:
        told = self._find(pick)
        more: dict[str, Any] = {} if content is None else {"content": content}
        if metadata is not None or not more:
            more["metadata"] = metadata or {}
        if told is not None:
            told.change(content, metadata)
        reply = self.thread.update_message("nobody" if told is None else told.id, **more)
        self.open.append((reply, MessageNotFound if told is None else form(told)))

    @rule(pick=PICKS)
    def delete(self, pick: int) -> None:
        told = self._find(pick)
        if told is None:
            name = self.gone[-1] if self.gone else "nobody"
            self.open.append((self.thread.delete_message(name), False))
            return
        for row in (self.history, *self.waiting):
            if told in row:
                row.remove(told)
        self.waiting = [row for row in self.waiting if row]
        self.gone.append(told.id)
        self.open.append((self.thread.delete_message(told.id), True))

    @rule(picks=st.lists(PICKS, min_size=1, max_size=4))
    def refused(self, picks: list[int]) -> None:
        """Ask for what the store then refuses."""
        self.settle()
        replies: list[Any] = []
        for pick in picks:
            told = self._find(pick)
            if told is not None:
                replies.append(self.thread.delete_message(told.id))
                replies.append(self.thread.update_message(told.id, content="never"))
        while replies and not all(reply.done() for reply in replies):
            while self.on.turn():
                pass
            self.on.refuse()
        assert {type(reply.error()) for reply in replies} <= {StorageFull}

    @rule()
    def die(self) -> None:
        self.settle()
        self.on.kill()
        self.on.reopen()
        self.thread = self.on.runtime.thread("t")

    @rule()
    def settle(self) -> None:
        self.on.settle()
        for reply, expected in self.open:
            error = reply.error()
            if error is not None:
                assert type(error) is expected
            elif isinstance(expected, bool):
                assert reply.result() is expected
            else:
                assert form(reply.result()) == expected
        self.open = []

    # What is read

    @rule(
        order=st.sampled_from(["asc", "desc", None]), offset=st.integers(0, OLD + 20), limit=st.integers(0, 30),
        silent=st.booleans(), depth=st.integers(0, 1),
    )  # fmt: skip
    def page(self, order: Any, offset: int, limit: int, silent: bool, depth: int) -> None:
        self.settle()
        page = self.thread.messages(
            order=order, offset=offset, limit=limit, include_silent=silent, max_depth=depth
        ).result()
        listed = [told for told in self._all() if (silent or not told.silent) and told.depth <= depth]
        newest = listed[::-1][offset : offset + limit]
        expected = {"asc": listed[offset : offset + limit], "desc": newest, None: newest[::-1]}[order]
        assert [form(message) for message in page.messages] == [form(told) for told in expected]
        assert (page.total, page.has_more) == (len(listed), offset + len(expected) < len(listed))

    @precondition(lambda self: self.history)
    @rule(pick=PICKS, limit=st.integers(0, 20), before=st.booleans())
    def beside(self, pick: int, limit: int, before: bool) -> None:
        self.settle()
        place = pick % len(self.history)
        where = {"before" if before else "after": self.history[place].id}
        page = self.thread.messages(limit=limit, include_silent=True, max_depth=1, **where).result()  # type: ignore[arg-type]
        expected = (
            self.history[max(0, place - limit) : place] if before else self.history[place + 1 : place + 1 + limit]
        )
        assert [form(message) for message in page.messages] == [form(told) for told in expected]

    @rule(
        start=st.integers(-200, 200), stop=st.none() | st.integers(-200, 200), step=st.sampled_from([1, 1, 2, -1, -7])
    )
    def look(self, start: int, stop: int | None, step: int) -> None:
        """Look into the history that a body has."""
        self.settle()
        if not self.puppet.passes:
            return
        history = self.puppet.execution.history if not self._died() else None
        if history is None:
            return
        assert len(history) == len(self.history)
        assert [form(one) for one in history[start:stop:step]] == [form(told) for told in self.history[start:stop:step]]
        assert [form(one) for one in history] == [form(told) for told in self.history]
        assert [form(one) for one in reversed(history)] == [form(told) for told in self.history[::-1]]

    def _died(self) -> bool:
        return self.puppet.execution.services is not self.on.services

    @invariant()
    def by_id(self) -> None:
        if getattr(self, "open", None) == [] and self.gone:
            assert self.thread.message(self.gone[-1]).result() is None


class EvictedHistoryMachine(HistoryMachine):
    """The same, with every free thread dropped and loaded again."""

    always_evict = True


FEW = settings(max_examples=6, stateful_step_count=30)
MANY = settings(max_examples=150, stateful_step_count=60)


def test_a_history_is_a_list(always_evict: bool) -> None:
    run(EvictedHistoryMachine if always_evict else HistoryMachine, FEW)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("machine", [HistoryMachine, EvictedHistoryMachine], ids=["kept", "evicted"])
def test_many_histories_are_lists(machine: type[HistoryMachine]) -> None:
    run(machine, MANY)


def run(machine: type[HistoryMachine], how: settings) -> None:
    run_state_machine_as_test(machine, settings=how)  # type: ignore[no-untyped-call]
