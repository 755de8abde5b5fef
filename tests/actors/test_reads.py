"""Tests actors/reads.py: pages as the contract cuts them (D.3), and the lazy history of a thread longer than its tail."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from treadle.actors.reads import check_number
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import (
    ExecutionNotFound,
    InputNotFound,
    InvalidInput,
    MessageNotFound,
    ThreadNotFound,
    TreadleError,
)
from treadle.protocol.limits import PAGE_MAX
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


def test_an_execution_that_is_not_published_yet_takes_no_place_in_a_page(stage: Enter) -> None:
    """The newest one is always there: a page is never empty, nor shorter than what it says is behind it."""
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    ids = []
    for rank in range(3):
        ids.append(on.ask(thread.submit(str(rank))).execution_id)
        on.settle()
        puppet.returns()
        on.settle()
    thread.submit("next")
    on.act()
    on.store.step()  # START is in the store, and its actor has not been told
    newest = thread.executions(limit=1).result()
    oldest = thread.executions(limit=2, offset=2, order="asc").result()

    assert ([record.execution_id for record in newest.executions], newest.total, newest.has_more) == (ids[2:], 3, True)
    assert ([record.execution_id for record in oldest.executions], oldest.has_more) == (ids[2:], False)
    assert [record.execution_id for record in thread.executions().result().executions] == ids[::-1]
    on.settle()

    assert thread.executions(limit=1).result().total == 4


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


@pytest.mark.parametrize("bytes_max", [1, 120, 300, 10_000])
def test_pages_that_end_early_are_the_same_history_in_more_pages(
    told: tuple[Thread, list[Told]], bytes_max: int
) -> None:
    thread, _ = told
    for order, silent, depth, limit in product((None, "asc", "desc"), (False, True), (0, 9), (3, 100)):
        options: dict[str, Any] = {"order": order, "include_silent": silent, "max_depth": depth, "limit": limit}
        whole = texts(thread.messages(**{**options, "limit": 100}).result())
        read: list[str | None] = []
        while True:
            page = thread.messages(**options, offset=len(read), bytes_max=bytes_max).result()
            assert 0 < len(page.messages) <= limit
            assert len(page.messages) == 1 or bytes_max > 1
            read = texts(page) + read if order is None else read + texts(page)
            assert page.total == len(whole)
            if not page.has_more:
                break

        assert read == whole, options


@pytest.mark.parametrize("bytes_max", [1, 120, 10_000])
def test_neighbours_that_end_early_go_on_behind_the_last_one(told: tuple[Thread, list[Told]], bytes_max: int) -> None:
    thread, _ = told
    options: dict[str, Any] = {"include_silent": True, "max_depth": 1, "limit": 100}
    page = thread.messages(order="asc", **options).result()
    ids = [message.id for message in page.messages if message.status != "pending"]
    for direction, wanted in (("after", ids[6:]), ("before", ids[:5][::-1])):
        read, at, more = [], ids[5], True
        while more:
            found = thread.messages(**{direction: at}, **options, bytes_max=bytes_max).result()
            beside = [message.id for message in found.messages]
            read += beside if direction == "after" else beside[::-1]
            at, more = read[-1], found.has_more

        assert read == wanted


def test_executions_that_end_early_go_on_at_the_next_one(stage: Enter) -> None:
    puppet = Puppet()
    on = stage(puppet)
    thread = on.thread()
    for _ in range(4):
        on.ask(thread.submit("go"))
        on.settle()
        puppet.returns()
        on.settle()
    whole = thread.executions(order="asc").result().executions

    first = thread.executions(order="asc", bytes_max=1).result()
    last = thread.executions(order="asc", offset=3, bytes_max=1).result()
    assert (first.executions, first.total, first.has_more) == (whole[:1], 4, True)
    assert (last.executions, last.total, last.has_more) == (whole[3:], 4, False)
    assert thread.executions(order="asc", bytes_max=10_000).result().executions == whole
