"""Tests hosting/bodies.py over real sockets: bodies are bounded together, and one caller's leave room for another's."""

from __future__ import annotations

import json
import socket
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.agents import ThreadState, agent
from treadle.hosting import bodies
from treadle.hosting.auth import Auth, Principal
from treadle.hosting.hosted import Limits
from treadle.hosting.problems import Refused
from treadle.hosting.shares import Shares
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTH = Auth({"annas": Principal("user", "anna"), "bens": Principal("user", "ben")})
LIMITS = Limits(
    body_bytes=2_000, body_seconds=GUARD_S, bodies=3, bodies_per_principal=2, bodies_bytes=4_000,
    bodies_bytes_per_principal=3_000,
)  # fmt: skip
BODY = json.dumps({"path": "/threads/t/stream"}).encode()


@agent
async def rests(state: ThreadState) -> None:
    pass


@pytest.fixture
def served() -> Iterator[Served]:
    with Runtime(MemoryStore(), agents=[rests]) as runtime, Served(runtime, auth=AUTH, limits=LIMITS) as served:
        yield served


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """What was taken and given, as it happens."""
    seen: SimpleQueue[str] = SimpleQueue()
    take, give = Shares.take, Shares.give

    def took(self: Shares, who: Any, amount: int = 1) -> None:
        take(self, who, amount)
        seen.put(f"take {self._name} {amount}")

    def gave(self: Shares, who: Any, amount: int = 1) -> None:
        give(self, who, amount)
        seen.put(f"give {self._name} {amount}")

    monkeypatch.setattr(Shares, "take", took)
    monkeypatch.setattr(Shares, "give", gave)
    return seen


def until(moved: SimpleQueue[str], said: str) -> None:
    while moved.get(timeout=GUARD_S) != said:
        continue


