"""Holds treadle.hosting.tickets: one use, one principal, one path, a short life by the runtime's clock."""

from __future__ import annotations

import threading

import httpx
import pytest

from tests.hosting.served import Served
from tests.hosting.watching import GUARD_S
from treadle.actors import Runtime
from treadle.actors.testing import FakeClock
from treadle.hosting.auth import Principal, Unauthenticated
from treadle.hosting.tickets import Tickets
from treadle.storage import MemoryStore

ANNA, BO = Principal("user", "anna"), Principal("user", "bo")
PATH = "/threads/t/stream"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def tickets(clock: FakeClock) -> Tickets:
    return Tickets(clock)


def test_a_ticket_stands_for_whom_it_was_issued_to_once(tickets: Tickets) -> None:
    ticket = tickets.issue(ANNA, PATH)

    assert tickets.redeem(ticket, PATH) == ANNA
    with pytest.raises(Unauthenticated):
        tickets.redeem(ticket, PATH)
    assert len(tickets) == 0


def test_of_many_who_use_a_ticket_at_once_one_gets_in(tickets: Tickets) -> None:
    ticket = tickets.issue(ANNA, PATH)
    together = threading.Barrier(8)
    admitted: list[Principal] = []

    def use() -> None:
        together.wait()
        try:
            admitted.append(tickets.redeem(ticket, PATH))
        except Unauthenticated:
            return

    workers = [threading.Thread(target=use) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert admitted == [ANNA]


def test_a_ticket_lives_for_thirty_seconds_of_the_runtimes_clock(tickets: Tickets, clock: FakeClock) -> None:
    in_time, too_late = tickets.issue(ANNA, PATH), tickets.issue(ANNA, PATH)
    clock.advance(29.9)
    assert tickets.redeem(in_time, PATH) == ANNA
    clock.advance(0.1)

    with pytest.raises(Unauthenticated):
        tickets.redeem(too_late, PATH)


@pytest.mark.parametrize("path", ["/threads/T/stream", "/threads/t/stream/", "/threads/t", "", "/threads/t%2Fstream"])
def test_a_ticket_for_another_path_opens_nothing_and_is_used_up(tickets: Tickets, path: str) -> None:
    ticket = tickets.issue(ANNA, PATH)

    with pytest.raises(Unauthenticated):
        tickets.redeem(ticket, path)
    with pytest.raises(Unauthenticated):
        tickets.redeem(ticket, PATH)


def test_one_path_may_be_encoded_in_several_ways(tickets: Tickets) -> None:
    assert tickets.redeem(tickets.issue(ANNA, "/threads/a%20b/stream"), "/%74hreads/a%20b/stream") == ANNA


@pytest.mark.parametrize("ticket", ["", "x", "x" * 43, "x" * 10_000, "\0", "ä" * 43])
def test_what_is_no_ticket_opens_nothing(tickets: Tickets, ticket: str) -> None:
    tickets.issue(ANNA, PATH)

    with pytest.raises(Unauthenticated):
        tickets.redeem(ticket, PATH)
    assert len(tickets) == 1


def test_tickets_that_nobody_uses_do_not_pile_up_and_push_out_only_their_owners(tickets: Tickets) -> None:
    of_bo = tickets.issue(BO, PATH)
    of_anna = [tickets.issue(ANNA, PATH) for _ in range(1000)]

    assert len(tickets) == 65
    assert tickets.redeem(of_bo, PATH) == BO
    assert tickets.redeem(of_anna[-1], PATH) == ANNA
    with pytest.raises(Unauthenticated):
        tickets.redeem(of_anna[0], PATH)


def test_tickets_that_are_over_are_dropped_at_the_next(tickets: Tickets, clock: FakeClock) -> None:
    for _ in range(10):
        tickets.issue(ANNA, PATH)
    clock.advance(31)
    tickets.issue(ANNA, PATH)

    assert len(tickets) == 1


@pytest.mark.parametrize(
    "body", [{}, {"path": 1}, {"path": "t"}, {"path": "/\u00e4"}, {"path": "/" * 3000}, {"path": "/t", "more": 1}, [], None]
)  # fmt: skip
def test_a_request_for_a_ticket_names_a_path_and_nothing_else(body: object) -> None:
    with Runtime(MemoryStore(), agents=[]) as runtime, Served(runtime) as served:
        answer = httpx.post(f"{served.url}/tickets", json=body, timeout=GUARD_S)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
