"""Holds treadle.hosting.client_errors: the errors of a server are those of a runtime, class for class."""

from __future__ import annotations

import json

import httpx
import pytest

from treadle.hosting.auth import Unauthenticated
from treadle.hosting.client_errors import error_of, lost, retry_after
from treadle.hosting.problems import problem, status_of
from treadle.protocol import errors
from treadle.protocol.errors import CallerError, InternalError, InvalidInput, OutcomeUnknown, TreadleError, Unavailable

KINDS = [kind for name in errors.__all__ if isinstance(kind := getattr(errors, name), type)]


@pytest.mark.parametrize("kind", [*KINDS, Unauthenticated], ids=lambda kind: kind.__name__)
def test_an_error_comes_back_as_what_it_was(kind: type[TreadleError]) -> None:
    error = kind("what happened", thread_id="t", limit=3)

    answer = problem(error)
    found = error_of(answer.status_code, bytes(answer.body))

    assert (type(found), found.code) == (type(error), error.code)
    if status_of(error) != 500:  # what went wrong inside stays there
        assert found.to_wire() == error.to_wire()


def test_an_input_error_comes_back_with_its_own_code() -> None:
    answer = problem(InvalidInput("no cursor", code="invalid_cursor", value="x"))

    found = error_of(answer.status_code, bytes(answer.body))

    assert isinstance(found, InvalidInput)
    assert (found.code, found.message, found.details) == ("invalid_cursor", "no cursor", {"value": "x"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput), (403, CallerError), (404, CallerError), (418, CallerError), (429, Unavailable),
        (500, InternalError), (502, Unavailable), (503, Unavailable), (504, Unavailable),
    ],
)  # fmt: skip
def test_a_code_that_nobody_knows_goes_by_the_status_and_keeps_its_name(status: int, kind: type[TreadleError]) -> None:
    found = error_of(status, json.dumps({"code": "of_tomorrow", "detail": "well", "message": "m", "self": 1}).encode())

    assert (type(found), found.code, found.message) == (kind, "of_tomorrow", "well")
    assert found.details == {"message": "m", "self": 1}


@pytest.mark.parametrize(
    "body", [b"", b"<html>Bad gateway</html>", b"[]", b"null", b'{"code": 5}', b"\xff", b"[" * 100_000, b'{"code": ""}']
)
def test_what_is_no_problem_document_is_an_error_all_the_same(body: bytes) -> None:
    found = error_of(502, body)

    assert (type(found), found.code, found.details["status"]) == (Unavailable, "unavailable", 502)
    assert len(found.message) < 300


def test_of_a_page_what_people_read_is_told() -> None:
    found = error_of(404, b"<!doctype html>\n<html><h1>Error</h1>\n  <p>No such\npage</p></html>")

    assert found.message == "the server answered 404, not as Treadle does: 'Error No such page'"


def test_a_lost_call_says_whether_it_may_have_been_written() -> None:
    cause = httpx.ReadError("gone")

    unsent, sent = lost(cause, "http://h", sent=False), lost(cause, "http://h", sent=True, input_id="i")

    assert type(unsent) is Unavailable
    assert type(sent) is OutcomeUnknown
    assert sent.details == {"url": "http://h", "input_id": "i"}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, 0.0), ("1", 1.0), ("9" * 30, 60.0), ("-1", 0.0), ("Wed, 21 Oct 2026", 0.0), ("٣", 0.0)],
)
def test_the_wish_of_a_server_is_read_where_it_is_a_number(value: str | None, seconds: float) -> None:
    assert retry_after(value) == seconds
