"""Tests actors/reads.py: pages as the contract cuts them (D.3), and the lazy history of a thread longer than its tail."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from treadle.actors.reads import MessageHistory, check_number
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import (
    ExecutionNotFound,
    InputNotFound,
    InvalidInput,
    MessageNotFound,
    ThreadNotFound,
    TreadleError,
)
from treadle.protocol.limits import HISTORY_TAIL, PAGE_MAX
from treadle.storage import LmdbStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from treadle.actors import MessagePage, Runtime, Thread

    Enter = Callable[..., Stage]

GUARD_S = 60.0


class Told(NamedTuple):
    """A message as the test knows it."""

    text: str
    silent: bool = False
    depth: int = 0
    waits: bool = False


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | LmdbStore:
    return MemoryStore() if request.param == "memory" else LmdbStore(tmp_path / "store")


@pytest.fixture
def told(runtime: Callable[..., Runtime]) -> tuple[Thread, list[Told]]:
    """A held thread of messages of four classes, with others of three kinds that wait."""
    puppet = Puppet()
    thread = runtime(puppet).create_thread(puppet).result(GUARD_S)
    execution_id = thread.submit("0").result(GUARD_S).execution_id
    puppet.wait_for_pass(1)
    history = [Told("0")]
    for rank in range(1, 20):
        one = Told(str(rank), silent=rank % 3 == 0, depth=1 if rank % 5 == 0 else 0)
        history.append(one)
        if one.depth:
            draft = {"id": f"deep-{rank}", "role": "assistant", "content": one.text, "depth": 1}
            puppet.execution.append(draft | ({"silent": True} if one.silent else {})).result(GUARD_S)
        else:
            thread.inject_message("assistant", one.text, silent=one.silent).result(GUARD_S)
    thread.submit(["w0", "w1"], on_busy="queue").result(GUARD_S)
    thread.stop().result(GUARD_S)
    thread.wait(execution_id or "").result(GUARD_S)
    waiting = [Told("w0", waits=True), Told("w1", waits=True)]
    for rank in range(2, 7):
        waiting.append(Told(f"w{rank}", silent=rank % 2 == 0, waits=True))
        thread.queue_message(waiting[-1].text, silent=waiting[-1].silent).result(GUARD_S)
    return thread, history + waiting


def texts(page: MessagePage) -> list[str | None]:
    return [message.content for message in page.messages]


def test_every_page_is_the_one_that_the_contract_cuts(told: tuple[Thread, list[Told]]) -> None:
    thread, all_of_it = told
    for limit, offset, order, silent, depth in product(
        (0, 1, 3, 7, 100), (0, 1, 4, 6, 19, 26, 30), (None, "asc", "desc"), (False, True), (0, 1, 9)
    ):
        shown = [one.text for one in all_of_it if one.depth <= depth and (silent or not one.silent)]
        page = thread.messages(limit=limit, offset=offset, order=order, include_silent=silent, max_depth=depth).result()
        newest_first = shown[::-1][offset : offset + limit]
        wanted = {"asc": shown[offset : offset + limit], "desc": newest_first, None: newest_first[::-1]}[order]

        case = (limit, offset, order, silent, depth)
        assert texts(page) == wanted, case
        assert page.total == len(shown), case
        assert page.has_more is (offset + len(wanted) < len(shown)), case


def test_what_waits_is_pending_and_after_termination_failed(told: tuple[Thread, list[Told]]) -> None:
    thread, all_of_it = told
    waiting = [one.text for one in all_of_it if one.waits]

    def states() -> list[tuple[str | None, str | None, object]]:
        page = thread.messages(limit=len(waiting), include_silent=True).result()
        return [(m.content, m.status, (m.metadata or {}).get("queued")) for m in page.messages]

    assert states() == [(text, "pending", True) for text in waiting]
    found = thread.messages(limit=1).result().messages[0]
    assert thread.message(found.id).result() == found
    thread.terminate().result(GUARD_S)
    assert [(text, status) for text, status, _ in states()] == [(text, "failed") for text in waiting]


def test_the_messages_beside_one_cost_no_offset(told: tuple[Thread, list[Told]]) -> None:
    thread, all_of_it = told
    history = [one for one in all_of_it if not one.waits]
    page = thread.messages(limit=100, order="asc", include_silent=True, max_depth=1).result()
    ids = {message.content: message.id for message in page.messages}
    for at, silent, depth, limit in product((0, 1, 10, 19), (False, True), (0, 1), (0, 1, 5, 100)):
        options = {"limit": limit, "include_silent": silent, "max_depth": depth}
        before = [o.text for o in history[:at] if o.depth <= depth and (silent or not o.silent)]
        after = [o.text for o in history[at + 1 :] if o.depth <= depth and (silent or not o.silent)]
        left = thread.messages(before=ids[str(at)], **options).result()  # type: ignore[arg-type]
        right = thread.messages(after=ids[str(at)], **options).result()  # type: ignore[arg-type]

        assert texts(left) == (before[-limit:] if limit else []), (at, options)
        assert left.has_more is (limit < len(before))
        assert texts(right) == after[:limit], (at, options)
        assert right.has_more is (limit < len(after))


def test_only_what_has_joined_has_neighbours(told: tuple[Thread, list[Told]]) -> None:
    thread, _ = told
    waiting = thread.messages(limit=1).result().messages[0]
    for given in (waiting.id, "nobody"):
        error = thread.messages(before=given).error()
        assert isinstance(error, MessageNotFound)
        assert error.details["message_id"] == given


@pytest.mark.parametrize(
    "options",
    [
        {"limit": -1}, {"limit": PAGE_MAX + 1}, {"limit": True}, {"limit": "10"}, {"limit": 1.0}, {"offset": -1}, {"offset": 2**53 + 1},
        {"order": "up"}, {"order": ["asc"]}, {"order": 1}, {"max_depth": -1}, {"max_depth": 65}, {"before": "a", "after": "b"},
        {"before": "a", "limit": -1}, {"after": "a", "max_depth": None},
    ],
    ids=str,
)  # fmt: skip
def test_a_page_out_of_bounds_is_refused(runtime: Callable[..., Runtime], options: dict[str, Any]) -> None:
    puppet = Puppet()
    thread = runtime(puppet).create_thread(puppet).result(GUARD_S)
    error = thread.messages(**options).error()

    assert isinstance(error, InvalidInput)
    assert error.code == "invalid_page"


def test_a_number_comes_back_and_what_is_none_does_not() -> None:
    assert check_number("limit", 0, 0, 1_000) == 0
    with pytest.raises(InvalidInput, match="from 0 to 1000, not 1001"):
        check_number("limit", 1_001, 0, 1_000)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda thread: thread.execution("e" * 32), ExecutionNotFound),
        (lambda thread: thread.execution(""), InvalidInput),
        (lambda thread: thread.receipt("nobody"), InputNotFound),
        (lambda thread: thread.receipt(None), InvalidInput),
        (lambda thread: thread.message("x" * 129), InvalidInput),
        (lambda thread: thread.get_value(""), InvalidInput),
        (lambda thread: thread.executions(order="sideways"), InvalidInput),
    ],
)
def test_what_is_not_there_is_told_apart_from_what_is_no_id(
    runtime: Callable[..., Runtime], ask: Callable[[Thread], Any], error: type[TreadleError]
) -> None:
    puppet = Puppet()
    hosted = runtime(puppet)

    assert isinstance(ask(hosted.create_thread(puppet).result(GUARD_S)).error(), error)
    stranger = ask(hosted.thread("stranger")).error()
    assert isinstance(stranger, ThreadNotFound)


# Executions and receipts


def test_executions_are_paged_from_either_end(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    ids = []
    for rank in range(5):
        ids.append(on.ask(thread.submit(str(rank))).execution_id)
        on.settle()
        puppet.returns()
        on.settle()
    newest = thread.executions(limit=2).result()
    oldest = thread.executions(limit=2, offset=3, order="asc").result()

    assert ([record.execution_id for record in newest.executions], newest.total, newest.has_more) == (
        ids[:2:-1],
        5,
        True,
    )
    assert ([record.execution_id for record in oldest.executions], oldest.has_more) == (ids[3:], False)
    assert thread.executions(offset=9).result().executions == []


def test_an_execution_ends_for_readers_when_its_end_is_published_and_no_sooner(stage: Enter) -> None:
    """Whoever sees a FINISH finds the slot free, however far the store is ahead."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    execution_id = on.ask(thread.submit("go")).execution_id or ""
    on.settle()
    puppet.returns()
    on.act()
    on.store.step()  # FINISH is in the store, and its actor has not been told
    assert thread.execution(execution_id).result().status == "active"
    assert thread.state().result().active_execution is not None
    on.settle()

    assert thread.execution(execution_id).result().status == "succeeded"
    assert thread.state().result().active_execution is None