def begun(served: Served, token: str, *, length: int = 1_500, sent: int = 0) -> socket.socket:
    """Return the connection of a client that sends its body slowly."""
    client = socket.create_connection(("127.0.0.1", served.port), GUARD_S)
    head = (
        f"POST /tickets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
    client.sendall(head.encode() + b" " * sent)
    return client


def asked(served: Served, token: str, body: bytes = BODY) -> tuple[int, str | None, str | None]:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    answer = httpx.post(f"{served.url}/tickets", content=body, headers=headers, timeout=GUARD_S)
    if answer.status_code == 201:
        return 201, None, None
    said = answer.json()
    assert said["code"] == "overloaded"
    return answer.status_code, said["limit"], answer.headers["retry-after"]


def test_slow_bodies_of_one_caller_leave_room_for_another(served: Served, moved: SimpleQueue[str]) -> None:
    slow = [begun(served, "annas") for _ in range(2)]
    for _ in slow:
        until(moved, "take bodies 1")

    assert asked(served, "annas") == (429, "bodies_per_principal", "1")
    assert asked(served, "bens")[0] == 201
    until(moved, "give bodies 1")
    last = begun(served, "bens")
    until(moved, "take bodies 1")
    assert asked(served, "bens") == (503, "bodies", "1")

    slow[0].close()
    until(moved, "give bodies 1")
    assert asked(served, "annas")[0] == 201
    for client in (slow[1], last):
        client.close()


def test_what_bodies_hold_together_is_bounded_by_what_came(served: Served, moved: SimpleQueue[str]) -> None:
    first = begun(served, "annas", length=2_000, sent=1_600)
    until(moved, "take bodies_bytes 1600")

    assert asked(served, "annas", BODY + b" " * 1_900) == (429, "bodies_bytes_per_principal", "1")
    second = begun(served, "bens", length=2_000, sent=1_900)
    until(moved, "take bodies_bytes 1900")
    assert asked(served, "annas", BODY + b" " * 600) == (503, "bodies_bytes", "1")
    assert asked(served, "annas")[0] == 201
    for client in (first, second):
        client.close()
    until(moved, "give bodies_bytes 1600")


def test_bodies_that_were_refused_or_answered_are_held_no_longer(served: Served, moved: SimpleQueue[str]) -> None:
    kind = {"content-type": "application/json"}
    with httpx.Client(base_url=served.url, headers={"authorization": "Bearer annas"}, timeout=GUARD_S) as client:
        for _ in range(5):
            assert client.post("/tickets", json={"path": "/a"}).status_code == 201
            assert client.post("/tickets", json={"path": 5}).status_code == 400
            assert client.post("/nowhere", json={}).status_code == 404
            assert client.post("/tickets", content=iter([b"x" * 1_500] * 2), headers=kind).status_code == 413

    held = {"bodies": 0, "bodies_bytes": 0}
    given = 0
    while given < 20:
        verb, name, amount = moved.get(timeout=GUARD_S).split()
        held[name] += int(amount) if verb == "take" else -int(amount)
        given += (verb, name) == ("give", "bodies")
    while held["bodies_bytes"]:
        _, _, amount = moved.get(timeout=GUARD_S).split()
        held["bodies_bytes"] -= int(amount)
    assert held["bodies"] == 0
    assert moved.empty()


def test_a_request_that_reads_has_no_body(served: Served) -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        answer = httpx.request(method, f"{served.url}/threads", content=b"{}", timeout=GUARD_S)
        assert answer.status_code == 400


_DATA = st.recursive(
    st.none() | st.integers() | st.text('\\":{}é,n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('\\":u', max_size=4), inner, max_size=3),
    max_leaves=12,
)


def members_of(data: object) -> int:
    if isinstance(data, dict):
        return len(data) + sum(map(members_of, data.values()))
    return sum(map(members_of, data)) if isinstance(data, list) else 0


def weight_of(data: object) -> list[int]:
    """Return what `data` weighs up to each end of an object, and behind the last."""
    if isinstance(data, dict):
        parts = [weight_of(part) for part in data.values()]
    elif isinstance(data, list):
        parts = [weight_of(part) for part in data]
    else:
        return [0]
    runs = [4 if isinstance(data, list) else 0]
    for rank, part in enumerate(parts):
        runs[-1] += part[0] + (rank > 0)
        runs += part[1:]
    return [*runs, 0] if isinstance(data, dict) else runs


@given(_DATA, st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]), st.integers(0, 40))
def test_runs_are_weighed_wherever_the_pieces_of_a_body_end(
    data: object, size: int, ascii_only: bool, indent: int | None, limit: int
) -> None:
    body = json.dumps(data, ensure_ascii=ascii_only, indent=indent, separators=(",", " : ")).encode()
    met, most = bodies._longest_run(body, limit, size), max(weight_of(data))

    assert met == most or met <= most <= limit


def test_no_parse_makes_more_than_a_value_may_hold_without_a_turn_for_others() -> None:
    limits = Limits()
    numbers = b'{"value":[' + b"0," * ((1 << 20) - 6) + b"0]}"  # as many as fit in a value's bytes
    bodies._check_parts(numbers, limits)
    bodies._check_parts(b"[" + b'{"value":[' + numbers + b"," + numbers + b"]}]", limits)

    for body in (b"[" + b"0," * (2 << 20) + b"0]", b"[" + b"[]," * (1 << 18) + b"0]", b"[" * (1 << 20)):
        with pytest.raises(Refused) as caught:
            bodies._check_parts(body, limits)
        assert caught.value.more["limit"] == "body_run"


@given(_DATA, st.integers(1, 9), st.booleans(), st.sampled_from([None, 1]))
def test_members_are_counted_wherever_the_pieces_of_a_body_end(
    data: object, size: int, ascii_only: bool, indent: int | None
) -> None:
    body = json.dumps(data, ensure_ascii=ascii_only, indent=indent, separators=(",", " : ")).encode()

    assert bodies._members(body, size) == members_of(data)
