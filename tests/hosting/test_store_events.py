"""Holds treadle.hosting.store_events: each visible thread's latest status, resumable by change number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S, Block, Watching
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.store_events import VisibleChanges
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH = Auth({"for-anna": Principal("user", "anna"), "for-all": Principal("admin")})


@agent
async def nothing(state: ThreadState) -> None:
    return


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(MemoryStore(), agents=[nothing]) as runtime:
        for name in ("anna", "bo", "anna-2"):
            runtime.create_thread(nothing, thread_id=f"of-{name}", user_id=name.partition("-")[0]).result()
        yield runtime


def ids(blocks: list[Block]) -> list[str]:
    return [block.data["thread_id"] for block in blocks]


def test_an_admin_sees_the_status_of_every_thread_and_what_changes_then(runtime: Runtime) -> None:
    with Served(runtime, auth=AUTH) as served, Watching(f"{served.url}/events", token="for-all") as watching:
        first = watching.next()
        found = watching.committed(3)
        runtime.thread("of-bo").submit("go").result()
        running = watching.committed(1)[0]

    assert (first.name, first.id) == ("snapshot", None)
    assert first.data == {"type": "changes", "after": 0, "boot_id": runtime.boot_id}
    assert ids(found) == ["of-anna", "of-bo", "of-anna-2"]
    assert [block.id for block in found] == [str(block.data["change"]) for block in found]
    assert (running.name, running.data["thread_id"]) == ("thread_status", "of-bo")


def test_a_user_sees_only_threads_of_its_own_to_their_end(runtime: Runtime) -> None:
    with Served(runtime, auth=AUTH) as served, Watching(f"{served.url}/events", token="for-anna") as watching:
        found = watching.committed(2)
        for name in ("of-bo", "of-anna"):
            runtime.delete_thread(name).result()
        gone = next(block for block in watching if block.data.get("deleted"))

    assert ids(found) == ["of-anna", "of-anna-2"]
    assert gone.data["thread_id"] == "of-anna"


def test_a_watcher_resumes_after_the_number_that_it_applied_last(runtime: Runtime) -> None:
    with Served(runtime, auth=AUTH) as served:
        with Watching(f"{served.url}/events", token="for-all") as watching:
            second = watching.committed(2)[-1].id
        with Watching(f"{served.url}/events", token="for-all", **{"last-event-id": str(second)}) as watching:
            assert ids(watching.committed(1)) == ["of-anna-2"]
        with Watching(f"{served.url}/events?after={second}", token="for-all") as watching:
            assert ids(watching.committed(1)) == ["of-anna-2"]


def test_a_watcher_of_the_latest_is_told_where_it_begins_and_what_changes_then(runtime: Runtime) -> None:
    with Served(runtime) as served, Watching(f"{served.url}/events?after=latest") as watching:
        first = watching.next()
        runtime.thread("of-bo").submit("go").result()
        running = watching.committed(1)[0]

    assert first.data == {"type": "changes", "after": 3, "boot_id": runtime.boot_id}
    # Where it ended before anybody looked, its latest status is the one that is told.
    assert running.id in ("4", "5")
    assert running.data["thread_id"] == "of-bo"


def test_a_watcher_may_begin_with_what_changes_from_now_on_and_is_told_where_that_is(runtime: Runtime) -> None:
    with Served(runtime) as served, Watching(f"{served.url}/events?after=latest") as watching:
        begun = watching.next("snapshot").data["after"]
        runtime.thread("of-bo").submit("go").result()
        change = watching.committed(1)[0]

    assert change.data["thread_id"] == "of-bo"
    assert int(str(change.id)) > begun >= 3


def test_a_user_is_told_to_the_end_beside_threads_of_others_that_change_last(runtime: Runtime) -> None:
    owners: dict[str, str | None] = {}
    anna, bo = Principal("user", "anna"), Principal("user", "bo")
    with runtime.events() as first, runtime.events() as second:
        of_anna, of_bo = VisibleChanges(anna, first, owners), VisibleChanges(bo, second, owners)
        found = [first.next() for _ in range(3)]
        assert [bool(of_anna.encode(frame)) for frame in found if frame] == [True, False, True]
        runtime.close()  # then nobody can be asked whose a thread is
        assert [bool(of_bo.encode(frame)) for frame in found if frame] == [False, True, False]
    assert owners == {"of-anna": "anna", "of-bo": "bo", "of-anna-2": "anna"}


@pytest.mark.parametrize(
    ("after", "status", "code"),
    [
        ("x", 400, "invalid_cursor"),
        ("-1", 400, "invalid_cursor"),
        ("1:1", 400, "invalid_cursor"),
        ("٣", 400, "invalid_cursor"),
        ("9" * 30, 400, "invalid_cursor"),
        ("99", 409, "cursor_conflict"),
    ],
)
def test_a_number_that_is_none_is_said_before_the_stream_begins(
    runtime: Runtime, after: str, status: int, code: str
) -> None:
    with Served(runtime) as served:
        answer = httpx.get(f"{served.url}/events", params={"after": after}, timeout=GUARD_S)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
