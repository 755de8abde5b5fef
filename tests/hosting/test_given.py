"""Holds treadle.hosting.given: what is of another kind is refused where it is given, by each maker of the package."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import pytest

from treadle.actors import Runtime
from treadle.agents import agent
from treadle.hosting import AsyncClient, Auth, Backoff, Client, Limits, Principal, create_app, serve
from treadle.hosting.given import check_hosts
from treadle.hosting.logs import configure_logging
from treadle.hosting.metrics import RuntimeCollector, StreamCollector
from treadle.hosting.tracing import following, traced
from treadle.protocol.errors import InvalidInput
from treadle.storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

ADMIN = Principal("admin")
URL = "http://127.0.0.1:1"


@agent
def echo(text: str) -> str:
    return text


RUNTIME = Runtime(MemoryStore(), agents=[echo])
APP = create_app(RUNTIME)


class Unseen:
    """Nothing can be said of it."""

    def __repr__(self) -> str:
        raise ValueError


def entered(runtime: Any) -> None:
    with following(runtime):
        pass


def backed_off(**parts: Any) -> Client:
    return Client(URL, repeats=Backoff(**parts))


WRONG: list[tuple[str, Callable[[Any], object], list[object]]] = [
    ("tokens", Auth, ["tok", "", 0, 5, False, [], ["tok"], [("tok", ADMIN)], object, Unseen()]),
    ("runtime", create_app, ["x", None, 5, APP, Runtime, MemoryStore(), echo, [echo], Unseen()]),
    ("auth", lambda given: create_app(RUNTIME, auth=given), ["tok", "", 0, False, {}, {"tok": ADMIN}, Auth, ADMIN]),
    ("limits", lambda given: create_app(RUNTIME, limits=given), [5, 0, "", {}, {"streams": 1}, Limits]),
    ("allowed_hosts", lambda given: create_app(RUNTIME, allowed_hosts=given), ["desk.example", "*", b"x", 5, [5], [""], [None]]),
    ("runtime", lambda given: serve(given, APP, port=0), ["x", None, APP]),
    ("app", lambda given: serve(RUNTIME, given, port=0), ["x", None, RUNTIME, create_app]),
    ("host", lambda given: serve(RUNTIME, APP, given, port=0), [5, None, b"127.0.0.1"]),
    ("port", lambda given: serve(RUNTIME, APP, port=given), ["8000", -1, 70_000, None, 1.5, True, math.nan]),
    ("drain_timeout", lambda given: serve(RUNTIME, APP, port=0, drain_timeout=given), ["5", -1, math.nan, True, []]),
    ("announce", lambda given: serve(RUNTIME, APP, port=0, announce=given), ["x", 5, [1]]),
    ("first", lambda given: backed_off(first=given), ["x", -1, None, math.nan, math.inf, True]),
    ("most", lambda given: backed_off(most=given), ["x", -1, None, math.nan, math.inf, True]),
    ("attempts", lambda given: backed_off(attempts=given), ["x", 0, -3, True, 1.5]),
    ("chance", lambda given: backed_off(chance=given), [5, None, "x"]),
    ("sleep", lambda given: Client(URL, sleep=given), [5, None, "x"]),
    ("sleep", lambda given: AsyncClient(URL, sleep=given), [5, None, "x"]),
    ("runtime", RuntimeCollector, ["x", None, APP]),
    ("served", StreamCollector, ["x", None, APP, RUNTIME]),
    ("runtime", entered, ["x", None, APP]),
    ("store", traced, ["x", None, RUNTIME, MemoryStore]),
    ("form", configure_logging, ["xml", "", None, 5, []]),
    ("level", lambda given: configure_logging("text", given), ["INF", "", None, 1.5, []]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "make", "given"),
    [
        pytest.param(name, make, given, id=f"{name}-{rank}-{at}")
        for rank, (name, make, many) in enumerate(WRONG)
        for at, given in enumerate(many)
    ],
)
def test_what_is_of_another_kind_is_refused_by_name_where_it_is_given(
    name: str, make: Callable[[Any], object], given: object
) -> None:
    with pytest.raises(InvalidInput, match=rf"^(repeats\.)?{name} is ") as caught:
        make(given)
    assert caught.value.code == "invalid_option"


def test_a_refused_form_of_logs_changes_nothing() -> None:
    root = logging.getLogger()
    before = list(root.handlers), root.level

    with pytest.raises(InvalidInput):
        configure_logging("text", "INF")

    assert (list(root.handlers), root.level) == before


def test_no_tokens_are_none_or_a_mapping_without_any() -> None:
    assert Auth().is_open
    assert Auth(None).is_open
    assert Auth({}).is_open
    assert not Auth({"tok": ADMIN}).is_open


def test_names_of_hosts_may_come_in_any_collection_and_case() -> None:
    assert check_hosts(None) is None
    assert (
        check_hosts(["Desk.Example"])
        == check_hosts(("desk.example",))
        == check_hosts({"DESK.example"})
        == ["desk.example"]
    )
    assert check_hosts([]) == []
