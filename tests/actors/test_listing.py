"""Tests actors/listing.py: pages of threads, by filter and in both orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pytest

from treadle.actors import listing
from treadle.actors.testing import Puppet, Stage
from treadle.protocol.errors import InvalidInput, ThreadNotFound
from treadle.protocol.limits import PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    Enter = Callable[..., Stage]


def pages(on: Stage, **options: Any) -> list[list[str]]:
    """Read all pages, one behind the other."""
    found: list[list[str]] = []
    after: str | None = None
    while True:
        page = on.runtime.threads(after=after, **options).result()
        found.append([summary.id for summary in page.threads])
        after = page.next
        if after is None:
            return found


def ids(on: Stage, **options: Any) -> list[str]:
    return [one for page in pages(on, **options) for one in page]


class CountedView:
    """A view that notes the key of every row it gives out."""

    def __init__(self, view: Any, reads: list[bytes]) -> None:
        self._view = view
        self._reads = reads

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *how: object) -> None:
        self._view.__exit__(*how)

    def get(self, table: int, key: bytes) -> bytes | None:
        self._reads.append(key)
        found: bytes | None = self._view.get(table, key)
        return found

    def scan(self, table: int, low: bytes, high: bytes | None, **options: Any) -> list[tuple[bytes, bytes]]:
        rows: list[tuple[bytes, bytes]] = self._view.scan(table, low, high, **options)
        self._reads += [key for key, _ in rows]
        return rows


@pytest.fixture
def on(stage: Enter) -> Stage:
    """Ten threads, of two users and two agents."""
    on = stage(Puppet("a"), Puppet("b"))
    for number in range(10):
        on.thread("ab"[number % 2], thread_id=f"t{number}", user_id=None if number == 9 else f"u{number % 3}")
    return on


def test_threads_come_as_they_were_created(on: Stage) -> None:
    assert ids(on) == [f"t{number}" for number in range(10)]


@pytest.mark.parametrize("limit", [1, 3, 5, 10, 11])
@pytest.mark.parametrize("order", ["created", "activity"])
@pytest.mark.parametrize("scan", [1, 4, 256])
def test_pages_hold_each_thread_once_whatever_their_size(
    on: Stage, limit: int, order: str, scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_SCAN", scan)
    found = pages(on, limit=limit, order=order)

    assert all(len(page) == limit for page in found[:-1])
    assert [one for page in found for one in page] == [
        f"t{n}" for n in (range(10) if order == "created" else range(9, -1, -1))
    ]


def test_filters_may_be_combined(on: Stage) -> None:
    assert ids(on, user_id="u1", limit=2) == ["t1", "t4", "t7"]
    assert ids(on, agent="a") == ["t0", "t2", "t4", "t6", "t8"]
    assert ids(on, agent=on.agents[1], user_id="u0") == ["t3"]
    assert ids(on, user_id="u") == []  # no prefix of an id
    assert ids(on, agent="nobody") == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
@pytest.mark.parametrize("scan", [1, 2, 256])
def test_a_users_threads_come_in_the_order_of_their_activity(
    on: Stage, limit: int, scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_SCAN", scan)
    for moved in ("t7", "t2", "t4", "t5"):
        on.ask(on.runtime.thread(moved).submit("go"))

    assert ids(on, user_id="u1", order="activity", limit=limit) == ["t4", "t7", "t1"]
    assert ids(on, user_id="u1", order="activity", limit=limit, state="running") == ["t4", "t7"]
    assert ids(on, user_id="u2", order="activity", limit=limit, agent="b") == ["t5"]
    assert ids(on, user_id="u", order="activity") == []  # no prefix of an id


def test_a_users_threads_by_activity_cost_no_reads_of_other_users_threads(
    on: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = on.store.view
    reads: list[bytes] = []

    def counted() -> CountedView:
        return CountedView(whole(), reads)

    monkeypatch.setattr(on.store, "view", counted)
    costs = []
    for _ in range(2):
        reads.clear()
        assert ids(on, user_id="u1", order="activity", limit=2) == ["t7", "t4", "t1"]
        costs.append(len(reads))
        for _ in range(50):
            on.thread("a", user_id="u2")

    assert costs[0] == costs[1]


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("scan", [1, 2, 256])
def test_running_threads_come_in_either_order(
    on: Stage, limit: int, scan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_SCAN", scan)
    for moved in ("t7", "t2", "t4", "t5"):
        on.ask(on.runtime.thread(moved).submit("go"))
    on.ask(on.runtime.thread("t1").stop())
    on.ask(on.runtime.thread("t1").queue_message("it waits, which is work too"))

    assert ids(on, state="running", limit=limit) == ["t2", "t4", "t5", "t7"]
    assert ids(on, state="running", limit=limit, order="activity") == ["t5", "t4", "t2", "t7"]
    assert ids(on, state="running", limit=limit, agent="a", user_id="u1") == ["t4"]


def test_running_threads_cost_no_reads_of_those_at_rest(on: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    on.ask(on.runtime.thread("t4").submit("go"))
    whole = on.store.view
    reads: list[bytes] = []
    monkeypatch.setattr(on.store, "view", lambda: CountedView(whole(), reads))
    for order in ("created", "activity"):
        reads.clear()
        assert ids(on, state="running", order=order) == ["t4"]
        assert len(reads) <= 4


def test_a_thread_is_listed_as_running_until_its_end_is_published(on: Stage) -> None:
    on.ask(on.runtime.thread("t4").submit("go"))
    on.settle()
    on.agents[0].returns()  # type: ignore[attr-defined]
    on.act()
    on.store.step()  # FINISH is in the store, and its actor has not been told
    assert on.runtime.thread("t4").status().result().state == "running"
    assert ids(on, state="running") == ["t4"]
    on.settle()
    assert ids(on, state="running") == []


def test_the_state_is_what_is_published_and_its_change_is_activity(on: Stage) -> None:
    thread = on.runtime.thread("t4")
    reply = thread.submit("go")
    on.turn()
    on.store.step()  # durable, and not yet published
    assert ids(on, state="running") == []
    on.settle()
    assert reply.result().disposition == "accepted"

    assert ids(on, state="running") == ["t4"]
    assert ids(on, order="activity", limit=3)[0] == "t4"
    assert len(ids(on, state="idle")) == 9
    on.agents[0].raises(ValueError("no"))  # type: ignore[attr-defined]
    on.settle()
    assert ids(on, state="failed") == ["t4"]


def test_a_summary_says_what_a_list_shows(on: Stage) -> None:
    thread = on.runtime.thread("t9")
    on.ask(thread.inject_message("user", "one"))
    on.ask(thread.stop())
    on.ask(thread.queue_message("it waits"))
    (summary,) = on.runtime.threads(agent="b", limit=1, after=str(9)).result().threads

    assert (summary.id, summary.agent_id, summary.user_id, summary.messages) == ("t9", "b", None, 1)
    assert (summary.held, summary.terminated_at, summary.status) == (True, None, thread.status().result())
    assert thread.summary().result() == summary
    since = on.ask(thread.terminate())
    on.settle()
    assert on.runtime.threads(agent="b", limit=1, after=str(9)).result().threads[0].terminated_at == since


def test_what_is_gone_has_no_summary(on: Stage) -> None:
    with pytest.raises(ThreadNotFound):
        on.runtime.thread("nobody").summary().result()


def test_a_deleted_thread_is_in_no_list_from_its_tombstone_on(on: Stage) -> None:
    deleted = on.runtime.delete_thread("t3")
    while not deleted.done():
        assert on.turn() or on.body() or on.release() or on.commit()
    for options in ({}, {"order": "activity"}, {"user_id": "u0"}):
        assert "t3" not in ids(on, **options), options
    on.settle()
    for options in ({}, {"order": "activity"}, {"user_id": "u0"}):
        assert "t3" not in ids(on, **options), options
    assert len(ids(on)) == 9


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"limit": 0}, "invalid_page"), ({"limit": PAGE_MAX + 1}, "invalid_page"), ({"limit": None}, "invalid_page"),
        ({"state": "busy"}, "invalid_page"), ({"state": ["idle"]}, "invalid_page"), ({"order": "size"}, "invalid_page"),
        ({"order": None}, "invalid_page"), ({"user_id": ""}, "invalid_id"), ({"user_id": 5}, "invalid_id"),
        ({"after": "x"}, "invalid_cursor"), ({"after": 5}, "invalid_cursor"), ({"after": "-1"}, "invalid_cursor"),
        ({"after": "٣"}, "invalid_cursor"), ({"after": "9" * 20}, "invalid_cursor"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_input_is_refused_with_its_value(on: Stage, options: dict[str, Any], code: str) -> None:
    error = on.runtime.threads(**options).error()

    assert isinstance(error, InvalidInput)
    assert error.code == code


def test_a_page_behind_the_last_thread_is_empty(on: Stage) -> None:
    page = on.runtime.threads(after="9" * 19).result()

    assert (page.threads, page.next) == ([], None)
