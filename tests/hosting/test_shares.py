"""Tests hosting/shares.py, and the caps on streams over real sockets: nobody takes all of them, and what ends makes room."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S, Watching, connect
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.client import Client
from treadle.hosting.client_following import Backoff
from treadle.hosting.hosted import Limits
from treadle.hosting.problems import Refused
from treadle.hosting.shares import Shares
from treadle.protocol.errors import Unavailable
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH = Auth({"annas": Principal("user", "anna"), "bens": Principal("user", "ben"), "root": Principal("admin")})
LIMITS = Limits(streams=3, streams_per_principal=2)


@agent
async def rests(state: ThreadState) -> None:
    pass


@pytest.fixture
def served() -> Iterator[Served]:
    with Runtime(MemoryStore(), agents=[rests]) as runtime, Served(runtime, auth=AUTH, limits=LIMITS) as served:
        for name, owner in (("a", "anna"), ("b", "ben")):
            runtime.create_thread("rests", thread_id=name, user_id=owner).result()
        yield served


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[object]:
    """What was given back, by whom, as it happens."""
    seen: SimpleQueue[object] = SimpleQueue()
    real = Shares.give

    def give(self: Shares, who: Any, amount: int = 1) -> None:
        real(self, who, amount)
        seen.put(who)

    monkeypatch.setattr(Shares, "give", give)
    return seen


def refused(shares: Shares, who: object, amount: int = 1) -> tuple[int, object, object]:
    with pytest.raises(Refused) as caught:
        shares.take(who, amount)
    error = caught.value
    assert error.code == "overloaded"
    assert error.headers == {"retry-after": "7"}
    return error.status, error.more["limit"], error.more["maximum"]


def test_each_may_hold_its_share_and_all_together_theirs() -> None:
    shares = Shares("things", total=10, each=6, retry_after=7)
    shares.take("a", 6)
    assert refused(shares, "a") == (429, "things_per_principal", 6)
    assert refused(shares, "b", 7) == (429, "things_per_principal", 6)
    assert refused(shares, "b", 5) == (503, "things", 10)

    shares.take("b", 4)
    shares.give("a", 2)
    shares.take("b", 2)
    assert refused(shares, "c") == (503, "things", 10)
    shares.give("a", 4)
    shares.give("b", 6)
    assert shares.held == 0
    shares.take("c", 6)


def problem(served: Served, path: str, token: str) -> tuple[int, str, str, str]:
    answer = httpx.get(f"{served.url}{path}", headers={"authorization": f"Bearer {token}"}, timeout=GUARD_S)
    said = answer.json()
    return answer.status_code, said["code"], said["limit"], answer.headers["retry-after"]


def test_a_stream_beyond_the_share_of_its_caller_is_refused_until_one_ends(
    served: Served, given: SimpleQueue[object]
) -> None:
    with Watching(f"{served.url}/threads/a/events", token="annas") as first:
        assert first.response.status_code == 200
        with Watching(f"{served.url}/events", token="annas") as second:
            assert second.next("snapshot")
            assert problem(served, "/threads/a/events", "annas") == (429, "overloaded", "streams_per_principal", "5")
            assert problem(served, "/events", "annas")[:3] == (429, "overloaded", "streams_per_principal")
            with Watching(f"{served.url}/threads/b/events", token="bens") as of_ben:
                assert of_ben.next("snapshot")
                assert problem(served, "/threads/b/events", "bens") == (503, "overloaded", "streams", "5")
            assert given.get(timeout=GUARD_S) == Principal("user", "ben")
        assert given.get(timeout=GUARD_S) == Principal("user", "anna")
        with Watching(f"{served.url}/events", token="annas") as again:
            assert again.next("snapshot")


def test_a_websocket_beyond_the_share_closes_with_try_again_later(served: Served, given: SimpleQueue[object]) -> None:
    headers = {"authorization": "Bearer annas"}
    with (
        Watching(f"{served.url}/threads/a/events", token="annas") as first,
        connect(f"{served.ws}/threads/a/stream", additional_headers=headers) as second,
        connect(f"{served.ws}/threads/a/stream", additional_headers=headers) as third,
    ):
        assert first.next("snapshot")
        assert "thread_status" in second.recv(GUARD_S)
        with pytest.raises(ConnectionClosed) as caught:
            third.recv(GUARD_S)

    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, "streams_per_principal" in caught.value.rcvd.reason) == (1013, True)
    assert {given.get(timeout=GUARD_S) for _ in range(2)} == {Principal("user", "anna")}
    assert served.app.state.treadle.streams.held == 0


@pytest.mark.parametrize("path", ["/threads/b/events", "/threads/a/events?after=1:99", "/threads/a/events?after=x"])
def test_a_stream_that_is_refused_holds_nothing(served: Served, path: str) -> None:
    for _ in range(3):
        answer = httpx.get(f"{served.url}{path}", headers={"authorization": "Bearer annas"}, timeout=GUARD_S)
        assert answer.status_code in (400, 404, 409)

    assert served.app.state.treadle.streams.held == 0


def test_a_websocket_that_is_refused_holds_nothing(served: Served) -> None:
    headers = {"authorization": "Bearer annas"}
    for path in ("/threads/b/stream", "/threads/a/stream?after=1:99", "/threads/a/stream?depth=x"):
        for _ in range(3):
            with pytest.raises(Exception, match="HTTP 4"), connect(f"{served.ws}{path}", additional_headers=headers):
                pass

    assert served.app.state.treadle.streams.held == 0


def test_a_client_comes_back_when_there_is_room_again(served: Served, given: SimpleQueue[object]) -> None:
    waited: list[float] = []
    with (
        Watching(f"{served.url}/events", token="annas") as first,
        Watching(f"{served.url}/events", token="annas") as last,
    ):
        assert first.next("snapshot")
        assert last.next("snapshot")

        def leave(seconds: float) -> None:
            waited.append(seconds)
            last.__exit__(None, None, None)
            given.get(timeout=GUARD_S)

        with Client(served.url, "annas", sleep=leave, timeout=GUARD_S) as client:
            events = client.thread("a").events(follow=False)
            assert [event["type"] for event in events] == ["THREAD_CREATED"]
    assert waited == [5.0]


def test_a_client_says_that_there_is_no_room(served: Served) -> None:
    with (
        Watching(f"{served.url}/events", token="annas") as first,
        Watching(f"{served.url}/events", token="annas") as last,
    ):
        assert first.next("snapshot")
        assert last.next("snapshot")
        with (
            Client(served.url, "annas", reconnects=Backoff(attempts=1), timeout=GUARD_S) as client,
            pytest.raises(Unavailable) as caught,
        ):
            next(iter(client.events()))

    assert (caught.value.code, caught.value.details["limit"]) == ("overloaded", "streams_per_principal")