def test_the_first_receipt_is_found_under_its_id(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    submitted = on.ask(thread.submit("go", input_id="i1"))
    steered = on.ask(thread.steer(submitted.execution_id or "", "faster", control_id="c1"))
    queued = on.ask(thread.queue_message("later", input_id="i2"))
    on.ask(thread.withdraw("i2"))
    busy = on.ask(thread.submit("no", input_id="i3"))

    assert thread.receipt("i1").result() == submitted
    assert thread.receipt("c1").result() == steered
    assert thread.receipt("i2").result() == queued
    assert busy.disposition == "busy"
    assert isinstance(thread.receipt("i3").error(), InputNotFound)


# The lazy history


def history_of(on: Stage, thread: Thread, count: int) -> MessageHistory:
    """Let a thread have `count` messages, the third part of them silent, and return its history."""
    for rank in range(count):
        thread.inject_message("assistant", str(rank), silent=rank % 3 == 0)
        if rank % 500 == 499:
            on.settle()
    on.settle()
    return MessageHistory(on.services, on.services.directory.entry(thread.id))


@pytest.mark.parametrize("count", [0, 1, HISTORY_TAIL - 1, HISTORY_TAIL, HISTORY_TAIL + 1, 150])
def test_a_history_is_a_sequence_like_any_other(stage: Enter, count: int) -> None:
    on = stage(Puppet())
    history = history_of(on, on.thread(), count)
    wanted = [str(rank) for rank in range(count)]

    assert len(history) == count
    assert [message.content for message in history] == wanted
    assert [message.content for message in reversed(history)] == wanted[::-1]
    assert bool(history) is (count > 0)
    for place in {0, 1, count // 2, count - HISTORY_TAIL, count - 1} & set(range(count)):
        assert history[place].content == wanted[place]
        assert history[place - count].content == wanted[place]
        assert history.index(history[place]) == place
        assert history[place] in history
    for place in (count, -count - 1):
        with pytest.raises(IndexError, match=f"{place} of {count}|of {count}"):
            history[place]
    bounds = {None, 1, -1, count - HISTORY_TAIL, count + 5}
    for start, stop, step in product(bounds, bounds, (None, 2, -1, -3)):
        cut = slice(start, stop, step)
        assert [message.content for message in history[cut]] == wanted[cut], cut


def test_a_history_shows_what_has_joined_when_it_is_looked_at(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    history = history_of(on, thread, 70)
    iterating = iter(history)
    assert next(iterating).content == "0"
    on.ask(thread.inject_message("user", "new"))
    on.ask(thread.stop())
    on.ask(thread.queue_message("it waits"))

    assert len(history) == 71
    assert history[-1].content == "new"
    assert [message.content for message in iterating] == [str(rank) for rank in range(1, 70)]
    assert repr(history) == f"<history of {thread.id}: 71 messages>"


def test_the_newest_messages_are_read_once(stage: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    from treadle.storage.pages import MessageReader

    on = stage(Puppet())
    history = history_of(on, on.thread(), 200)
    read: list[int] = []
    real = MessageReader._joined
    monkeypatch.setattr(MessageReader, "_joined", lambda self, *place: (read.append(place[0]), real(self, *place))[1])
    assert [history[place].content for place in (-1, -2, -HISTORY_TAIL)] == ["199", "198", "136"]
    assert len(read) == HISTORY_TAIL
    assert [message.content for message in history[10:20]] == [str(rank) for rank in range(10, 20)]
    assert len(read) == HISTORY_TAIL + 10  # the page that was asked for, and nothing on the way to it


def test_the_history_of_a_deleted_thread_is_not_found(stage: Enter) -> None:
    on = stage(Puppet())
    thread = on.thread()
    history = history_of(on, thread, 3)
    on.ask(on.runtime.delete_thread(thread.id))
    on.settle()

    with pytest.raises(ThreadNotFound):
        len(history)
